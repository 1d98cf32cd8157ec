"""Trials of exports of annotation tools that name a column in each record, or hold very many spans.

Each is read in a forked child of little processor time and memory. What grows with the square of its rows, columns or
spans needs many times as much.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from faults.host import Host, Job
from faults.promise import Conditions, Trial
from faults.training import shared_folder, until_exit

MODULES = ("encoderlab.data.files", "encoderlab.tables.readers", "datasets", "faults.exports")
RECORDS = 20_000  # of an export of one to five megabytes
SECONDS = 60  # of processor time; such a file takes two
GROWTH = 2**30  # bytes of memory above what the libraries have taken
REFUSED = 3  # the exit code of a file that is refused in one line
Record = dict[str, Any]


def _label_studio(n: int, data: Record, name: str) -> Record:
    result = [{"from_name": name, "type": "choices", "value": {"choices": ["ab"[n % 2]]}}]
    return {"id": n, "data": {"text": f"text {n}", **data}, "annotations": [{"result": result}]}


def _minimal(n: int, **more: Any) -> Record:
    return {"id": n, "text": f"text {n}", "annotation_id": n, "annotator": 1, "lead_time": 1, **more}


def _spans(n: int) -> list[list[Any]]:
    """Return spans within one another, empty ones and single words, of a text of `n` words of one letter."""
    nested = [[at, 2 * n - at, "X"] for at in range(n)]
    return [
        *nested,
        *([2 * at + 1, 2 * at + 1, "X"] for at in range(n)),
        *([2 * at, 2 * at + 1, "X"] for at in range(n)),
    ]


def _by_record(of: Callable[[int], Record]) -> Callable[[], list[Record]]:
    return lambda: [of(n) for n in range(RECORDS)]


EXPORTS: dict[str, Callable[[], list[Record]]] = {
    "Label Studio, a field each": _by_record(lambda n: _label_studio(n, {f"field {n}": 1}, "topic")),
    "Label Studio, a question each": _by_record(lambda n: _label_studio(n, {}, f"question {n}")),
    "Label Studio, a question for each person": lambda: [
        {
            "id": 1,
            "data": {"text": "a text"},
            "annotations": [_label_studio(n, {}, f"question {n}")["annotations"][0] for n in range(RECORDS)],
        }
    ],
    "Label Studio (JSON_MIN), a question each": _by_record(lambda n: _minimal(n, **{f"q{n}": {"choices": ["a"]}})),
    "Label Studio (JSON_MIN), all about one text": _by_record(lambda n: _minimal(n, **{f"q{n}": "a"}) | {"id": 1}),
    "Argilla, a field each": _by_record(
        lambda n: {"fields": {"text": f"text {n}", f"field {n}": "x"}, "responses": {"topic": [{"value": "ab"[n % 2]}]}}
    ),
    "Argilla, a question each": _by_record(
        lambda n: {"fields": {"text": f"text {n}"}, "responses": {f"question {n}": [{"value": "a"}]}}
    ),
    "Prodigy, a field each": _by_record(
        lambda n: {"text": f"text {n}", "accept": ["ab"[n % 2]], "answer": "accept", "meta": {f"field {n}": 1}}
    ),
    "Prodigy, all about one text": _by_record(
        lambda n: {"text": "a text", "label": f"label {n}", "_input_hash": 1, "answer": "accept"}
    ),
    "Prodigy, many spans": lambda: [
        {
            "text": "a " * RECORDS,
            "spans": [{"start": start, "end": end, "label": label} for start, end, label in _spans(RECORDS)],
            "answer": "accept",
        }
    ],
    "doccano, a field each": _by_record(lambda n: {"text": f"text {n}", "label": ["ab"[n % 2]], f"field {n}": 1}),
    "doccano, many spans": lambda: [{"text": "a " * RECORDS, "label": _spans(RECORDS)}],
    "doccano, a first record of many fields": lambda: [
        {"text": "first", "label": ["a"], **{f"field {n}": 1 for n in range(RECORDS)}},
        *({"text": f"text {n}", "label": ["ab"[n % 2]]} for n in range(RECORDS)),
    ],
    "no tool, a first record of many fields": lambda: [
        {"text": "first", "label": "a", **{f"field {n}": 1 for n in range(RECORDS)}},
        *({"text": f"text {n}", "label": "ab"[n % 2]} for n in range(RECORDS)),
    ],
}


def read(conditions: Conditions, work: str = "read_file") -> Iterator[Trial]:
    """Read each export for training, and again as texts to predict. `work` is a function of this module that does."""
    cases = [(name, is_training) for name in EXPORTS for is_training in (True, False)]
    for name, is_training in conditions.select(cases):
        folder = Path(tempfile.mkdtemp(dir=shared_folder()))
        path = folder / "export.jsonl"
        path.write_text("".join(f"{json.dumps(record)}\n" for record in EXPORTS[name]()), encoding="utf-8")
        ended = _host().run(Job(f"faults.exports:{work}", {"path": str(path), "is_training": is_training}))
        is_refused = ended.code == REFUSED and "Traceback" not in ended.output
        failure = "" if ended.code == 0 or is_refused else f"exit code {ended.code}: {ended.last_line}"
        yield Trial(f"{name}, {'to train' if is_training else 'to predict'}", failure)
        shutil.rmtree(folder)


@cache
def _host() -> Host:
    """Return the one host of these trials. Raises UnavailableError."""
    return until_exit(Host(MODULES))


def read_file(path: str, *, is_training: bool) -> None:
    """In a child of limited time and memory: read a file. Raises DataError."""
    from encoderlab.data.files import FilesDataset, read_unlabelled

    taken = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + GROWTH, taken + GROWTH))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    if is_training:
        FilesDataset(path=path, validation_fraction=0.0).load(Path(path).parent, "label")
    else:
        read_unlabelled(Path(path), text="text", text_pair=None, words=False, cache_dir=Path(path).parent)
    sys.stdout.flush()
