"""The model folder: weights, config, tokenizer; all that eval, predict and attention need, in formats that run no code."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch
import torch
from torch import Tensor

from encoderlab.aside import written_aside
from encoderlab.command_settings import RunConfig
from encoderlab.config import settings_from_dict, settings_to_dict
from encoderlab.data.tokenizer import Tokenizer
from encoderlab.data.tokenizer_config import PretrainedConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.model.config import ModelConfig
from encoderlab.model.huggingface import HuggingFaceModel, read_huggingface
from encoderlab.model.huggingface_files import read_config, read_weights
from encoderlab.runs.folder import MODEL_TYPE, is_huggingface
from encoderlab.settings import REQUIRED
from encoderlab.tasks.config import ClassificationConfig, PretrainingConfig, SecondSentence, TaggingConfig, TaskConfig
from encoderlab.tasks.encoding import EncodingConfig
from encoderlab.training.checkpoint import weights_of, write_manifest
from encoderlab.training.config import TrainingConfig

if TYPE_CHECKING:
    from encoderlab.runs.assembly import Assembly

NOT_KNOWN = {"step": None, "chosen_by": "checkpoint as it was found", "chosen_on": None}
HASHED = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")
LARGEST_CONFIG = 10_000_000  # bytes; it holds every label twice
BY_PIECE = ("encoder.embeddings.token.weight", "masked_token_head.decoder.weight", "masked_token_head.bias")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a model comes from: after which step its weights were taken and why, and what it was trained on.

    `paired` tells whether an example is two texts (None: not known); `fingerprints` holds one of each split's rows, so that a data
    set that has changed since is noticed.
    """

    checkpoint: dict[str, Any]
    paired: bool | None
    fingerprints: dict[str, str]


@dataclass(frozen=True, slots=True)
class SavedModel:
    """What a model folder holds. A Hugging Face folder names no dataset: `config.dataset` is then None."""

    config: RunConfig
    labels: list[str]
    tokenizer: Tokenizer
    weights: dict[str, Tensor]
    origin: Origin


def save_model(assembly: Assembly, folder: Path, origin: Origin, card: str) -> None:
    """Write the model to `folder`, with `card` as its README.md and a manifest of hashes; it appears whole or not at all.

    One that a run wrote before it was continued is replaced.
    """
    labels = dict(enumerate(assembly.task.labels))
    config = {
        "model_type": MODEL_TYPE,
        "id2label": labels,
        "label2id": {label: index for index, label in labels.items()},
        "origin": asdict(origin),
        "encoderlab": settings_to_dict(assembly.config),
    }
    with written_aside(folder) as aside:
        aside.mkdir(parents=True)
        weights = safetensors.torch.save(weights_of(assembly.model), metadata={"format": "pt"})
        (aside / "model.safetensors").write_bytes(weights)  # its own writer has no errno for a full disk
        assembly.tokenizer.save(aside / "tokenizer.json")
        (aside / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        write_manifest(aside, HASHED)
        (aside / "README.md").write_text(card, encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)


def read_model(folder: Path) -> SavedModel:
    """Read a model folder, ours or one of transformers. Raises DataError where it is damaged, or holds what ours cannot."""
    if is_huggingface(folder):
        return _of_huggingface(folder)
    try:
        config = read_config(folder, LARGEST_CONFIG)
        labels, origin = _labels(config["id2label"]), _origin(config["origin"])
        settings = settings_from_dict(config["encoderlab"], RunConfig)
        if not isinstance(settings.model, ModelConfig):
            raise ValueError("config.json does not say the model's size and shape")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SettingError) as error:
        raise _not_ours(folder, error) from None
    tokenizer, weights = Tokenizer.load(folder / "tokenizer.json"), read_weights(folder / "model.safetensors")
    return SavedModel(settings, labels, tokenizer, weights, origin)


def _labels(id2label: dict[str, Any]) -> list[str]:
    labels = [id2label[str(index)] for index in range(len(id2label))]
    if not all(isinstance(label, str) for label in labels) or len(set(labels)) < len(labels):
        raise ValueError("id2label does not hold a name of its own for each class")
    return labels


def _origin(said: dict[str, Any]) -> Origin:
    origin = Origin(**said)
    kinds = {"checkpoint": dict, "paired": bool | None, "fingerprints": dict}
    if wrong := [name for name, kind in kinds.items() if not isinstance(getattr(origin, name), kind)]:
        raise ValueError(f"origin says {wrong[0]}={getattr(origin, wrong[0])}")
    return origin


def check_shapes(saved: SavedModel, named: str) -> None:
    """Refuse weights that are not those of the config, before a model of its size is made. Raises DataError naming the model."""
    if saved.config.model.n_layers > len(saved.weights):
        layers = f"{saved.config.model.n_layers} layers in config.json and {len(saved.weights)} weights"
        raise DataError(f"The weights of {named} do not fit its config: {layers}", remedy="Use another run")
    task = saved.config.task.build(saved.tokenizer, saved.labels, saved.config.model.max_length)
    with torch.device("meta"):  # shapes without memory
        model = saved.config.model.build(saved.tokenizer.vocabulary_size, saved.tokenizer.pad_id, task.heads)
    wanted = {name: list(weight.shape) for name, weight in model.state_dict().items()}
    found = {name: list(weight.shape) for name, weight in saved.weights.items()}
    differing = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if differing:
        name = differing[0]
        more = f" (and {len(differing) - 1} more)" if differing[1:] else ""
        raise DataError(
            f"The weights of {named} do not fit its config: size mismatch, "
            f"{name}{more} has the shape {found.get(name)}, not {wanted.get(name)}",
            remedy="Train it again, or use another run",
        )


def _not_ours(folder: Path, error: Exception) -> DataError:
    reason = " ".join(str(error).split())[:200]
    return DataError(f"{folder} is damaged or not a model of encoderlab: {reason}", remedy="Train it again, or use another run")


def _of_huggingface(folder: Path) -> SavedModel:
    """The model of a Hugging Face folder, as the answer to a task of ours that is named after the folder."""
    found = read_huggingface(folder)
    tokenizer = tokenizer_of(folder)
    config = RunConfig(
        cache_dir=REQUIRED,
        task=_task_of(found, folder.resolve().name),
        dataset=None,
        tokenizer=PretrainedConfig(name=str(folder)),
        model=found.config,
        training=TrainingConfig(),
    )
    if tokenizer.vocabulary_size > found.vocabulary_size:
        raise DataError(
            f"{folder} has embeddings of {found.vocabulary_size:,} pieces, and its tokenizer has {tokenizer.vocabulary_size:,}",
            remedy="Use a checkpoint with its own tokenizer",
        )
    spare = () if found.heads.sequence_classes is not None else ("pool.",)
    weights = {name: weight for name, weight in found.weights.items() if not name.startswith(tuple(spare))}
    # tables are often filled up to a round number of rows, which no text ever asks for
    weights |= {name: weights[name][: tokenizer.vocabulary_size].contiguous() for name in BY_PIECE if name in weights}
    return SavedModel(config, found.labels, tokenizer, weights, Origin(NOT_KNOWN, None, {}))


def tokenizer_of(folder: Path) -> Tokenizer:
    """The tokenizer that lies in a Hugging Face folder. Raises DataError where there is none."""
    if (path := folder / "tokenizer.json").is_file():
        return Tokenizer.load(path)
    if not (folder / "vocab.txt").is_file():  # transformers would make a tokenizer without a single piece
        raise DataError(f"{folder} comes without its tokenizer", allowed="a folder with tokenizer.json or vocab.txt")
    return PretrainedConfig(name=str(folder)).build(list, folder)


def _task_of(found: HuggingFaceModel, name: str) -> TaskConfig:
    """What the checkpoint's heads were trained to answer."""
    if found.heads.vocabulary:
        pairs = {"follows": SecondSentence.next, "in_order": SecondSentence.swapped}
        return PretrainingConfig(name=name, second_sentence=pairs[found.labels[0]] if found.labels else SecondSentence.none)
    if found.heads.token_classes is not None:
        return TaggingConfig(name=name)
    return EncodingConfig(name=name) if found.heads.sequence_classes is None else ClassificationConfig(name=name)
