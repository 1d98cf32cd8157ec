"""Positions for texts longer than those that a run read, for programs that do not truncate them.

A run chooses its `model.max_length` by its rows, and keeps only that many learned positions. A pipeline of transformers
passes whole texts to a model unless it is told to truncate them, and would fail at the first position without a row.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor

from encoderlab.errors import UserError
from encoderlab.model.config import ModelConfig, Positions
from encoderlab.runs.model import Model
from encoderlab.runs.model_folder import MODEL, network_of
from encoderlab.runs.pretrained import load_pretrained

TABLE = "encoder.embeddings.position.embedding.weight"
USUAL = 512  # tokens that BERT and most encoders like it read


def with_full_positions(model: Model, folder: Path) -> Model:
    """Return the model of `folder` with positions for texts of at least USUAL tokens.

    Its task still truncates texts where it did. Learned positions are those of the encoder that the run started from;
    further ones repeat the last, so that a text that is not truncated is read at all. Rotary positions have no end. An
    encoder of transformers has kept all that it had.
    """
    if model.shape.positions is Positions.rotary:
        return model
    if not model.network.encoder.is_drawn:
        whole = replace(model.shape, max_length=model.network.encoder.max_length)
        return replace(model, config=replace(model.config, model=whole))
    weights = dict(model.network.state_dict())
    length = max(model.shape.reach, USUAL)
    if model.shape.positions is Positions.learned:
        learned = weights[TABLE]
        start = _table_of_start(model.shape, folder)
        if start is not None and len(start) > len(learned):
            learned = torch.cat([learned, start[len(learned) :].to(learned)])
        length = max(len(learned), USUAL)
        missing = length - len(learned)
        weights[TABLE] = torch.cat([learned, learned[-1:].repeat(missing, 1)])
    shape = replace(model.shape, max_length=length)
    network = network_of(shape, model.task, weights)
    return replace(model, config=replace(model.config, model=shape), network=network)


def _table_of_start(shape: ModelConfig, folder: Path) -> Tensor | None:
    """Return the positions of the encoder that the run of a model folder started from, None if it cannot be had."""
    config = folder.parent / "config.yaml"
    if folder.name != MODEL or not config.is_file():
        return None
    settings: Any = yaml.safe_load(config.read_text(encoding="utf-8"))
    init_from = settings.get("init_from") if isinstance(settings, dict) else None
    if not init_from:
        return None
    try:
        table = load_pretrained(str(init_from)).network.state_dict().get(TABLE)
    except UserError:  # it was moved, or the hub cannot be reached
        return None
    return table if table is not None and table.shape[1] == shape.embedding_width else None
