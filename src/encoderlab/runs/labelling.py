"""An afternoon of labelling: which text is shown in which window, what was answered, and which texts come next."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from encoderlab.config.commands import LabelConfig, PredictionFormat
from encoderlab.data.examples import texts_of
from encoderlab.data.selected import Reason
from encoderlab.metrics.comparison import SEPARATOR
from encoderlab.runs.answers import Answer, AnswerJournal, Measured, text_id_of
from encoderlab.runs.pool import Pool, rows_to_write, types_to_write
from encoderlab.runs.row_files import WRITERS
from encoderlab.runs.selection import UNLABELLED, Chosen, accuracy_so_far, choose_rows, classifier_of, contradicted
from encoderlab.system.files import sha256_of, written_whole

MOST_DOUBTED = 2  # labels that are asked for again after a round


class AnsweredElsewhereError(Exception):
    """The text has another answer by now, which stays."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known when the next texts are chosen: the labels, which rows were drawn at random, which are open, and of
    which the label may be asked for again.
    """

    label_of: Mapping[int, str]
    drawn_at_random: frozenset[int]
    candidates: np.ndarray
    may_be_doubted: frozenset[int]


@dataclass(frozen=True, slots=True)
class Round:
    """The rows to show next, each with its reason; what the linear model guesses for them; and how accurate it is."""

    reasons: dict[int, Reason]
    guesses: dict[int, str]
    accuracy: Measured | None


class Labelling:
    """The labels so far and the texts to show. One thread calls its methods; `choose` may run in another.

    `queue` are the rows that were chosen and have no answer, `shown` the row of each window.
    """

    def __init__(self, config: LabelConfig, pool: Pool, vectors: np.ndarray, journal: AnswerJournal) -> None:
        self.config = config
        self.pool = pool
        self.vectors = vectors
        self.journal = journal
        self.queue: dict[int, Reason] = {}
        self.shown: dict[str, int] = {}
        self._guesses: dict[int, str] = {}
        self._n_fitted = 0  # labels, when the model was fitted last
        self._in_file = {int(row): pool.labels[pool.ids[row]] for row in pool.labelled}
        self._row_of: dict[str, int] = {}
        for row, example in zip(pool.candidates.tolist(), pool.split.take(pool.candidates), strict=True):
            self._row_of[text_id_of(example)] = row

    @property
    def answers(self) -> dict[int, Answer]:
        """Return the answers about rows of the file."""
        rows = self._row_of
        return {rows[text_id]: answer for text_id, answer in self.journal.answers.items() if text_id in rows}

    @property
    def label_of(self) -> dict[int, str]:
        """Return the label of each row that has one, in the file or by an answer."""
        answered = {row: answer.label for row, answer in self.answers.items() if answer.label is not None}
        return self._in_file | answered

    @property
    def labels(self) -> dict[str, int]:
        """Return how many rows have each label: those of the setting first, then the file's, then typed ones."""
        counts = Counter(self.label_of.values())
        typed = [answer.label for answer in self.journal.answers.values() if answer.label is not None]
        known = [*self.pool.labels, *typed]
        if self.config.several:
            counts = Counter(name for label in self.label_of.values() for name in names_in(label))
            known = [name for label in known for name in names_in(label)]
        names = dict.fromkeys([*map(str.strip, self.config.labels), *known])
        return {name: counts[name] for name in names}

    def show(self, window: str) -> int | None:
        """Return the row that a window shows: the one it has, or the next that no other window has; None: no row yet.

        Once nothing else is left, a row that a closed window may have kept is shown.
        """
        row = self.shown.get(window)
        if row is not None and row in self.queue:
            return row
        free = self._free_rows()
        if not free and not len(self._open_rows()):
            free = list(self.queue)
        if not free:
            self.shown.pop(window, None)
            return None
        self.shown[window] = free[0]
        return free[0]

    def text_id(self, row: int) -> str:
        """Return the id of a row's text."""
        return text_id_of(self.pool.split[row])

    def own_label(self, row: int) -> str | None:
        """Return the label of a row that is shown again; None for any other."""
        return self.answers[row].label if self.queue.get(row) is Reason.again else None

    def guess(self, row: int) -> str | None:
        """Return the label to suggest; None for a row drawn at random, whose label is to be a person's alone."""
        is_measured = self.queue.get(row) is Reason.random
        return self._guesses.get(row) if self.config.guess and not is_measured else None

    def answer(self, window: str, text_id: str, label: str | None) -> None:
        """Save the label of a text, or that it is skipped (None), or, if it is shown again, that it keeps its label.

        An answer that is repeated changes nothing. Raises AnsweredElsewhereError if it has another answer, DataError if
        the disk does not take it.
        """
        earlier = self.journal.answers.get(text_id)
        row = self._row_of.get(text_id)
        is_again = row is not None and self.queue.get(row) is Reason.again
        if earlier is not None and not is_again and earlier.window == window and earlier.label == label:
            return
        if row is None or (earlier is not None and not is_again):
            raise AnsweredElsewhereError
        texts = list(texts_of(self.pool.split[row]))
        if earlier is None:
            reason = self.queue.get(row, Reason.typical)  # a page that was open before this process
            self.journal.answer(Answer(text_id, label, reason.value, window, texts))
        else:
            kept = earlier.label if label is None else label
            self.journal.answer(Answer(text_id, kept, earlier.reason, window, texts, again=True))
        self.queue.pop(row, None)

    def undo(self, window: str) -> Answer | None:
        """Take back the newest answer of a window, which shows the text again; return it, or None if there is none."""
        answer = self.journal.last_of(window)
        if answer is None or answer.text_id not in self._row_of:
            return None
        self.journal.undo(answer.text_id)
        row = self._row_of[answer.text_id]
        self.queue.pop(row, None)  # where it may wait to be asked for again
        self.queue = {row: Reason.again if answer.again else Reason(answer.reason), **self.queue}
        self.shown[window] = row
        return answer

    def wants_round(self) -> bool:
        """Return whether it is time to fit the model again, and to choose further texts while there are any."""
        n_new = abs(len(self.label_of) - self._n_fitted)
        if not self.queue or n_new >= self.config.n:
            return n_new > 0 or len(self._open_rows()) > 0
        return len(self._free_rows()) <= self.config.n // 2 and len(self._open_rows()) > 0

    def known(self) -> Known:
        """Return what the next texts are chosen by, which later answers do not change."""
        self._n_fitted = len(self.label_of)
        at_random = {row for row, answer in self.answers.items() if answer.reason == Reason.random.value}
        in_file = self.pool.labelled[self.pool.drawn_at_random].tolist() if len(self.pool.labelled) else []
        drawn = frozenset([*at_random, *in_file])
        # A label that measures accuracy is not doubted: the model would then be compared with what it suggested.
        once = {row for row, answer in self.answers.items() if answer.label is not None and not answer.again}
        return Known(self.label_of, drawn, self._open_rows(), frozenset(once - drawn - {*self.queue}))

    def add(self, chosen: Round) -> None:
        """Queue the rows that were chosen, and keep the accuracy as a point of the curve."""
        answered = self.answers
        for row, reason in chosen.reasons.items():
            if (row in answered) == (reason is Reason.again):  # or it was undone or answered in the meantime
                self.queue[row] = reason
        self._guesses |= chosen.guesses
        curve = self.journal.curve
        if chosen.accuracy is not None and (not curve or curve[-1].n_labels != chosen.accuracy.n_labels):
            self.journal.measured(chosen.accuracy)

    def _free_rows(self) -> list[int]:
        taken = {*self.shown.values()}
        return [row for row in self.queue if row not in taken]

    def _open_rows(self) -> np.ndarray:
        """Return the rows that may still be chosen."""
        closed = [*self.answers, *self.queue]
        return np.setdiff1d(self.pool.candidates, np.array(closed, np.int64))


def names_in(label: str) -> list[str]:
    """Return the labels that a cell of several holds."""
    return [name.strip() for name in label.split(SEPARATOR) if name.strip()]


def choose_round(config: LabelConfig, vectors: np.ndarray, known: Known) -> Round:
    """Return the texts to show next, by logistic regression on the labels so far if there are two, as `select` does."""
    labelled = np.array(sorted(known.label_of), np.int64)
    names = sorted({*known.label_of.values()})
    id_of = {name: id_ for id_, name in enumerate(names)}
    ids = np.full(len(vectors), UNLABELLED)
    ids[labelled] = [id_of[known.label_of[row]] for row in labelled.tolist()]
    probabilities = classifier_of(vectors, ids) if len(names) > 1 else None

    # Without any label all texts are typical ones; later, a share is drawn at random.
    share = config.random_share if len(labelled) else 0.0
    seed = config.seed + len(labelled)
    chosen = Chosen(np.zeros(0, np.int64), [])
    if len(known.candidates):
        chosen = choose_rows(
            vectors, known.candidates, config.n, random_share=share, seed=seed, probabilities=probabilities
        )
    rows = chosen.rows.tolist()
    guesses = {}
    if probabilities is not None and rows:
        best = probabilities(chosen.rows).argmax(1)
        guesses = {row: names[id_] for row, id_ in zip(rows, best.tolist(), strict=True)}

    # How accurate the same model is, by cross-validation.
    at_random = np.array([row in known.drawn_at_random for row in labelled.tolist()], bool)
    accuracy = accuracy_so_far(np.asarray(vectors[labelled]), ids[labelled], at_random, config.seed)
    measured = None
    if accuracy is not None:
        measured = Measured(len(labelled), accuracy.value, accuracy.interval, accuracy.n, accuracy.unbiased)
    # Labels that a model of the others contradicts, a few at a time.
    reasons = dict(zip(rows, chosen.reasons, strict=True))
    doubted = labelled[contradicted(np.asarray(vectors[labelled]), ids[labelled], config.seed)].tolist()
    for row in [row for row in doubted if row in known.may_be_doubted][:MOST_DOUBTED]:
        assert probabilities is not None
        best_two = probabilities(np.array([row]))[0].argsort()[::-1][:2]
        reasons[row] = Reason.again
        guesses[row] = next(names[id_] for id_ in best_two.tolist() if id_ != ids[row])
    return Round(reasons, guesses, measured)


def write_labels(
    pool: Pool, answers: Mapping[int, Answer], journal: AnswerJournal, form: PredictionFormat, *, several: bool = False
) -> None:
    """Write every row of the file, with the labels of the answers, to the journal's `output`: whole or not at all.

    Of several labels, only rows with an answer or a label in the file: of others, nothing is known. Raises SettingError
    if somebody else has changed that file, DataError if it cannot be written.
    """
    journal.check_output()
    labels = {row: answer.label for row, answer in answers.items() if answer.label is not None}
    rows = sorted(labels)
    chosen = Chosen(np.array(rows, np.int64), [Reason(answers[row].reason) for row in rows])
    labelled = replace(pool, added={**pool.added, **labels})
    written = sorted({*rows, *pool.labelled.tolist()}) if several else range(len(pool.split))
    with written_whole("output", journal.output) as temporary:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            WRITERS[form](file, rows_to_write(labelled, chosen, written), types_to_write(labelled), ())
            file.flush()
            os.fsync(file.fileno())
        journal.will_write(sha256_of(temporary))
