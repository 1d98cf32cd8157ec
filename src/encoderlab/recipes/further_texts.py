"""Texts that finetuning on few labels learns from besides the labelled rows: the names of the labels, and texts that
nobody has labelled.

Both are judged by the vectors of the encoder that the run starts from, in seconds. Neither is ever scored, or chosen
by. `python -m benchmarks unlabelled` measures what they add.

Texts without a label get one by self-training: in rounds, a logistic regression labels those that it is surest of, more
in each round, in the proportions in which it predicts the classes, and is fitted to them and the labelled rows. That
helps where classes are clusters of texts, and harms where they are not. The labelled rows can tell: the regression must
predict them well with and without its own labels, and many rows no worse with them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from encoderlab.baselines.supervised import MOST_FROZEN_CHARACTERS, MOST_FROZEN_ROWS
from encoderlab.config.commands import FinetuneConfig
from encoderlab.data.corpus import Corpus
from encoderlab.data.examples import Example, Split, TextExample, key_of, text_of
from encoderlab.data.token_store import tokenize_examples
from encoderlab.errors import SettingError
from encoderlab.linear.model import quietly
from encoderlab.linear.vectors import logistic_regression
from encoderlab.models.frozen import cached_vectors
from encoderlab.models.inputs import unlabelled_texts, with_text
from encoderlab.models.model import Model
from encoderlab.reports.wording import counted
from encoderlab.system.device import Compute
from encoderlab.tasks.rows import ExampleRows, example_rows, followed_by
from encoderlab.training.batches import Rows

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

ENOUGH_LABELS = 64  # rows for each class, from which on neither adds anything
LEAST_KAPPA_OF_NAMES = 0.3
MOSTLY_WORDS = 0.9  # of the names; CLINC150 has one called w2
_WORD = re.compile(r"[^\W\d_]{2,}")  # two letters or more
ROUNDS = 5
FOR_EACH_CLASS = 20  # texts that are labelled in the last round, in the mean
MOST_OF_TEXTS = 0.4  # the share of them that may be labelled
WEIGHT = 0.3  # of a text so labelled, beside a labelled row
LEAST_KAPPA = 0.3
TELLING_ROWS = 50  # from which on a lower kappa is more than chance
FOLDS = 5


@dataclass(slots=True)
class FurtherTexts:
    """Texts to learn from, the id of the class of each and its weight in the loss, where a labelled row's is 1; and
    sentences on why they are used, or not. `source` names where texts without a label came from, if there were any, and
    `fingerprint` is a hash of all of those.
    """

    texts: list[Example] = field(default_factory=list)
    classes: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    source: str | None = None
    fingerprint: str = ""

    def fingerprints(self) -> dict[str, str]:
        """Return the fingerprint by the name of the source; none without a source."""
        return {} if self.source is None else {self.source: self.fingerprint}

    def after(self, rows: Rows, model: Model) -> Rows:
        """Return the labelled `rows` and then these texts."""
        if not self.texts:
            return rows
        more = model.task.rows(tokenize_examples(self.texts, model.tokenizer), self.classes)
        together = followed_by(example_rows(rows), more)

        # Weights that are all the same would change nothing, so the rows have none.
        weights = None
        if set(self.weights) != {1.0}:
            weights = np.array([1.0] * len(rows) + self.weights, np.float32)
        return ExampleRows(together.store, together.format, together.targets, weights=weights)


def further_texts(config: FinetuneConfig, start: Model, data: Corpus, compute: Compute) -> FurtherTexts:
    """Return the texts that the run learns from besides the labelled rows of `data`.

    `start` is the encoder that the run starts from. Raises SettingError if `config.unlabelled` is set for a task that
    does not give each text one label, DataError if that file cannot be read.
    """
    # Where texts without a label may come from.
    file = config.unlabelled
    source = None
    if file is not None:
        source = "unlabelled"
    elif data.unlabelled is not None:
        source = "rows_without_label"
    found = FurtherTexts(source=source)

    # They need a task that gives each text one label, and add nothing to many labelled rows.
    suits = config.task.one_class_per_text and not data.paired
    if file is not None and not suits:
        kind = "has pairs of texts" if data.paired else f"is of task={config.task.name}"
        problem = f"unlabelled={file} needs a task that gives each text one label, and this run {kind}"
        raise SettingError(problem, remedy="Remove unlabelled")
    if not suits:
        return found
    classes = np.array(list(data.split("train").targets()))
    if len(classes) >= ENOUGH_LABELS * len(np.unique(classes)):
        if file is not None:
            why = f"with {ENOUGH_LABELS} labelled rows for each class or more, they add nothing"
            found.notes.append(f"The texts without a label (unlabelled) are not trained on: {why}")
        return found
    if source is None and not config.train_on_names:
        return found

    # The vectors of the encoder as pretrained.
    encoder = start.on(compute)
    labelled = Labelled(np.asarray(cached_vectors(encoder, data.split("train"), config.cache)), classes)

    # The names of the labels, each as a labelled row.
    names = Labelled(labelled.vectors[:0], classes[:0])
    if config.train_on_names:
        names = _add_names(found, encoder, labelled, data.labels)

    # Those texts without a label that a linear model is surest of.
    if source is not None:
        candidates = _unlabelled_texts(config, data)
        found.fingerprint = hashlib.sha256(repr([text_of(text) for text in candidates]).encode()).hexdigest()
        texts, given, note = _self_labelled(config, encoder, data, labelled, names, candidates)
        _add(found, texts, given, WEIGHT)
        found.notes.append(note)
    return found


# The names of the labels


def name_in_words(label: str) -> str:
    """Return the name of a label in words.

    >>> name_in_words("refund_request"), name_in_words("cardLost")
    ('refund request', 'card lost')
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", label)
    return " ".join(re.sub(r"[_\-./]+", " ", apart).lower().split())


def kappa_of_names(labelled: Labelled, names: np.ndarray) -> float:
    """Return Cohen's kappa of giving each labelled row the label whose name has the nearest vector: 0 is chance."""
    from sklearn.metrics import cohen_kappa_score

    nearest = (labelled.vectors @ names.T).argmax(1)
    kappa = float(cohen_kappa_score(labelled.classes, nearest))
    return 0.0 if np.isnan(kappa) else kappa  # it is not a number if all are the same


def _add_names(found: FurtherTexts, encoder: Model, labelled: Labelled, labels: Sequence[str]) -> Labelled:
    """Add the names of the labels to the texts if they say what the labelled rows are about; return their vectors."""
    names = [name_in_words(label) for label in labels]
    none = Labelled(labelled.vectors[:0], labelled.classes[:0])

    # Names that are numbers or codes say nothing, and two equal ones would contradict each other.
    worded = np.array([bool(_WORD.search(name)) for name in names])
    if worded.mean() < MOSTLY_WORDS or len(set(names)) < len(names):
        return none

    # They help where the encoder already sees a name near the rows of its label, which the labelled rows can tell.
    vectors = encoder.vectors(encoder.rows([TextExample(name) for name in names]), normalize=True)
    kappa = kappa_of_names(labelled, vectors)
    if kappa < LEAST_KAPPA_OF_NAMES:
        return none

    # A few names that are no words are left out, and the others become rows.
    ids = np.flatnonzero(worded)
    _add(found, [TextExample(names[id_]) for id_ in ids], ids, 1.0)
    why = f"the nearest name predicts labelled rows, kappa {kappa:.2f}"
    found.notes.append(f"The label names are trained on too, one row each (train_on_names): {why}")
    return Labelled(vectors[ids], ids)


def _add(found: FurtherTexts, texts: Sequence[Example], classes: np.ndarray, weight: float) -> None:
    found.texts.extend(texts)
    found.classes.extend(classes.tolist())
    found.weights.extend([weight] * len(classes))


# Texts that nobody has labelled


def _self_labelled(
    config: FinetuneConfig,
    encoder: Model,
    data: Corpus,
    labelled: Labelled,
    names: Labelled,
    texts: Sequence[Example],
) -> tuple[list[Example], np.ndarray, str]:
    """Return those of the unlabelled `texts` that self-training labels and their classes, none if that does not help,
    and a note on what was done.
    """
    # Labels of its own must be judged on rows held out of each class, so a class needs two.
    none = np.empty(0, np.int64)
    counts = np.unique(labelled.classes, return_counts=True)[1]
    if not texts or counts.min() < 2:
        why = "each label needs two rows" if texts else "all are blank or among the run's own rows"
        return [], none, f"No unlabelled text is trained on: {why}"

    # The encoder reads as many texts as it can in little time.
    looked_at = _evenly(texts)
    others = np.asarray(cached_vectors(encoder, _as_split(looked_at), config.cache))
    known = labelled.followed_by(names)

    # Labelled rows say whether such labels help, on validation if there is any, before they are given.
    with quietly():
        if data.has_validation:
            validation = data.split("validation")
            own = np.asarray(cached_vectors(encoder, validation, config.cache))
            judgement = judged_on(Labelled(own, np.array(list(validation.targets()))), known, others)
        else:
            judgement = judged_by_folds(labelled, others, names, config.seed)
        rows, given = self_label(known, others)

    # The note says what was decided in either case, because these texts were named to be used.
    candidates = counted(len(looked_at), "unlabelled text")
    if len(looked_at) < len(texts):
        candidates = f"{len(looked_at):,} of the {len(texts):,} unlabelled texts, evenly spaced,"
    if not judgement.favours_own_labels:
        return [], none, f"None of {candidates} is trained on: a linear model's labels do not help ({judgement})"
    note = f"Trained on {len(rows):,} of {candidates} too, as a linear model labelled them ({judgement})"
    return [looked_at[row] for row in rows], given, note


def _unlabelled_texts(config: FinetuneConfig, data: Corpus) -> list[Example]:
    """Return the texts of the file `unlabelled`, and the rows of the run's own file without a label; each text once,
    without those of labelled rows: of validation and test, too.
    """
    texts = [] if config.unlabelled is None else unlabelled_texts(config.unlabelled, config, data)
    if data.unlabelled is not None:
        texts += with_text(data.unlabelled)

    # A text that is scored must not be trained on, not even without its label.
    seen = {key_of(example) for split in data.by_name.values() for example in split}
    new = []
    for text in texts:
        key = key_of(text)
        if key not in seen:
            seen.add(key)
            new.append(text)
    return new


def _evenly(texts: Sequence[Example]) -> list[Example]:
    """Return as many of the texts, evenly spaced, as an encoder reads in little time."""
    # The time of an encoder grows with the characters, so their mean number says how many texts it can read.
    characters = sum(len(text_of(text)) for text in texts)
    most = min(MOST_FROZEN_ROWS, len(texts) * MOST_FROZEN_CHARACTERS // max(characters, 1))

    # They come from all parts of the file, which is often sorted.
    chosen = np.unique(np.linspace(0, len(texts) - 1, min(len(texts), max(most, 1))).astype(np.int64))
    return [texts[row] for row in chosen]


def _as_split(texts: Sequence[Example]) -> Split:
    return Split(pa.table({"text": [text_of(text) for text in texts]}))


# Self-training


@dataclass(frozen=True, slots=True)
class Labelled:
    """The vectors of labelled rows, [rows, features], and the class of each."""

    vectors: np.ndarray
    classes: np.ndarray

    def __len__(self) -> int:
        return len(self.classes)

    def take(self, rows: np.ndarray) -> Labelled:
        return Labelled(self.vectors[rows], self.classes[rows])

    def followed_by(self, other: Labelled) -> Labelled:
        """Return these rows and then the others."""
        vectors = np.concatenate([self.vectors, other.vectors])
        return Labelled(vectors, np.concatenate([self.classes, other.classes]))


@dataclass(frozen=True, slots=True)
class Judgement:
    """Cohen's kappa of the regression on labelled rows it has not learned from, without and with its own labels: 0 is
    chance, 1 no error. A few of these `n_rows` cannot tell the two apart.
    """

    without: float
    with_own_labels: float
    n_rows: int

    @property
    def favours_own_labels(self) -> bool:
        """Return whether the classes seem to be clusters of texts, and its own labels do no harm."""
        least = self.without if self.n_rows >= TELLING_ROWS else LEAST_KAPPA
        return self.without >= LEAST_KAPPA and self.with_own_labels >= least

    def __str__(self) -> str:
        return f"kappa {self.without:.2f}, with these labels {self.with_own_labels:.2f}"


def self_label(labelled: Labelled, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which of the unlabelled `others`, [texts, features], the regression labels, and the class of each."""
    model = fitted(labelled)
    most = min(FOR_EACH_CLASS * len(model.classes_), MOST_OF_TEXTS * len(others))

    # The first guesses are the least certain, so each round labels more texts, and labels all of them anew.
    for number in range(1, ROUNDS + 1):
        rows, given = _surest(model, others, most * number / ROUNDS)
        model = fitted(labelled, Labelled(others[rows], given))
    return rows, given


def _surest(model: LogisticRegression, others: np.ndarray, n: float) -> tuple[np.ndarray, np.ndarray]:
    """Return about `n` of the texts, with their classes: of each class those for which it is most probable, as many as
    its share of the predictions, but at least one.
    """
    probabilities = model.predict_proba(others)
    predicted = probabilities.argmax(1)

    # They are taken by class, because the surest of all texts are often those of a single one.
    rows = []
    for class_ in range(probabilities.shape[1]):
        members = np.flatnonzero(predicted == class_)
        n_members = max(round(n * len(members) / len(others)), 1)
        order = np.argsort(-probabilities[members, class_], kind="stable")
        rows.append(members[order[:n_members]])
    together = np.sort(np.concatenate(rows))
    return together, model.classes_[predicted[together]]


def fitted(labelled: Labelled, own: Labelled | None = None) -> LogisticRegression:
    """Return logistic regression fitted to labelled rows, and to others with its own labels."""
    weights = np.ones(len(labelled))
    if own is not None:
        # Its own labels may be wrong, so they weigh less.
        labelled = labelled.followed_by(own)
        weights = np.concatenate([weights, np.full(len(own), WEIGHT)])
    return logistic_regression(labelled.vectors, labelled.classes, weights)


def judged_on(tested: Labelled, labelled: Labelled, others: np.ndarray) -> Judgement:
    """Return how well the `tested` rows, such as those of validation, are predicted."""
    without, with_own_labels = _predicted(tested.vectors, labelled, others)
    return _judgement(tested.classes, without, with_own_labels)


def judged_by_folds(labelled: Labelled, others: np.ndarray, further: Labelled, seed: int) -> Judgement:
    """Return how well labelled rows are predicted by cross-validation; every fold also learns from the `further` ones.

    Each class must have two rows.
    """
    from sklearn.model_selection import StratifiedKFold

    # Each fold must hold out a row of every class, and leave one to learn from.
    classes = labelled.classes
    folds = min(FOLDS, int(np.unique(classes, return_counts=True)[1].min()))
    without = np.empty_like(classes)
    with_own_labels = np.empty_like(classes)
    for learned, tested in StratifiedKFold(folds, shuffle=True, random_state=seed).split(classes, classes):
        known = labelled.take(learned).followed_by(further)
        without[tested], with_own_labels[tested] = _predicted(labelled.vectors[tested], known, others)
    return _judgement(classes, without, with_own_labels)


def _predicted(tested: np.ndarray, labelled: Labelled, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what the regression predicts for the tested vectors, without and with its own labels."""
    # Labels are given anew here, because the regression must not have seen the tested rows.
    rows, given = self_label(labelled, others)
    models = (fitted(labelled), fitted(labelled, Labelled(others[rows], given)))
    without, with_own_labels = (np.asarray(model.predict(tested)) for model in models)
    return without, with_own_labels


def _judgement(classes: np.ndarray, without: np.ndarray, with_own_labels: np.ndarray) -> Judgement:
    from sklearn.metrics import cohen_kappa_score

    kappas = [float(cohen_kappa_score(classes, predicted)) for predicted in (without, with_own_labels)]
    return Judgement(*kappas, n_rows=len(classes))
