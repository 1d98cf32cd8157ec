"""Trials of `encoderlab label` that is killed, or whose journal somebody deletes or changes: what a person was told to
be saved must be there afterwards.

The page's server runs in a forked child, and in a thread of it a person who answers over HTTP and takes some answers
back. Before each request the person notes what is sent, and after the reply that it was confirmed, outside the folder
in which calls are counted.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from faults.host import Ended, Host, Job
from faults.promise import Conditions, Trial
from faults.shim import Action, Fault, calls_in
from faults.training import run_command, shared_folder, until_exit

MODULES = (
    "encoderlab.cli.main",
    "encoderlab.apps.labelling.label",
    "faults.labelling",
    "sklearn.linear_model",
    "uvicorn",
)
TEXTS = [f"{verb} the {what}" for verb in ("pay", "send", "play", "hear") for what in ("bill", "song", "news", "money")]
LABELS = ("money", "music")
ANSWERS = 12
EVERY_FEW = 4  # answers are written to the output; an answer is taken back
OUTPUT = "texts-labelled.csv"
KILLS = (Action.signal_before, Action.signal_halfway, Action.signal_after)
ENDS = (signal.SIGTERM, signal.SIGKILL)
HARMS = ("deleted", "moved away", "emptied", "shortened", "replaced", "put back as it was", "deleted with the output")


def killed(conditions: Conditions, work: str = "label") -> Iterator[Trial]:
    """Kill the server before, in the midst of and after each call that changes the folder, and open the page again.

    `work` is a function of this module that serves the page.
    """
    bed = _Bed()
    n_calls = bed.undisturbed_calls()
    cases = list(itertools.product(range(1, n_calls + 1), KILLS))
    for at, action in conditions.select(cases):
        bed.clear()
        fault = Fault(action, at, signal.SIGKILL)
        ended = bed.answer(ANSWERS, fault, work)
        failure = "" if ended.code in (-signal.SIGKILL, 0, 143) else f"exit code {ended.code}: {ended.last_line}"
        yield Trial(f"{fault.words}, call {at} of {n_calls}", failure or bed.damage() or bed.lost())


def journal_lost(conditions: Conditions, work: str = "label") -> Iterator[Trial]:
    """Harm the journal while the page is open, answer once more at least, end or kill the server, and open it again."""
    bed = _Bed()
    cases = list(itertools.product(HARMS, range(1, ANSWERS), ENDS))
    for harm, at, end in conditions.select(cases):
        bed.clear()
        ended = bed.answer(ANSWERS, work=work, harm=harm, at=at, end=end)
        expected = -end if end == signal.SIGKILL else 128 + end
        failure = "" if ended.code == expected else f"exit code {ended.code}: {ended.last_line}"
        case = f"{harm} before answer {at + 1}, then {signal.Signals(end).name}"
        yield Trial(case, failure or bed.damage() or bed.lost())


@cache
def _host() -> Host:
    """Return the one host of these trials. Raises UnavailableError."""
    return until_exit(Host(MODULES))


class _Bed:
    """A folder with texts, and what a person who labels them has noted."""

    def __init__(self) -> None:
        outside = Path(tempfile.mkdtemp(dir=shared_folder()))
        self.folder = outside / "folder"
        self.notes = outside / "notes.jsonl"
        self.calls = outside / "calls"
        self.cache = shared_folder() / "cache"

    def clear(self) -> None:
        """Begin with nothing but the texts."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self.notes.write_text("", encoding="utf-8")
        (self.folder / "texts.csv").write_text("\n".join(["text", *TEXTS, ""]), encoding="utf-8")

    def answer(self, n: int, fault: Fault | None = None, work: str = "label", **more: Any) -> Ended:
        """Open the page and let the person answer up to `n` texts, unless it is killed before.

        `more` are further arguments of the function `work`.
        """
        self.calls.unlink(missing_ok=True)
        arguments = {"folder": str(self.folder), "cache": str(self.cache), "notes": str(self.notes), "n": n} | more
        job = Job(f"faults.labelling:{work}", arguments, str(self.folder), fault, str(self.calls))
        return _host().run(job)

    def undisturbed_calls(self) -> int:
        """Return how many calls change the folder if nothing happens."""
        self.clear()
        ended = self.answer(ANSWERS)
        n_calls = len(calls_in(self.calls))
        failure = self.lost()
        assert not failure, (failure, ended.output)
        return n_calls

    def damage(self) -> str:
        """Return what is wrong with the file of labels as the kill has left it; "" if nothing is."""
        output = self.folder / OUTPUT
        if output.exists() and [row["text"] for row in _rows(output)] != TEXTS:
            return "the output is not whole"
        return ""

    def lost(self) -> str:
        """Open the page again, then once more to answer further texts; return what differs from what was confirmed."""
        for n in (0, 2):
            ended = self.answer(n)
            if ended.code not in (0, 143):
                return f"opened again, it ended with code {ended.code}: {ended.last_line}"
            failure = self._differs()
            if failure:
                return failure
        return ""

    def _differs(self) -> str:
        """Return which label is not the one that was confirmed last, or that was sent after it; "" if all are."""
        sent: dict[str, Any] = {}
        confirmed: dict[str, Any] = {}
        for line in self.notes.read_text(encoding="utf-8").splitlines():
            note = json.loads(line)
            sent[note["text"]] = note["label"]
            if note["confirmed"]:
                confirmed[note["text"]] = note["label"]
        output = self.folder / OUTPUT
        written = {row["text"]: row["label"] or None for row in _rows(output)} if output.exists() else {}
        for text in TEXTS:
            if written.get(text) not in (confirmed.get(text), sent.get(text)):
                return f"{text!r} has the label {written.get(text)}, and {confirmed.get(text)} was confirmed"
        return ""


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def label(
    folder: str, cache: str, notes: str, n: int, harm: str | None = None, at: int = 0, end: int = signal.SIGTERM
) -> None:
    """In a child: serve the page, and answer in a thread; then end by the signal `end`.

    Before answer number `at`, from 0, the journal suffers a `harm`.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    journal = Path(folder) / f"{OUTPUT}.journal"
    harmed = {} if harm is None else {at: lambda: _harm(journal, harm)}
    threading.Thread(target=_person, args=(port, Path(notes), n, harmed, end), daemon=True).start()
    settings = (f"labels=[{','.join(LABELS)}]", f"n={EVERY_FEW}", f"port={port}", "threads=1", f"cache_dir={cache}")
    run_command(["label", "texts.csv", *settings], folder)


def label_late(folder: str, cache: str, notes: str, n: int) -> None:
    """The same with a journal that is not safe: a line is on the disk only after the next three were confirmed."""
    from encoderlab.apps.labelling.answers import AnswerJournal

    add = AnswerJournal._add
    held: list[tuple[str, dict[str, Any]]] = []

    def add_late(journal: AnswerJournal, kind: str, **entry: Any) -> None:
        held.append((kind, entry))
        if len(held) > 3:
            earlier, content = held.pop(0)
            add(journal, earlier, **content)

    AnswerJournal._add = add_late
    label(folder, cache, notes, n)


def label_forgetful(folder: str, cache: str, notes: str, n: int, **more: Any) -> None:
    """The same with a journal that does not notice what happens to its file."""
    from encoderlab.apps.labelling.answers import AnswerJournal

    AnswerJournal._restore_if_changed = lambda *_: None
    label(folder, cache, notes, n, **more)


def _harm(journal: Path, harm: str) -> None:
    """Do to the journal what another program or a person might."""
    lines = journal.read_bytes().splitlines(keepends=True)
    if harm == "deleted with the output":
        (journal.parent / OUTPUT).unlink(missing_ok=True)
    if harm.startswith("deleted"):
        journal.unlink()
    elif harm == "moved away":
        journal.rename(journal.with_name("elsewhere"))
    elif harm == "put back as it was":  # by what keeps files of several machines alike
        journal.unlink()
        journal.write_bytes(b"".join(lines[:-1]))
    else:
        content = {"emptied": b"", "shortened": b"".join(lines)[:-40], "replaced": b"{}\n"}
        journal.write_bytes(content[harm])


def _person(port: int, notes: Path, n: int, harmed: Mapping[int, Callable[[], None]], end: int) -> None:
    """Answer up to `n` texts, take every few answers back and answer again, and end the process by a signal.

    `harmed` is done before the answers of these numbers.
    """
    window = f"person {os.getpid()}"
    state = None
    while state is None:
        with suppress(urllib.error.URLError, ConnectionError):
            state = _asked(port, "show", window=window)
        time.sleep(0.01)
    for number in range(n):
        if not state["text"]:
            break
        harmed.get(number, lambda: None)()
        (text,) = state["text"]["texts"]
        chosen = LABELS["play" in text or "song" in text]
        content = {"window": window, "text_id": state["text"]["text_id"], "label": chosen}
        state = _noted(notes, text, chosen, port, "answer", content)
        if number % EVERY_FEW == 1:
            state = _noted(notes, text, None, port, "undo", {"window": window})
            state = _noted(notes, text, chosen, port, "answer", content)
    os.kill(os.getpid(), end)


def _noted(notes: Path, text: str, chosen: str | None, port: int, path: str, content: dict[str, Any]) -> Any:
    """Note what is sent, send it, note that it was confirmed, and return the reply."""
    with notes.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"text": text, "label": chosen, "confirmed": False}) + "\n")
    reply = _asked(port, path, **content)
    with notes.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"text": text, "label": chosen, "confirmed": True}) + "\n")
    return reply


def _asked(port: int, path: str, **content: Any) -> Any:
    """Return what the page's server replies."""
    headers = {"content-type": "application/json"}
    address = f"http://127.0.0.1:{port}/{path}"
    request = urllib.request.Request(address, json.dumps(content).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)
