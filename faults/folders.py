"""Trials of run folders that somebody has edited, cut, or copied in part before the run is resumed.

Every setting in config.yaml is changed, and every file damaged. Either the run is refused in one line and the folder
stays as it is, or it ends with the weights and predictions of an undisturbed one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from faults.host import Ended
from faults.promise import Conditions, Trial
from faults.training import SHORT, Bed, difference, finished, outcome, put_back

STOP = 8  # the step after which the run was killed
PLACES = ("cache_dir", "run_dir", "resume")  # settings that change nothing
RECORDS = ("config.yaml", "environment.json", "metrics.jsonl")
DEEP = 100_000
REFUSED = (2, 3, 4)  # exit codes
HARMS: dict[str, Callable[[bytes], bytes | None]] = {
    "deleted": lambda _: None,
    "emptied": lambda _: b"",
    "cut": lambda content: content[: len(content) // 2],
    "without its last line": lambda content: content[: content.rstrip(b"\n").rfind(b"\n") + 1],
    "with zeros": lambda content: content[: len(content) // 2] + bytes(len(content) - len(content) // 2),
    "not UTF-8": lambda content: content[:100] + b"\xff\xfe" + content[100:],
    "a list": lambda _: b"[1, 2]\n",
    "nothing but null": lambda _: b"null\n",
    "deep lists": lambda _: b"[" * DEEP + b"]" * DEEP,
    "deep objects": lambda _: b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "a number of 5,000 digits": lambda _: b'{"step": ' + b"9" * 5000 + b"}\n",
    "aliases within aliases": lambda _: (
        b"a: &a [x, x]\n" + b"".join(b"%c: &%c [*%c, *%c]\n" % (n + 1, n + 1, n, n) for n in range(ord("a"), ord("z")))
    ),
    "an alias of itself": lambda content: content + b"\nloop: &loop [*loop]\n",
    "twice": lambda content: content + content,
}


def resumed(conditions: Conditions) -> Iterator[Trial]:
    """Change each setting, and damage each file, of a run that was killed; then resume it."""
    bed = Bed(SHORT)
    failure = put_back(bed, STOP)
    assert not failure, failure
    settings = yaml.safe_load((bed.run / "config.yaml").read_text(encoding="utf-8"))
    files = [*RECORDS, *sorted(str(path.relative_to(bed.run)) for path in (bed.run / "checkpoints").rglob("*.*"))]
    cases = [(f"{'.'.join(keys)} changed", ("config.yaml", keys)) for keys in _settings(settings)]
    cases += [(f"{name} {harm}", (name, harm)) for name in files for harm in HARMS]
    for case, (name, harm) in conditions.select(cases):
        failure = put_back(bed, STOP)
        path = bed.run / name
        changed = _changed(settings, harm) if isinstance(harm, tuple) else HARMS[harm](path.read_bytes())
        if changed is None:
            path.unlink()
        else:
            path.write_bytes(changed)
        before = _hashes(bed.run)
        ended = bed.resume()
        yield Trial(case, failure or _wrong(bed, name, harm, before, ended))
    bed.clear()


def _settings(settings: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the keys of each setting, without those that change nothing."""
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            yield from _settings(value, (*above, name))
        elif name not in PLACES:
            yield (*above, name)


def _changed(settings: dict[str, Any], keys: tuple[str, ...]) -> bytes:
    """Return config.yaml with another value of the setting with these keys, of the same type where it has one."""
    changed = json.loads(json.dumps(settings))
    *outer, last = keys
    group = changed
    for name in outer:
        group = group[name]
    value = group[last]
    if isinstance(value, bool):
        group[last] = not value
    elif isinstance(value, int | float):
        group[last] = value * 2 if value else 1
    else:
        group[last] = 1 if value is None else f"{value} too" if isinstance(value, str) else None
    return yaml.safe_dump(changed, sort_keys=False).encode()


def _hashes(folder: Path) -> dict[str, str]:
    """Return the hash of each file below a folder, without its lock."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _wrong(bed: Bed, name: str, harm: str | tuple[str, ...], before: dict[str, str], ended: Ended) -> str:
    """Return what is wrong with how a run was resumed from a changed folder; "" if nothing is."""
    if "Traceback" in ended.output:
        return f"a traceback, ending in {ended.last_line}"
    if ended.code in REFUSED:
        lines = [line for line in ended.lines if line.startswith("encoderlab:")]
        if len(lines) != 1:
            return f"not one line: {ended.output[-300:]!r}"
        if isinstance(harm, tuple) and harm[-1] not in lines[0] and "cannot be read" not in lines[0]:
            return f"the setting is not named: {lines[0]}"
        return "" if _hashes(bed.run) == before else "the folder was changed"
    if ended.code != 0 or not finished(bed.run):
        return f"exit code {ended.code}: {ended.last_line}"
    if isinstance(harm, tuple):
        return "another setting was taken in silence"
    if name != "metrics.jsonl":
        return difference(outcome(bed.run), bed.reference)
    return _wrong_without_log(bed)


def _wrong_without_log(bed: Bed) -> str:
    """Return what is wrong with a run that has lost lines of its log, which its report must say."""
    report = json.loads((bed.run / "report.json").read_text(encoding="utf-8"))
    reference = bed.reference | {"journal": None}
    result = outcome(bed.run, with_log=False)
    gap = report.pop("not_logged", None)
    kept = {"notes", "choices", "throughput"}  # of which the first two say what is missing
    result["report"] = {key: value for key, value in report.items() if key not in kept}
    reference["report"] = {key: value for key, value in bed.reference["report"].items() if key not in kept}
    is_whole = (bed.run / "metrics.jsonl").read_bytes().count(b"\n") >= len(bed.reference["journal"])
    return difference(result, reference) or ("" if gap or is_whole else "the report does not say what is missing")
