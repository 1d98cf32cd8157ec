"""Pretraining: masked tokens and next sentences (Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from encoderlab.errors import DataError, SettingError
from encoderlab.network.config import HeadSizes
from encoderlab.settings import setting
from encoderlab.tasks.task import INSTEAD, RowPrediction, Task, TaskConfig

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from encoderlab.batch import Batch, Prediction
    from encoderlab.data.tokenizers import Tokenizer
    from encoderlab.metrics.pretraining import PretrainingMetrics

PAIR_LABELS = ["follows", "random"]  # in the order of BERT's code: 0 means that the second text follows
_CHOICE, _KIND, _REPLACEMENT = range(3)  # the purposes of random numbers
_BITS = 24  # of each random number: as many as a float32 holds


class SecondSentence(Enum):
    """What to predict for a pair: whether the second text follows the first (BERT), or no pairs at all."""

    next = "next"
    none = "none"


@dataclass
class DocumentTaskConfig(TaskConfig):
    """A task learned from documents, without labels."""

    of_documents: ClassVar[bool] = True

    min_characters: int = setting(50, "Shorter paragraphs are skipped.", minimum=0)
    min_sentences: int = setting(3, "Paragraphs of fewer sentences are skipped.", minimum=1)
    language: str | None = setting(
        None, "Language of the sentence splitter, such as german (NLTK's punkt_tab); null: the dataset's."
    )
    row_length: int | None = setting(
        None, "Most tokens in a row, with special tokens; null: model.max_length.", minimum=8, maximum=1048576
    )

    @property
    def paired(self) -> bool:
        """Return whether a row is a pair of texts."""
        return False


@dataclass
class PretrainingConfig(DocumentTaskConfig):
    """Masked tokens, and whether one text follows another."""

    command: ClassVar[str] = "pretrain"

    second_sentence: SecondSentence = setting(
        SecondSentence.next, "next (does it follow?) or none (masked tokens only)."
    )
    mlm_probability: float = setting(0.15, "Share of the ordinary tokens to predict.", above=0, below=1)
    mask_replace_prob: float = setting(
        0.8, "Share of the predicted tokens that the mask token replaces.", minimum=0, maximum=1
    )
    random_replace_prob: float = setting(
        0.1,
        "Share of the predicted tokens that a random token replaces; the rest stay unchanged.",
        minimum=0,
        maximum=1,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mask_replace_prob + self.random_replace_prob > 1:
            raise SettingError("task.mask_replace_prob plus task.random_replace_prob is more than 1")

    def build(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int) -> Pretraining:
        return Pretraining(self, tokenizer, max_length)

    @property
    def paired(self) -> bool:
        return self.second_sentence is SecondSentence.next

    def main_score_of(self, labels: Sequence[str]) -> str:
        return "mlm_accuracy"


class Pretraining(Task):
    """Predicts the masked tokens and, for a pair, whether the second text follows.

    A fixed share of the ordinary tokens of each row is selected for prediction, and most of them are hidden. Special
    tokens, including the unknown one, are neither predicted nor used as replacements. A draw is a hash of a key, the
    row and the position, not a generator's next number: a row is masked alike in any batch, on any device, in any
    number of micro-batches. Evaluations use one fixed key.

    Raises DataError if the tokenizer has no mask token.
    """

    config: PretrainingConfig

    def __init__(self, config: PretrainingConfig, tokenizer: Tokenizer, max_length: int) -> None:
        import torch

        labels = PAIR_LABELS if config.paired else []
        super().__init__(config, tokenizer, labels, max_length, config.main_score_of(labels))
        if tokenizer.mask_id is None:
            remedy = "Set tokenizer=wordpiece, or tokenizer=bert_base_uncased"
            raise DataError("The tokenizer has no mask token", remedy=remedy)
        self.mask_id = tokenizer.mask_id
        self.heads = HeadSizes(sequence_classes=len(self.labels) or None, vocabulary=True)
        pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        self.is_ordinary = np.array([piece != "" for piece in pieces])
        self.is_ordinary[list(tokenizer.special_ids)] = False
        ordinary = torch.from_numpy(np.flatnonzero(self.is_ordinary))
        self._tables = {torch.device("cpu"): (ordinary, torch.from_numpy(self.is_ordinary))}

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy has: its tables are those on the CPU, as it may be used where there is no such device."""
        import torch

        cpu = torch.device("cpu")
        return self.__dict__ | {"_tables": {cpu: self._tables[cpu]}}

    def metrics(self) -> PretrainingMetrics:
        from encoderlab.metrics.pretraining import PretrainingMetrics

        return PretrainingMetrics(self.config.second_sentence.value if self.labels else None)

    def predictions(self, prediction: Prediction, batch: Batch) -> list[RowPrediction]:
        """Return the relation of each row's second text to the first. Raises DataError without training on pairs."""
        if prediction.sequence_logits is None:
            problem = "This model was pretrained with task.second_sentence=none and predicts nothing for a whole text"
            raise DataError(problem, remedy=INSTEAD)
        return self.predictions_of(prediction.sequence_logits)

    def with_targets(self, batch: Batch, key: int) -> Batch:
        """Return `batch` with its `target_positions`, their true ids as `token_labels`, and the masked `input_ids`.

        It is masked on its device without waiting for it, as `n_targets` says how many targets there are. For MPS it is
        masked on the CPU: up to PyTorch 2.12, sorting 64-bit integers loses bits there.
        """
        import torch

        ids = batch.input_ids
        device = ids.device
        if device.type == "mps":
            return self.with_targets(batch.to(torch.device("cpu")), key).to(device)
        assert batch.n_targets is not None, "see `count_targets`"
        is_target = self.choose(ids, batch.rows, key).flatten()
        target_positions = torch.nonzero_static(is_target, size=batch.n_targets).flatten()
        labels = ids.flatten()[target_positions]
        row = batch.rows[target_positions // ids.shape[1]]
        place = target_positions % ids.shape[1]
        kind = uniform(key, _KIND, row, place)
        ordinary, _ = self._tables_on(device)
        drawn = ordinary[(uniform(key, _REPLACEMENT, row, place) * len(ordinary)).long()]
        masked = self.config.mask_replace_prob
        random = self.config.mask_replace_prob + self.config.random_replace_prob
        seen = torch.where(kind < masked, self.mask_id, torch.where(kind < random, drawn, labels))
        hidden = ids.flatten().index_copy(0, target_positions, seen).view_as(ids)
        return replace(batch, input_ids=hidden, target_positions=target_positions, token_labels=labels)

    def count_targets(self, flat: np.ndarray, lengths: np.ndarray) -> int:
        """Return how many tokens will be predicted in the sequences, none empty, that follow one another in `flat`."""
        import torch

        ordinary = np.add.reduceat(self.is_ordinary[flat], np.cumsum(lengths) - lengths, dtype=np.int64)
        return int(self._n_targets(torch.from_numpy(ordinary)).sum())

    def choose(self, ids: Tensor, rows: Tensor, key: int) -> Tensor:
        """Return True at the tokens to predict: [batch, length].

        In each row they are `mlm_probability` of the ordinary tokens, rounded, and at least one if there is any.
        """
        import torch

        ordinary = self._tables_on(ids.device)[1][ids]
        n_targets = self._n_targets(ordinary.sum(1, keepdim=True))
        # the order of selection within each row: ties go to the first token, and other tokens than ordinary come last
        positions = torch.arange(ids.shape[1], device=ids.device)
        drawn = _hash(key, _CHOICE, rows[:, None], positions).masked_fill_(~ordinary, 2**_BITS)
        keys = drawn.mul_(2**32).add_(positions)
        # the most targets in any row: finding the first few takes an eighth of the time of sorting all
        most = int(self._n_targets(torch.tensor(ids.shape[1])))
        last = keys.topk(most, dim=1, largest=False).values.gather(1, (n_targets - 1).clamp(min=0))
        return (keys <= last) & ordinary

    def _n_targets(self, ordinary: Tensor) -> Tensor:
        """Return how many of the ordinary tokens to predict: the host's count must agree with the device's choice."""
        return (self.config.mlm_probability * ordinary).round().long().clamp(min=1).minimum(ordinary)

    def _tables_on(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """Return the ordinary ids, and whether each id is one, on `device`: moved once, as the host waits for it."""
        if device not in self._tables:
            import torch

            ordinary, is_ordinary = self._tables[torch.device("cpu")]
            self._tables[device] = ordinary.to(device), is_ordinary.to(device)
        return self._tables[device]


def uniform(key: int, purpose: int, rows: Tensor, positions: Tensor) -> Tensor:
    """Return a number in [0, 1) for each row and position: a hash of them, `key` and `purpose`."""
    return _hash(key, purpose, rows, positions).float() * 2.0**-_BITS


def _hash(key: int, purpose: int, rows: Tensor, positions: Tensor) -> Tensor:
    """Return 24 bits for each row and position, which are broadcast (SplitMix64: Steele et al. 2014, figure 17)."""
    seed = _signed(key * 3 + purpose)
    x = rows * _signed(0x9E3779B97F4A7C15) + (positions * _signed(0xC2B2AE3D27D4EB4F) + seed)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= _shifted(x, shift)
        x *= _signed(factor)
    x ^= _shifted(x, 31)
    return _shifted(x, 64 - _BITS)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Return x >> bits as if x were unsigned."""
    return (x >> bits).bitwise_and_((1 << (64 - bits)) - 1)


def _signed(number: int) -> int:
    """Return the same 64 bits as a signed number."""
    number &= 2**64 - 1
    return number - 2**64 if number >= 2**63 else number
