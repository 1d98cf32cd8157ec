"""The promises of machines that differ from the start, and of what each one prepares."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from faults.machines.breaking import SHORT, badly_reported, clear, two
from faults.machines.equality import SETTINGS, texts
from faults.machines.launching import Launch, Launched
from faults.machines.machine import Machine
from faults.promise import Conditions, Trial

Two = Sequence[Machine]
PRETRAIN = ("pretrain", *SETTINGS["pretrain"], "run_dir=run")
SEVERAL_THREADS = tuple(one for one in SHORT if not one.startswith("training.threads="))
REPORTED_WITHIN = 120.0  # seconds from the start to the end of the first machine's torchrun, on a busy machine
OTHER_VERSION = "Metadata-Version: 2.1\nName: encoderlab\nVersion: 99.0\n"


def refused(conditions: Conditions) -> Iterator[Trial]:
    """Try machines that differ: one line must name the one that does, and no run folder is created."""
    with two(conditions) as up:
        for machine in up:
            (machine.work / "texts.txt").write_text(texts(), encoding="utf-8")
        for name, differ in conditions.of(list(DIFFERENCES.items())):
            ended = differ(up)
            failure = badly_reported(ended[0], up[1].name, REPORTED_WITHIN)
            left = [machine.name for machine in up if (machine.work / "run").exists()]
            yield Trial(name, failure or (f"a run folder on {', '.join(left)}" if left else ""))
            _restore(up)


def prepared(conditions: Conditions) -> Iterator[Trial]:
    """Let each machine prepare its own cache; a copied one must be recognised, and nothing rebuilt."""
    with two(conditions) as up:
        for machine in up:
            (machine.work / "texts.txt").write_text(texts(), encoding="utf-8")
        yield Trial("caches of their own", _prepared(up, set()))
        shutil.rmtree(up[1].cache)
        shutil.copytree(up[0].cache, up[1].cache)
        yield Trial("a copied cache", _prepared(up, _files(up[1].cache)))


def _prepared(up: Two, before: set[tuple[str, int]]) -> str:
    """Return what is wrong with the last machine's cache after a run: it must equal the first one's, and `before` if
    given.
    """
    ended = Launch(up, 1, *PRETRAIN).wait()
    clear(up)
    if any(one.code for one in ended):
        return f"it failed: {[one.errors for one in ended]}"
    first, last = (_files(machine.cache) for machine in up)
    if {name for name, _ in first} != {name for name, _ in last} or not last:
        return "the caches hold other files"
    return "" if not before or last == before else "the copied cache was written to"


def _files(cache: Path) -> set[tuple[str, int]]:
    """Return the stores and tokenizers of a cache, with the times they were written."""
    kept = [path for path in cache.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {(path.relative_to(cache).as_posix(), path.stat().st_mtime_ns) for path in kept if path.suffix != ".lock"}


def _other_version(up: Two) -> list[Launched]:
    """Put a package that claims another version in front of the right one."""
    about = up[1].folder / "other" / "encoderlab-99.0.dist-info"
    about.mkdir(parents=True, exist_ok=True)
    (about / "METADATA").write_text(OTHER_VERSION, encoding="utf-8")
    up[1].variables = {"PYTHONPATH": f"{about.parent}:{up[1].python_path}"}
    return Launch(up, 1, *SHORT).wait(REPORTED_WITHIN)


def _other_setting(up: Two) -> list[Launched]:
    return Launch(up, 1, *SHORT, last_only=["training.batch_size=10"]).wait(REPORTED_WITHIN)


def _fewer_threads(up: Two) -> list[Launched]:
    return Launch(up, 1, *SEVERAL_THREADS, last_starts_with=["taskset", "-c", "0"]).wait(REPORTED_WITHIN)


def _other_data(up: Two) -> list[Launched]:
    (up[1].work / "texts.txt").write_text(texts().replace("king", "queen"), encoding="utf-8")
    return Launch(up, 1, *PRETRAIN).wait(REPORTED_WITHIN)


def _missing_data(up: Two) -> list[Launched]:
    (up[1].work / "texts.txt").unlink()
    return Launch(up, 1, *PRETRAIN).wait(REPORTED_WITHIN)


def _other_tokenizer(up: Two) -> list[Launched]:
    """Change a tokenizer in this machine's cache only."""
    Launch(up, 1, *PRETRAIN).wait(REPORTED_WITHIN)
    clear(up)
    for path in (up[1].cache / "tokenizers").rglob("tokenizer.json"):
        content = json.loads(path.read_text(encoding="utf-8"))
        vocabulary = content["model"]["vocab"]
        content["model"]["vocab"] = {
            f"{name}x" if name.startswith("kin") else name: place for name, place in vocabulary.items()
        }
        path.write_text(json.dumps(content), encoding="utf-8")
    return Launch(up, 1, *PRETRAIN).wait(REPORTED_WITHIN)


def _full_disk(up: Two) -> list[Launched]:
    shutil.rmtree(up[1].cache)
    up[1].cache.mkdir()
    up[1].mount_disk(up[1].cache, "4k")
    return Launch(up, 1, *SHORT).wait(REPORTED_WITHIN)


def _restore(up: Two) -> None:
    up[1].variables = {}
    (up[1].work / "texts.txt").write_text(texts(), encoding="utf-8")
    if up[1].inside(up[1].cache).is_mount():
        up[1].run("umount", str(up[1].cache))
    clear(up)


DIFFERENCES: dict[str, Callable[[Two], list[Launched]]] = {
    "another version of the package": _other_version,
    "another setting": _other_setting,
    "another number of threads": _fewer_threads,
    "another data file": _other_data,
    "no data file": _missing_data,
    "another tokenizer in its cache": _other_tokenizer,
    "a full disk": _full_disk,
}
