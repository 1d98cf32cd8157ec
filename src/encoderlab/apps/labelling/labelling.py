"""An afternoon of labelling: which text is shown in which window, what was answered, and which texts come next."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from encoderlab.apps.labelling.answers import Answer, AnswerJournal, Measured, text_id_of
from encoderlab.apps.labelling.pool import Pool, rows_to_write, types_to_write
from encoderlab.apps.labelling.selection import (
    UNLABELLED,
    Chosen,
    accuracy_so_far,
    choose_rows,
    classifier_of,
    contradicted,
    fitted,
)
from encoderlab.apps.labelling.settings import LabelConfig
from encoderlab.config.commands import PredictionFormat
from encoderlab.data.examples import texts_of
from encoderlab.data.selected import Reason
from encoderlab.metrics.comparison import SEPARATOR
from encoderlab.models.row_files import WRITERS
from encoderlab.system.files import sha256_of, written_whole

MOST_DOUBTED = 2  # labels that are asked for again after a round
RESERVE = 100  # texts that are next while the model is fitted: at twenty answers a second, those of five seconds


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
    """The rows to show next, each with its reason; those of the `reserve`, which come after them until the next round;
    and what the linear model guesses for them.
    """

    reasons: dict[int, Reason]
    reserve: dict[int, Reason]
    guesses: dict[int, str]


@dataclass(frozen=True, slots=True)
class Checked:
    """How accurate the linear model is, and the rows of which the label is to be asked for again, each with what other
    rows suggest.
    """

    accuracy: Measured | None
    suggested: dict[int, str]


class Labelling:
    """The labels so far and the texts to show. One thread calls its methods; others choose rounds and check labels.

    `answers` are those about rows of the file, `queue` the rows that were chosen and have no answer, and `shown` the
    row of each window. Nothing here takes time that grows with the file, except what precedes a round.
    """

    def __init__(self, config: LabelConfig, pool: Pool, vectors: np.ndarray, journal: AnswerJournal) -> None:
        self.config = config
        self.pool = pool
        self.vectors = vectors
        self.journal = journal
        self.queue: dict[int, Reason] = {}
        self.shown: dict[str, int] = {}
        self.answers: dict[int, Answer] = {}
        self._reserve: dict[int, Reason] = {}
        self._guesses: dict[int, str] = {}
        self._n_fitted = 0  # labels, when the model was fitted last
        self._in_file = {int(row): pool.labels[pool.ids[row]] for row in pool.labelled}
        self._row_of: dict[str, int] = {}
        for row, example in zip(pool.candidates.tolist(), pool.split.take(pool.candidates), strict=True):
            self._row_of[text_id_of(example)] = row

        # How many rows have each label: in the file, and by answers. The names of other answers are offered, too.
        names_in_file = dict.fromkeys(name for label in pool.labels for name in self._names(label))
        self._counts_in_file = Counter(dict.fromkeys(names_in_file, 0))
        self._counts_in_file.update(name for label in self._in_file.values() for name in self._names(label))
        self._counts: Counter[str] = Counter()
        for text_id, answer in journal.answers.items():
            if text_id in self._row_of:
                self._take_over(text_id)
            elif answer.label is not None:
                self._counts_in_file.update(dict.fromkeys(self._names(answer.label), 0))

    def _names(self, label: str) -> list[str]:
        return names_in(label) if self.config.several else [label]

    def _take_over(self, text_id: str) -> None:
        """Take over what the journal says about a text by now."""
        row = self._row_of[text_id]
        earlier = self.answers.pop(row, None)
        now = self.journal.answers.get(text_id)
        if now is not None:
            self.answers[row] = now
        for answer, change in ((earlier, -1), (now, 1)):
            if answer is not None and answer.label is not None:
                self._counts.update(dict.fromkeys(self._names(answer.label), change))

    @property
    def n_skipped(self) -> int:
        """Return how many rows were skipped."""
        return sum(answer.label is None for answer in self.answers.values())

    @property
    def n_labelled(self) -> int:
        """Return how many rows have a label, in the file or by an answer."""
        return len(self._in_file) + len(self.answers) - self.n_skipped

    @property
    def labels(self) -> dict[str, int]:
        """Return how many rows have each label: those of the setting first, then the file's, then typed ones."""
        typed = [name for name, n in self._counts.items() if n]
        names = dict.fromkeys([*map(str.strip, self.config.labels), *self._counts_in_file, *typed])
        return {name: self._counts_in_file[name] + self._counts[name] for name in names}

    def show(self, window: str) -> int | None:
        """Return the row that a window shows: the one it has, or the next that no other window has; None: no row yet.

        Once nothing else is left, a row that a closed window may have kept is shown.
        """
        row = self.shown.get(window)
        if row is not None and row in self.queue:
            return row
        free = self._free_rows()
        if not free and not self._has_open_rows():
            free = list(self.queue)
        if not free:
            self.shown.pop(window, None)
            return None
        self.shown[window] = free[0]
        return free[0]

    def show_from_reserve(self, window: str) -> int | None:
        """Return the row that a window shows while the model is fitted: one of the reserve; None if it is empty."""
        row = next(iter(self._reserve), None)
        if row is not None:
            self.queue[row] = self._reserve.pop(row)
            self.shown[window] = row
        return row

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
        self._take_over(text_id)
        self.queue.pop(row, None)
        self._reserve.pop(row, None)

    def undo(self, window: str) -> Answer | None:
        """Take back the newest answer of a window, which shows the text again; return it, or None if there is none."""
        answer = self.journal.last_of(window)
        if answer is None or answer.text_id not in self._row_of:
            return None
        self.journal.undo(answer.text_id)
        self._take_over(answer.text_id)
        row = self._row_of[answer.text_id]
        self.queue.pop(row, None)  # where it may wait to be asked for again
        self.queue = {row: Reason.again if answer.again else Reason(answer.reason), **self.queue}
        self.shown[window] = row
        return answer

    def wants_round(self) -> bool:
        """Return whether it is time to fit the model again, and to choose further texts while there are any."""
        n_new = abs(self.n_labelled - self._n_fitted)
        if not self.queue or n_new >= self.config.n:
            return n_new > 0 or self._has_open_rows()
        return len(self._free_rows()) <= self.config.n // 2 and self._has_open_rows()

    def known(self) -> Known:
        """Return what the next texts are chosen by, which later answers do not change."""
        answered = {row: answer.label for row, answer in self.answers.items() if answer.label is not None}
        label_of = self._in_file | answered
        self._n_fitted = len(label_of)
        at_random = {row for row, answer in self.answers.items() if answer.reason == Reason.random.value}
        in_file = self.pool.labelled[self.pool.drawn_at_random].tolist() if len(self.pool.labelled) else []
        drawn = frozenset([*at_random, *in_file])
        # A label that measures accuracy is not doubted: the model would then be compared with what it suggested.
        once = {row for row, answer in self.answers.items() if answer.label is not None and not answer.again}
        is_open = np.ones(len(self.pool.split), bool)
        is_open[[*self.answers, *self.queue]] = False
        candidates = self.pool.candidates[is_open[self.pool.candidates]]
        return Known(label_of, drawn, candidates, frozenset(once - drawn - {*self.queue}))

    def add(self, chosen: Round) -> None:
        """Queue the rows that were chosen, unless they were answered or shown in the meantime."""
        taken = self.answers.keys() | self.queue.keys()
        self.queue |= {row: reason for row, reason in chosen.reasons.items() if row not in taken}
        self._reserve = {row: reason for row, reason in chosen.reserve.items() if row not in taken}
        self._guesses |= chosen.guesses

    def add_checked(self, checked: Checked) -> None:
        """Queue the rows to ask for again, and keep the accuracy as a point of the curve. Raises DataError if the disk
        does not take it.
        """
        for row, name in checked.suggested.items():
            if row in self.answers and row not in self.queue:  # it was not taken back in the meantime
                self.queue[row] = Reason.again
                self._guesses[row] = name
        curve = self.journal.curve
        if checked.accuracy is not None and (not curve or curve[-1].n_labels != checked.accuracy.n_labels):
            self.journal.measured(checked.accuracy)

    def _free_rows(self) -> list[int]:
        taken = {*self.shown.values()}
        return [row for row in self.queue if row not in taken]

    def _has_open_rows(self) -> bool:
        """Return whether there are rows that may still be chosen."""
        return len(self.answers.keys() | self.queue.keys()) < len(self.pool.candidates)


def names_in(label: str) -> list[str]:
    """Return the labels that a cell of several holds."""
    return [name.strip() for name in label.split(SEPARATOR) if name.strip()]


def choose_round(config: LabelConfig, vectors: np.ndarray, known: Known) -> Round:
    """Return the texts to show next, by logistic regression on the labels so far if there are two, as `select` does."""
    labelled, own_ids, names = _classes_of(known)
    ids = np.full(len(vectors), UNLABELLED)
    ids[labelled] = own_ids
    probabilities = classifier_of(vectors, ids) if len(names) > 1 else None

    # Without any label all texts are typical ones; later, a share is drawn at random.
    share = config.random_share if len(labelled) else 0.0
    seed = config.seed + len(labelled)
    chosen = Chosen(np.zeros(0, np.int64), [])
    if len(known.candidates):
        chosen = choose_rows(
            vectors,
            known.candidates,
            config.n,
            random_share=share,
            seed=seed,
            probabilities=probabilities,
            n_reserve=RESERVE,
        )
    rows = [*chosen.rows.tolist(), *chosen.reserve]
    guesses = {}
    if probabilities is not None and rows:
        best = probabilities(np.array(rows)).argmax(1)
        guesses = {row: names[id_] for row, id_ in zip(rows, best.tolist(), strict=True)}
    return Round(dict(zip(chosen.rows.tolist(), chosen.reasons, strict=True)), chosen.reserve, guesses)


def check_labels(config: LabelConfig, vectors: np.ndarray, known: Known) -> Checked:
    """Return how accurate the model of a round is, and which labels a model of the others contradicts."""
    labelled, ids, names = _classes_of(known)
    own = np.asarray(vectors[labelled])

    # By cross-validation.
    at_random = np.array([row in known.drawn_at_random for row in labelled.tolist()], bool)
    accuracy = accuracy_so_far(own, ids, at_random, config.seed)
    measured = None
    if accuracy is not None:
        measured = Measured(len(labelled), accuracy.value, accuracy.interval, accuracy.n, accuracy.unbiased)

    # A few of the doubted labels at a time.
    places = [place for place in contradicted(own, ids, config.seed) if labelled[place] in known.may_be_doubted]
    places = places[:MOST_DOUBTED]
    if not places:
        return Checked(measured, {})
    likeliest = fitted(own, ids).predict_proba(own[places]).argsort(1)[:, ::-1]
    suggested = {}
    for place, best in zip(places, likeliest.tolist(), strict=True):
        suggested[int(labelled[place])] = next(names[id_] for id_ in best if id_ != ids[place])
    return Checked(measured, suggested)


def _classes_of(known: Known) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return the rows with a label, the class of each, and the names of the classes."""
    labelled = np.array(sorted(known.label_of), np.int64)
    names = sorted({*known.label_of.values()})
    id_of = {name: id_ for id_, name in enumerate(names)}
    return labelled, np.array([id_of[known.label_of[row]] for row in labelled.tolist()], np.int64), names


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
        journal.check_output()  # of many rows, writing takes seconds, in which a person may have saved the file
