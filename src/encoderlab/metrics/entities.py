"""Entities in labels that mark them word by word: BIO (Ramshaw and Marcus 1995; IOB2) and BIOES, each as PREFIX-TYPE,
such as B-person.

B begins an entity, I continues it and O is outside. In BIOES, E ends an entity of several words and S is one of a
single word. Other letters mean the same: BILUO (spaCy) has L for E and U for S, BMES (Chinese words) M for I, and BMEWO
also W for S. Entities are counted as conlleval does, the scorer of CoNLL's shared tasks (Tjong Kim Sang and De Meulder
2003): an entity is right if its first word, its last and its type are. If labels are not a valid sequence, I or E
without anything before it that it could continue begins an entity. E and S are read as in seqeval, which extends
conlleval's rules to S.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics.own import OwnScore
from encoderlab.metrics.scores import (
    ClassScores,
    Metrics,
    columns_of_batches,
    cross_entropy_of_frequencies,
    f1_sample_size,
    in_order,
    precision_recall_f1,
    refuse_non_finite,
)

OUTSIDE = "O"
_TYPED = re.compile(r"([BIESLUMW])-(.+)", re.DOTALL)
# Schemes by the letters that they may have, each with the letter of BIOES that it means.
_SCHEMES = (
    {"B": "B", "I": "I", "E": "E", "S": "S"},
    {"B": "B", "I": "I", "L": "E", "U": "S"},
    {"B": "B", "M": "I", "E": "E", "S": "S"},
    {"B": "B", "M": "I", "E": "E", "W": "S"},
)
_UNTYPED = "_"  # the type of entities that have no name, as seqeval calls it


@dataclass(frozen=True, slots=True)
class EntityLabels:
    """Labels that mark entities, in the order of their ids: the prefix of BIOES that each means, and its type (None for
    O).

    `types` are the types of entities, sorted. `bioes` tells BIO from the others: whether any prefix is E or S.
    `letters` are those of the labels' own scheme, by those of BIOES.
    """

    prefixes: tuple[str, ...]
    types_of: tuple[str | None, ...]
    types: tuple[str, ...]
    bioes: bool
    letters: Mapping[str, str]


def entity_labels(names: Sequence[str]) -> EntityLabels | None:
    """Return the labels as entity labels; None if they are not BIO, BIOES or the same with other letters.

    They are if each is O or begins with a prefix, and any is B or I. Without types (B, I, O), there have to be both, or
    B and M.
    """
    if set(names) <= set("OBIESLUMW"):
        pairs = [(name, None if name == OUTSIDE else _UNTYPED) for name in names]
        is_scheme = {"B", "I"} <= set(names) or {"B", "M"} <= set(names)
    else:
        matches = [_TYPED.fullmatch(name) for name in names]
        pairs = [(match[1], match[2]) if match else (name, None) for name, match in zip(names, matches, strict=True)]
        whole = all(match or name == OUTSIDE for name, match in zip(names, matches, strict=True))
        is_scheme = whole and any(prefix in "BI" for prefix, _ in pairs)
    used = {prefix for prefix, _ in pairs} - {OUTSIDE}
    scheme = next((letters for letters in _SCHEMES if used <= letters.keys()), None)
    if not is_scheme or scheme is None:
        return None
    meant = scheme | {OUTSIDE: OUTSIDE}
    prefixes = tuple(meant[prefix] for prefix, _ in pairs)
    types_of = tuple(kind for _, kind in pairs)
    types = tuple(sorted({kind for kind in types_of if kind is not None}))
    letters = {meaning: letter for letter, meaning in scheme.items()}
    return EntityLabels(prefixes, types_of, types, bool({"E", "S"} & set(prefixes)), letters)


@dataclass(frozen=True, slots=True)
class Spans:
    """The entities of consecutive sentences, one at each word that begins one.

    All are [words]: `begins` tells whether a word begins one, `end` is the word after the entity that contains it
    (undefined outside), `kind` is the index of the type in `EntityLabels.types`, -1 outside.
    """

    begins: np.ndarray
    end: np.ndarray
    kind: np.ndarray


def entities_of(labels: EntityLabels, ids: np.ndarray, lengths: np.ndarray) -> Spans:
    """Return the entities of sentences of `lengths` words with the label ids `ids`, [words], -1 (unknown) being O."""
    prefixes = np.array([*labels.prefixes, "O"])[ids]
    type_ids = [-1 if type_ is None else labels.types.index(type_) for type_ in labels.types_of]
    kinds = np.array([*type_ids, -1])[ids]
    firsts = np.zeros(len(ids) + 1, bool)
    firsts[np.cumsum(lengths) - lengths] = True
    firsts = firsts[:-1]
    before = np.where(firsts, "O", np.roll(prefixes, 1))
    kinds_before = np.where(firsts, -1, np.roll(kinds, 1))
    begins = np.isin(prefixes, ("B", "S")) | np.isin(before, ("O", "E", "S")) | (kinds != kinds_before)
    begins &= prefixes != "O"
    boundaries = np.append(np.flatnonzero(begins | firsts | (prefixes == "O")), len(ids))
    end = boundaries[np.searchsorted(boundaries, np.arange(len(ids)), side="right")] if len(ids) else boundaries[:0]
    return Spans(begins, end, kinds)


FORBIDDEN = -1e4  # added to log-probabilities; finite, so that the least invalid sequence is found if none is valid


class ValidDecoder:
    """Finds the likeliest valid label sequences of a batch of sentences by Viterbi's algorithm (1967)."""

    def __init__(self, labels: EntityLabels) -> None:
        prefixes = np.array(labels.prefixes)
        kinds = np.array(labels.types_of, object)
        continues = np.isin(prefixes, ("I", "E"))
        is_open = np.isin(prefixes, ("B", "I"))
        unfinished = is_open & labels.bioes  # in BIO an entity may end after any of its words
        same_kind = kinds[:, None] == kinds
        follows = np.where(continues, is_open[:, None] & same_kind, ~unfinished[:, None])
        self.begin = _log_allowed(~continues)
        self.end = _log_allowed(~unfinished)
        self.transitions = _log_allowed(follows)

    def flags(self) -> dict[str, Any]:
        """Return which labels may begin and end a sentence, and which may follow each: a 1 for each that may."""
        follows = [_flags(row) for row in self.transitions]
        return {"begin": _flags(self.begin), "end": _flags(self.end), "follows": follows}

    def decode(self, logits: Tensor, row: Tensor, n_rows: int, longest: int) -> Tensor:
        """Return the id of each word's label, int64 [words], from `logits` [words, labels].

        `row`, [words] and rising, says which of the `n_rows` sentences a word belongs to; none has more words than
        `longest`. On a GPU, nothing here waits for it.
        """
        place = torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)
        counts = torch.zeros(n_rows, dtype=torch.long, device=row.device).index_add_(0, row, torch.ones_like(row))
        scores = logits.new_zeros(n_rows, longest, logits.shape[1])
        scores[row, place] = logits.log_softmax(-1)
        return self._best_paths(scores, counts)[row, place]

    def _best_paths(self, scores: Tensor, counts: Tensor) -> Tensor:
        """Return the best labels of sentences of `counts` words, padded: [rows, longest, labels] -> [rows, longest]."""
        begin, end, transitions = (part.to(scores) for part in (self.begin, self.end, self.transitions))
        unchanged = torch.arange(scores.shape[2], device=scores.device).expand(len(scores), -1)
        best = scores[:, 0] + begin
        came_from = []
        for step in range(1, scores.shape[1]):
            reached, previous = (best[:, :, None] + transitions).max(1)
            continues = (step < counts)[:, None]
            best = torch.where(continues, reached + scores[:, step], best)
            came_from.append(torch.where(continues, previous, unchanged))
        label = (best + end).argmax(-1, keepdim=True)
        path = [label]
        for previous in reversed(came_from):
            label = previous.gather(1, label)
            path.append(label)
        return torch.cat(path[::-1], 1)


def _log_allowed(allowed: np.ndarray) -> Tensor:
    """Return what is added to log-probabilities: nothing to those that are allowed."""
    return torch.where(torch.from_numpy(allowed), 0.0, FORBIDDEN)


def _flags(log_allowed: Tensor) -> str:
    return "".join("1" if each == 0 else "0" for each in log_allowed.tolist())


def repaired(labels: EntityLabels, ids: np.ndarray, lengths: np.ndarray) -> list[str]:
    """Return valid label names for the entities of sentences, [words]; the arguments are those of `entities_of`.

    IOB1, in which B only separates neighbours of one type, becomes BIO.
    """
    spans = entities_of(labels, ids, lengths)
    last = spans.end == np.arange(1, len(ids) + 1)
    if labels.bioes:
        prefixes = np.select([spans.begins & last, spans.begins, last], ["S", "B", "E"], "I")
    else:
        prefixes = np.where(spans.begins, "B", "I")
    suffixes = ["" if kind == _UNTYPED else f"-{kind}" for kind in labels.types]
    return [
        OUTSIDE if kind < 0 else labels.letters[prefix] + suffixes[kind]
        for prefix, kind in zip(prefixes.tolist(), spans.kind.tolist(), strict=True)
    ]


@dataclass(frozen=True, kw_only=True)
class TaggingScores(ClassScores):
    """The scores of one split. `labels` and `predicted` hold an array of class ids for each sentence, `confidences` the
    probability of each prediction, if known.

    Over all target positions: `token_accuracy`, `f1_macro`, `f1_weighted`; `accuracy` is the share of sentences that
    are right at every one, among those with any. Where labels are BIO or BIOES also `entity_precision`,
    `entity_recall`, `entity_f1`, and `per_entity` has them and the support (how many there are) of each type of entity.
    Sentences are drawn whole for intervals, because their words are not independent.
    """

    NAMES = ("accuracy", "token_accuracy", "f1_macro", "f1_weighted")
    per_entity: dict[str, dict[str, Any]] = field(default_factory=dict)
    confidences: list[np.ndarray] | None = None

    def in_words(self, predicted: Sequence[np.ndarray]) -> list[list[str]]:
        return [[self.label_names[id_] for id_ in ids.tolist()] for ids in predicted]

    def kinds(self, *others: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        has_words = np.array([len(sentence) > 0 for sentence in self.labels], bool)
        columns = [self._columns(side)[has_words] for side in (self.predicted, *others)]
        return np.stack(columns, axis=1), np.ones(has_words.sum(), np.int64)

    def loss_of_frequencies(self, weights: np.ndarray | None = None) -> float:
        return cross_entropy_of_frequencies(np.concatenate(self.labels), len(self.label_names), weights)

    def _columns(self, predicted: Sequence[np.ndarray]) -> np.ndarray:
        """Return what each sentence adds: the columns of classes; right, true and predicted entities of each type."""
        classes = len(self.label_names)
        lengths = np.array([len(sentence) for sentence in self.labels], np.int64)
        sentence = np.repeat(np.arange(len(lengths)), lengths)
        no_words = np.empty(0, np.int64)
        true = np.concatenate([no_words, *self.labels])
        other = np.concatenate([no_words, *predicted])

        def counted(where: np.ndarray, ids: np.ndarray, kinds: int) -> np.ndarray:
            cells = sentence[where] * kinds + ids[where]
            return np.bincount(cells, minlength=len(lengths) * kinds).reshape(len(lengths), kinds)

        # What labels say of words.
        hits = counted(true == other, true, classes)
        n_true = counted(true >= 0, true, classes)
        n_predicted = counted(other >= 0, other, classes)
        columns = self.columns(hits.sum(1) == lengths, hits, n_true, n_predicted)
        scheme = entity_labels(self.label_names)
        if scheme is None:
            return columns

        # What they say of entities: one is right if its words and its type are.
        gold = entities_of(scheme, true, lengths)
        guess = entities_of(scheme, other, lengths)
        right = guess.begins & gold.begins & (guess.end == gold.end) & (guess.kind == gold.kind)
        types = len(scheme.types)
        entities = [
            counted(right, gold.kind, types),
            counted(gold.begins, gold.kind, types),
            counted(guess.begins, guess.kind, types),
        ]
        return np.concatenate([columns, *entities], axis=1)

    def _entities(self, totals: np.ndarray) -> np.ndarray:
        """Return rightly predicted, true and predicted entities of each type: [..., 3, types]."""
        return totals[..., 2 + 3 * len(self.label_names) :].reshape(*totals.shape[:-1], 3, -1)

    def scores_of(self, totals: np.ndarray) -> dict[str, np.ndarray]:
        scores = super().scores_of(totals)
        entities = self._entities(totals)
        if entities.size:
            overall = precision_recall_f1(entities.sum(-1, keepdims=True))
            scores |= {f"entity_{name}": score[..., 0] for name, score in overall.items()}
        return scores

    def sample_sizes(self, totals: np.ndarray) -> dict[str, float]:
        sizes = super().sample_sizes(totals)
        entities = self._entities(totals)
        if entities.size:
            overall = entities.sum(-1)
            sizes["entity_recall"] = float(overall[1])
            sizes["entity_precision"] = float(overall[2])
            sizes["entity_f1"] = f1_sample_size(overall)
        return sizes

    def counts_by_class(self, totals: np.ndarray) -> dict[str, tuple[Sequence[str], np.ndarray]]:
        scheme = entity_labels(self.label_names)
        entities = {} if scheme is None else {"per_entity": (scheme.types, self._entities(totals))}
        return super().counts_by_class(totals) | entities

    def on_scored_rows(self, predicted: Any) -> list[np.ndarray]:
        """Return the predictions for the scored rows, without those for words beyond the model's reach."""
        return [predicted[row][: len(labels)] for row, labels in zip(self.rows, self.labels, strict=True)]

    def details(self) -> dict[str, Any]:
        return {**({"per_entity": self.per_entity} if self.per_entity else {}), **super().details()}


@dataclass(frozen=True)
class TaggingMetrics(Metrics):
    """Scores a prediction for each target position, which `decode` picks among the `labels`, in the order of ids."""

    labels: list[str]
    main_score: str
    decode: Callable[[Tensor, Batch], Tensor]  # from the logits of a batch's target positions to label ids
    own: OwnScore | None = None

    def columns(self, prediction: Prediction, batch: Batch) -> tuple[Tensor, ...]:
        """Return the rows, [batch]; the row of each target, its label, prediction, loss and confidence, [targets]."""
        # Predictions, confidences and losses, not logits: those would be tokens times classes.
        assert prediction.token_logits is not None, "only a model with a head for tokens can be scored here"
        assert batch.token_labels is not None, "only labelled examples can be scored"
        logits = prediction.token_logits.detach().float()
        labels = batch.token_labels.long()
        row = batch.rows[batch.target_positions // batch.input_ids.shape[1]]
        losses = cross_entropy(logits, labels, reduction="none")
        predicted = self.decode(logits, batch)
        predicted_logits = logits.gather(1, predicted[:, None])[:, 0]
        confidences = (
            (predicted_logits - logits.logsumexp(-1)).exp().clamp(max=1)
        )  # rounding may bring them a hair above
        return (batch.rows, row, labels, predicted, losses, confidences)

    def scores(self, kept: Sequence[tuple[Tensor, ...]]) -> TaggingScores:
        """Return `loss` (mean cross entropy of a target, in nats) and the scores of `TaggingScores`."""
        all_rows, row, labels, predicted, losses, confidences = columns_of_batches(kept)
        _, rows = in_order(all_rows)
        order = row.argsort(stable=True)  # positions within a row are already in ascending order
        assert len(losses), "no position was a target"
        refuse_non_finite(losses.numpy())
        starts = np.searchsorted(row[order].numpy(), rows[1:])
        labels_of_rows = np.split(labels[order].numpy(), starts)
        predicted_of_rows = np.split(predicted[order].numpy(), starts)
        confidences_of_rows = np.split(confidences.double()[order].numpy(), starts)
        losses_of_rows = np.split(losses.double()[order].numpy(), starts)
        return TaggingScores.from_predictions(
            labels_of_rows,
            predicted_of_rows,
            rows=rows,
            loss=float(losses.double().mean()),
            losses=np.array([part.mean() if len(part) else np.nan for part in losses_of_rows]),
            own=self.own,
            label_names=self.labels,
            main_score=self.main_score,
            confidences=confidences_of_rows,
        )
