"""Text to token ids: tokenizers that are trained on the run's texts, or come from a folder or the hub.

Each is a `tokenizers.Tokenizer` of Hugging Face, with the ids of its special tokens beside it.
"""

from __future__ import annotations

import hashlib
import json
import math
import string
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers

from encoderlab.errors import DataError, SettingError
from encoderlab.settings import REQUIRED, check_settings, setting
from encoderlab.shipped import shipped_folder
from encoderlab.system.files import atomic_write_text
from encoderlab.system.hub_access import hub_answers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# What transformers calls the special tokens, and their text in BERT's vocabulary, in the order of their ids in a
# trained one.
BERT_SPECIALS = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}
_NEEDED = ("pad_token", "unk_token", "cls_token", "sep_token")
_SPECIAL_TOKENS = list(BERT_SPECIALS.values())
_MOST_CHARACTERS = 1000  # as in BERT's own training; rarer characters become the unknown token
_TRAINING_VERSION = 1  # part of the cache key: increase it whenever the same texts would give another vocabulary
MOST_GROWTH = 1000  # times, by a normalizer; honest ones put single characters
_BYTES_KEPT = 2_000_000  # of words to keep ids for: about 50 MB with the ids
_APART = b",.\"()-'"  # frequent punctuation: splitting it off leaves fewer distinct words
Texts = Callable[[], Iterable[str]]  # yields the same texts at each call, so that only a few need to be in memory


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
        self.pad_id, self.unk_id, self.cls_id, self.sep_id = (cast("int", ids[role]) for role in _NEEDED)
        self.mask_id = ids.get("mask_token")
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

        Every word has a token: the unknown one if nothing is left of it, as of a word of white space. Raises DataError
        if a word is not valid Unicode.
        """
        with _valid_unicode(chain.from_iterable(words)):
            encodings = self._backend.encode_batch(
                [list(row) for row in words], is_pretokenized=True, add_special_tokens=False
            )
        rows = []
        for row, encoding in zip(words, encodings, strict=True):
            places = cast("list[int]", encoding.word_ids)
            pieces = [*zip(places, self._as_text[np.array(encoding.ids, np.int64)].tolist(), strict=True)]
            pieces += [(place, self.unk_id) for place in set(range(len(row))) - set(places)]
            pieces.sort(key=lambda piece: piece[0])
            rows.append(([id_ for _, id_ in pieces], [place for place, _ in pieces]))
        return rows

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
        config_file = path.with_name("tokenizer_config.json")
        atomic_write_text(config_file, json.dumps(config, indent=2, ensure_ascii=False))
        atomic_write_text(path, self._backend.to_str(pretty=True))

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
        named = BERT_SPECIALS | _stated_specials(path.with_name("tokenizer_config.json"))
        specials = {role: text for role, text in named.items() if text is not None}
        return cls(open_backend(path), specials, str(path))

    @cached_property
    def fingerprint(self) -> str:
        """Return 16 hexadecimal digits that change whenever the tokenizer does."""
        content = json.dumps([self._backend.to_str(), self.specials], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def open_backend(path: Path) -> tokenizers.Tokenizer:
    """Return what `tokenizers` reads from a tokenizer.json. Raises DataError if it cannot, or if its normalizer could
    make a text so long that it fills the memory.
    """
    try:
        backend = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        growth = 1 if backend.normalizer is None else _growth(json.loads(backend.normalizer.__getstate__()))
        if growth > MOST_GROWTH:
            raise ValueError("its normalizer makes texts many times as long")
        return backend
    except Exception as error:  # the library raises plain Exception, whatever is wrong with the file
        raise _damaged(path, error) from error


def _growth(part: Any) -> int:
    """Return the most times longer that a normalizer makes a text, by what it puts before or in place of characters."""
    if isinstance(part, list):
        return math.prod(map(_growth, part))
    if not isinstance(part, dict):
        return 1
    own = (1 + len(part.get("prepend") or "")) * max(len(part.get("content") or ""), 1)
    return own * math.prod(map(_growth, part.values()))


def _stated_specials(path: Path) -> dict[str, str | None]:
    """Return the special tokens that the tokenizer_config.json at `path` names; none if there is no such file."""
    if not path.is_file():
        return {}
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        named = {role: fields[role] for role in BERT_SPECIALS if role in fields}  # a text, an object with it, or null
        tokens = {role: token["content"] if isinstance(token, dict) else token for role, token in named.items()}
        if not all(token is None or isinstance(token, str) for token in tokens.values()):
            raise TypeError("a special token is not a text")
        return tokens
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


@dataclass
class TokenizerConfig(ABC):
    """How text becomes ids."""

    group: ClassVar[str] = "tokenizer"

    def __post_init__(self) -> None:
        check_settings(self, self.group)

    @abstractmethod
    def build(self, texts: Texts, cache_dir: Path) -> Tokenizer:
        """Return the tokenizer; one that needs training learns from `texts`, the training split, and is cached under
        `cache_dir`.

        The texts are read several times, or not at all if nothing is trained. Raises DataError if the tokenizer cannot
        be built.
        """


@dataclass
class WordPieceConfig(TokenizerConfig):
    """BERT's WordPiece, trained on the training split.

    Source: Devlin et al., BERT (2019), section 3; tokens are merged by how often they co-occur, as in byte-pair
    encoding (Sennrich et al., 2016, section 3.2).
    """

    vocabulary_size: int = setting(8000, "Largest number of tokens in the vocabulary.", least=100)
    lowercase: bool | None = setting(
        None,
        "Lowercase the text and strip its accents; null: true, but false for task=tagging, because capitals mark "
        "names.",
    )
    min_frequency: int = setting(2, "How often a token must occur to be in the vocabulary.", least=1)

    def build(self, texts: Texts, cache_dir: Path) -> Tokenizer:
        """Train it, or open what was trained on the same texts with the same settings. Raises DataError if there is no
        text.
        """
        if self.lowercase is None:
            return replace(self, lowercase=True).build(texts, cache_dir)
        path = cache_dir / "tokenizers" / self._key(texts) / "tokenizer.json"
        if not path.exists():
            self._train(texts).save(path)
        return Tokenizer.load(path)

    def _train(self, texts: Texts) -> Tokenizer:
        normalizer = normalizers.BertNormalizer(lowercase=bool(self.lowercase))
        characters = self._characters(texts, normalizer)
        if not characters:
            raise DataError(
                "There is no text to train a tokenizer on",
                allowed=f"texts in which a character occurs {self.min_frequency} times",
                remedy="Use more rows, or tokenizer=bert_base_uncased",
            )
        # The library numbers characters inside words in a hash table's order, and breaks ties between merges by number,
        # so ids and even tokens differ between processes. Numbering the characters first, as special tokens, gives one
        # vocabulary.
        inside = [f"##{character}" for character in characters if character not in string.punctuation]
        trainer = trainers.WordPieceTrainer(
            vocab_size=self.vocabulary_size,
            min_frequency=self.min_frequency,
            special_tokens=_SPECIAL_TOKENS + inside,
            initial_alphabet=characters,
            limit_alphabet=len(characters),
            continuing_subword_prefix="##",
            show_progress=False,
        )
        learner = _wordpiece(models.WordPiece(unk_token="[UNK]"), normalizer)
        learner.train_from_iterator(texts(), trainer)
        vocabulary = learner.get_vocab(with_added_tokens=True)
        trained = _wordpiece(
            models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix="##"), normalizer
        )
        trained.add_special_tokens(_SPECIAL_TOKENS)
        return Tokenizer(trained, BERT_SPECIALS)

    def _characters(self, texts: Texts, normalizer: normalizers.Normalizer) -> list[str]:
        """Return the most frequent characters, sorted; each may take two ids, at the start of a word and inside."""
        counts = Counter[str]()
        for text in texts():
            counts.update(normalizer.normalize_str(text))
        often = [character for character, n in counts.items() if n >= self.min_frequency and not character.isspace()]
        often.sort(key=lambda character: (-counts[character], character))
        return sorted(often[: min(_MOST_CHARACTERS, (self.vocabulary_size - len(_SPECIAL_TOKENS)) // 2)])

    def _key(self, texts: Texts) -> str:
        key = hashlib.sha256(json.dumps([_TRAINING_VERSION, tokenizers.__version__, asdict(self)]).encode())
        for text in texts():
            encoded = text.encode()
            key.update(len(encoded).to_bytes(8, "big") + encoded)
        return key.hexdigest()[:32]


@dataclass
class PretrainedConfig(TokenizerConfig):
    """A tokenizer from the Hugging Face hub, from a folder, or of a shipped encoder."""

    name: str = setting(
        REQUIRED,
        "Name on the Hugging Face hub, such as google-bert/bert-base-uncased, a folder, or a shipped encoder such as "
        "mini-en.",
    )
    revision: str | None = setting(None, "Branch, tag or commit on the hub; null: the main branch.")

    def build(self, texts: Texts, cache_dir: Path) -> Tokenizer:
        """Load it through Transformers, which keeps it in the hub's own cache; code that comes with a tokenizer is
        never run.

        Raises DataError if there is no fast tokenizer of that name with all special tokens.
        """
        if (shipped := shipped_folder(self.name)) is not None:
            return Tokenizer.load(shipped / "tokenizer.json")
        loaded = self._loaded()
        if not loaded.is_fast:
            raise self._refused("has no fast tokenizer", "a name or folder with a tokenizer.json")
        specials = {role: text for role in BERT_SPECIALS if (text := getattr(loaded, role)) is not None}
        return Tokenizer(
            cast("tokenizers.Tokenizer", loaded.backend_tokenizer), specials, f"tokenizer.name={self.name}"
        )

    def _loaded(self) -> PreTrainedTokenizerBase:
        from huggingface_hub import constants
        from transformers import AutoTokenizer

        folder = Path(self.name)
        if (folder / "tokenizer.json").is_file():
            open_backend(folder / "tokenizer.json")  # refuses a damaged file, for which transformers raises any error
        # Without a hub that answers, transformers would keep trying for most of a minute.
        local = folder.is_dir() or not hub_answers(constants.ENDPOINT)
        try:
            return AutoTokenizer.from_pretrained(
                self.name, revision=self.revision or "main", trust_remote_code=False, local_files_only=local
            )
        except (OSError, ValueError, ImportError) as error:
            why = f"cannot be read ({' '.join(str(error).split())[:200]})"
            if local and not folder.is_dir():
                why = "is not in the cache, and the hub cannot be reached"
            raise self._refused(why, "a folder, or owner/name, with a tokenizer.json") from error

    def _refused(self, wrong: str, allowed: str) -> DataError:
        remedy = "Check the name and the network (HF_ENDPOINT), or set tokenizer=wordpiece, which needs neither"
        return DataError(f"tokenizer.name={self.name} {wrong}", allowed=allowed, remedy=remedy)


@dataclass
class SymbolsConfig(TokenizerConfig):
    """Every character is a token; characters that are not listed are unknown."""

    symbols: str = setting(string.digits + "()[]{}<>", "The characters that are tokens.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.symbols or len(set(self.symbols)) < len(self.symbols):
            raise SettingError(
                f"tokenizer.symbols is {self.symbols!r}",
                allowed="one character or more, each once",
                remedy="Remove tokenizer.symbols to use digits and brackets",
            )

    def build(self, texts: Texts, cache_dir: Path) -> Tokenizer:
        """Build it; nothing is trained or cached."""
        vocabulary = {token: id_ for id_, token in enumerate([*_SPECIAL_TOKENS, *self.symbols])}
        backend = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
        backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        backend.add_special_tokens(_SPECIAL_TOKENS)
        return Tokenizer(backend, BERT_SPECIALS)


@dataclass
class AsPretrainedTokenizer(TokenizerConfig):
    """The tokenizer that a pretrained encoder was trained with, set by `init_from`."""

    def build(self, texts: Texts, cache_dir: Path) -> Tokenizer:
        """Raise SettingError: this can only be replaced by the tokenizer of a pretrained encoder."""
        raise SettingError(
            "tokenizer=as_pretrained needs init_from=..., the encoder that it belongs to",
            remedy="Set init_from=... (finetune or pretrain), or choose another, such as tokenizer=wordpiece",
        )


def _wordpiece(model: models.WordPiece, normalizer: normalizers.Normalizer) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    return backend


class DistinctWords:
    """Encodes texts of a `backend` whose words can be encoded one by one: each distinct word once, then looked up.

    The ids of words, of `dtype`, are kept, up to a bound. Threads may share it. The library alone takes five times as
    long for paragraphs of 100 words (two cores).
    """

    def __init__(self, backend: tokenizers.Tokenizer, dtype: np.dtype, *, lowercase: bool) -> None:
        self._backend, self._dtype, self._lowercase = backend, dtype, lowercase
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
            self._known, self._size = {b"": b""}, 0
        lengths = np.fromiter(map(len, ids), np.int64, len(ids)) // self._dtype.itemsize
        return np.frombuffer(b"".join(ids), self._dtype), lengths

    def _words(self, text: str) -> list[bytes]:
        whole = str.encode(text)
        if self._lowercase:
            whole = whole.lower()  # bytes.lower changes only ASCII
        for character in _APART:
            whole = whole.replace(b"%c" % character, b" %c " % character)
        return whole.split(b" ")
