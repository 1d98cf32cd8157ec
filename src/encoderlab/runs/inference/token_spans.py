"""The characters of a text that each token covers, so that results about tokens can be shown on the text itself."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from encoderlab.batch import Encoded
from encoderlab.data.examples import Example, WordsExample
from encoderlab.data.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Span:
    """The characters [begin, end) of text number `text` (0, or 1 for the second of a pair), and the number of their
    word.
    """

    text: int
    word: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class TokensRead:
    """The tokens of a text that a model reads, each once, in the text's order.

    Token i is at `places[i]` of [CLS] text [SEP], and first at `first[i]` of the ids; `which` gives the token of every
    id. A token shared by two windows counts once, and so do the windows' [CLS] and their [SEP].
    """

    places: np.ndarray
    first: np.ndarray
    which: np.ndarray

    @classmethod
    def of(cls, encoded: Encoded) -> TokensRead:
        """Return the tokens of one example."""
        every = np.arange(len(encoded.input_ids))
        if not encoded.window_starts:
            return cls(every, every, every)
        starts = np.array(encoded.window_starts)
        places = starts[:, None] + every[: len(every) // len(starts)]
        places[:, 0], places[:, -1] = 0, places[-1, -1]
        found, first, which = np.unique(places.flatten(), return_index=True, return_inverse=True)
        return cls(found, first, which)

    def __len__(self) -> int:
        return len(self.places)


def texts_of(example: Example) -> tuple[str, ...]:
    """Return one text, or the two of a pair; words are joined with blanks."""
    if isinstance(example, WordsExample):
        return (" ".join(example.words),)
    return (example.text,) if example.text_pair is None else (example.text, example.text_pair)


def spans_of(tokenizer: Tokenizer, example: Example, encoded: Encoded) -> list[Span | None]:
    """Return the span of each token read of `encoded`, which is `example` as a task encodes it; None for [CLS] and
    [SEP].

    For words, each of a word's tokens covers the whole word.
    """
    if isinstance(example, WordsExample):
        parts = [_spans_of_words(tokenizer, example)]
    else:
        parts = [
            [Span(number, *span) for span in tokenizer.spans(text)] for number, text in enumerate(texts_of(example))
        ]
    if encoded.window_starts:
        return [None, *(parts[0][place - 1] for place in TokensRead.of(encoded).places[1:-1].tolist()), None]
    coming = [iter(part) for part in parts]  # truncation removes the end of a text
    special = {tokenizer.cls_id, tokenizer.sep_id}  # texts never contain these
    tokens = zip(encoded.input_ids, encoded.token_type_ids, strict=True)
    return [None if id_ in special else next(coming[segment]) for id_, segment in tokens]


def _spans_of_words(tokenizer: Tokenizer, example: WordsExample) -> list[Span]:
    ((_, word_of),) = tokenizer.encode_words([example.words])
    begins = list(accumulate((len(word) + 1 for word in example.words), initial=0))
    return [Span(0, word, begins[word], begins[word] + len(example.words[word])) for word in word_of]
