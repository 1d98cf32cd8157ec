"""The pretrained encoder that a run starts from: a shipped one, a run's, a Hugging Face folder, or a model of the hub,
of which only settings, safetensors and tokenizer are downloaded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from encoderlab.batch import HeadSizes
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.exchange.huggingface import read_huggingface
from encoderlab.model.config import ModelConfig, Pairs, Pooling
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.folder import MODEL_FILES, RunFolder, is_huggingface
from encoderlab.runs.saved_model import check_shapes, encoder_settings, read_model, tokenizer_of
from encoderlab.shipped import shipped_folder, suggestion
from encoderlab.system.hub_access import http_error, hub_answers, quiet
from encoderlab.tasks.config import PretrainingConfig, TaskConfig

DOWNLOADED = [
    "config.json",
    "model*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "1_Pooling/config.json",
]
TOKEN_TABLE = "encoder.embeddings.token.weight"
TABLES = (  # one row per position or token: a shorter table holds the first rows of a longer one
    TOKEN_TABLE,
    "encoder.embeddings.position.embedding.weight",
    "masked_token_head.decoder.weight",
    "masked_token_head.bias",
)
PROBE = "Déjà vu: the U.S. re-entered 12% of it, (so they say)"  # distinguishes case, accents and punctuation
STARTS = "a shipped encoder, a run folder, a Hugging Face folder or a hub name (OWNER/NAME)"
MEAN_POOLED = "1_Pooling/config.json"  # sentence-transformers' file of pooling settings
TASK_HEADS = ("sequence_head", "token_head")


@dataclass(frozen=True, slots=True)
class Pretrained:
    """The encoder a run starts from. `name` is what the user gave; `weights` has the names of
    `EncoderWithHeads.state_dict()`.
    """

    name: str
    config: ModelConfig
    heads: HeadSizes
    weights: dict[str, Tensor]
    tokenizer: Tokenizer
    labels: list[str]

    def settings_for(self, task: TaskConfig) -> ModelConfig:
        """Return the encoder's settings for a run of `task`.

        The pooling is kept if a task with labels or a pooler was trained with it. Otherwise it is the mean, which from
        pretraining alone scored 0.727 on the built-in task, and the first token 0.699. Pretraining reads a pair as one
        sequence.
        """
        answers = self.heads.sequence_classes is not None and not self.heads.vocabulary
        if isinstance(task, PretrainingConfig):
            return replace(self.config, pairs=Pairs.joint)
        if answers or "pool.dense.weight" in self.weights:
            return self.config
        return replace(self.config, pooling=Pooling.mean)


def load_pretrained(init_from: str, setting: str = "init_from") -> Pretrained:
    """Open a shipped encoder, a run folder, its model/ folder, a Hugging Face folder or a model of the hub.

    Raises DataError if there is none, or it is damaged or of an unsupported kind.
    """
    folder = encoder_folder(init_from, setting)
    return _of_huggingface(init_from, folder) if is_huggingface(folder) else _of_run(init_from, folder)


def load_into(model: EncoderWithHeads, pretrained: Pretrained, labels: Sequence[str] = ()) -> list[str]:
    """Copy the weights of `pretrained` into `model`; return the names of the parts that stay fresh.

    The encoder is copied whole, with tables cut to the rows that are needed. Heads of a task are always fresh, except
    those of continued pretraining, and the head of pairs only if it has the same `labels`. A `model` of shapes only
    stays one.
    """
    continues = pretrained.heads.vocabulary and model.masked_token_head is not None
    weights, copied = model.state_dict(), {}
    for name, weight in weights.items():
        theirs = pretrained.weights.get(name)
        if theirs is None or (name.startswith(TASK_HEADS) and not (continues and list(labels) == pretrained.labels)):
            continue
        theirs = theirs[: len(weight)] if name in TABLES else theirs
        if theirs.shape == weight.shape:
            copied[name] = theirs
    assert all(name in copied for name in weights if name.startswith("encoder."))
    if model.has_weights:
        model.load_state_dict(copied, strict=False)
    return sorted({name.rpartition(".")[0] for name in weights if name not in copied})


def check_same_vocabulary(tokenizer: Tokenizer, chosen: str, pretrained: Pretrained) -> None:
    """Raise SettingError for a tokenizer, described as `chosen`, whose ids differ in meaning from those of
    `pretrained`.
    """
    if difference := vocabulary_difference(tokenizer, pretrained.tokenizer):
        raise SettingError(
            f"{chosen} is not the tokenizer of init_from={pretrained.name}: {difference}",
            remedy="Use tokenizer=as_pretrained",
        )


def vocabulary_difference(mine: Tokenizer, other: Tokenizer) -> str:
    """Return the first difference between two tokenizers in words; "" if their ids mean the same."""
    if mine.fingerprint == other.fingerprint:
        return ""
    if mine.vocabulary_size != other.vocabulary_size:
        return f"{mine.vocabulary_size:,} tokens, not {other.vocabulary_size:,}"
    if mine.encode([PROBE]) != other.encode([PROBE]):
        return f"it splits {PROBE!r} differently"
    pieces = (part.pieces(range(part.vocabulary_size)) for part in (mine, other))
    differing = (id_ for id_, (piece, its) in enumerate(zip(*pieces, strict=True)) if piece != its)
    return next((f"id {id_} means another piece" for id_ in differing), "")


def encoder_folder(name: str, setting: str = "init_from") -> Path:
    """Return the model folder that `setting`=`name` names: a shipped encoder's, a run's, a Hugging Face folder or a hub
    model's.

    Raises SettingError, DataError if there is none.
    """
    if not name:
        raise SettingError(f"{setting} is empty", allowed=STARTS, remedy="Use a name from encoderlab list encoders")
    if (shipped := shipped_folder(name)) is not None:
        return shipped
    given = Path(name).expanduser()
    if given.is_file():
        raise DataError(f"{setting}={name} is a file", allowed=STARTS)
    if not given.is_dir():
        if remedy := suggestion(name, setting):
            raise DataError(
                f"{setting}={name} is neither a shipped encoder nor a folder", allowed=STARTS, remedy=remedy
            )
        return fetch_model_folder(name)
    if given.parent.name == RunFolder(given).checkpoints.name:
        raise DataError(
            f"{setting}={name} is a checkpoint", remedy=f"Set {setting}={given.parent.parent}, the run it belongs to"
        )
    folder = next((path for path in (RunFolder(given).model, given) if (path / "config.json").is_file()), None)
    if folder is None:
        raise DataError(
            f"{setting}={name} is not a model folder",
            allowed="the folder of a finished run, or a Hugging Face folder with a config.json",
        )
    return folder


def _of_run(init_from: str, folder: Path) -> Pretrained:
    if missing := [name for name in MODEL_FILES if not (folder / name).is_file()]:
        raise DataError(
            f"init_from={init_from} is not a complete model folder: it lacks {', '.join(missing)}",
            allowed="the folder of a finished run",
        )
    saved = read_model(folder)
    _check_pieces(init_from, saved.weights, saved.tokenizer)
    check_shapes(saved, f"init_from={init_from}")
    classes = [
        len(saved.weights[name]) if name in saved.weights else None
        for name in (f"{head}.weight" for head in TASK_HEADS)
    ]
    heads = HeadSizes(*classes, vocabulary="masked_token_head.bias" in saved.weights)
    return Pretrained(init_from, encoder_settings(saved.config), heads, saved.weights, saved.tokenizer, saved.labels)


def _of_huggingface(init_from: str, folder: Path) -> Pretrained:
    found = read_huggingface(folder)
    tokenizer = tokenizer_of(folder)
    _check_pieces(init_from, found.weights, tokenizer)
    config, weights = found.config, found.weights
    if found.heads.sequence_classes is None and _is_mean_pooled(folder):
        config = replace(config, pooling=Pooling.mean, pairs=Pairs.separate)
        weights = {name: weight for name, weight in weights.items() if not name.startswith("pool.")}
    return Pretrained(init_from, config, found.heads, weights, tokenizer, found.labels)


def _is_mean_pooled(folder: Path) -> bool:
    """Return whether sentence-transformers trained the encoder with mean pooling: then its pooler is untrained."""
    try:
        fields = json.loads((folder / MEAN_POOLED).read_text(encoding="utf-8"))
        return (
            fields.get("pooling_mode") == "mean" or fields.get("pooling_mode_mean_tokens") is True
        )  # since version 6, and before
    except (OSError, ValueError, AttributeError):
        return False


def _check_pieces(init_from: str, weights: dict[str, Tensor], tokenizer: Tokenizer) -> None:
    rows, pieces = len(weights.get(TOKEN_TABLE, ())), tokenizer.vocabulary_size
    if 0 < rows < pieces:
        raise DataError(
            f"init_from={init_from} has embeddings of {rows:,} tokens, but its tokenizer has {pieces:,}",
            remedy="Use a checkpoint with its own tokenizer",
        )


def fetch_model_folder(name_or_path: str) -> Path:
    """Return the folder itself or, for a name on the hub, one in the hub's cache (HF_HOME), updated if the hub answers.

    Pickles and code are never downloaded. Raises DataError if there is no such model, or if it can neither be
    downloaded nor is in the cache.
    """
    given = Path(name_or_path).expanduser()
    if given.is_dir():
        return given
    folder, online = _fetched(name_or_path)
    has_weights = any(folder.glob("model*.safetensors"))
    if not online and not has_weights:
        raise _unreachable(name_or_path, "has no weights of it")
    if not has_weights:
        raise DataError(
            f"{name_or_path} has no readable weights",
            allowed="a model with model.safetensors",
            remedy="If it has weights in another format and you trust them, convert them with transformers' "
            "save_pretrained",
        )
    return folder


def _fetched(name: str) -> tuple[Path, bool]:
    """Return the folder in the hub's cache, and whether the hub was reached."""
    from huggingface_hub import constants, errors, snapshot_download

    online = not constants.HF_HUB_OFFLINE and hub_answers(constants.ENDPOINT)
    try:
        with quiet():
            return Path(snapshot_download(name, allow_patterns=DOWNLOADED, local_files_only=not online)), online
    except errors.HFValidationError:
        raise DataError(
            f"{name} is neither a folder nor a valid name on the hub", allowed="a folder, or OWNER/NAME"
        ) from None
    except (errors.RepositoryNotFoundError, errors.GatedRepoError):
        raise DataError(
            f"{name} is not a folder, and not on the hub {constants.ENDPOINT} (or needs a login)",
            allowed="a folder, or OWNER/NAME",
        ) from None
    except errors.LocalEntryNotFoundError:
        raise _unreachable(name, "lacks it") from None
    except (OSError, http_error()) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")[:200]
        raise DataError(f"{name} cannot be downloaded from the hub: {reason}", remedy="Try again") from None


def _unreachable(name: str, cache: str) -> DataError:
    from huggingface_hub import constants

    return DataError(
        f"{name} is not a folder, the hub {constants.ENDPOINT} cannot be reached, and the cache "
        f"{constants.HF_HUB_CACHE} {cache}",
        remedy="Check the name and the network (HF_ENDPOINT, HF_HUB_OFFLINE), or set HF_HOME to a cache that has it",
    )
