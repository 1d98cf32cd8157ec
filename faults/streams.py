"""Promises of corpora read during training: exact resuming, and shards that are damaged or have changed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from backports import zstd

from encoderlab.errors import DataError
from encoderlab.runs.folder import RunFolder
from faults.host import Job
from faults.promise import Conditions, Promise, Trial
from faults.resuming import put_back
from faults.running import Bed, shared_folder, shared_host

SHARDS, DOCUMENTS = 6, 30
DAMAGED = "2.jsonl.zst"
STOPS = (0, 3, 7, 11, 16, 20, 23)
READERS = ("dataset.shards_at_once=3", "dataset.shards_at_once=1", "dataset.shards_at_once=8")
SMALL = (
    *(
        "model.n_layers=1",
        "model.d_model=16",
        "model.n_heads=2",
        "model.d_ff=32",
        "model.dropout=0.1",
        "model.max_length=32",
    ),
    *(
        "baselines=false",
        "training.threads=1",
        "training.batch_size=8",
        "training.steps=24",
        "training.evaluate_every=8",
    ),
    *("training.checkpoint_every=1", "training.log_every=1", "tokenizer.vocabulary_size=300", "seed=1"),
)


def write_shards(folder: Path) -> Path:
    """Write six shards of thirty documents each, all different."""
    folder.mkdir(parents=True)
    for shard in range(SHARDS):
        lines = [json.dumps({"text": _document(shard * DOCUMENTS + number)}) for number in range(DOCUMENTS)]
        (folder / f"{shard}.jsonl.zst").write_bytes(zstd.compress("\n".join(lines).encode()))
    return folder


def _document(number: int) -> str:
    """Return two paragraphs of four sentences."""
    words = [f"{syllable}{vowel}" for syllable in ("ba", "do", "ki", "lu", "me") for vowel in ("n", "r", "st", "la")]
    drawn = [words[(number * 7 + place * place * (number % 5 + 1)) % len(words)] for place in range(48)]
    sentences = [" ".join(drawn[start : start + 6]).capitalize() + "." for start in range(0, 48, 6)]
    return " ".join(sentences[:4]) + "\n" + " ".join(sentences[4:])


@cache
def _shards() -> Path:
    return write_shards(shared_folder() / "shards")


def _settings(path: str, *further: str) -> tuple[str, ...]:
    """Return the settings of a run of 24 steps that reads a window of documents every few steps."""
    data = ("dataset=files", f"dataset.path={path}", "dataset.streaming=true", "dataset.window=9000")
    return ("pretrain", *data, "dataset.validation_fraction=0.1", *SMALL, *further)


def resumed(conditions: Conditions) -> Iterator[Trial]:
    """Kill a run after the checkpoint of a step, in mid-window or between windows, and resume it."""
    for stop, readers in conditions.of([(stop, readers) for stop in STOPS for readers in READERS]):
        bed = Bed(_settings(f"{_shards()}/*.zst", readers))
        failure = put_back(bed, stop) or _resumed(bed)
        yield Trial(f"{readers}, stopped after step {stop}", failure)
        bed.clear()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "empty": lambda path: path.write_bytes(b""),
    "overwritten": lambda path: path.write_bytes(b"\0" * path.stat().st_size),
    "no JSON": lambda path: path.write_bytes(zstd.compress(b'{"text": "First."}\n{"te\n')),
    "another column": lambda path: path.write_bytes(zstd.compress(b'{"content": "First."}\n')),
    "missing": lambda path: path.unlink(),
}


def damaged(conditions: Conditions) -> Iterator[Trial]:
    """Damage a shard in each way: an error must name it, or the run must skip it and count it."""
    for kind, skips in conditions.of([(kind, skips) for kind in DAMAGES for skips in (False, True)]):
        shards = write_shards(conditions.scratch / f"{kind} {skips}".replace(" ", "-"))
        listed = ",".join(str(path) for path in sorted(shards.iterdir()))
        DAMAGES[kind](shards / DAMAGED)
        choice, run = f"dataset.on_damaged={'skip' if skips else 'error'}", shards.with_suffix(".run")
        arguments = [*_settings(f"[{listed}]", choice), f"cache_dir={conditions.scratch}/cache", f"run_dir={run}"]
        given = {"arguments": arguments, "folder": str(conditions.scratch)}
        ended = shared_host().run(Job("faults.running:type_command", given))
        failure = (
            _left_out(run, ended.code) if skips else _refused(ended.code, ended.last_line, f"({DAMAGED}) is damaged: ")
        )
        yield Trial(f"{kind}, {choice}", failure and f"{failure}: {ended.last_line}")


def _left_out(run: Path, code: int) -> str:
    if code != 0:
        return f"exit code {code}"
    notes = json.loads(RunFolder(run).report.read_text(encoding="utf-8"))["notes"]
    counted = f"1 of {SHARDS} shards is damaged, and the rest of it was skipped: {DAMAGED}"
    return "" if any(note.startswith(counted) for note in notes) else f"the report says {notes}"


def _refused(code: int, line: str, part: str) -> str:
    return "" if code == DataError.exit_code and part in line else f"exit code {code}"


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a shard is gone": (lambda folder: (folder / DAMAGED).unlink(), f"{DAMAGED} is gone"),
    "a shard is new": (lambda folder: shutil.copy(folder / DAMAGED, folder / "9.jsonl.zst"), "9.jsonl.zst is new"),
    "a shard has another name": (
        lambda folder: (folder / DAMAGED).rename(folder / "7.jsonl.zst"),
        f"{DAMAGED} is gone, 7.jsonl.zst is new",
    ),
    "a shard has other documents": (
        lambda folder: shutil.copy(folder / "1.jsonl.zst", folder / DAMAGED),
        f"{DAMAGED} has changed",
    ),
}


def changed(conditions: Conditions) -> Iterator[Trial]:
    """Change the shards between a checkpoint and the resume: it must be refused and, once they are restored, exact."""
    for kind in conditions.of(list(CHANGES)):
        change, message = CHANGES[kind]
        shards, kept = write_shards(conditions.scratch / "changed"), conditions.scratch / "kept"
        shutil.copytree(shards, kept)
        bed = Bed(_settings(f"{shards}/*.zst"))
        failure = put_back(bed, STOPS[3])
        if not failure:
            change(shards)
            ended = bed.resume()
            failure = _refused(ended.code, ended.last_line, message)
            shutil.rmtree(shards)
            shutil.copytree(kept, shards)
            failure = f"{failure}: {ended.last_line}" if failure else _resumed(bed)
        yield Trial(kind, failure)
        bed.clear()
        shutil.rmtree(shards)
        shutil.rmtree(kept)


def _resumed(bed: Bed) -> str:
    ended = bed.resume()
    return bed.differs() if ended.code == 0 else f"exit code {ended.code}: {ended.last_line}"


STREAMS = (
    Promise(
        "streams_resumed",
        "A run that reads its shards during training, killed after any step, resumes from its window without reading the stream "
        "before it, and ends bit for bit as if it had never stopped.",
        resumed,
        quick=2,
    ),
    Promise(
        "streams_damaged",
        "A damaged or missing shard is named in one line (exit code 3); with dataset.on_damaged=skip, the rest of it is skipped "
        "and the report counts it.",
        damaged,
        quick=2,
    ),
    Promise(
        "streams_changed",
        "If the list of shards has changed since the checkpoint, one line names the shard (exit code 3); once it is restored, the "
        "run resumes exactly.",
        changed,
        quick=1,
    ),
)
