"""The initial weights of a student: parts of its teacher (Sanh et al. 2019, section 3, for whole layers)."""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from encoderlab.config.commands import StudentStart
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelConfig, Positions
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.pretrained import TOKEN_TABLE, Pretrained

POSITION_TABLE = "encoder.embeddings.position.embedding.weight"
SEGMENT_TABLE = "encoder.embeddings.segment.weight"
SAME_SHAPE = ("d_model", "n_heads", "head_width", "feed_forward_width", "norm", "norm_position", "activation", "bias")


def check_start(config: ModelConfig, teacher: ModelConfig, start: StudentStart) -> None:
    """Raise SettingError if a student of the settings `config` cannot hold the parts of its teacher that `start` names."""
    if start is StudentStart.fresh:
        return
    _check_width(config, teacher)
    if start is StudentStart.layers:
        _check_layers(config, teacher)


def start_student(model: EncoderWithHeads, config: ModelConfig, teacher: Pretrained, start: StudentStart) -> None:
    """Copy parts of the teacher into `model`, whose settings `config` have passed `check_start`."""
    if start is StudentStart.fresh:
        return
    taken = _tables(config, teacher, len(model.encoder.embeddings.token.weight))
    if start is StudentStart.layers:
        taken |= _layers(config, teacher)
    wanted = model.state_dict()
    fitting = {name: weight for name, weight in taken.items() if name in wanted and wanted[name].shape == weight.shape}
    model.load_state_dict(fitting, strict=False)
    print(
        f"Student starts from the teacher's {start.value}: {sum(map(torch.numel, fitting.values())):,} weights",
        file=sys.stderr,
    )


def projection(table: Tensor, width: int) -> Tensor:
    """Return the `width` directions that keep most of a table's rows: [rows, d_teacher] -> [d_teacher, width].

    Principal components about zero, not about the mean: what all rows share is kept too.
    """
    table = table.double()
    _, directions = torch.linalg.eigh(table.T @ table)  # ascending eigenvalues
    return directions[:, -width:].flip(1).float()


def _tables(config: ModelConfig, teacher: Pretrained, pieces: int) -> dict[str, Tensor]:
    """Return the tables of the teacher's embeddings at the student's width, cut to the rows the student has."""
    token = teacher.weights[TOKEN_TABLE].float()
    reduced = torch.eye(config.d_model) if token.shape[1] == config.d_model else projection(token, config.d_model)
    rows = {TOKEN_TABLE: pieces, SEGMENT_TABLE: config.segments}
    if config.positions is Positions.learned:
        rows[POSITION_TABLE] = config.reach
    found = {name: teacher.weights[name][:n].float() @ reduced for name, n in rows.items() if name in teacher.weights}
    norm = (
        {f"encoder.embeddings.norm.{name}" for name in ("weight", "bias")}
        if token.shape[1] == config.d_model
        else set()
    )
    return found | {name: weight.float() for name, weight in teacher.weights.items() if name in norm}


def _layers(config: ModelConfig, teacher: Pretrained) -> dict[str, Tensor]:
    """Return evenly spaced layers of the teacher, ending with its last one."""
    found = {}
    for layer in range(config.n_layers):
        source = (layer + 1) * teacher.config.n_layers // config.n_layers - 1
        prefix = f"encoder.layers.{source}."
        for name, weight in teacher.weights.items():
            if name.startswith(prefix):
                found[f"encoder.layers.{layer}.{name.removeprefix(prefix)}"] = weight.float()
    return found


def _check_layers(config: ModelConfig, teacher: ModelConfig) -> None:
    """Raise SettingError for a student whose layers are not of the teacher's shape, or that has more of them."""
    differing = next((name for name in SAME_SHAPE if getattr(config, name) != getattr(teacher, name)), None)
    if differing or config.n_layers > teacher.n_layers:
        name = differing or "n_layers"
        raise SettingError(
            f"start=layers copies the teacher's layers, but model.{name} is {_value(config, name)}, "
            f"and the teacher's is {_value(teacher, name)}",
            remedy="Use the teacher's shape with fewer layers, or start=embeddings",
        )


def _check_width(config: ModelConfig, teacher: ModelConfig) -> None:
    if config.d_model > teacher.d_model:
        raise SettingError(
            f"model.d_model is {config.d_model}, but the teacher's is {teacher.d_model}, and its embeddings cannot be widened",
            allowed=f"at most {teacher.d_model} with start=embeddings or start=layers",
            remedy=f"Set start=fresh, or model.d_model={teacher.d_model}",
        )


def _value(config: ModelConfig, name: str) -> object:
    value = getattr(config, name)
    return getattr(value, "value", value)
