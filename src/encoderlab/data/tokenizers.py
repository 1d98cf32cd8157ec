"""Text to token ids, and the file that a tokenizer is kept in.

Each is a `tokenizers.Tokenizer` of Hugging Face, with the ids of its special tokens beside it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from tokenizers import pre_tokenizers, processors

from encoderlab.errors import DataError
from encoderlab.system.files import atomic_write_text
from encoderlab.system.records import json_of

# What transformers calls the special tokens, and their text in BERT's vocabulary, in the order of their ids in a
# trained one.
BERT_SPECIALS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
# Their texts in RoBERTa's vocabulary and those of its kind.
ROBERTA_SPECIALS = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "cls_token": "<s>",
    "sep_token": "</s>",
    "mask_token": "<mask>",
}
_NEEDED = ("pad_token", "unk_token", "cls_token", "sep_token")
MOST_GROWTH = 1000  # times, by a normalizer; honest ones put single characters
LARGEST_FILE = 100_000_000  # bytes; the largest known vocabularies, of 250,000 to 900,000 tokens, take 15 to 35 million
_BYTES_KEPT = 2_000_000  # of words to keep ids for: about 50 MB with the ids
_APART = b",.\"()-'"  # frequent punctuation: splitting it off leaves fewer distinct words
LARGEST_ID = 2**24  # a table has a row for each id up to the highest, whether or not a token has it


class Tokenizer:
    """Text to ids, and ids back to tokens.

    `backend` does the work; `specials` gives the text of each special token under its name in transformers
    (`pad_token`, `unk_token`, `cls_token`, `sep_token`, and possibly `mask_token`). No text becomes a special token,
    except the unknown one. Between the texts of a pair are `pair_separators`: one (BERT), or two (RoBERTa) if the
    backend's own template has two. Raises DataError if a special token is missing; `name` is what that message calls
    the tokenizer.
    """

    def __init__(self, backend: tokenizers.Tokenizer, specials: Mapping[str, str], name: str = "the tokenizer") -> None:
        stated = {role: backend.token_to_id(text) for role, text in specials.items()}
        ids = {role: id_ for role, id_ in stated.items() if id_ is not None}
        missing = [role for role in _NEEDED if role not in ids]
        if missing:
            problem = f"{name} lacks special tokens that are needed: {', '.join(missing)}"
            raise DataError(problem, remedy="Set tokenizer=bert_base_uncased, or tokenizer=wordpiece to train one")
        self.specials = {role: text for role, text in specials.items() if role in ids}
        self.pad_id, self.unk_id, self.cls_id, self.sep_id = (ids[role] for role in _NEEDED)
        self.mask_id = ids.get("mask_token")
        highest_id = max(backend.get_vocab(with_added_tokens=True).values())
        if highest_id > LARGEST_ID:
            raise DataError(f"{name} has a token with the id {highest_id:,}", allowed=f"ids up to {LARGEST_ID:,}")
        self.vocabulary_size = highest_id + 1
        self.special_ids = {*ids.values()}
        # Each id as it may occur in a text; special ones may not, except the unknown one.
        self._as_text = np.arange(self.vocabulary_size, dtype="uint16" if self.vocabulary_size <= 2**16 else "uint32")
        self._as_text[list(self.special_ids)] = self.unk_id
        backend.no_padding()
        backend.no_truncation()
        backend.encode_special_tokens = True
        self._backend = backend
        self._set_template(_pair_separators(backend, self.cls_id, self.sep_id))
        # Words that are split beforehand each follow a blank, which byte-level vocabularies have in their tokens.
        before_words = backend.pre_tokenizer
        needs_blank = isinstance(before_words, pre_tokenizers.ByteLevel) and not before_words.add_prefix_space
        self.before_word = " " if needs_blank else ""

    def _set_template(self, pair_separators: int) -> None:
        """For us, and for others who open the saved file, make pairs [CLS] a [SEP] b [SEP] with segments 0 and 1."""
        cls = self.specials["cls_token"]
        sep = self.specials["sep_token"]
        self.pair_separators = pair_separators
        self._backend.post_processor = processors.TemplateProcessing(
            single=[cls, "$A", sep],
            pair=[f"{cls}:0", "$A:0", *[f"{sep}:0"] * pair_separators, "$B:1", f"{sep}:1"],
            special_tokens=[(cls, self.cls_id), (sep, self.sep_id)],
        )

    def with_pair_separators(self, pair_separators: int) -> Tokenizer:
        """Return the same tokenizer with so many separators between the texts of a pair."""
        other = Tokenizer(tokenizers.Tokenizer.from_str(self._backend.to_str()), self.specials)
        other._set_template(pair_separators)
        return other

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokenizer, (self._backend, self.specials)  # rebuilt, because a pickled backend loses its configuration

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, without special ones, truncation or padding.

        Raises DataError for invalid Unicode, and if the tokenizer's own rules fail on a text.
        """
        flat, lengths = self.encode_flat(texts)
        ids = flat.tolist()
        ends = np.cumsum(lengths).tolist()
        return [ids[begin:end] for begin, end in zip([0, *ends[:-1]], ends, strict=False)]

    def encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the result of `encode` as one flat array, and how many ids each text has (int64).

        The array's dtype is the smallest of uint16 and uint32 that holds every id. Raises as `encode` does.
        """
        texts = list(texts)
        with _explained(texts):
            if self._by_words is not None:
                flat, lengths = self._by_words.encode(texts)
            else:
                ids = [one.ids for one in self._backend.encode_batch_fast(texts, add_special_tokens=False)]
                lengths = np.fromiter(map(len, ids), np.int64, len(ids))
                flat = np.fromiter(chain.from_iterable(ids), self._as_text.dtype, int(lengths.sum()))
        return self._as_text[flat], lengths

    @cached_property
    def _by_words(self) -> DistinctWords | None:
        return DistinctWords.of(self._backend, self._as_text.dtype)

    def encode_words(self, words: Sequence[Sequence[str]]) -> list[tuple[list[int], list[int]]]:
        """Return for each sequence of words its token ids, and for each token the index of its word in the sequence.

        Every word has a token: the unknown one if nothing is left of it, as of a word of white space. Raises as
        `encode` does.
        """
        with _explained(chain.from_iterable(words)):
            encodings = self._backend.encode_batch(
                [[self.before_word + word for word in row] for row in words],
                is_pretokenized=True,
                add_special_tokens=False,
            )
        rows = []
        for row, encoding in zip(words, encodings, strict=True):
            places = [place for place in encoding.word_ids if place is not None]  # special tokens have none
            pieces = [*zip(places, self._as_text[np.array(encoding.ids, np.int64)].tolist(), strict=True)]
            pieces += [(place, self.unk_id) for place in set(range(len(row))) - set(places)]
            pieces.sort(key=lambda piece: piece[0])
            rows.append(([id_ for _, id_ in pieces], [place for place, _ in pieces]))
        return rows

    def spans(self, text: str) -> list[tuple[int, int, int]]:
        """Return for each token that `encode` makes of `text` the number of its word, and where it begins and ends.

        Words are the tokenizer's own pre-tokens, numbered from 0. Raises as `encode` does.
        """
        with _explained([text]):
            encoding = self._backend.encode(text, add_special_tokens=False)
        words = [word for word in encoding.word_ids if word is not None]
        return [(word, *offsets) for word, offsets in zip(words, encoding.offsets, strict=True)]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return the tokens as the vocabulary spells them, such as "##ing"; "" for an id without a token."""
        return [self._backend.id_to_token(int(id_)) or "" for id_ in ids]

    def save(self, path: Path) -> None:
        """Write `path`, for `tokenizers` and `transformers`, and beside it a file that names the special tokens."""
        path.parent.mkdir(parents=True, exist_ok=True)
        names = ["input_ids", "token_type_ids", "attention_mask"]  # transformers omits segments that are not named here
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_input_names": names, **self.specials}
        atomic_write_text(path.with_name("tokenizer_config.json"), json.dumps(config, indent=2, ensure_ascii=False))
        atomic_write_text(path, self._backend.to_str(pretty=True))

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Open the tokenizer that `save`, or transformers, wrote at `path`. Raises DataError if that is impossible.

        Special tokens are those that special_tokens_map.json or tokenizer_config.json next to it name: a text, an
        object that holds it, or null. For a role that neither names, it is BERT's or RoBERTa's, whichever the
        vocabulary has.
        """
        named: dict[str, Any] = {}
        for stated in (path.with_name("special_tokens_map.json"), path.with_name("tokenizer_config.json")):
            if not stated.is_file():
                continue
            with _damage_explained(stated):
                if stated.stat().st_size > LARGEST_FILE:
                    raise ValueError(f"it has more than {LARGEST_FILE:,} bytes")
                fields = json_of(stated.read_text(encoding="utf-8"))
                for role in BERT_SPECIALS:
                    if role in fields:
                        named[role] = fields[role]["content"] if isinstance(fields[role], dict) else fields[role]
        backend = open_backend(path)
        like_roberta = backend.token_to_id(BERT_SPECIALS["cls_token"]) is None
        usual = ROBERTA_SPECIALS if like_roberta and backend.token_to_id("<s>") is not None else BERT_SPECIALS
        specials = {role: text for role, text in (usual | named).items() if isinstance(text, str)}
        return cls(backend, specials, str(path))

    @cached_property
    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that change whenever the tokenizer does."""
        content = json.dumps([self._backend.to_str(), self.specials], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def _pair_separators(backend: tokenizers.Tokenizer, cls_id: int, sep_id: int) -> int:
    """Return how many separators the backend's own template has between the texts of a pair.

    RoBERTa's has two, <s> a </s></s> b </s>; anything else is treated like BERT's.
    """
    with _explained([]):
        together = backend.encode("", "", add_special_tokens=True).ids
    template_ids = [id_ for id_ in together if id_ in (cls_id, sep_id)]
    return 2 if template_ids == [cls_id, sep_id, sep_id, sep_id] else 1


def open_backend(path: Path) -> tokenizers.Tokenizer:
    """Return what `tokenizers` reads from a tokenizer.json.

    Raises DataError if it cannot, if the file is larger than LARGEST_FILE, or if its normalizer could make a text so
    long that it fills the memory.
    """
    with _damage_explained(path):
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise ValueError(f"it has {size:,} bytes, and at most {LARGEST_FILE:,} are read")
        backend = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        steps = "" if backend.normalizer is None else backend.normalizer.__getstate__().decode()
        inserted = re.findall(r'"(?:prepend|content)":("(?:[^"\\]|\\.)*")', steps)  # before or in place of characters
        if math.prod(max(len(json.loads(text)), 1) for text in inserted) > MOST_GROWTH:
            raise ValueError("its normalizer makes texts many times as long")
    return backend


@contextmanager
def _damage_explained(path: Path) -> Iterator[None]:
    """Raise DataError for any error within this context, as from reading a damaged file."""
    try:
        yield
    except BaseException as error:
        # `tokenizers` raises plain Exception, whatever is wrong with the file, or panics.
        if not isinstance(error, Exception) and not _is_panic(error):
            raise
        problem = f"{path} is damaged or not a tokenizer ({' '.join(str(error).split())[:200]})"
        raise DataError(problem, remedy="Check the folder's name, or create the file again") from error


@contextmanager
def _explained(texts: Iterable[str]) -> Iterator[None]:
    """Raise DataError within this context if the library refuses one of the texts."""
    try:
        yield
    except (TypeError, UnicodeEncodeError) as error:
        broken = next((text for text in texts if any("\ud800" <= character <= "\udfff" for character in text)), None)
        if broken is None:
            raise
        remedy = "Convert it, for instance with iconv -f CP1252 -t UTF-8"
        raise DataError(f"The text {broken[:40]!r} is not valid Unicode", remedy=remedy) from error
    except BaseException as error:
        if not _is_panic(error):
            raise
        problem = f"The tokenizer's own rules fail on a text ({' '.join(str(error).split())[:200]})"
        raise DataError(problem, remedy="Shorten the longest words of the texts, or use another tokenizer") from None


def _is_panic(error: BaseException) -> bool:
    """Return whether Rust code panicked, as the library's regular expressions do when they backtrack too long.

    The class of such an error derives from BaseException, and no module exports it.
    """
    return type(error).__name__ == "PanicException"


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
