"""The initial weights of a student: parts of its teacher (Sanh et al. 2019, section 3, for whole layers)."""

from __future__ import annotations

import sys

import torch
from torch import Tensor

from encoderlab.config.commands import StudentStart
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelConfig, Positions
from encoderlab.runs.assembly import Assembly
from encoderlab.runs.pretrained import TOKEN_TABLE, vocabulary_difference
from encoderlab.runs.saved_model import SavedModel

POSITION_TABLE = "encoder.embeddings.position.embedding.weight"
SEGMENT_TABLE = "encoder.embeddings.segment.weight"
SAME_SHAPE = ("d_model", "n_heads", "head_width", "feed_forward_width", "norm", "norm_position", "activation", "bias")


def start_student(student: Assembly, teacher: SavedModel, start: StudentStart) -> None:
    """Copy the parts of the teacher that `start` names into the model of `student`.

    Raises SettingError if it cannot hold them, or reads other tokens.
    """
    if start is StudentStart.fresh:
        return
    config, model = student.config.model, student.model
    _check_fits(config, teacher.config.model, start)
    if difference := vocabulary_difference(student.tokenizer, teacher.tokenizer):
        raise SettingError(
            f"start={start.value} needs the teacher's tokenizer, but the student has another: {difference}",
            remedy="Use tokenizer=as_pretrained, or start=fresh",
        )
    if not model.has_weights:  # to be sharded: the main process gives them to the others
        return
    parts = _tables(config, teacher, len(model.encoder.embeddings.token.weight))
    if start is StudentStart.layers:
        parts |= _layers(config, teacher)
    own = model.state_dict()
    fitting = {name: weight for name, weight in parts.items() if name in own and own[name].shape == weight.shape}
    model.load_state_dict(fitting, strict=False)
    n_weights = sum(map(torch.numel, fitting.values()))
    print(f"Student starts from the teacher's {start.value}: {n_weights:,} weights", file=sys.stderr)


def projection(table: Tensor, width: int) -> Tensor:
    """Return the `width` directions that keep most of a table's rows: [rows, d_teacher] -> [d_teacher, width].

    Principal components about zero, not about the mean: what all rows share is kept too.
    """
    table = table.double()
    _, directions = torch.linalg.eigh(table.T @ table)  # ascending eigenvalues
    return directions[:, -width:].flip(1).float()


def _tables(config: ModelConfig, teacher: SavedModel, pieces: int) -> dict[str, Tensor]:
    """Return the tables of the teacher's embeddings at the student's width, cut to the rows the student has."""
    token = teacher.weights[TOKEN_TABLE].float()
    same_width = token.shape[1] == config.d_model
    reduced = torch.eye(config.d_model) if same_width else projection(token, config.d_model)
    rows = {TOKEN_TABLE: pieces, SEGMENT_TABLE: config.segments}
    if config.positions is Positions.learned:
        rows[POSITION_TABLE] = config.reach
    tables = {name: teacher.weights[name][:n].float() @ reduced for name, n in rows.items() if name in teacher.weights}
    norm = [f"encoder.embeddings.norm.{name}" for name in ("weight", "bias")] if same_width else []
    return tables | {name: teacher.weights[name].float() for name in norm if name in teacher.weights}


def _layers(config: ModelConfig, teacher: SavedModel) -> dict[str, Tensor]:
    """Return evenly spaced layers of the teacher, ending with its last one."""
    layers = {}
    for layer in range(config.n_layers):
        source = (layer + 1) * teacher.config.model.n_layers // config.n_layers - 1
        prefix = f"encoder.layers.{source}."
        for name, weight in teacher.weights.items():
            if name.startswith(prefix):
                layers[f"encoder.layers.{layer}.{name.removeprefix(prefix)}"] = weight.float()
    return layers


def _check_fits(config: ModelConfig, teacher: ModelConfig, start: StudentStart) -> None:
    """Raise SettingError for a student wider than its teacher or, to take layers, of another shape or deeper."""
    if config.d_model > teacher.d_model:
        raise SettingError(
            f"model.d_model is {config.d_model}, but the teacher's is {teacher.d_model}, and its embeddings cannot "
            "be widened",
            allowed=f"at most {teacher.d_model} with start=embeddings or start=layers",
            remedy=f"Set start=fresh, or model.d_model={teacher.d_model}",
        )
    if start is not StudentStart.layers:
        return
    differing = next((name for name in SAME_SHAPE if getattr(config, name) != getattr(teacher, name)), None)
    if differing or config.n_layers > teacher.n_layers:
        name = differing or "n_layers"
        mine, theirs = (getattr(getattr(one, name), "value", getattr(one, name)) for one in (config, teacher))
        raise SettingError(
            f"start=layers copies the teacher's layers, but model.{name} is {mine}, and the teacher's is {theirs}",
            remedy="Use the teacher's shape with fewer layers, or start=embeddings",
        )
