"""A tokenizer: text to token ids, without special tokens, and the ids of the special tokens."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, cast

import numpy as np
import tokenizers
from tokenizers import processors

from encoderlab.data.tokenizers.distinct_words import DistinctWords, word_by_word
from encoderlab.errors import DataError
from encoderlab.system.files import atomic_write

# What transformers calls the special tokens, and their text in BERT's vocabulary, in the order of their ids in a
# trained one.
BERT_SPECIALS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
LARGEST_FILE = 2**28  # bytes; the largest vocabularies, of 250,000 tokens, take a tenth of it
MOST_IDS = 2**24
MOST_GROWTH = 1000  # times as long as before; Unicode's normal forms turn one character into 18 at most
_NEEDED = ("pad_token", "unk_token", "cls_token", "sep_token")


class Tokenizer:
    """Text to ids, and ids back to tokens.

    `backend` does the work; `specials` gives the text of each special token under its name in transformers
    (`pad_token`, `unk_token`, `cls_token`, `sep_token`, and possibly `mask_token`). No text becomes a special token,
    except the unknown one. Raises DataError if a special token is missing; `name` is what that message calls the
    tokenizer.
    """

    def __init__(self, backend: tokenizers.Tokenizer, specials: Mapping[str, str], name: str = "the tokenizer") -> None:
        ids = {role: backend.token_to_id(text) for role, text in specials.items()}
        if missing := [role for role in _NEEDED if ids.get(role) is None]:
            raise DataError(
                f"{name} lacks special tokens that are needed: {', '.join(missing)}",
                allowed=f"tokenizers with {', '.join(_NEEDED)}",
                remedy="Set tokenizer=bert_base_uncased, or tokenizer=wordpiece to train one",
            )
        self.specials = {role: text for role, text in specials.items() if ids[role] is not None}
        found = {role: id_ for role, id_ in ids.items() if id_ is not None}
        self.pad_id, self.unk_id, self.cls_id, self.sep_id = (found[role] for role in _NEEDED)
        self.mask_id = found.get("mask_token")
        self.vocabulary_size = max(backend.get_vocab(with_added_tokens=True).values()) + 1
        self._reserved = {self.pad_id, self.cls_id, self.sep_id, self.mask_id}
        self._backend = _prepared(backend, specials["cls_token"], self.cls_id, specials["sep_token"], self.sep_id)
        # Each id as it may occur in a text; reserved ones may not.
        self._as_text = np.arange(self.vocabulary_size, dtype="uint16" if self.vocabulary_size <= 2**16 else "uint32")
        self._as_text[[id_ for id_ in self._reserved if id_ is not None]] = self.unk_id

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer, (self._backend, self.specials)  # rebuilt, because a pickled backend loses its configuration

    @property
    def special_ids(self) -> set[int]:
        """Return the ids of the special tokens, including the unknown one."""
        return {id_ for id_ in (*self._reserved, self.unk_id) if id_ is not None}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each text: no special tokens, no truncation, no padding.

        Raises DataError if a text is not valid Unicode.
        """
        flat, lengths = self.encode_flat(texts)
        ids, ends = flat.tolist(), np.cumsum(lengths).tolist()
        return [ids[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=False)]

    def encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the result of `encode` as one flat array, and how many ids each text has (int64).

        The array's dtype is the smallest of uint16 and uint32 that holds every id. Raises as `encode` does.
        """
        texts = list(texts)
        with _valid_unicode(texts):
            flat, lengths = self._flat(texts) if self._by_words is None else self._by_words.encode(texts)
        return self._as_text[flat], lengths

    def _flat(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        ids = [encoding.ids for encoding in self._backend.encode_batch_fast(texts, add_special_tokens=False)]
        lengths = np.fromiter(map(len, ids), np.int64, len(ids))
        return np.fromiter(chain.from_iterable(ids), self._as_text.dtype, int(lengths.sum())), lengths

    @cached_property
    def _by_words(self) -> DistinctWords | None:
        return DistinctWords(self._backend, self._as_text.dtype.name) if word_by_word(self._backend) else None

    def encode_words(self, words: Sequence[Sequence[str]]) -> list[tuple[list[int], list[int]]]:
        """Return for each sequence of words its token ids, and for each token the index of its word in the sequence.

        Every word has a token: the unknown one if nothing is left of it, as of a word of white space. Raises DataError
        if a word is not valid Unicode.
        """
        with _valid_unicode(chain.from_iterable(words)):
            encodings = self._backend.encode_batch(
                [list(row) for row in words], is_pretokenized=True, add_special_tokens=False
            )
        return [
            self._with_every_word(self._allowed(encoding.ids), cast("list[int]", encoding.word_ids), len(row))
            for row, encoding in zip(words, encodings, strict=True)
        ]

    def spans(self, text: str) -> list[tuple[int, int, int]]:
        """Return for each token that `encode` makes of `text` the number of its word, and where in `text` it begins and
        ends.

        Words are the tokenizer's own pre-tokens, numbered from 0. Raises as `encode` does.
        """
        with _valid_unicode([text]):
            encoding = self._backend.encode(text, add_special_tokens=False)
        return [
            (word, *offsets)
            for word, offsets in zip(cast("list[int]", encoding.word_ids), encoding.offsets, strict=True)
        ]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the tokens as the vocabulary spells them, such as "##ing"."""
        return [cast("str", self._backend.id_to_token(int(id_))) for id_ in ids]

    def save(self, path: Path) -> None:
        """Write `path`, for `tokenizers` and `transformers`, and tokenizer_config.json next to it with the special
        tokens.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        names = ["input_ids", "token_type_ids", "attention_mask"]  # transformers omits segments that are not named here
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": names, **self.specials}
        _write(path.with_name("tokenizer_config.json"), json.dumps(config, indent=2, ensure_ascii=False))
        _write(path, self._backend.to_str(pretty=True))

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Open the tokenizer that `save` wrote at `path`; special tokens have BERT's names unless a file next to it
        says otherwise.

        Raises DataError if there is no tokenizer, or it is damaged.
        """
        if not path.is_file():
            raise DataError(
                f"There is no tokenizer at {path}", allowed="a tokenizer.json", remedy="Check the folder's name"
            )
        backend = open_backend(path)
        named = BERT_SPECIALS | _stated_specials(path.with_name("tokenizer_config.json"))
        specials = {role: text for role, text in named.items() if text is not None}
        return cls(backend, specials, str(path))

    @cached_property
    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that change whenever the tokenizer does."""
        content = json.dumps([self._backend.to_str(), self.specials], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def _allowed(self, ids: list[int]) -> list[int]:
        if self._reserved.isdisjoint(ids):
            return ids
        return [self.unk_id if id_ in self._reserved else id_ for id_ in ids]

    def _with_every_word(self, ids: list[int], places: list[int], n_words: int) -> tuple[list[int], list[int]]:
        missing = sorted(set(range(n_words)) - set(places))
        if not missing:
            return ids, places
        pieces = sorted(
            [*zip(places, ids, strict=True), *((place, self.unk_id) for place in missing)], key=lambda piece: piece[0]
        )
        return [id_ for _, id_ in pieces], [place for place, _ in pieces]


def open_backend(path: Path) -> tokenizers.Tokenizer:
    """Return what `tokenizers` reads from a tokenizer.json. Raises DataError if it cannot, or texts or ids could grow
    too large.
    """
    try:
        if (size := path.stat().st_size) > LARGEST_FILE:
            raise ValueError(f"it has {size:,} bytes, more than the {LARGEST_FILE:,} allowed")
        text = path.read_text(encoding="utf-8")
        if (times := _growth(json.loads(text).get("normalizer"))) > MOST_GROWTH:
            raise ValueError(
                f"its normalizers make a text {times:.3g} times as long, more than the {MOST_GROWTH} allowed"
            )
        backend = tokenizers.Tokenizer.from_str(text)
        if (highest := max(backend.get_vocab(with_added_tokens=True).values(), default=0)) >= MOST_IDS:
            raise ValueError(f"it has the id {highest:,}, above the highest allowed, {MOST_IDS - 1:,}")
        return backend
    except Exception as error:  # the library raises plain Exception, whatever is wrong with the file
        raise _damaged(path, error) from error


def _growth(normalizer: Any) -> float:
    """Return how many times as long a text can become by the replacements of a normalizer."""
    if not isinstance(normalizer, dict):
        return 1.0
    inner = normalizer.get("normalizers")
    times = [_growth(one) for one in inner] if isinstance(inner, list) else []
    return math.prod(times) * max(1, len(str(normalizer.get("content", ""))))


def _stated_specials(path: Path) -> dict[str, Any]:
    """Return the special tokens that the tokenizer_config.json at `path` names; none if there is no such file."""
    try:
        if not path.is_file():
            return {}
        if path.stat().st_size > LARGEST_FILE:
            raise ValueError(f"it has more than {LARGEST_FILE:,} bytes")
        fields = json.loads(path.read_text(encoding="utf-8"))
        tokens = {role: fields[role] for role in BERT_SPECIALS if role in fields}
        return {role: None if token is None else _text_of(token) for role, token in tokens.items()}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:200]
    return DataError(
        f"{path} is damaged or not a tokenizer ({reason})",
        allowed=f"a {path.name}",
        remedy="Delete it and create it again",
    )


@contextmanager
def _valid_unicode(texts: Iterable[str]) -> Iterator[None]:
    """Explain within this context why the library refuses `texts`: lone surrogates, or a tokenizer that fails on them.

    For the latter it raises plain Exception, or PanicException, which is not an Exception.
    """
    try:
        yield
    except (TypeError, UnicodeEncodeError) as error:
        broken = next((text for text in texts if any("\ud800" <= character <= "\udfff" for character in text)), None)
        if broken is None:
            raise
        raise DataError(
            f"The text {broken[:40]!r} is not valid Unicode",
            allowed="text in UTF-8",
            remedy="Convert it, for instance with iconv -f CP1252 -t UTF-8",
        ) from error
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != "PanicException":
            raise
        raise DataError(f"The tokenizer failed on a text: {error}", remedy="Use another model or tokenizer") from None


def _prepared(
    backend: tokenizers.Tokenizer, cls_text: str, cls_id: int, sep_text: str, sep_id: int
) -> tokenizers.Tokenizer:
    """Return `backend` configured for us, and for others: pairs become [CLS] a [SEP] b [SEP] with segments 0 and 1."""
    backend.no_padding()
    backend.no_truncation()
    backend.encode_special_tokens = True
    backend.post_processor = processors.TemplateProcessing(
        single=[cls_text, "$A", sep_text],
        pair=[f"{cls_text}:0", "$A:0", f"{sep_text}:0", "$B:1", f"{sep_text}:1"],
        special_tokens=[(cls_text, cls_id), (sep_text, sep_id)],
    )
    return backend


def _text_of(token: str | dict[str, object]) -> str:
    """Return a special token's text: transformers also writes tokens as objects. Raises TypeError, KeyError."""
    text = token["content"] if isinstance(token, dict) else token
    if not isinstance(text, str):
        raise TypeError(f"{text} is not a token")
    return text


def _write(path: Path, text: str) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
