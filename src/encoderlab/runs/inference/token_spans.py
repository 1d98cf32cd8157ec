"""Which characters of a text each token stands for, so that what is found about tokens can be shown on the text itself."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from encoderlab.batch import Encoded
from encoderlab.data.examples import Example, WordsExample
from encoderlab.data.tokenizers.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Span:
    """The characters [begin, end) of text number `text` (0, or 1 for the second of a pair), and the number of their word there."""

    text: int
    word: int
    begin: int
    end: int


def texts_of(example: Example) -> tuple[str, ...]:
    """One text, or the two of a pair; words with a blank between them."""
    if isinstance(example, WordsExample):
        return (" ".join(example.words),)
    return (example.text,) if example.text_pair is None else (example.text, example.text_pair)


def spans_of(tokenizer: Tokenizer, example: Example, encoded: Encoded) -> list[Span | None]:
    """The span of each token of `encoded`, which is `example` as a task encodes it; None for [CLS] and [SEP].

    Where words are given, each of a word's pieces stands for the whole word.
    """
    if isinstance(example, WordsExample):
        parts = [_spans_of_words(tokenizer, example)]
    else:
        parts = [[Span(number, *span) for span in tokenizer.spans(text)] for number, text in enumerate(texts_of(example))]
    coming = [iter(part) for part in parts]  # what was cut off is the end of a text
    special = {tokenizer.cls_id, tokenizer.sep_id}  # which no text becomes
    tokens = zip(encoded.input_ids, encoded.token_type_ids, strict=True)
    return [None if id_ in special else next(coming[segment]) for id_, segment in tokens]


def _spans_of_words(tokenizer: Tokenizer, example: WordsExample) -> list[Span]:
    ((_, word_of),) = tokenizer.encode_words([example.words])
    begins = list(accumulate((len(word) + 1 for word in example.words), initial=0))
    return [Span(0, word, begins[word], begins[word] + len(example.words[word])) for word in word_of]
