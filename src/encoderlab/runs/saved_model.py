"""The model folder of a run: weights, config, tokenizer; all that eval, predict and attention need, in formats that run no code."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors
import safetensors.torch
from torch import Tensor

from encoderlab.aside import written_aside
from encoderlab.config import RunConfig, settings_from_dict, settings_to_dict
from encoderlab.data.tokenizer import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.training.checkpoint import weights_of

if TYPE_CHECKING:
    from encoderlab.runs.assembly import Assembly


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a model comes from: after which step its weights were taken and why, and what it was trained on.

    `paired` tells whether an example is two texts; `fingerprints` holds one of each split's rows, so that a data set that has
    changed since is noticed.
    """

    checkpoint: dict[str, Any]
    paired: bool
    fingerprints: dict[str, str]


@dataclass(frozen=True, slots=True)
class SavedModel:
    """What a model folder holds."""

    config: RunConfig
    labels: list[str]
    tokenizer: Tokenizer
    weights: dict[str, Tensor]
    origin: Origin


def save_model(assembly: Assembly, folder: Path, origin: Origin, card: str) -> None:
    """Write the model to a new `folder`, with `card` as its README.md; the folder appears whole or not at all."""
    labels = dict(enumerate(assembly.task.labels))
    config = {
        "model_type": "encoderlab",
        "id2label": labels,
        "label2id": {label: index for index, label in labels.items()},
        "origin": asdict(origin),
        "encoderlab": settings_to_dict(assembly.config),
    }
    with written_aside(folder) as aside:
        aside.mkdir(parents=True)
        safetensors.torch.save_file(weights_of(assembly.model), aside / "model.safetensors", metadata={"format": "pt"})
        assembly.tokenizer.save(aside / "tokenizer.json")
        (aside / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (aside / "README.md").write_text(card, encoding="utf-8")


def read_model(folder: Path) -> SavedModel:
    """Read a model folder. Raises DataError where a file is damaged."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        labels = [config["id2label"][str(index)] for index in range(len(config["id2label"]))]
        settings = settings_from_dict(config["encoderlab"], RunConfig)
        weights = safetensors.torch.load_file(folder / "model.safetensors")
        return SavedModel(settings, labels, Tokenizer.load(folder / "tokenizer.json"), weights, Origin(**config["origin"]))
    except (ValueError, KeyError, TypeError, AttributeError, SettingError, safetensors.SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        raise DataError(
            f"{folder} is damaged or not a model of encoderlab: {reason}", remedy="Train it again, or use another run"
        ) from None
