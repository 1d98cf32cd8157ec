"""The pretrained encoder that a run starts from: a shipped one, a run's, a Hugging Face folder, or a model of the hub,
of which only settings, safetensors and tokenizer are downloaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError
from encoderlab.exchange.weights import read_config
from encoderlab.model.config import ModelConfig, Pairs, Pooling
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.folder import RunFolder, model_folder
from encoderlab.runs.saved_model import SavedModel, encoder_settings, read_model
from encoderlab.shipped import shipped_folder, suggestion
from encoderlab.system.hub_access import http_error, hub_answers, quiet
from encoderlab.tasks.config import PretrainingConfig, TaskConfig
from encoderlab.tasks.texts import EncodingConfig

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
TASK_HEADS = ("sequence_head", "token_head")


def load_pretrained(init_from: str, setting: str = "init_from") -> SavedModel:
    """Open the encoder that `setting`=`init_from` names, with the settings that a run starts from in `config.model`.

    Raises SettingError or DataError if there is none, or it is damaged or of an unsupported kind.
    """
    folder = encoder_folder(init_from, setting)
    saved = read_model(folder)
    model, weights = encoder_settings(saved.config), saved.weights
    if isinstance(saved.config.task, EncodingConfig) and _is_mean_pooled(folder):  # its pooler is untrained
        model = replace(model, pooling=Pooling.mean, pairs=Pairs.separate)
        weights = {name: weight for name, weight in weights.items() if not name.startswith("pool.")}
    return replace(saved, config=replace(saved.config, model=model), weights=weights)


def settings_for(task: TaskConfig, pretrained: SavedModel) -> ModelConfig:
    """Return the settings of a pretrained encoder for a run of `task`.

    The pooling is kept if a task with labels or a pooler was trained with it. Otherwise it is the mean, which from
    pretraining alone scored 0.727 on the built-in task, and the first token 0.699. Pretraining reads a pair as one
    sequence.
    """
    model, heads = pretrained.config.model, pretrained.task().heads
    if isinstance(task, PretrainingConfig):
        return replace(model, pairs=Pairs.joint)
    has_classes = heads.sequence_classes is not None and not heads.vocabulary
    return model if has_classes or "pool.dense.weight" in pretrained.weights else replace(model, pooling=Pooling.mean)


def load_into(model: EncoderWithHeads, pretrained: SavedModel, labels: Sequence[str] = ()) -> list[str]:
    """Copy the weights of `pretrained` into `model`; return the names of the parts that stay fresh.

    The encoder is copied whole, with tables cut to the rows that are needed. Heads of a task are always fresh, except
    those of continued pretraining, and the head of pairs only if it has the same `labels`. A `model` of shapes only
    stays one.
    """
    continues = "masked_token_head.bias" in pretrained.weights and list(labels) == pretrained.labels
    weights, copied = model.state_dict(), {}
    for name, weight in weights.items():
        theirs = pretrained.weights.get(name)
        if theirs is None or (name.startswith(TASK_HEADS) and not (continues and model.masked_token_head is not None)):
            continue
        theirs = theirs[: len(weight)] if name in TABLES else theirs
        if theirs.shape == weight.shape:
            copied[name] = theirs
    assert all(name in copied for name in weights if name.startswith("encoder."))
    if model.has_weights:
        model.load_state_dict(copied, strict=False)
    return sorted({name.rpartition(".")[0] for name in weights if name not in copied})


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

    Raises DataError if there is none.
    """
    path = Path(name).expanduser()
    if shipped_folder(name) is not None or (name and path.is_dir()):
        if path.parent.name == RunFolder(path).checkpoints.name:
            remedy = f"Set {setting}={path.parent.parent}, the run it belongs to"
            raise DataError(f"{setting}={name} is a checkpoint", remedy=remedy)
        return model_folder(name, setting)
    remedy = suggestion(name, setting)
    if not name or remedy or path.is_file():
        remedy = remedy or "Use a name from encoderlab list encoders"
        raise DataError(f"{setting}={name} is neither a shipped encoder nor a folder", allowed=STARTS, remedy=remedy)
    return fetch_model_folder(name)


def _is_mean_pooled(folder: Path) -> bool:
    """Return whether sentence-transformers trained the encoder with mean pooling: then its pooler is untrained."""
    try:
        fields = read_config(folder / "1_Pooling")
    except DataError:
        return False
    # The first key since version 6, the second before.
    return fields.get("pooling_mode") == "mean" or fields.get("pooling_mode_mean_tokens") is True


def fetch_model_folder(name: str) -> Path:
    """Return a model's folder in the hub's cache (HF_HOME), updated if the hub answers.

    Pickles and code are never downloaded. Raises DataError if there is no such model, or if it can neither be
    downloaded nor is in the cache.
    """
    from huggingface_hub import constants, snapshot_download

    online = not constants.HF_HUB_OFFLINE and hub_answers(constants.ENDPOINT)
    try:
        with quiet():
            folder = Path(snapshot_download(name, allow_patterns=DOWNLOADED, local_files_only=not online))
    except (OSError, ValueError, http_error()) as error:  # the hub's own errors are of these kinds
        reason = str(error).strip().partition("\n")[0].rstrip(".")[:200] if online else "it cannot be reached"
        raise DataError(
            f"{name} is not a folder, and not available on the hub {constants.ENDPOINT}: {reason}",
            allowed="a folder, or OWNER/NAME",
            remedy="Check the name, the network and HF_TOKEN, or set HF_HOME to a cache that has it",
        ) from None
    if not any(folder.glob("model*.safetensors")):
        remedy = "Convert weights in another format with transformers' save_pretrained, if you trust them"
        raise DataError(f"{name} has no readable weights", allowed="a model with model.safetensors", remedy=remedy)
    return folder
