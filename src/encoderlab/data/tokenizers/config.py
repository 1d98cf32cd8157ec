"""The settings of the tokenizers, each with one method: build."""

from __future__ import annotations

import hashlib
import json
import string
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from encoderlab.data.tokenizers.tokenizer import BERT_SPECIALS, Tokenizer, open_backend
from encoderlab.errors import DataError, SettingError
from encoderlab.settings import REQUIRED, check_settings, setting
from encoderlab.shipped import shipped_folder
from encoderlab.system.hub_access import http_error, hub_answers

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_SPECIAL_TOKENS = list(BERT_SPECIALS.values())
_MOST_CHARACTERS = 1000  # as in BERT's own training; rarer characters become the unknown token
_TRAINING_VERSION = 1  # part of the cache key: increase it whenever the same texts would give another vocabulary
_HUB_SECONDS = 8
Texts = Callable[[], Iterable[str]]  # yields the same texts at each call, so that only a few need to be in memory


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
        "Lowercase the text and strip its accents; null: true, but false for task=tagging, because capitals mark names.",
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
        n_texts = sum(1 for _ in texts())
        key = hashlib.sha256(json.dumps([_TRAINING_VERSION, tokenizers.__version__, asdict(self), n_texts]).encode())
        for text in texts():
            encoded = text.encode()
            key.update(len(encoded).to_bytes(8, "big") + encoded)
        return key.hexdigest()[:32]


@dataclass
class PretrainedConfig(TokenizerConfig):
    """A tokenizer from the Hugging Face hub, from a folder, or of a shipped encoder."""

    name: str = setting(
        REQUIRED,
        "Name on the Hugging Face hub, such as google-bert/bert-base-uncased, a folder, or a shipped encoder such as mini-en.",
    )
    revision: str | None = setting(None, "Branch, tag or commit on the hub; null: the main branch.")

    def build(self, texts: Texts, cache_dir: Path) -> Tokenizer:
        """Load it through Transformers, which keeps it in the hub's own cache; code that comes with a tokenizer is
        never run.

        Raises DataError if there is no tokenizer of that name, the hub cannot be reached, it is not a fast tokenizer,
        or it lacks a special token.
        """
        if (shipped := shipped_folder(self.name)) is not None:
            return Tokenizer.load(shipped / "tokenizer.json")
        found = self._found(local=Path(self.name).is_dir() or not self._reachable())
        if not found.is_fast:
            raise self._refused("has no fast tokenizer", "a name or folder with a tokenizer.json")
        specials = {role: text for role in BERT_SPECIALS if (text := getattr(found, role)) is not None}
        return Tokenizer(cast("tokenizers.Tokenizer", found.backend_tokenizer), specials, f"tokenizer.name={self.name}")

    def _reachable(self) -> bool:
        """Return whether the hub answers; checked here because transformers would keep trying for most of a minute."""
        from huggingface_hub import HfApi, constants, errors

        if not hub_answers(constants.ENDPOINT):
            return False
        try:
            HfApi().model_info(self.name, revision=self.revision, timeout=_HUB_SECONDS)
        except errors.HFValidationError as error:
            raise self._refused("is neither a folder nor a valid name on the hub", "a folder, or owner/name") from error
        except errors.RevisionNotFoundError as error:
            raise self._refused(f"has no revision {self.revision}", "a branch, tag or commit of it") from error
        except errors.RepositoryNotFoundError as error:
            raise self._refused(
                "is not a folder, and not on the hub (or needs a login)", "a folder, or owner/name on the hub"
            ) from error
        except (OSError, http_error()):  # it answers, but not for this file
            return False
        return True

    def _found(self, local: bool) -> PreTrainedTokenizerBase:
        from transformers import AutoTokenizer

        if (file := Path(self.name) / "tokenizer.json").is_file():
            open_backend(file)  # refuses a damaged file, for which transformers could raise any error
        try:
            return AutoTokenizer.from_pretrained(
                self.name, revision=self.revision or "main", trust_remote_code=False, local_files_only=local
            )
        except (OSError, ValueError, ImportError) as error:
            if local and not Path(self.name).is_dir():
                raise self._refused(
                    "is not in the cache, and the hub cannot be reached", "a folder, or a hub that can be reached"
                ) from error
            why = " ".join(str(error).split())[:200]
            raise self._refused(
                f"has no tokenizer that can be read ({why})", "a name or folder with a tokenizer.json"
            ) from error

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
            remedy="Set init_from=... (encoderlab finetune or pretrain), or choose another, such as tokenizer=wordpiece",
        )


def _wordpiece(model: models.WordPiece, normalizer: normalizers.Normalizer) -> tokenizers.Tokenizer:
    backend = tokenizers.Tokenizer(model)
    backend.normalizer = normalizer
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    return backend
