"""A model for other programs: as a folder with an ONNX graph, in the layout that transformers.js, optimum and our own
predict.py read, and with positions for texts longer than those that its run read.

A run chooses its `model.max_length` by its rows, and keeps only that many learned positions. A pipeline of transformers
passes whole texts to a model unless it is told to truncate them, and would fail at the first position without a row.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import numpy as np
import tokenizers
import torch
from torch import Tensor

from encoderlab.errors import DataError, SettingError, UserError
from encoderlab.exchange import onnx
from encoderlab.exchange.config_json import PROBLEM_TYPES, HuggingFaceModel, graph_config
from encoderlab.models.folder import (
    GRAPH,
    GRAPH_ENTRY,
    GRAPH_FILES,
    INT8_GRAPH,
    MODEL,
    RUN_ENTRY,
    config_json,
    network_of,
    write_beside_network,
)
from encoderlab.models.model import Model
from encoderlab.models.pretrained import load_pretrained
from encoderlab.network.config import ModelConfig, Positions
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.system.files import write_manifest
from encoderlab.system.records import yaml_of
from encoderlab.tasks.task import RowPrediction

PREDICT = Path(__file__).with_name("onnx_predict.py")  # a program of its own, which is copied and never imported
MOST_ROWS = 500  # on which an 8-bit graph is compared with its model
TABLE = "encoder.embeddings.position.embedding.weight"
USUAL = 512  # tokens that BERT and most encoders like it read


@dataclass(frozen=True, slots=True)
class GraphFolder:
    """What was written: the fields about the graph in config.json, and in words what 8 bits changed ("": nothing)."""

    fields: dict[str, Any]
    change: str

    @property
    def checked(self) -> str:
        """Return in a line how the graph was compared with the model."""
        fields = self.fields
        exact = f"off by {fields['largest_difference']:.1e} of the largest output (allowed: {fields['tolerance']:g})"
        by = f"opset {fields['opset']}, checked with onnxruntime {fields['onnxruntime']}"
        return f"{by}: {self.change or exact}"


def write_graph_folder(folder: Path, model: Model, extended: Model, *, is_int8: bool, cache: Path) -> GraphFolder:
    """Write the graph, config.json, the tokenizer, and predict.py, which needs neither torch nor encoderlab; and if the
    model has them, a linear branch, and what tells texts unlike the training texts.

    The graph is of `extended`: `model`, with positions for longer texts. Raises SettingError or DataError if the graph
    is wrong.
    """
    graph = folder / (INT8_GRAPH if is_int8 else GRAPH)
    graph.parent.mkdir(parents=True)
    whole = onnx.WholeModel(extended.network, with_vectors=model.novelty is not None).eval()
    onnx.write_graph(whole, graph)
    tokenizer = model.tokenizer
    off = onnx.largest_difference(whole, graph, extended.shape.reach, tokenizer.vocabulary_size)
    precision = "int8" if is_int8 else "fp32"
    fields = _graph_fields(model, whole) | {"largest_difference": off, "precision": precision}
    fields["file"] = graph.relative_to(folder).as_posix()
    change = _quantized(graph, model, cache) if is_int8 else ""
    written = fields | {RUN_ENTRY: config_json(model)} if opens(model) else fields
    config = graph_config(as_huggingface(extended), tokenizer.pad_id, is_int8=is_int8)
    thresholds = model.config.task.exported_thresholds
    write_json(folder / "config.json", config | thresholds | {GRAPH_ENTRY: written})
    write_tokenizer(folder, model, has_segments="token_type_ids" in whole.inputs)
    _truncate_and_pad(folder / "tokenizer.json", model)
    shutil.copyfile(PREDICT, folder / "predict.py")
    write_manifest(folder, [fields["file"], *GRAPH_FILES, *write_beside_network(folder, model)])
    return GraphFolder(fields, change)


def as_huggingface(model: Model) -> HuggingFaceModel:
    """Return what of a model is exported."""
    weights = {name: weight.contiguous() for name, weight in model.weights.items()}
    return HuggingFaceModel(model.shape, model.task.heads, weights, model.labels, model.tokenizer.vocabulary_size)


def predicts(model: Model) -> bool:
    """Return whether the model makes predictions for a task; an encoder alone and a pretrained model do not."""
    heads = model.task.heads
    has_head = heads.sequence_classes is not None or heads.token_classes is not None
    return has_head and not model.config.task.of_documents


def opens(model: Model) -> bool:
    """Return whether predict and serve can open a graph of the model."""
    return predicts(model) and model.config.dataset is not None


def write_tokenizer(folder: Path, model: Model, *, has_segments: bool) -> None:
    """Write the tokenizer's files, which state how many tokens of a text the model was trained to read."""
    model.tokenizer.save(folder / "tokenizer.json")
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text(encoding="utf-8"))
    settings["model_max_length"] = model.task.max_length
    if not has_segments:
        settings["model_input_names"] = ["input_ids", "attention_mask"]
    write_json(path, settings)


def write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _truncate_and_pad(path: Path, model: Model) -> None:
    """Let the tokenizer in `path` truncate and pad as the model requires, for predict.py."""
    tokenizer = model.tokenizer
    backend = tokenizers.Tokenizer.from_file(str(path))
    backend.enable_truncation(model.task.max_length)
    backend.enable_padding(pad_id=tokenizer.pad_id, pad_token=tokenizer.specials["pad_token"])
    backend.save(str(path))


def _graph_fields(model: Model, whole: onnx.WholeModel) -> dict[str, Any]:
    """Return what config.json says to predict.py, and how the graph was checked."""
    task = model.task
    answers_for = "nothing"
    if task.heads.token_classes is not None:
        answers_for = "words"
    elif task.heads.sequence_classes is not None:
        answers_for = "texts"
    return {
        "task": model.task_name,
        "answers_for": answers_for,
        "paired": bool(model.origin.paired),
        "problem_type": None if task.heads.sequence_classes is None else PROBLEM_TYPES[task.heads.sequence_target],
        "id2label": dict(enumerate(task.labels)),
        "inputs": whole.inputs,
        "outputs": whole.outputs,
        "answer": "last_hidden_state" if answers_for == "nothing" else whole.answer,
        "max_length": task.max_length,
        "windows": None if task.windows is None else task.windows.pooling,
        "linear": model.branch is not None,
        "special_tokens": task.config.adds_special_tokens,
        "opset": onnx.OPSET,
        "tolerance": onnx.TOLERANCE,
        "onnxruntime": version("onnxruntime"),
        **task.exported_decoding,
        **model.config.task.exported_thresholds,
    }


def _quantized(graph: Path, model: Model, cache: Path) -> str:
    """Replace the graph by an 8-bit one, and return in words what that changes. Raises SettingError, DataError."""
    if graph.with_name(f"{graph.name}.data").exists():
        raise SettingError("A graph of 2 GB or more cannot be exported in 8 bits", remedy="Use format=onnx")
    in_32_bits = graph.rename(graph.with_name("fp32.onnx"))
    onnx.write_int8(in_32_bits, graph)
    sizes = f"{in_32_bits.stat().st_size / 1e6:.1f} MB reduced to {graph.stat().st_size / 1e6:.1f} MB"
    in_32_bits.unlink()
    try:
        data = model.own_rows(cache)
    except UserError:
        return f"{sizes}; its predictions were not compared, because the rows of the run are gone"
    name = data.scored_splits()[-1]
    rows = list(data.split(name).evenly(MOST_ROWS))
    quantized = replace(model, network=cast("EncoderWithHeads", onnx.GraphModel(graph, model.network)))
    before = model.predictions(rows)
    after = quantized.predictions(rows)
    return f"{sizes}; {_changes(before, after)} on {len(rows)} rows of {name}"


def _changes(before: Sequence[RowPrediction], after: Sequence[RowPrediction]) -> str:
    """Return in words how the predictions of the 8-bit graph differ. Raises DataError if they are not finite."""
    pairs = list(zip(before, after, strict=True))
    if before[0].number is not None:
        change = float(np.max([abs((one.number or 0.0) - (other.number or 0.0)) for one, other in pairs]))
        if not np.isfinite(change):
            raise DataError("The predictions of the 8-bit graph are not finite", remedy="Use format=onnx")
        return f"a number changes by at most {change:.4g}"
    changed = sum(one.labels != other.labels for one, other in pairs)
    if changed:
        warning = f"Warning: with 8-bit weights, {changed} of {len(pairs)} predictions change."
        print(f"{warning} Compare them on your own rows, or use format=onnx", file=sys.stderr)
    return f"{changed} predictions change"


def with_full_positions(model: Model, folder: Path) -> Model:
    """Return the model of `folder` with positions for texts of at least USUAL tokens.

    Its task still truncates texts where it did. Learned positions are those of the encoder that the run started from;
    further ones repeat the last, so that a text that is not truncated is read at all. Rotary positions have no end. An
    encoder of transformers has kept all that it had.
    """
    if model.shape.positions is Positions.rotary:
        return model
    if not model.network.encoder.is_drawn:
        return model.with_shape(replace(model.shape, max_length=model.network.encoder.max_length))
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
    return model.with_shape(shape, network_of(shape, model.task, weights))


def _table_of_start(shape: ModelConfig, folder: Path) -> Tensor | None:
    """Return the positions of the encoder that the run of a model folder started from, None if it cannot be had."""
    config = folder.parent / "config.yaml"
    if folder.name != MODEL or not config.is_file():
        return None
    settings: Any = yaml_of(config.read_text(encoding="utf-8"))
    init_from = settings.get("init_from") if isinstance(settings, dict) else None
    if not init_from:
        return None
    try:
        table = load_pretrained(str(init_from)).network.state_dict().get(TABLE)
    except UserError:  # it was moved, or the hub cannot be reached
        return None
    return table if table is not None and table.shape[1] == shape.embedding_width else None
