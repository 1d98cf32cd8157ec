"""The answers of a person who labels texts: a journal to which lines are only added, each on the disk at once.

The first line names the file of texts. Each further one is an answer (without a label: the text was skipped), an answer
that was taken back, an accuracy that was measured, or the hash of a file that the labels are written to, with the
number of answers in it. A last line that a kill or a loss of power has cut off was never confirmed to anybody, and is
dropped.

A page that is open knows every line. It notices before each new one if the journal has vanished or been changed, and
writes it again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import chain, count
from pathlib import Path
from threading import RLock
from typing import Any

from filelock import FileLock, Timeout

from encoderlab.data.examples import Example, texts_of
from encoderlab.errors import DataError, SettingError
from encoderlab.system.files import atomic_write, sha256_of, write_synced
from encoderlab.system.messages import say

ENDING = ".journal"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """The label that a person has given to a text, or None: skipped; `reason` is why it was shown, `window` where.

    `again` says that the text had a label before, and was shown with it.
    """

    text_id: str
    label: str | None
    reason: str
    window: str
    texts: list[str]
    again: bool = False


@dataclass(frozen=True, slots=True)
class Measured:
    """The accuracy of a linear model of `n_labels` labels, as `selection.Accuracy` has it."""

    n_labels: int
    value: float
    interval: list[float]
    n: int
    unbiased: bool


class AnswerJournal:
    """The journal beside the file `output`: what it says so far, and how a line is added.

    `answers` are those in force, by the text's id, the newest last. `answered_earlier` are the ids that were answered
    before the journal was opened.
    """

    def __init__(self, output: Path, source: Path) -> None:
        self.output = output
        self.path = journal_of(output)
        self.answers: dict[str, Answer] = {}
        self.curve: list[Measured] = []
        self._before: dict[str, Answer] = {}  # what a text was answered before it was shown again
        self._hashes: set[str] = set()
        self._notice = ""
        self._turn = RLock()  # a thread of its own notes what is written to `output`
        self._lines = self._whole_lines()
        for number, line in enumerate(self._lines, 1):
            self._take_line(number, line, source)
        self.answered_earlier = {*self.answers}
        self._is_new = not self._lines
        self._state = () if self._is_new else _state_of(self.path.stat())
        if self._is_new:
            self._add("header", version=VERSION, input=source.name)
            _sync_folder(self.path.parent)
            self._is_new = False

    def answer(self, answer: Answer) -> None:
        """Add an answer. Raises DataError if the disk does not take it; then there is none."""
        with self._turn:
            self._add("answer", **asdict(answer))
            self._answered(answer)

    def undo(self, text_id: str) -> None:
        """Take an answer back; one before it is in force again. Raises DataError if the disk does not take it."""
        with self._turn:
            self._add("undo", text_id=text_id)
            self._undone(text_id)

    def last_of(self, window: str) -> Answer | None:
        """Return the newest answer of a window, or else of those that were open earlier; None if there is none."""
        newest_first = list(reversed(self.answers.values()))
        own = [answer for answer in newest_first if answer.window == window]
        earlier = [answer for answer in newest_first if answer.text_id in self.answered_earlier]
        return next(iter([*own, *earlier]), None)

    def measured(self, accuracy: Measured) -> None:
        """Add a point of the curve."""
        self._add("accuracy", **asdict(accuracy))
        self.curve.append(accuracy)

    def will_write(self, sha256: str) -> None:
        """Note the hash of what `output` is going to be, before it is: so nobody else's file is ever replaced.

        The number of answers shows later whether the journal still has all that this file has.
        """
        with self._turn:
            self._add("output", sha256=sha256, answers=len(self.answers))
        self._hashes.add(sha256)

    def taken_notice(self) -> str:
        """Return once that the journal had vanished or been changed, and is whole again; "" if it was not."""
        notice = self._notice
        self._notice = ""
        return notice

    def check_output(self) -> None:
        """Raise SettingError if `output` is there, and is not as it was written last."""
        if self.output.exists() and sha256_of(self.output) not in self._hashes:
            problem = f"output={self.output} has been changed since it was written, and is left as it is"
            remedy = "Move it away; all answers are in the journal beside it"
            raise SettingError(problem, remedy=remedy)

    def _whole_lines(self) -> list[bytes]:
        """Return the lines of the journal; what follows the last line end is removed from the file."""
        if not self.path.exists():
            if self.output.exists():
                problem = f"output={self.output} already exists"
                raise SettingError(problem, remedy="Choose another name: nothing that a person wrote is replaced")
            return []
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content:
            os.truncate(self.path, len(whole))
        return whole.splitlines(keepends=True)

    def _take_line(self, number: int, line: bytes, source: Path) -> None:
        """Take over what a line says. Raises DataError if it is damaged, SettingError if it is about another file."""
        try:
            entry = json.loads(line)
            kind = entry.pop("kind")
            if (kind == "header") != (number == 1):
                raise ValueError("the first line is missing")
            if kind == "header" and entry["input"] != source.name:
                problem = f"{self.path} has answers about {entry['input']}, not {source.name}"
                raise SettingError(problem, remedy="Set output=FILE to another name")
            if kind == "answer":
                self._answered(Answer(**entry))
            elif kind == "undo":
                self._undone(entry["text_id"])
            elif kind == "accuracy":
                self.curve.append(Measured(**entry))
            elif kind == "output":
                self._check_complete(number, entry.get("answers"))
                self._hashes.add(entry["sha256"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            problem = f"Line {number:,} of {self.path} is damaged"
            raise DataError(problem, remedy="Remove this line; all others are kept") from None

    def _check_complete(self, number: int, n_answers: int | None) -> None:
        """Raise DataError if lines above this one are missing; journals of earlier versions do not state a number."""
        if n_answers is not None and n_answers != len(self.answers):
            problem = f"{self.path} has {len(self.answers):,} answers above line {number:,}, and had {n_answers:,}"
            remedy = f"Restore it, or set output=FILE to another name: {self.output} stays as it is"
            raise DataError(problem, remedy=remedy)

    def _answered(self, answer: Answer) -> None:
        earlier = self.answers.pop(answer.text_id, None)  # the newest is the last
        if answer.again and earlier is not None:
            self._before[answer.text_id] = earlier
        self.answers[answer.text_id] = answer

    def _undone(self, text_id: str) -> None:
        self.answers.pop(text_id, None)
        earlier = self._before.pop(text_id, None)
        if earlier is not None:  # it is the oldest, so that the next undo is about another text
            self.answers = {text_id: earlier, **self.answers}

    def _add(self, kind: str, **entry: Any) -> None:
        """Add a line, and wait until it is on the disk. Raises DataError if it cannot be; then no part of it stays."""
        line = json.dumps({"kind": kind, **entry}, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        with self._turn:
            try:
                self._restore_if_changed(self._lines)
                with self.path.open("ab", buffering=0) as file:
                    size = file.tell()
                    try:
                        if file.write(line) != len(line):
                            raise OSError(0, "No space left on device")
                        os.fsync(file.fileno())
                    except OSError:
                        file.truncate(size)
                        raise
                    self._state = _state_of(os.fstat(file.fileno()))
                    expected = sum(map(len, self._lines)) + len(line)
                if self._state[1] != expected:  # it was emptied or deleted since it was looked at
                    self._state = ()
                    self._restore_if_changed([*self._lines, line])
            except OSError as error:
                problem = f"The answer is not saved: {self.path} cannot be written: {error.strerror}"
                raise DataError(problem, remedy="Free some space, and answer again") from None
            self._lines.append(line)

    def _restore_if_changed(self, lines: Sequence[bytes]) -> None:
        """Write these lines again if the journal has vanished or been changed, which stays under another name.

        Raises DataError if another process has added lines, OSError if it cannot be written.
        """
        if self._is_new:
            return
        what = "had vanished"
        with suppress(FileNotFoundError):
            if _state_of(self.path.stat()) == self._state:
                return
            ours = b"".join(lines)
            content = self.path.read_bytes()
            if content == ours:  # written again by what copies or backs up files
                return
            if content.startswith(ours):
                problem = f"The answer is not saved: another process has added lines to {self.path}"
                raise DataError(problem, remedy="Stop one of the two")
            aside = _free_name(self.path.with_name(f"{self.path.name}.changed"))
            self.path.rename(aside)
            what = f"was changed by another program (its version is now {aside.name})"
        with atomic_write(self.path) as temporary:
            write_synced(temporary, b"".join(lines))
        self._state = _state_of(self.path.stat())
        _sync_folder(self.path.parent)
        self._notice = f"{self.path} {what}; it is written again, with every answer"
        say(self._notice)


def _state_of(status: os.stat_result) -> Sequence[int]:
    """Return what differs once a file was written by somebody else, or is another one."""
    return (status.st_ino, status.st_size, status.st_mtime_ns)


def _free_name(path: Path) -> Path:
    """Return this path, or one with a number behind it, that is not there yet."""
    numbered = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(free for free in chain([path], numbered) if not free.exists())


def journal_of(output: Path) -> Path:
    """Return the path of the journal of a file of labels."""
    return output.with_name(f"{output.name}{ENDING}")


@contextmanager
def opened_journal(output: Path, source: Path) -> Iterator[AnswerJournal]:
    """Open the journal of `output` for this process alone, and read it. Raises SettingError, DataError."""
    lock = FileLock(output.with_name(f".{output.name}.lock"), timeout=0)
    try:
        lock.acquire()
        journal = AnswerJournal(output, source)
    except Timeout:
        problem = f"Another process is labelling {output}"
        raise SettingError(problem, remedy="Open a second window of its page, or set output=FILE") from None
    except OSError as error:
        problem = f"The journal {journal_of(output)} cannot be opened: {error.strerror or error}"
        raise DataError(problem, remedy="Set output=FILE in another folder") from None
    try:
        yield journal
    finally:
        lock.release()


def text_id_of(example: Example) -> str:
    """Return a name that equal texts share, spaces and case aside, on every machine."""
    words = [" ".join(text.split()).casefold() for text in texts_of(example)]
    return hashlib.sha256("\n".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:20]


def _sync_folder(folder: Path) -> None:
    """Wait until a new file's name is on the disk, where the system can."""
    if os.name != "posix":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
