"""Masking: which tokens a pretraining run asks for, and what the encoder sees in their place (Devlin et al. 2019, 3.1, task 1)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from encoderlab.batch import Batch
from encoderlab.data.tokenizer import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.tasks.config import PretrainingConfig

_CHOICE, _KIND, _REPLACEMENT = range(3)  # what a number is drawn for


class Masking:
    """Asks for some tokens of each row, a fixed share of the ordinary ones, and hides most of them.

    Special tokens, the unknown one among them, are never asked for and never put in. What is drawn for a token is a function of a
    key, its row and its place alone: the same in any batch, on any device, cut into any number of parts.

    Raises DataError where the tokenizer has no mask token, or no ordinary one; SettingError where it knows no words.
    """

    def __init__(self, config: PretrainingConfig, tokenizer: Tokenizer) -> None:
        if tokenizer.mask_id is None:
            raise DataError("The tokenizer has no mask token", remedy="Type tokenizer=wordpiece, or tokenizer=bert_base_uncased")
        pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
        ordinary = [id_ for id_, piece in enumerate(pieces) if piece is not None and id_ not in tokenizer.special_ids]
        if not ordinary:
            raise DataError("The tokenizer's vocabulary holds nothing but special tokens")
        self.continues_word = torch.tensor([piece is not None and piece.startswith("##") for piece in pieces])
        if config.whole_words and not self.continues_word.any():
            raise SettingError(
                "task.whole_words=true needs a tokenizer whose words have ## pieces", remedy="Type task.whole_words=false"
            )
        self.config, self.mask_id = config, tokenizer.mask_id
        self.ordinary_ids = torch.tensor(ordinary)
        self.is_ordinary = torch.zeros(tokenizer.vocabulary_size, dtype=torch.bool)
        self.is_ordinary[self.ordinary_ids] = True

    def __call__(self, batch: Batch, key: int) -> Batch:
        """`batch` with its `asked` places, their true ids as `token_labels`, and what the encoder is to see as `input_ids`."""
        ids, device = batch.input_ids, batch.input_ids.device
        asked = self.choose(ids, batch.rows, key).flatten().nonzero().flatten()
        answers = ids.flatten()[asked]
        row, place = batch.rows[asked // ids.shape[1]], asked % ids.shape[1]
        kind = uniform(key, _KIND, row, place)
        ordinary = self.ordinary_ids.to(device)
        drawn = ordinary[(uniform(key, _REPLACEMENT, row, place) * len(ordinary)).long()]
        masked, random = self.config.mask_share, self.config.mask_share + self.config.random_share
        seen = torch.where(kind < masked, self.mask_id, torch.where(kind < random, drawn, answers))
        hidden = ids.flatten().index_copy(0, asked, seen).view_as(ids)
        return replace(batch, input_ids=hidden, asked=asked, token_labels=answers)

    def choose(self, ids: Tensor, rows: Tensor, key: int) -> Tensor:
        """True at the tokens to ask for: [batch, length].

        In each row `mask_fraction` of the ordinary tokens, to the nearest whole number, at least one where there is any. With
        `whole_words` the pieces of a word are asked for together, and the share is met as nearly as words allow.
        """
        ordinary = self.is_ordinary.to(ids.device)[ids]
        places = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        words = self._first_place_of_word(ids, places) if self.config.whole_words else places
        rank = uniform(key, _CHOICE, rows[:, None].expand_as(ids), words).masked_fill(~ordinary, 2.0)
        wanted = (self.config.mask_fraction * ordinary.sum(1, keepdim=True)).round().long().clamp(min=1)
        order = rank.sort(dim=1, stable=True).indices
        standing = torch.empty_like(order).scatter_(1, order, places)  # how many tokens of the row come before this one
        if self.config.whole_words:
            standing = _middle_of_word(standing, words)
        return (standing < wanted) & ordinary

    def _first_place_of_word(self, ids: Tensor, places: Tensor) -> Tensor:
        starts = ~self.continues_word.to(ids.device)[ids]
        return torch.where(starts, places, 0).cummax(dim=1).values


def _middle_of_word(standing: Tensor, words: Tensor) -> Tensor:
    """The mean standing of each word's tokens, at all of them: [batch, length]; 0 for the first, so that one is always asked."""
    total = torch.zeros_like(standing).scatter_add_(1, words, standing)
    count = torch.zeros_like(standing).scatter_add_(1, words, torch.ones_like(standing))
    first = torch.full_like(standing, standing.shape[1]).scatter_reduce_(1, words, standing, "amin")
    middle = torch.where(first == 0, 0, total // count.clamp(min=1))
    return middle.gather(1, words)


def uniform(key: int, purpose: int, rows: Tensor, places: Tensor) -> Tensor:
    """A number in [0, 1) for each row and place: a hash of them, `key` and `purpose` (SplitMix64: Steele et al. 2014, figure 17).

    A generator would give a token other numbers in another batch.
    """
    x = rows * _signed(0x9E3779B97F4A7C15) + places * _signed(0xC2B2AE3D27D4EB4F) + _signed(key * 3 + purpose)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ _shifted(x, shift)) * _signed(factor)
    x = x ^ _shifted(x, 31)
    return _shifted(x, 40).float() * 2.0**-24


def _shifted(x: Tensor, bits: int) -> Tensor:
    """x >> bits as if x had no sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _signed(number: int) -> int:
    """The same 64 bits as a signed number."""
    number &= 2**64 - 1
    return number - 2**64 if number >= 2**63 else number
