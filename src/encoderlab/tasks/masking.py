"""Masking: which tokens a pretraining run predicts, and what the encoder reads instead (Devlin et al. 2019, 3.1, task
1).

A mask is a hash of seed, epoch, row and position, not a generator's next number: the same row is masked alike in any
batch, in any number of micro-batches, on any device. Evaluations use one fixed seed. Only whole-word masking waits for
the device, in the thread that prepares batches."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from encoderlab.batch import Batch
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.tasks.config import PretrainingConfig

_CHOICE, _KIND, _REPLACEMENT = range(3)  # the purposes of random numbers
_BITS = 24  # of each random number: as many as a float32 holds


@dataclass(frozen=True, slots=True)
class Pieces:
    """What masking needs to know of the vocabulary: the ordinary ids, and whether an id is ordinary or continues a
    word.
    """

    ordinary_ids: Tensor
    is_ordinary: Tensor
    continues_word: Tensor

    def to(self, device: torch.device) -> Pieces:
        """Return the same on `device`."""
        return Pieces(self.ordinary_ids.to(device), self.is_ordinary.to(device), self.continues_word.to(device))


class Masking:
    """Selects a fixed share of the ordinary tokens of each row for prediction, and hides most of them.

    Special tokens, including the unknown one, are neither predicted nor used as replacements. The draw for a token
    depends only on a key, its row and its position: it is the same in any batch, on any device, in any number of
    micro-batches.

    Raises DataError if the tokenizer has no mask token, or no ordinary one; SettingError if it does not know words.
    """

    def __init__(self, config: PretrainingConfig, tokenizer: Tokenizer) -> None:
        if tokenizer.mask_id is None:
            raise DataError(
                "The tokenizer has no mask token", remedy="Set tokenizer=wordpiece, or tokenizer=bert_base_uncased"
            )
        pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        ordinary = [id_ for id_, piece in enumerate(pieces) if piece is not None and id_ not in tokenizer.special_ids]
        if not ordinary:
            raise DataError("The tokenizer's vocabulary has only special tokens")
        continues_word = torch.tensor([piece is not None and piece.startswith("##") for piece in pieces])
        if config.whole_words and not continues_word.any():
            raise SettingError(
                "task.whole_words=true needs a tokenizer whose words have ## pieces",
                remedy="Set task.whole_words=false",
            )
        self.config, self.mask_id = config, tokenizer.mask_id
        self.is_ordinary = torch.zeros(tokenizer.vocabulary_size, dtype=torch.bool)
        self.is_ordinary[ordinary] = True
        self._pieces = {torch.device("cpu"): Pieces(torch.tensor(ordinary), self.is_ordinary, continues_word)}

    def __call__(self, batch: Batch, key: int) -> Batch:
        """Return `batch` with its `target_positions`, their true ids as `token_labels`, and the masked `input_ids`.

        A batch whose number of targets is known is masked on its device without waiting for it (with `whole_words`, the
        number has to be read back once per batch). For MPS it is masked on the CPU: up to PyTorch 2.12, sorting 64-bit
        integers loses bits there.
        """
        ids, device = batch.input_ids, batch.input_ids.device
        if device.type == "mps":
            return self(batch.to(torch.device("cpu")), key).to(device)
        target_positions = _true_places(self.choose(ids, batch.rows, key).flatten(), batch.n_targets)
        answers = ids.flatten()[target_positions]
        row, place = batch.rows[target_positions // ids.shape[1]], target_positions % ids.shape[1]
        kind = uniform(key, _KIND, row, place)
        ordinary = self._pieces_on(device).ordinary_ids
        drawn = ordinary[(uniform(key, _REPLACEMENT, row, place) * len(ordinary)).long()]
        masked, random = self.config.mask_replace_prob, self.config.mask_replace_prob + self.config.random_replace_prob
        seen = torch.where(kind < masked, self.mask_id, torch.where(kind < random, drawn, answers))
        hidden = ids.flatten().index_copy(0, target_positions, seen).view_as(ids)
        return replace(batch, input_ids=hidden, target_positions=target_positions, token_labels=answers)

    def count(self, flat: np.ndarray, lengths: np.ndarray) -> int | None:
        """Return how many tokens will be predicted in the sequences that follow one another in `flat`, none of them
        empty.

        None with `whole_words`, because it depends on which words are drawn.
        """
        if self.config.whole_words:
            return None
        ordinary = np.add.reduceat(self.is_ordinary.numpy()[flat], np.cumsum(lengths) - lengths, dtype=np.int64)
        return int(self._wanted(torch.from_numpy(ordinary)).sum())

    def choose(self, ids: Tensor, rows: Tensor, key: int) -> Tensor:
        """Return True at the tokens to predict: [batch, length].

        In each row it selects `mlm_probability` of the ordinary tokens, to the nearest whole number, and at least one
        if there is any. With `whole_words` the tokens of a word are selected together, and the share is met as closely
        as words allow.
        """
        ordinary = self._pieces_on(ids.device).is_ordinary[ids]
        positions = torch.arange(ids.shape[1], device=ids.device)
        wanted = self._wanted(ordinary.sum(1, keepdim=True))
        if self.config.whole_words:
            words = self._first_place_of_word(ids, positions)
            standing = _middle_of_word(_standing(_order_keys(key, rows, words, ordinary)), words)
            return (standing < wanted) & ordinary
        keys = _order_keys(key, rows, positions, ordinary)
        # the most targets in any row: finding the first few takes an eighth of the time of sorting all
        most = int(self._wanted(torch.tensor(ids.shape[1])))
        first = keys.topk(most, dim=1, largest=False).values
        last = first.gather(1, (wanted - 1).clamp(min=0))
        return (keys <= last) & ordinary

    def _wanted(self, ordinary: Tensor) -> Tensor:
        """Return how many of the ordinary tokens to predict: the host's count must agree with the device's
        selection.
        """
        return (self.config.mlm_probability * ordinary).round().long().clamp(min=1).minimum(ordinary)

    def _first_place_of_word(self, ids: Tensor, positions: Tensor) -> Tensor:
        starts = ~self._pieces_on(ids.device).continues_word[ids]
        return torch.where(starts, positions, 0).cummax(dim=1).values

    def _pieces_on(self, device: torch.device) -> Pieces:
        """Return the tables on `device`, moved only once because each move makes the host wait."""
        if device not in self._pieces:
            self._pieces[device] = self._pieces[torch.device("cpu")].to(device)
        return self._pieces[device]


def _true_places(flags: Tensor, count: int | None) -> Tensor:
    """Return where the `count` true flags are. Without a count, the host waits for the device to count them."""
    if count is None:
        return flags.nonzero().flatten()
    return torch.nonzero_static(flags, size=count).flatten()


def _order_keys(key: int, rows: Tensor, positions: Tensor, ordinary: Tensor) -> Tensor:
    """Return a number for each token of a batch, all different within a row, in the order of selection: [batch,
    length].

    The number drawn for the token's `positions` ([length], or [batch, length]) comes first; ties go to the first token.
    Tokens that are not ordinary come last.
    """
    drawn = _hash(key, _CHOICE, rows[:, None], positions).masked_fill_(~ordinary, 2**_BITS)
    return drawn.mul_(2**32).add_(torch.arange(drawn.shape[1], device=drawn.device))


def _standing(keys: Tensor) -> Tensor:
    """Return how many tokens of the row come before each: [batch, length]."""
    order = keys.argsort(dim=1)
    return torch.empty_like(order).scatter_(1, order, torch.arange(keys.shape[1], device=keys.device).expand_as(order))


def _middle_of_word(standing: Tensor, words: Tensor) -> Tensor:
    """Return the mean rank of each word's tokens, at all of them: [batch, length]; 0 for the first, so one is always
    selected.
    """
    total = torch.zeros_like(standing).scatter_add_(1, words, standing)
    count = torch.zeros_like(standing).scatter_add_(1, words, torch.ones_like(standing))
    first = torch.full_like(standing, standing.shape[1]).scatter_reduce_(1, words, standing, "amin")
    middle = torch.where(first == 0, 0, total // count.clamp(min=1))
    return middle.gather(1, words)


def uniform(key: int, purpose: int, rows: Tensor, positions: Tensor) -> Tensor:
    """Return a number in [0, 1) for each row and position: a hash of them, `key` and `purpose`.

    A generator would give a token other numbers in another batch.
    """
    return _hash(key, purpose, rows, positions).float() * 2.0**-_BITS


def _hash(key: int, purpose: int, rows: Tensor, positions: Tensor) -> Tensor:
    """Return a number of 24 bits for each row and position, which are broadcast (SplitMix64: Steele et al. 2014, figure
    17).
    """
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
