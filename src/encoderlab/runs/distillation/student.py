"""The initial weights of a student: parts of its teacher (Sanh et al. 2019, section 3, for whole layers), or its pruned
teacher.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from torch import Tensor

from encoderlab.batch import Batch, HeadSizes
from encoderlab.config.commands import StudentStart
from encoderlab.errors import SettingError
from encoderlab.model.config import Activation, ModelConfig, Norm, NormPosition, Positions
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.distillation.pruning import Texts, prune, set_linear
from encoderlab.runs.models.pretrained import TOKEN_TABLE, Pretrained, load_into
from encoderlab.training.batches import Rows

POSITION_TABLE = "encoder.embeddings.position.embedding.weight"
SEGMENT_TABLE = "encoder.embeddings.segment.weight"
PRUNED_ON = 60_000  # tokens
SHORT_ENOUGH = 128  # tokens per text: longer ones would leave too few texts
TEXTS_AT_A_TIME = 32
SAME_SHAPE = ("d_model", "n_heads", "head_width", "feed_forward_width", "norm", "norm_position", "activation", "bias")


def check_start(config: ModelConfig, teacher: ModelConfig, start: StudentStart) -> None:
    """Raise SettingError if a student of the settings `config` cannot hold the parts of its teacher that `start` names."""
    if start is StudentStart.fresh:
        return
    _check_width(config, teacher)
    if start is StudentStart.layers:
        _check_layers(config, teacher)
    if start is StudentStart.pruned:
        _check_prunable(config, teacher)


def start_student(
    model: EncoderWithHeads, config: ModelConfig, teacher: Pretrained, start: StudentStart, rows: Rows
) -> None:
    """Copy parts of the teacher into `model`, whose settings `config` have passed `check_start`.

    `rows` are the texts for pruning a teacher.
    """
    if start is StudentStart.pruned:
        _start_pruned(model, config, teacher, rows)
    elif start is not StudentStart.fresh:
        _start_from_parts(model, config, teacher, start)


def _start_from_parts(model: EncoderWithHeads, config: ModelConfig, teacher: Pretrained, start: StudentStart) -> None:
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


def _start_pruned(model: EncoderWithHeads, config: ModelConfig, teacher: Pretrained, rows: Rows) -> None:
    """Prune the teacher into `model`; also fit the head that predicts a teacher's vectors, if there is one."""
    pad_id = model.encoder.embeddings.token.padding_idx
    assert pad_id is not None
    whole = EncoderWithHeads(teacher.config, len(teacher.weights[TOKEN_TABLE]), pad_id, HeadSizes())
    load_into(whole, teacher)
    reach = min(config.reach, teacher.config.reach)
    texts = Texts(calibration_batches(rows, pad_id, reach))
    model.eval()
    device = next(model.parameters()).device
    mine, its = prune(whole.eval().encoder, model.cpu().encoder, texts)
    if model.teacher_head is not None:
        with torch.no_grad():
            set_linear(model.teacher_head, mine, its)
    model.to(device).train()
    print(f"Student starts from its teacher, pruned on {len(mine):,} tokens", file=sys.stderr)


def calibration_batches(rows: Rows, pad_id: int, reach: int) -> list[Batch]:
    """Return some of the rows, about 24,000 tokens, in batches without regard to length; they are the same at each
    call.
    """
    epoch = rows.epoch(0, 0)
    readable = np.flatnonzero(epoch.lengths <= reach)
    short = readable[epoch.lengths[readable] <= SHORT_ENOUGH]
    drawn = np.random.default_rng(0).permutation(short if len(short) else readable)
    n = int(np.searchsorted(epoch.lengths[drawn].cumsum(), PRUNED_ON)) + 1
    return [epoch.gather(drawn[i : i + TEXTS_AT_A_TIME], pad_id) for i in range(0, min(n, len(drawn)), TEXTS_AT_A_TIME)]


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


def _check_prunable(config: ModelConfig, teacher: ModelConfig) -> None:
    """Raise SettingError for a student that is not a smaller copy of its teacher."""
    kept = (
        "head_width",
        "norm",
        "norm_position",
        "activation",
        "positions",
        "scale_embeddings",
        "embedding_norm",
        "bias",
    )
    fixed = {"norm": Norm.layer, "norm_position": NormPosition.post, "positions": Positions.learned}
    for name in kept:
        mine, its = _value(config, name), _value(teacher, name)
        if mine != its:
            shown = "d_head" if name == "head_width" else name
            raise SettingError(
                f"start=pruned keeps the teacher's {shown}={its}, but the student's is {mine}",
                remedy=f"Set model.{shown}={its}" + (" (and model.n_heads to match)" if name == "head_width" else ""),
            )
    odd = next((name for name, value in fixed.items() if getattr(teacher, name) is not value), None)
    if odd or teacher.activation is Activation.geglu or not teacher.embedding_norm or not teacher.bias:
        raise SettingError(
            "start=pruned needs a teacher with BERT's architecture, which this one lacks",
            allowed="post-norm, layer norm, learned positions, biases",
            remedy="Use start=embeddings or start=fresh",
        )
    for name in ("n_layers", "n_heads", "feed_forward_width"):
        if getattr(config, name) > getattr(teacher, name):
            shown = "d_ff" if name == "feed_forward_width" else name
            raise SettingError(
                f"model.{shown} is {getattr(config, name)}, but start=pruned can only use the teacher's {getattr(teacher, name)}",
                remedy=f"Set model.{shown} to at most {getattr(teacher, name)}",
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
