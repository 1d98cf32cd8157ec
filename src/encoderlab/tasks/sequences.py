"""From whole texts to the sequences that an encoder reads: special tokens, pairs, truncation and windows.

One text becomes [CLS] a [SEP] and a pair [CLS] a [SEP] b [SEP] (Devlin et al. 2019, section 3). A text that is too long
is truncated, of a pair the longer one first; or it is read in overlapping windows, each a sequence of its own. All of
this is arithmetic on lengths, for many rows at once; ids are copied only when a batch is gathered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from encoderlab.data.token_store import TokenStore, indices_of

if TYPE_CHECKING:
    from encoderlab.data.tokenizers import Tokenizer
    from encoderlab.network.config import WindowPooling

OVERLAP = 0.25  # least share of a window that overlaps the next, unless that would take more windows than allowed


@dataclass(frozen=True, slots=True)
class Windowing:
    """How long texts are read: in at most `most` windows, whose logits are combined as `pooling` says."""

    pooling: WindowPooling
    most: int

    def count(self, n_tokens: np.ndarray, room: int) -> np.ndarray:
        """Return in how many windows of `room` tokens texts of `n_tokens` are read; 1 for texts that fit: [texts].

        >>> Windowing("mean", 8).count(np.array([40, 100]), 40)
        array([1, 3])
        """
        step = max(int(room * (1 - OVERLAP)), 1)
        beyond = np.maximum(n_tokens - room, 0)
        return np.minimum(-(-beyond // step), self.most - 1) + 1

    def starts(self, n_tokens: np.ndarray, room: int) -> np.ndarray:
        """Return where each window of each text begins, evenly spaced from the text's beginning to its end: [windows].

        >>> Windowing("mean", 8).starts(np.array([100]), 40)
        array([ 0, 30, 60])
        """
        counts = self.count(n_tokens, room)
        number = indices_of(np.zeros_like(counts), counts)  # of a window within its text
        last = np.repeat(np.maximum(n_tokens - room, 0), counts)
        gaps = np.repeat(np.maximum(counts - 1, 1), counts)
        return np.rint(number * last / gaps).astype(np.int64)


class Sequences(NamedTuple):
    """Sequences as their ids one after another, with the lengths of each: [sequences].

    The first `first_lengths` tokens of a sequence are segment 0, the others 1. `row_of_sequence` gives the place of
    each sequence's row among the rows that were asked for (None: every row is one sequence).
    """

    ids: np.ndarray
    lengths: np.ndarray
    first_lengths: np.ndarray
    row_of_sequence: np.ndarray | None = None


@dataclass(frozen=True, slots=True)
class SequenceFormat:
    """How texts become sequences of at most `max_length` tokens: `begin` a `end`, or `begin` a `between` b `end`.

    `windows` says how longer single texts are read (None: they are truncated).
    """

    begin: tuple[int, ...]
    between: tuple[int, ...]
    end: tuple[int, ...]
    max_length: int
    windows: Windowing | None = None

    @classmethod
    def of(
        cls, tokenizer: Tokenizer, max_length: int, windows: Windowing | None = None, *, special_tokens: bool = True
    ) -> SequenceFormat:
        """Return the format of a tokenizer's sequences; without `special_tokens`, a sequence is only the text."""
        if not special_tokens:
            return cls((), (), (), max_length, windows)
        between = (tokenizer.sep_id,) * tokenizer.pair_separators  # two in RoBERTa's sequences
        return cls((tokenizer.cls_id,), between, (tokenizer.sep_id,), max_length, windows)

    def room(self, *, paired: bool) -> int:
        """Return how many tokens of text fit into a sequence."""
        special = len(self.begin) + len(self.end) + (len(self.between) if paired else 0)
        return max(self.max_length - special, 0)

    def kept(self, first: np.ndarray, second: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Return how many tokens of texts of these lengths one sequence holds: [rows] each; of windows, of one."""
        room = self.room(paired=second is not None)
        if second is None:
            return np.minimum(first, room), None
        return longest_first(first, second, room)

    def n_windows(self, first: np.ndarray, second: np.ndarray | None = None) -> np.ndarray:
        """Return in how many sequences texts of these lengths are read: [rows]."""
        if self.windows is None or second is not None:
            return np.ones(len(first), np.int64)
        return self.windows.count(first, self.room(paired=False))

    def lengths(self, first: np.ndarray, second: np.ndarray | None = None) -> np.ndarray:
        """Return the length of each row with its special tokens, in all its sequences together: int64 [rows].

        `first` and `second` are the lengths of its texts (None: single texts).
        """
        kept_first, kept_second = self.kept(first, second)
        special = len(self.begin) + len(self.end)
        if kept_second is None:
            return (kept_first + special) * self.n_windows(first)
        return kept_first + kept_second + special + len(self.between)

    def truncated(self, first: np.ndarray, second: np.ndarray | None = None) -> np.ndarray:
        """Return which rows have tokens that no sequence holds: bool [rows]."""
        room = self.room(paired=second is not None)
        total = first if second is None else first + second
        if self.windows is None or second is not None:
            return total > room
        gaps = self.n_windows(first) - 1
        return total - room > gaps * room  # otherwise each window begins before the one before it ends

    def gather(self, store: TokenStore, rows: np.ndarray) -> Sequences:
        """Return the sequences of `rows`."""
        first = store["first"]
        starts = first.offsets[rows]
        lengths = first.offsets[rows + 1] - starts
        if "second" in store:
            second = store["second"]
            second_starts = second.offsets[rows]
            kept, second_kept = longest_first(lengths, second.offsets[rows + 1] - second_starts, self.room(paired=True))
            seconds = second.stretches(second_starts, second_kept)
            return self._joined(first.stretches(starts, kept), kept, seconds, second_kept)
        kept = np.minimum(lengths, self.room(paired=False))
        counts = self.n_windows(lengths)
        if self.windows is None or not (counts > 1).any():
            return self._joined(first.stretches(starts, kept), kept)
        row_of_sequence = np.repeat(np.arange(len(rows)), counts)
        starts = starts[row_of_sequence] + self.windows.starts(lengths, self.room(paired=False))
        kept = kept[row_of_sequence]
        return self._joined(first.stretches(starts, kept), kept)._replace(row_of_sequence=row_of_sequence)

    def _joined(
        self,
        firsts: np.ndarray,
        first_kept: np.ndarray,
        seconds: np.ndarray | None = None,
        second_kept: np.ndarray | None = None,
    ) -> Sequences:
        """Return sequences of the ids of first texts and, of pairs, of second ones, with the special tokens."""
        after_first = self.between if second_kept is not None else self.end
        first_lengths = first_kept + len(self.begin) + len(after_first)
        lengths = first_lengths if second_kept is None else first_lengths + second_kept + len(self.end)
        begins = np.cumsum(lengths) - lengths
        ids = np.empty(int(lengths.sum()), np.int64)
        for place, id_ in enumerate(self.begin):
            ids[begins + place] = id_
        text = begins + len(self.begin)
        ids[indices_of(text, first_kept)] = firsts
        for place, id_ in enumerate(after_first):
            ids[text + first_kept + place] = id_
        if second_kept is not None and seconds is not None:
            text = begins + first_lengths
            ids[indices_of(text, second_kept)] = seconds
            for place, id_ in enumerate(self.end):
                ids[text + second_kept + place] = id_
        return Sequences(ids, lengths, first_lengths)


def longest_first(first: np.ndarray, second: np.ndarray, room: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many tokens of both texts of pairs fit into `room` when the longer one is truncated first: [pairs].

    >>> longest_first(np.array([10, 10]), np.array([3, 9]), 8)
    (array([5, 4]), array([3, 4]))
    """
    kept_second = np.minimum(second, np.maximum(room // 2, room - first))
    return np.minimum(first, room - kept_second), kept_second
