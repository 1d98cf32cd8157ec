"""The folder of an exported ONNX graph: config.json, the tokenizer, and predict.py, which needs neither torch nor
encoderlab.
"""

from __future__ import annotations

import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tokenizers

from encoderlab.exchange import onnx_graph
from encoderlab.exchange.huggingface_config import PROBLEM_TYPES
from encoderlab.exchange.onnx_graph import OPSET, TOLERANCE, WholeModel, largest_difference, write_graph
from encoderlab.runs.assembly import Assembly
from encoderlab.runs.folder import GRAPH, GRAPH_FILES
from encoderlab.runs.models.saved_model import config_json
from encoderlab.system.files import write_manifest
from encoderlab.tasks.config import ClassificationConfig, DocumentTaskConfig, MultilabelConfig, TaskConfig

PREDICT = Path(onnx_graph.__file__).with_name(
    "onnx_predict.py"
)  # a standalone program, which is copied and never imported


def write_checked_graph(folder: Path, assembly: Assembly) -> dict[str, Any]:
    """Write the graph and compare it with the model; return the fields of config.json. Raises DataError if they differ."""
    task, max_length = assembly.task, assembly.config.model.reach
    whole = WholeModel(assembly.model).eval()
    write_graph(whole, folder / GRAPH)
    off = largest_difference(whole, folder / GRAPH, max_length, assembly.tokenizer.vocabulary_size)
    of_texts = "texts" if task.heads.sequence_classes is not None else "nothing"
    answers_for = of_texts if task.heads.token_classes is None else "words"
    return {
        "task": assembly.config.task.name,
        "answers_for": answers_for,
        "paired": bool(assembly.opened.paired),
        "problem_type": None if task.heads.sequence_classes is None else PROBLEM_TYPES[task.heads.sequence_target],
        "id2label": dict(enumerate(task.labels)),
        "label2id": {label: index for index, label in enumerate(task.labels)},
        "inputs": whole.inputs,
        "outputs": whole.outputs,
        "answer": "last_hidden_state" if answers_for == "nothing" else whole.outputs[-1],
        "max_length": max_length,
        "pad_token_id": assembly.tokenizer.pad_id,
        "special_tokens": getattr(assembly.config.task, "special_tokens", True),
        "opset": OPSET,
        "precision": "fp32",
        "tolerance": TOLERANCE,
        "largest_difference": off,
        "onnxruntime": version("onnxruntime"),
    } | thresholds_json(assembly.config.task)


def gives_answers(assembly: Assembly) -> bool:
    """Return whether the model makes predictions for a task; an encoder alone and a pretrained model do not."""
    heads = assembly.task.heads
    has_head = heads.sequence_classes is not None or heads.token_classes is not None
    return has_head and not isinstance(assembly.config.task, DocumentTaskConfig)


def write_graph_folder(folder: Path, assembly: Assembly, fields: dict[str, Any], card: str) -> None:
    """Write the other files of the folder. With the settings of a run in config.json, encoderlab opens it too."""
    of_run = gives_answers(assembly) and assembly.config.dataset is not None
    run_fields = config_json(assembly.saved(assembly.opened)) if of_run else {}
    (folder / "config.json").write_text(
        json.dumps(fields | run_fields, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    _write_tokenizer(folder / "tokenizer.json", assembly)
    shutil.copyfile(PREDICT, folder / "predict.py")
    write_manifest(folder, GRAPH_FILES)
    (folder / "README.md").write_text(card, encoding="utf-8")


def thresholds_json(task: TaskConfig) -> dict[str, Any]:
    """Return the fields of config.json about labels: their thresholds, and the positive class of a binary task."""
    if isinstance(task, MultilabelConfig) and task.thresholds:
        return {"thresholds": task.thresholds}
    if not isinstance(task, ClassificationConfig) or task.positive_label is None:
        return {}
    chosen = {} if task.threshold is None else {"thresholds": {task.positive_label: task.threshold}}
    return {"positive_label": task.positive_label} | chosen


def _write_tokenizer(path: Path, assembly: Assembly) -> None:
    """Write a tokenizer.json that truncates and pads as the model requires, so that no other file is needed."""
    assembly.tokenizer.save(path)
    backend = tokenizers.Tokenizer.from_file(str(path))
    backend.enable_truncation(assembly.config.model.reach)
    backend.enable_padding(pad_id=assembly.tokenizer.pad_id, pad_token=assembly.tokenizer.specials["pad_token"])
    backend.save(str(path))
