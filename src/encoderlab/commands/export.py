"""encoderlab export: writes a run's model for transformers or onnxruntime, to be opened without our code.

Its tokenizer gives the same ids as ours, truncated texts included, with two exceptions. transformers reads [MASK] and
the like in a text as the special token, as its users expect; we never let a text contain one. And when both texts of a
pair are truncated, an odd number of positions is left and the second text is at least as long, transformers gives the
odd position to the second text; we give it to the first, as BERT's own code does.
"""

import json
import shutil
import sys
from dataclasses import replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import safetensors.torch
import tokenizers

from encoderlab.config.commands import ExportConfig, ExportFormat, OpenRunConfig
from encoderlab.errors import DataError, SettingError, UserError
from encoderlab.exchange import onnx
from encoderlab.exchange.huggingface import PROBLEM_TYPES, to_huggingface
from encoderlab.model.config import Pooling
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.reports.cards import export_card, plain
from encoderlab.runs.model import Model
from encoderlab.runs.model_folder import (
    GRAPH,
    GRAPH_FILES,
    config_json,
    encoder_alone,
    in_user_units,
    model_folder,
    open_model,
    read_model,
)
from encoderlab.system.files import write_manifest, written_whole
from encoderlab.training.config import Precision

PREDICT = Path(onnx.__file__).with_name("onnx_predict.py")  # a program of its own, which is copied and never imported
MOST_ROWS = 500  # on which an 8-bit graph is compared with its model


def export(config: ExportConfig) -> Path:
    """Write the folder `path`. Raises SettingError if it exists or the format cannot hold the model, and DataError."""
    path = Path(config.path)
    if not config.path or path.exists():
        wrong = f"path={config.path} already exists" if config.path else "path is empty"
        raise SettingError(wrong, allowed="a new folder", remedy="Choose another name")
    return (_export_to_huggingface if config.format is ExportFormat.huggingface else _export_to_onnx)(config, path)


def _export_to_huggingface(config: ExportConfig, path: Path) -> Path:
    model = read_model(model_folder(config.run))
    # A teacher's vectors were what an encoder learned from, not what it is for: transformers has no such head.
    whole = config.heads and model.task.heads.teacher_width is None
    model = in_user_units(model if whole else encoder_alone(model, path.resolve().name))
    if not model.task.special_tokens:
        wrong = "transformers adds [CLS] and [SEP], but the model was trained with task.special_tokens=false"
        raise SettingError(wrong, remedy="Train with task.special_tokens=true to export")
    task = model.task
    tokenizer = model.tokenizer
    fields, weights = to_huggingface(
        model.shape,
        task.heads,
        {name: weight.contiguous() for name, weight in model.weights.items()},
        labels=task.labels,
        vocabulary_size=tokenizer.vocabulary_size,
        pad_id=tokenizer.pad_id,
    )
    fields |= model.config.task.exported_thresholds
    averages = "ForSequenceClassification" in fields["architectures"][0] and model.shape.pooling is Pooling.mean
    about = {"windows": task.windows, "max_length": model.shape.reach, "averages": averages}
    with written_whole("path", path) as temporary:
        temporary.mkdir(parents=True)
        _write_json(temporary / "config.json", fields)
        content = safetensors.torch.save(weights, metadata={"format": "pt"})
        (temporary / "model.safetensors").write_bytes(content)  # safetensors' own writer lets no other user read it
        tokenizer.save(temporary / "tokenizer.json")
        settings = json.loads((temporary / "tokenizer_config.json").read_text(encoding="utf-8"))
        settings["model_max_length"] = model.shape.reach
        if fields.get("type_vocab_size", 0) < 2:  # it has no segments
            settings["model_input_names"] = ["input_ids", "attention_mask"]
        _write_json(temporary / "tokenizer_config.json", settings)
        _write_card(temporary, config, model.name, "transformers", fields, **about)
    print(f"{path}\nIts README.md has a program that opens it")
    return path


def _export_to_onnx(config: ExportConfig, path: Path) -> Path:
    """Write config.json, the graph, a tokenizer, and predict.py, which needs neither torch nor encoderlab."""
    model = _opened_for_onnx(config)
    task = model.task
    reach = model.shape.reach
    opens = _predicts(model) and model.config.dataset is not None  # predict and serve do
    is_int8 = config.format is ExportFormat.int8
    with written_whole("path", path) as temporary:
        temporary.mkdir(parents=True)
        whole = onnx.WholeModel(model.network).eval()
        onnx.write_graph(whole, temporary / GRAPH)
        off = onnx.largest_difference(whole, temporary / GRAPH, reach, model.tokenizer.vocabulary_size)
        precision = "int8" if is_int8 else "fp32"
        fields = _graph_fields(model, whole) | {"largest_difference": off, "precision": precision}
        change = _quantized(temporary / GRAPH, model, config.cache) if is_int8 else ""
        own = config_json(model) if opens else {}
        _write_json(temporary / "config.json", fields | own)
        model.tokenizer.save(temporary / "tokenizer.json")  # which truncates and pads as the model requires:
        backend = tokenizers.Tokenizer.from_file(str(temporary / "tokenizer.json"))
        backend.enable_truncation(reach)
        backend.enable_padding(pad_id=model.tokenizer.pad_id, pad_token=model.tokenizer.specials["pad_token"])
        backend.save(str(temporary / "tokenizer.json"))
        shutil.copyfile(PREDICT, temporary / "predict.py")
        write_manifest(temporary, GRAPH_FILES)
        card = {"windows": task.windows, "max_length": task.max_length, "opened": opens, "change": change}
        _write_card(temporary, config, model.name, "onnx", fields, **card)
    exact = f"off by {off:.1e} of the largest output (allowed: {fields['tolerance']:g})"
    checked = f"opset {fields['opset']}, checked with onnxruntime {fields['onnxruntime']}"
    print(f"{path}\n{checked}: {change or exact}; see its README.md")
    return path


def _opened_for_onnx(config: ExportConfig) -> Model:
    """Return the model to export. Raises SettingError or DataError before anything is written."""
    if not config.heads:
        raise SettingError("heads=false works with format=huggingface only", remedy="Remove one of them")
    for name in ("onnx", "onnxscript", "onnxruntime"):
        if find_spec(name) is None:
            wrong = f"format={config.format.name} needs {name}, which is not installed"
            raise SettingError(wrong, remedy='Run pip install "encoderlab[onnx]"')
    opened = OpenRunConfig(cache_dir=config.cache_dir, run=config.run, device="cpu", precision=Precision.fp32)
    model = open_model(opened)
    if config.format is ExportFormat.int8 and not _predicts(model):
        wrong = f"{model.name} is an encoder without predictions, by which format=int8 is checked"
        raise SettingError(wrong, remedy="Use format=onnx")
    return in_user_units(model)


def _predicts(model: Model) -> bool:
    """Return whether the model makes predictions for a task; an encoder alone and a pretrained model do not."""
    heads = model.task.heads
    has_head = heads.sequence_classes is not None or heads.token_classes is not None
    return has_head and not model.config.task.of_documents


def _graph_fields(model: Model, whole: onnx.WholeModel) -> dict[str, Any]:
    """Return what config.json says to predict.py, and how the graph was checked."""
    task = model.task
    of_texts = "texts" if task.heads.sequence_classes is not None else "nothing"
    answers_for = of_texts if task.heads.token_classes is None else "words"
    return {
        "task": model.name,
        "answers_for": answers_for,
        "paired": bool(model.origin.paired),
        "problem_type": None if task.heads.sequence_classes is None else PROBLEM_TYPES[task.heads.sequence_target],
        "id2label": dict(enumerate(task.labels)),
        "label2id": {label: index for index, label in enumerate(task.labels)},
        "inputs": whole.inputs,
        "outputs": whole.outputs,
        "answer": "last_hidden_state" if answers_for == "nothing" else whole.outputs[-1],
        "max_length": model.shape.reach,
        "pad_token_id": model.tokenizer.pad_id,
        "special_tokens": task.special_tokens,
        "opset": onnx.OPSET,
        "tolerance": onnx.TOLERANCE,
        "onnxruntime": version("onnxruntime"),
    } | model.config.task.exported_thresholds


def _quantized(graph: Path, model: Model, cache: Path) -> str:
    """Replace the graph by an 8-bit one, and return in words what that changes. Raises SettingError, DataError."""
    if graph.with_name(f"{graph.name}.data").exists():
        raise SettingError("A graph of 2 GB or more cannot be exported in 8 bits", remedy="Use format=onnx")
    in_32_bits = graph.rename(graph.with_name("fp32.onnx"))
    onnx.write_int8(in_32_bits, graph)
    sizes = f"{in_32_bits.stat().st_size / 1e6:.1f} MB reduced to {graph.stat().st_size / 1e6:.1f} MB"
    in_32_bits.unlink()
    try:
        data = model.own_dataset.load(cache, model.config.task.target)
    except UserError:
        return f"{sizes}; its predictions were not compared, because the rows of the run are gone"
    name = data.scored_splits()[-1]
    rows = list(data.split(name).evenly(MOST_ROWS))
    quantized = replace(model, network=cast("EncoderWithHeads", onnx.GraphModel(graph, model.network)))
    before = model.predictions(rows)
    after = quantized.predictions(rows)
    pairs = list(zip(before, after, strict=True))
    if before[0].number is not None:
        change = float(np.max([abs((one.number or 0.0) - (other.number or 0.0)) for one, other in pairs]))
        if not np.isfinite(change):
            raise DataError("The predictions of the 8-bit graph are not finite", remedy="Use format=onnx")
        return f"{sizes}; on {len(rows)} rows of {name} a number changes by at most {change:.4g}"
    changed = sum(one.labels != other.labels for one, other in pairs)
    if changed:
        warning = f"Warning: with 8-bit weights, {changed} of {len(rows)} predictions change."
        print(f"{warning} Compare them on your own rows, or use format=onnx", file=sys.stderr)
    return f"{sizes}; {changed} predictions change on {len(rows)} rows of {name}"


def _write_card(folder: Path, config: ExportConfig, name: str, *about: Any, **more: Any) -> None:
    """Write README.md: the model's own card, else a title, with sections on the library that opens the folder."""
    own = model_folder(config.run) / "README.md"
    card = own.read_text(encoding="utf-8", errors="replace") if own.is_file() else f"# {plain(name)}\n"
    (folder / "README.md").write_text(export_card(card, *about, **more), encoding="utf-8")


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
