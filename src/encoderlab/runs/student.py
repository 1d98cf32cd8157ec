"""What a student starts from: parts of its teacher (Sanh et al. 2019, section 3, for whole layers)."""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from encoderlab.command_settings import StudentStart
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelConfig, Positions
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.initial import TOKEN_TABLE, Initial

POSITION_TABLE = "encoder.embeddings.position.embedding.weight"
SEGMENT_TABLE = "encoder.embeddings.segment.weight"
SAME_SHAPE = ("d_model", "n_heads", "head_width", "feed_forward_width", "norm", "norm_position", "activation", "bias")


def start_student(model: EncoderWithHeads, config: ModelConfig, teacher: Initial, start: StudentStart) -> None:
    """Copy parts of the teacher into `model`, whose settings are `config`.

    Raises SettingError where the student cannot hold them.
    """
    if start is StudentStart.fresh:
        return
    _check_width(config, teacher.config)
    taken = _tables(config, teacher, len(model.encoder.embeddings.token.weight))
    if start is StudentStart.layers:
        taken |= _layers(config, teacher)
    wanted = model.state_dict()
    fitting = {name: weight for name, weight in taken.items() if name in wanted and wanted[name].shape == weight.shape}
    model.load_state_dict(fitting, strict=False)
    print(f"Student starts from the teacher's {start.value}: {sum(map(torch.numel, fitting.values())):,} weights", file=sys.stderr)


def projection(table: Tensor, width: int) -> Tensor:
    """The `width` directions that keep most of a table's rows: [rows, d_teacher] -> [d_teacher, width].

    Principal components about zero, not about the mean: what all rows share is kept too.
    """
    table = table.double()
    _, directions = torch.linalg.eigh(table.T @ table)  # rising eigenvalues
    return directions[:, -width:].flip(1).float()


def _tables(config: ModelConfig, teacher: Initial, pieces: int) -> dict[str, Tensor]:
    """The tables of the teacher's embeddings as wide as the student, cut to the rows it has."""
    token = teacher.weights[TOKEN_TABLE].float()
    reduced = torch.eye(config.d_model) if token.shape[1] == config.d_model else projection(token, config.d_model)
    rows = {TOKEN_TABLE: pieces, SEGMENT_TABLE: config.segments}
    if config.positions is Positions.learned:
        rows[POSITION_TABLE] = config.max_length
    found = {name: teacher.weights[name][:n].float() @ reduced for name, n in rows.items() if name in teacher.weights}
    norm = {f"encoder.embeddings.norm.{name}" for name in ("weight", "bias")} if token.shape[1] == config.d_model else set()
    return found | {name: weight.float() for name, weight in teacher.weights.items() if name in norm}


def _layers(config: ModelConfig, teacher: Initial) -> dict[str, Tensor]:
    """Every so many of the teacher's layers, its last one last."""
    differing = next((name for name in SAME_SHAPE if getattr(config, name) != getattr(teacher.config, name)), None)
    if differing or config.n_layers > teacher.config.n_layers:
        name = differing or "n_layers"
        raise SettingError(
            f"start=layers copies the teacher's layers, and model.{name} is {_value(config, name)}, "
            f"where the teacher's is {_value(teacher.config, name)}",
            remedy="Use the teacher's shape with fewer layers, or start=embeddings",
        )
    found = {}
    for layer in range(config.n_layers):
        source = (layer + 1) * teacher.config.n_layers // config.n_layers - 1
        prefix = f"encoder.layers.{source}."
        for name, weight in teacher.weights.items():
            if name.startswith(prefix):
                found[f"encoder.layers.{layer}.{name.removeprefix(prefix)}"] = weight.float()
    return found


def _check_width(config: ModelConfig, teacher: ModelConfig) -> None:
    if config.d_model > teacher.d_model:
        raise SettingError(
            f"model.d_model is {config.d_model}, and the teacher's is {teacher.d_model}: its embeddings cannot be widened",
            allowed=f"at most {teacher.d_model} with start=embeddings or start=layers",
            remedy=f"Set start=fresh, or model.d_model={teacher.d_model}",
        )


def _value(config: ModelConfig, name: str) -> object:
    value = getattr(config, name)
    return getattr(value, "value", value)
