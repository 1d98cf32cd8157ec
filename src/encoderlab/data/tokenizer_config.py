"""How the kinds of tokenizers are made: trained on the run's texts, or taken from a folder or the hub."""

from __future__ import annotations

import hashlib
import json
import string
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from encoderlab.data.hub import hub_answers
from encoderlab.data.tokenizers import BERT_SPECIALS, Tokenizer, open_backend
from encoderlab.errors import DataError, SettingError
from encoderlab.settings import REQUIRED, check_settings, setting
from encoderlab.shipped import shipped_folder

_SPECIAL_TOKENS = list(BERT_SPECIALS.values())
_MOST_CHARACTERS = 1000  # as in BERT's own training; rarer characters become the unknown token
_TRAINING_VERSION = 1  # part of the cache key: increase it whenever the same texts would give another vocabulary
Texts = Callable[[], Iterable[str]]  # yields the same texts at each call, so that only a few need to be in memory


@dataclass
class TokenizerConfig(ABC):
    """How text becomes ids."""

    group: ClassVar[str] = "tokenizer"
    of_symbols: ClassVar[bool] = False  # each character is a token, and texts are no language

    def __post_init__(self) -> None:
        check_settings(self, self.group)

    def for_task(self, *, of_words: bool) -> TokenizerConfig:
        """Return the settings with those decided that depend on whether the words of a row have labels."""
        return self

    def refuse_without_encoder(self) -> None:  # noqa: B027 (most belong to no encoder)
        """Raise SettingError if it is the tokenizer of an encoder, and a run starts from none."""

    @abstractmethod
    def build(self, texts: Texts, cache_dir: Path) -> Tokenizer:
        """Return the tokenizer. Raises DataError if it cannot be built.

        One that needs training learns from `texts`, the training split, which it reads several times, and is cached
        under `cache_dir`.
        """


@dataclass
class WordPieceConfig(TokenizerConfig):
    """BERT's WordPiece, trained on the training split.

    Source: Devlin et al., BERT (2019), section 3; tokens are merged by how often they co-occur, as in byte-pair
    encoding (Sennrich et al., 2016, section 3.2).
    """

    vocabulary_size: int = setting(8000, "Largest number of tokens in the vocabulary.", minimum=100)
    lowercase: bool | None = setting(
        None,
        "Lowercase the text and strip its accents; null: true, but false for task=tagging, because capitals mark "
        "names.",
    )
    min_frequency: int = setting(2, "How often a token must occur to be in the vocabulary.", minimum=1)

    def for_task(self, *, of_words: bool) -> WordPieceConfig:
        """Return the settings with `lowercase` decided.

        Labelled words keep their case: on French parts of speech (Sequoia, validation) this gains 0.3 points.
        """
        return self if self.lowercase is not None else replace(self, lowercase=not of_words)

    def build(self, texts: Texts, cache_dir: Path) -> Tokenizer:
        """Train it, or open what the same texts and settings gave before. Raises DataError if there is no text."""
        path = cache_dir / "tokenizers" / self._key(texts) / "tokenizer.json"
        if path.exists():
            try:
                return Tokenizer.load(path)
            except DataError:
                print(f"The cached tokenizer {path} is damaged and is being rebuilt.", file=sys.stderr)
        self._train(texts).save(path)
        return Tokenizer.load(path)

    def _train(self, texts: Texts) -> Tokenizer:
        normalizer = normalizers.BertNormalizer(lowercase=self.lowercase is not False)
        characters = self._characters(texts, normalizer)
        if not characters:
            allowed = f"texts in which a character occurs {self.min_frequency} times"
            remedy = "Use more rows, or tokenizer=bert_base_uncased"
            raise DataError("There is no text to train a tokenizer on", allowed=allowed, remedy=remedy)
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
        learner = _wordpiece(None, normalizer)
        learner.train_from_iterator(texts(), trainer)
        trained = _wordpiece(learner.get_vocab(with_added_tokens=True), normalizer)
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
        """Load it through Transformers, which keeps it in the hub's own cache; code that comes with it is never run.

        Raises DataError if there is no fast tokenizer of that name with all special tokens.
        """
        shipped = shipped_folder(self.name)
        if shipped is not None:
            return Tokenizer.load(shipped / "tokenizer.json")
        from huggingface_hub import constants
        from transformers import AutoTokenizer

        folder = Path(self.name)
        if (folder / "tokenizer.json").is_file():
            open_backend(folder / "tokenizer.json")  # refuses a damaged file, for which transformers raises any error
        # Without a hub that answers, transformers would keep trying for most of a minute.
        local = folder.is_dir() or not hub_answers(constants.ENDPOINT)
        remedy = "Check the name and the network (HF_ENDPOINT), or set tokenizer=wordpiece, which needs neither"
        try:
            loaded = AutoTokenizer.from_pretrained(
                self.name, revision=self.revision or "main", trust_remote_code=False, local_files_only=local
            )
        except (OSError, ValueError, ImportError) as error:
            reached = "" if folder.is_dir() or not local else ", and the hub cannot be reached"
            why = f"cannot be read{reached} ({' '.join(str(error).split())[:200]})"
            raise DataError(f"tokenizer.name={self.name} {why}", remedy=remedy) from error
        if not loaded.is_fast:
            raise DataError(f"tokenizer.name={self.name} has no fast tokenizer (tokenizer.json)", remedy=remedy)
        specials = {role: getattr(loaded, role) for role in BERT_SPECIALS if getattr(loaded, role) is not None}
        backend: Any = loaded.backend_tokenizer
        return Tokenizer(backend, specials, f"tokenizer.name={self.name}")


@dataclass
class SymbolsConfig(TokenizerConfig):
    """Every character is a token; characters that are not listed are unknown."""

    of_symbols: ClassVar[bool] = True

    symbols: str = setting(string.digits + "()[]{}<>", "The characters that are tokens.")

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

    def refuse_without_encoder(self) -> None:
        raise self._without_encoder()

    def build(self, texts: Texts, cache_dir: Path) -> Tokenizer:
        """Raise SettingError: this can only be replaced by the tokenizer of a pretrained encoder."""
        raise self._without_encoder()

    @staticmethod
    def _without_encoder() -> SettingError:
        remedy = "Set init_from=... (finetune or pretrain), or choose another, such as tokenizer=wordpiece"
        return SettingError("tokenizer=as_pretrained needs init_from=..., the encoder it belongs to", remedy=remedy)


def _wordpiece(vocabulary: dict[str, int] | None, normalizer: normalizers.Normalizer) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", continuing_subword_prefix="##"))
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    return backend
