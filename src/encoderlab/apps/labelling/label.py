"""encoderlab label: label the texts of a file in the browser, the most useful ones first.

An answer is in the journal, on the disk, before its request is answered with the next text. Texts are chosen, and the
labels are written to the output, in threads of their own, mostly while a person reads. Who is faster than the model is
shown the texts that the model before would have chosen next.
"""

import asyncio
import shlex
import socket
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from encoderlab.apps.labelling.answers import Answer, journal_of, opened_journal
from encoderlab.apps.labelling.labelling import (
    SEPARATOR,
    AnsweredElsewhereError,
    Known,
    Labelling,
    check_labels,
    choose_round,
    names_in,
    write_labels,
)
from encoderlab.apps.labelling.pool import Pool
from encoderlab.apps.labelling.select import named_columns, open_pool
from encoderlab.apps.labelling.selection import fitted
from encoderlab.apps.labelling.settings import LabelConfig
from encoderlab.config.commands import PredictionFormat
from encoderlab.data.examples import texts_of
from encoderlab.errors import SettingError, UserError, one_line
from encoderlab.models.row_files import ENDINGS, format_by_name
from encoderlab.reports.blocks import render
from encoderlab.reports.wording import counted
from encoderlab.shipped import SHIPPED
from encoderlab.system import http_service as http
from encoderlab.system.device import hold_little_memory, return_freed_memory
from encoderlab.system.http_service import HTMLResponse, HTTPException, JSONResponse, Request, Route, Starlette
from encoderlab.tables.remote import file_name_of, is_url

TEMPLATES = Path(__file__).with_name("templates")
MOST_LETTERS = 100  # of a label, and of the name of a window
MOMENT = 0.2  # seconds of a round that the next text may wait for, to be what the newest model chooses
PAUSE = 9  # of ten parts of the time, in which the output is not written: of 100,000 texts this takes seconds
EXAMPLE = 'send {"window": "...", "text_id": "...", "label": "..."}'


def label(config: LabelConfig) -> None:
    """Serve the page until a signal arrives, then write the labels. Raises SettingError, DataError, Interrupted."""
    # What can be refused at once.
    if config.input in (None, "-"):
        raise SettingError("label reads a file of texts", remedy="Run encoderlab label texts.csv labels=[yes,no]")
    source = Path(file_name_of(config.input) if is_url(config.input) else config.input)
    output = Path(config.output) if config.output is not None else _output_beside(source)
    form = format_by_name(str(output), "Set output=FILE.csv")
    _check_labels(config)
    if output.exists() and not journal_of(output).exists():
        problem = f"output={output} already exists"
        raise SettingError(problem, remedy="Choose another name: nothing that a person wrote is replaced")
    if not output.parent.is_dir():
        raise SettingError(f"output={output}: {output.parent} is not a folder", remedy="Choose another folder")

    hold_little_memory()
    with http.listening_socket("127.0.0.1", config.port) as listening:
        # The texts and their vectors; the labels so far; and the first texts to show.
        pool, vectors = open_pool(config)[1:]
        return_freed_memory()  # of the model, which is not needed any more
        if not config.labels and not pool.labels and not journal_of(output).exists():
            problem = f"There are no labels: no row of {source} has one in column {pool.file.label_column!r}"
            raise SettingError(problem, remedy="Set labels=[NAME,NAME]; further ones can be typed on the page")
        with opened_journal(output, source) as journal:
            journal.check_output()
            labelling = Labelling(config, pool, vectors, journal)
            _say_what_was_answered(labelling)
            fitted(np.eye(2), np.arange(2))  # loads what fits models, now that nobody waits
            known = labelling.known()
            labelling.add(choose_round(config, vectors, known))
            labelling.add_checked(check_labels(config, vectors, known))
            _serve(_LabellingSession(labelling, form, _finetune_command(config, pool, output)), listening)


def _output_beside(source: Path) -> Path:
    """Return where the labels go unless `output` is set: texts-labelled.csv for texts.csv."""
    ending = source.suffix.lower() if source.suffix.lower() in ENDINGS else ".csv"
    return source.with_name(f"{source.stem}-labelled{ending}")


def _check_labels(config: LabelConfig) -> None:
    """Raise SettingError for labels that nobody could choose."""
    for name in config.labels:
        if not _is_label(name) or (config.several and SEPARATOR in name):
            problem = f"labels has {name!r}"
            allowed = f"names of 1 to {MOST_LETTERS} letters on one line"
            allowed += f", without {SEPARATOR}" if config.several else ""
            raise SettingError(problem, allowed=allowed, remedy="Write labels=[billing,delivery]")
    doubled = [name for name in config.labels if config.labels.count(name) > 1]
    if doubled:
        raise SettingError(f"labels has {doubled[0]!r} twice", remedy="Give each label once")


def _is_label(name: Any) -> bool:
    return isinstance(name, str) and bool(name.strip()) and name.isprintable() and len(name) <= MOST_LETTERS


def _finetune_command(config: LabelConfig, pool: Pool, output: Path) -> str:
    """Return the command line that finetunes on the labels."""
    start = [] if config.run == SHIPPED else [f"init_from={config.run}"]
    task = ["task=multilabel", f"dataset.label_separator={SEPARATOR}"] if config.several else []
    return shlex.join(["encoderlab", "finetune", str(output), *task, *named_columns(config, pool), *start])


def _say(words: str) -> None:
    print(f"encoderlab: {one_line(words)}", file=sys.stderr)


def _say_what_was_answered(labelling: Labelling) -> None:
    """Say how many earlier answers are kept, and how many are about texts that no longer need one."""
    journal = labelling.journal
    n_kept = len(labelling.answers)
    n_lost = len(journal.answers) - n_kept
    if n_kept:
        _say(f"{journal.path}: {counted(n_kept, 'earlier answer')}")
    if n_lost:
        _say(f"{journal.path}: {counted(n_lost, 'answer')} to texts that are not in the file, or have a label there")


class _LabellingSession:
    """The state of the page: the labels so far, the threads that choose, check and write, and what it has to say."""

    def __init__(self, labelling: Labelling, form: PredictionFormat, command: str) -> None:
        self.labelling = labelling
        self.form = form
        self.command = command
        self.warning = ""  # why the output is not written; all answers are in the journal
        self._choosing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="choose")
        self._checking = ThreadPoolExecutor(max_workers=1, thread_name_prefix="check")
        self._writing = ThreadPoolExecutor(max_workers=1, thread_name_prefix="write")
        self._round: asyncio.Task[None] | None = None
        self._check: asyncio.Task[None] | None = None
        self._to_check: Known | None = None
        self._moment_ends = 0.0
        self._write: Future[None] | None = None
        self._next_write = 0.0

    @property
    def can_finetune(self) -> bool:
        """Return whether two labels have rows."""
        return sum(n > 0 for n in self.labelling.labels.values()) > 1

    async def text_for(self, window: str) -> int | None:
        """Return the row to show in a window; None if every text has an answer. Starts to choose more in good time."""
        loop = asyncio.get_running_loop()
        while True:
            row = self.labelling.show(window)
            if self.labelling.wants_round() and self._round is None:
                self._round = asyncio.create_task(self._choose())
                self._moment_ends = loop.time() + MOMENT
            if row is not None:
                return row
            if self._round is not None:
                chosen, _ = await asyncio.wait({self._round}, timeout=max(self._moment_ends - loop.time(), 0.0))
                row = None if chosen else self.labelling.show_from_reserve(window)
                if row is not None:
                    return row
                if self._round is not None:
                    await asyncio.shield(self._round)
            elif self._check is not None:  # it may ask for a label again
                await asyncio.shield(self._check)
            else:
                return None

    async def _choose(self) -> None:
        """Fit the model again, and queue the texts that it chooses; then let it be checked."""
        labelling = self.labelling
        known = labelling.known()
        try:
            work = (choose_round, labelling.config, labelling.vectors, known)
            labelling.add(await asyncio.get_running_loop().run_in_executor(self._choosing, *work))
        finally:
            self._round = None
            self._to_check = known
            self._check = self._check or asyncio.create_task(self._check_rounds())

    async def _check_rounds(self) -> None:
        """Check the labels of the newest round, while there is one, and write them unless they just were."""
        labelling = self.labelling
        try:
            while self._to_check is not None:
                work = (check_labels, labelling.config, labelling.vectors, self._to_check)
                self._to_check = None
                labelling.add_checked(await asyncio.get_running_loop().run_in_executor(self._checking, *work))
                if (self._write is None or self._write.done()) and time.monotonic() >= self._next_write:
                    self._write = self._writing.submit(self.write_answers, {**labelling.answers})
        except UserError as error:  # the disk does not take a point of the curve; the next answer will say so
            self.warning = str(error)
        finally:
            self._check = None

    def end(self) -> None:
        """Write the labels to the output, once the threads have ended."""
        for threads in (self._choosing, self._checking, self._writing):
            threads.shutdown()
        self.write_answers(self.labelling.answers)

    def write_answers(self, answers: dict[int, Answer]) -> None:
        """Write the labels to the output; if that fails, `warning` says why."""
        started = time.monotonic()
        try:
            if answers:
                several = self.labelling.config.several
                write_labels(self.labelling.pool, answers, self.labelling.journal, self.form, several=several)
            self.warning = ""
        except UserError as error:
            self.warning = str(error)
        finally:
            now = time.monotonic()
            self._next_write = now + PAUSE * (now - started)

    def shown(self, row: int | None) -> dict[str, Any]:
        """Return what the page shows, in JSON values."""
        labelling = self.labelling
        labels = labelling.labels
        text = None
        if row is not None:
            text = {
                "text_id": labelling.text_id(row),
                "texts": list(texts_of(labelling.pool.split[row])),
                "reason": labelling.queue[row].value,
                "guess": labelling.guess(row),
                "label": labelling.own_label(row),
            }
        return {
            "text": text,
            "labels": [{"name": name, "count": n} for name, n in labels.items()],
            "labelled": labelling.n_labelled,
            "skipped": labelling.n_skipped,
            "left": len(labelling.pool.candidates) - len(labelling.answers),
            "curve": [asdict(point) for point in labelling.journal.curve],
            "command": self.command if self.can_finetune else "",
            "warning": self.warning or labelling.journal.taken_notice(),
        }


def _serve(session: _LabellingSession, listening: socket.socket) -> None:
    """Serve the page; at the end write the labels, and say where they are and how to finetune on them."""
    journal = session.labelling.journal
    session.write_answers(session.labelling.answers)  # those before a kill
    try:
        print(f"{http.address_of(listening)}  (Ctrl-C stops it; the same line opens it again)", flush=True)
        http.run_until_stopped(page_service(session), listening)
    finally:
        session.end()
        if session.warning:
            _say(session.warning)
        elif journal.answers:
            n_labelled = counted(session.labelling.n_labelled, "text")
            line = f"Finetune now: {session.command}" if session.can_finetune else "A model needs two labels"
            _say(f"wrote {journal.output}: {n_labelled} with a label. {line}")


def page_service(session: _LabellingSession) -> Starlette:
    """Return the application: the page, and what it asks: to show a text, to save an answer, and to take it back."""
    labelling = session.labelling
    file = labelling.pool.file.path.name
    output = str(labelling.journal.output)
    page = render(
        "label.html",
        TEMPLATES,
        title=f"Label {file}",
        file=file,
        output=output,
        several=labelling.config.several,
    )

    async def shown(window: str, **more: Any) -> JSONResponse:
        row = await session.text_for(window)
        return JSONResponse(session.shown(row) | more)

    async def show(request: Request) -> JSONResponse:
        content = await _content(request, {"window"})
        return await shown(content["window"])

    async def answer(request: Request) -> JSONResponse:
        content = await _content(request, {"window", "text_id", "label"})
        name = content["label"]
        if name is not None:
            name = _checked_label(name, several=labelling.config.several)
        try:
            labelling.answer(content["window"], content["text_id"], name)
        except AnsweredElsewhereError:
            problem = "This text was answered in another window, or is no longer in the file; that answer stays."
            raise HTTPException(409, problem) from None
        return await shown(content["window"])

    async def undo(request: Request) -> JSONResponse:
        content = await _content(request, {"window"})
        undone = labelling.undo(content["window"])
        return await shown(content["window"], undone=None if undone is None else {"label": undone.label})

    routes = [Route("/", HTMLResponse(page), methods=["GET"])]
    for path, handler in (("/show", show), ("/answer", answer), ("/undo", undo)):
        routes.append(Route(path, handler, methods=["POST"]))
    return http.service_of(routes, http.LOOPBACK)


def _checked_label(name: Any, *, several: bool) -> str:
    """Return a label as it is kept; of several, their names in order. Raises HTTPException for anything else."""
    names = [name]
    if several and isinstance(name, str):
        names = sorted({*names_in(name)})
    if not all(map(_is_label, names)):
        raise HTTPException(422, f"A label has 1 to {MOST_LETTERS} letters on one line")
    return SEPARATOR.join(name.strip() for name in names)


async def _content(request: Request, keys: set[str]) -> dict[str, Any]:
    """Return the request's object with these keys, of which `label` may be null. Raises HTTPException for others."""
    http.check_declared_as_json(request)
    http.check_own_origin(request)
    content = await http.json_of(request, EXAMPLE)
    texts = {key: value for key, value in content.items() if key != "label"} if isinstance(content, dict) else {}
    are_names = all(isinstance(value, str) and 0 < len(value) <= MOST_LETTERS for value in texts.values())
    if not isinstance(content, dict) or {*content} != keys or not are_names:
        raise HTTPException(422, f"The request needs {', '.join(sorted(keys))}; {EXAMPLE}")
    return content
