"""Whether new texts are like those that a run was trained on, and whether its scores still hold for them.

The texts are compared as vectors of the shipped encoder, which the run has not trained: its own would differ between
rows that it has learned from and any others. What that encoder cannot read is compared by its letters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from encoderlab.data.data import Data
from encoderlab.data.examples import Example, Split, WordsExample, text_of, texts_of
from encoderlab.data.survey import hashed
from encoderlab.errors import DataError
from encoderlab.metrics.intervals import WILSON_Z, wilson
from encoderlab.metrics.languages import UNCLEAR, languages, scripts
from encoderlab.metrics.novelty import TwoSampleTest, two_sample_test
from encoderlab.models.frozen import frozen_vectors
from encoderlab.models.model import Model
from encoderlab.reports.wording import counted
from encoderlab.shipped import SHIPPED
from encoderlab.tasks.task import RowPrediction

MOST_ROWS = 5_000  # of either side, spread evenly
LEAST_TEXTS = 20
FEW_TEXTS = 200  # below which only large changes show
SIGNIFICANT = 0.05  # p-value, and the share of texts like the training texts that may seem unlike them
MANY_UNLIKE = 0.1
RARE = 0.05  # share of the training rows in a language, below which the run's scores say little about it
MUCH_MORE = 3  # times its training share, which a rare language must exceed to count: a file with the same mix has none
MOST_NAMED = 3
MAIN = 0.9  # share of the texts in rare languages: the languages that cover it are named, up to MOST_NAMED
CLEAR = 0.55  # area under the ROC curve: of one that is higher, at least a tenth of the texts has changed
LEAST_ALIKE = 10  # texts that are shown
LETTERS = (2, 4)  # of the n-grams by which texts are compared that no encoder here reads
DIMENSIONS = 256  # of their vectors
TRAINING = "training rows"  # the sides that are compared
HELD_OUT = "held-out rows"
NEW = "new texts"
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class NewTexts:
    """At most MOST_ROWS of the `n` texts of a file, and where each was read."""

    examples: list[Example]
    where: list[str]
    n: int

    @property
    def split(self) -> Split:
        """Return the texts as a split without labels."""
        import pyarrow as pa

        if isinstance(self.examples[0], WordsExample):
            return Split(pa.table({"words": [getattr(example, "words", ()) for example in self.examples]}))
        pairs = [texts_of(example) for example in self.examples]
        columns = dict(zip(("text", "text_pair"), map(list, zip(*pairs, strict=True)), strict=False))
        return Split(pa.table(columns))


def new_texts(examples: Iterable[Example], path: str, model: Model) -> NewTexts:
    """Return some of a file's texts, spread evenly, as the model reads them. Raises DataError if they are too few."""
    if isinstance(examples, Split):
        n = len(examples)
        chosen = examples.evenly(MOST_ROWS)
        where = [chosen.where(row).removeprefix(f"{path}, ") for row in range(len(chosen))]
        read = list(chosen)
    else:
        lines = list(examples)
        n = len(lines)
        rows = np.linspace(0, n - 1, min(n, MOST_ROWS)).round().astype(int).tolist()
        where = [f"line {row + 1}" for row in rows]
        read = [lines[row] for row in rows]
    if n < LEAST_TEXTS:
        raise DataError(
            f"{path} has {counted(n, 'text')}", allowed=f"at least {LEAST_TEXTS}", remedy="Collect more texts"
        )
    if model.strips_html:
        read = [example.without_html() for example in read]
    return NewTexts(read, where, n)


def training_data(model: Model, run: str, cache: Path) -> Data:
    """Return the run's own dataset. Raises DataError if its training rows are gone, or no longer the same."""
    data = model.own_rows(cache)
    if data.fingerprints()["train"] != model.origin.fingerprints.get("train"):
        problem = f"The training rows of {run} have changed since it was trained, so nothing can be compared with them"
        raise DataError(problem, remedy="Restore them, or train again")
    return data


@dataclass(frozen=True, slots=True)
class Drift:
    """How new texts differ from the training rows: the `facts`, in JSON's types, and what is plotted of single texts.

    `similarities` are the cosines between texts and the nearest training text, `lengths` are in words: arrays [texts]
    by the name of their side, the new texts last.
    """

    facts: dict[str, Any]
    similarities: dict[str, np.ndarray]
    lengths: dict[str, np.ndarray]


def drift(model: Model, data: Data, new: NewTexts) -> Drift:
    """Return how new texts differ from the training rows of the model."""
    train = data.split("train")
    known = train.evenly(MOST_ROWS)
    lengths = {TRAINING: hashed(known).lengths, NEW: hashed(new.split).lengths}

    # Can a linear model tell both sides apart, and are the new texts further from training than held-out rows are?
    held_out = _held_out(data)
    read, compared_by = _reader(model, known, [new.split] if held_out is None else [new.split, held_out])
    vectors = read(known)
    others = read(new.split)
    test = two_sample_test(vectors, others)
    if held_out is None:
        similarities = {f"{TRAINING} (nearest other row)": _similarities(vectors, vectors, are_same=True)}
    else:
        similarities = {HELD_OUT: _similarities(read(held_out), vectors)}
    similarities[NEW] = _similarities(others, vectors)

    facts: dict[str, Any] = {
        "new": {"texts": new.n, "read": len(new.examples), **_texts_facts(model, new.split, train, lengths[NEW])},
        "train": {"texts": len(train), "read": len(known), **_texts_facts(model, known, None, lengths[TRAINING])},
        "two_sample_test": {"auc": test.auc, "p_value": test.p_value, "compared_by": compared_by},
        "similarity_median": {
            "train" if held_out is None else "held_out": float(np.median(next(iter(similarities.values())))),
            "new": float(np.median(similarities[NEW])),
        },
        "least_alike": _least_alike(similarities[NEW], new),
    }

    # What else speaks against the run's scores?
    doubts: list[str] = []
    _doubt_languages(facts, doubts)
    if model.config.task.one_class_per_text:
        predictions = model.predictions(new.examples)
        facts["labels"] = _label_facts(model, data, predictions)
        facts["mean_confidence"] = _mean_confidence(model, data, predictions, doubts)
        facts["unlike_training"] = _unlike_training(model, predictions, doubts)
    facts["changed"] = test.p_value < SIGNIFICANT
    facts["verdict"] = _verdict(test, doubts, n=len(new.examples))
    return Drift(facts, similarities, lengths)


def _held_out(data: Data) -> Split | None:
    """Return at most MOST_ROWS rows that the run was not trained on; None if there are none."""
    split = next((data.by_name[name] for name in ("validation", "test") if name in data.by_name), None)
    return None if split is None else split.evenly(MOST_ROWS)


def _reader(model: Model, known: Split, others: Sequence[Split]) -> tuple[Callable[[Split], np.ndarray], str]:
    """Return a function from one of these splits to vectors of its texts, [texts, features], and by what these are
    compared.
    """
    read = frozen_vectors(known, model.config.tokenizer, model.compute)
    if not isinstance(read, str):
        return read, f"vectors of {SHIPPED}"
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    # All splits are counted: n-grams of an uncounted one alone would be ignored, and it would seem more alike.
    texts = [text_of(example) for example in chain(known, *others)]
    counts = TfidfVectorizer(analyzer="char", ngram_range=LETTERS, max_features=50_000, sublinear_tf=True)
    sparse = counts.fit_transform(texts)
    dimensions = min(DIMENSIONS, *(size - 1 for size in sparse.shape))
    reduction = TruncatedSVD(dimensions, random_state=0).fit(sparse)

    def read_letters(split: Split) -> np.ndarray:
        return reduction.transform(counts.transform(map(text_of, split)))

    return read_letters, "letters"


def _similarities(vectors: np.ndarray, known: np.ndarray, *, are_same: bool = False) -> np.ndarray:
    """Return the cosine of each vector with the nearest of the `known` ones: [rows]. If both are the same rows, with
    the nearest other one.
    """
    from sklearn.preprocessing import normalize

    nearest: Any = normalize(known)
    cosines = np.asarray(normalize(vectors) @ nearest.T)
    if are_same:
        np.fill_diagonal(cosines, -1.0)
    return cosines.max(1)


def _texts_facts(model: Model, texts: Split, train: Split | None, lengths: np.ndarray) -> dict[str, Any]:
    """Return the `lengths` of texts in words, the shares of tokens and words that are new to the model, and the shares
    of texts in each script and language.

    New words occur in no text of `train`; of training texts (None), in no other one.
    """
    ids, _ = model.tokenizer.encode_flat(list(texts.texts()))
    counts = Counter(chain.from_iterable(map(_words, texts.texts())))
    if train is None:
        rows = Counter(chain.from_iterable(set(_words(text)) for text in texts.texts()))
        unseen = {word for word, n in rows.items() if n == 1}
    else:
        unseen = counts.keys() - set(chain.from_iterable(map(_words, train.evenly(MOST_ROWS).texts())))
    return {
        "words_median": float(np.median(lengths)),
        "words_p95": float(np.percentile(lengths, 95)),
        "unknown_tokens": float((ids == model.tokenizer.unk_id).mean()) if len(ids) else 0.0,
        "new_words": sum(counts[word] for word in unseen) / max(counts.total(), 1),
        "scripts": scripts(texts.texts()),
        "languages": languages(texts.texts()),
    }


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _least_alike(similarities: np.ndarray, new: NewTexts) -> list[dict[str, Any]]:
    """Return the new texts whose most similar training text is least similar."""
    facts = []
    for row in np.argsort(similarities, kind="stable")[:LEAST_ALIKE].tolist():
        shown = {"where": new.where[row], "similarity": float(similarities[row]), "text": text_of(new.examples[row])}
        facts.append(shown)
    return facts


def _doubt_languages(facts: dict[str, Any], doubts: list[str]) -> None:
    """If many new texts are in languages that hardly any training row is in (scripts, if languages are not known), that
    is one of the `doubts`.
    """
    kind = "scripts" if facts["new"]["languages"] is None else "languages"
    train = facts["train"][kind]
    foreign = {}
    for name, share in facts["new"][kind].items():
        if name != UNCLEAR and train.get(name, 0.0) < min(RARE, share / MUCH_MORE):
            foreign[name] = share
    total = sum(foreign.values())
    if wilson(total, facts["new"]["read"])[0] > MANY_UNLIKE:
        n_main = int(np.searchsorted(np.cumsum(list(foreign.values())), MAIN * total)) + 1  # the most frequent first
        named = ", ".join(list(foreign)[: min(n_main, MOST_NAMED)])
        more = f" and {n_main - MOST_NAMED} more" if n_main > MOST_NAMED else ""
        doubts.append(f"{total:.0%} of them are in {kind} that are rare in training ({named}{more})")


def _label_facts(model: Model, data: Data, predictions: Sequence[RowPrediction]) -> dict[str, dict[str, Any]]:
    """Return for each label its share of the training rows, and of the predictions with its 95% interval."""
    trained = data.survey["train"].labels
    counts = Counter(prediction.labels[0] for prediction in predictions)
    n = len(predictions)
    facts = {}
    for label in model.labels:
        share = counts[label] / n
        train_share = trained[label] / max(sum(trained.values()), 1)
        facts[label] = {"train": train_share, "predicted": share, "predicted_ci95": wilson(share, n)}
    return facts


def _mean_confidence(
    model: Model, data: Data, predictions: Sequence[RowPrediction], doubts: list[str]
) -> dict[str, float]:
    """Return the mean probability of what is predicted for new texts, and for rows that were held out from training.

    If it is clearly lower for new texts, that is one of the `doubts`.
    """
    new = _confidences(predictions)
    facts = {"new": float(new.mean())}
    held_out = _held_out(data)
    if held_out is None:
        return facts
    usual = _confidences(model.predictions(list(held_out)))
    error = (new.var() / len(new) + usual.var() / len(usual)) ** 0.5
    if usual.mean() - new.mean() > WILSON_Z * error:
        doubts.append("the model is less sure of them")
    return facts | {"held_out": float(usual.mean())}


def _unlike_training(model: Model, predictions: Sequence[RowPrediction], doubts: list[str]) -> dict[str, float] | None:
    """Return the share of new texts to which the setting `unlike_training` gives no label, and the share of texts like
    the training texts, which is its value; None if the model cannot tell.

    If it is clearly more, that is one of the `doubts`.
    """
    if model.novelty is None:
        return None
    abstention = model.abstention(unlike_training=SIGNIFICANT)
    share = float(np.mean([abstention.reason(1.0, prediction.novelty) is not None for prediction in predictions]))
    if wilson(share, len(predictions))[0] > MANY_UNLIKE:
        doubts.append(f"{share:.0%} of them are unlike the training texts")
    return {"expected": SIGNIFICANT, "new": share}


def _confidences(predictions: Sequence[RowPrediction]) -> np.ndarray:
    return np.array([max(prediction.probabilities or (0.0,)) for prediction in predictions])


def _verdict(test: TwoSampleTest, doubts: Sequence[str], n: int) -> str:
    """Return in a sentence or two whether the scores of the run can be believed for `n` new texts."""
    if test.p_value >= SIGNIFICANT:
        few = f" With fewer than {FEW_TEXTS} texts, only large changes show." if n < FEW_TEXTS else ""
        return f"The new texts do not differ noticeably from the training rows: the run's scores can be believed.{few}"
    if doubts:
        return f"The new texts differ: {' and '.join(doubts)}. Do not believe the run's scores for them."
    if test.auc < CLEAR:
        return "The new texts differ, but only a little: the run's scores should nearly hold."
    return "The new texts differ, so the run's scores may not hold for them: label some to find out."
