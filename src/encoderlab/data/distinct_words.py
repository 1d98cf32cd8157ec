"""A faster way to encode texts with a tokenizer that treats words one by one: each distinct word is encoded once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain

import numpy as np
import tokenizers

_BYTES_KEPT = 2_000_000  # of words to keep ids for: about 50 MB with the ids
_APART = b",.\"()-'"  # frequent punctuation: splitting it off leaves fewer distinct words


class DistinctWords:
    """Encodes texts of a `backend` whose words can be encoded one by one: each distinct word once, then looked up.

    The ids of words, of `dtype`, are kept, up to a bound. Threads may share it. The library alone takes five times as
    long for paragraphs of 100 words (two cores).
    """

    def __init__(self, backend: tokenizers.Tokenizer, dtype: np.dtype, *, lowercase: bool) -> None:
        self._backend = backend
        self._dtype = dtype
        self._lowercase = lowercase
        self._known: dict[bytes, bytes] = {b"": b""}  # UTF-8 to the bytes of an array of ids
        self._size = 0

    @classmethod
    def of(cls, backend: tokenizers.Tokenizer, dtype: np.dtype) -> DistinctWords | None:
        """Return it for a tokenizer that gives a text the ids of its parts between blanks and punctuation, such as
        BERT's, cased or not. None for any other.

        BERT's steps (`BertNormalizer`, `BertPreTokenizer`, WordPiece) look at one character or one word at a time, and
        ASCII punctuation is a word of its own. Tokens added to the vocabulary could contain a blank.
        """
        made_of = json.loads(backend.to_str())
        kinds = [(made_of[step] or {}).get("type") for step in ("normalizer", "pre_tokenizer", "model")]
        own_tokens = [token for token in backend.get_added_tokens_decoder().values() if not token.special]
        if kinds[0] not in (None, "BertNormalizer") or kinds[1:] != ["BertPreTokenizer", "WordPiece"] or own_tokens:
            return None
        return cls(backend, dtype, lowercase=bool((made_of["normalizer"] or {}).get("lowercase")))

    def encode(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of all texts one after the other, and how many each has (int64).

        Raises UnicodeEncodeError if a text is not valid Unicode, TypeError if one is not a text.
        """
        known = self._known  # never emptied in place, so this reference keeps its words
        rows = [self._words(text) for text in texts]
        new = [word for word in dict.fromkeys(chain.from_iterable(rows)) if word not in known]
        encodings = self._backend.encode_batch_fast([word.decode() for word in new], add_special_tokens=False)
        known.update((word, np.array(one.ids, self._dtype).tobytes()) for word, one in zip(new, encodings, strict=True))
        ids = [b"".join(map(known.__getitem__, row)) for row in rows]
        self._size += sum(map(len, new))
        if self._size > _BYTES_KEPT:
            self._known = {b"": b""}
            self._size = 0
        lengths = np.fromiter(map(len, ids), np.int64, len(ids)) // self._dtype.itemsize
        return np.frombuffer(b"".join(ids), self._dtype), lengths

    def _words(self, text: str) -> list[bytes]:
        whole = str.encode(text)
        if self._lowercase:
            whole = whole.lower()  # bytes.lower changes only ASCII
        for character in _APART:
            whole = whole.replace(b"%c" % character, b" %c " % character)
        return whole.split(b" ")
