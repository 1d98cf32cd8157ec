"""encoderlab export: writes a run's model for transformers or onnxruntime, to be opened without our code, or in a compact form.

Its tokenizer gives the same ids as ours, truncated texts included, with two exceptions. transformers reads [MASK] and the like in
a text as the special token, as its users expect; we never let a text contain one. And when both texts of a pair are truncated,
an odd number of positions is left and the second text is at least as long, transformers gives the odd position to the second
text; we give it to the first, as BERT's own code does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import safetensors.torch
import tokenizers

from encoderlab.config.command_settings import ExportConfig, ExportFormat, OpenRunConfig
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.exchange.compact_weights import COMPACT
from encoderlab.exchange.huggingface import to_huggingface
from encoderlab.exchange.huggingface_config import PROBLEM_TYPES
from encoderlab.exchange.onnx_graph import OPSET, TOLERANCE, WholeModel, largest_difference, write_graph
from encoderlab.exchange.sentence_transformers import answers_texts, pooling_of, write_modules
from encoderlab.reports.cards.compact_card import change_in_words, compact_card, megabytes
from encoderlab.reports.cards.huggingface_card import huggingface_card, line_that_opens
from encoderlab.reports.cards.metadata import for_library
from encoderlab.reports.cards.onnx_card import onnx_card
from encoderlab.reports.cards.sentence_transformers_card import sentence_transformers_card
from encoderlab.reports.cards.window_card import window_card
from encoderlab.runs.folders.folder import model_folder
from encoderlab.runs.models.assembly import Assembly, reopen
from encoderlab.runs.models.compact_model import in_compact_storage
from encoderlab.runs.models.saved_model import (
    HASHED,
    SavedModel,
    check_shapes,
    encoder_alone,
    in_user_units,
    read_model,
    write_model,
)
from encoderlab.system.atomic_files import atomic_write
from encoderlab.system.manifest import sha256_of
from encoderlab.tasks.config import ClassificationConfig, MultilabelConfig, TaskConfig
from encoderlab.training.config import Precision


def export(config: ExportConfig) -> Path:
    """Write the folder `path`. Raises SettingError if `path` exists or the format cannot represent the model, DataError."""
    path = Path(config.path)
    if not config.path or path.exists():
        wrong = f"path={config.path} already exists" if config.path else "path is empty"
        raise SettingError(wrong, allowed="a new folder", remedy="Choose another name")
    return EXPORTERS[config.format](config, path)


def _export_to_huggingface(config: ExportConfig, path: Path) -> Path:
    saved = in_user_units(_read(config, path))
    fields, weights = _as_huggingface(saved)
    fields |= _thresholds(saved.config.task)
    long_texts = window_card(saved.task().windows, saved.config.model.reach)
    card = for_library(f"{_card(config, saved.config.task.name)}\n{huggingface_card(fields)}{long_texts}", "transformers")
    with _new_folder(path) as temporary:
        _write(temporary, fields, weights, saved.tokenizer, card)
    print(f"{path}\n{line_that_opens(fields, config.path)}")
    return path


def _export_to_sentence_transformers(config: ExportConfig, path: Path) -> Path:
    saved = in_user_units(_read(config, path))
    name, heads = saved.config.task.name, saved.task().heads
    pooling, answers = pooling_of(saved.config.model, heads), answers_texts(heads)
    fields, weights = _as_huggingface(encoder_alone(saved, name))
    if answers:
        labels = dict(enumerate(saved.labels))
        fields |= {"id2label": labels, "label2id": {label: id_ for id_, label in labels.items()}} | _thresholds(saved.config.task)
    section = sentence_transformers_card(heads, answers=answers, paired=bool(saved.origin.paired))
    section += window_card(saved.task().windows, saved.config.model.reach) if answers else ""
    card = for_library(f"{_card(config, name)}\n{section}", "sentence-transformers")
    head = {part: saved.weights[f"sequence_head.{part}"] for part in ("weight", "bias")} if answers else {}
    with _new_folder(path) as temporary:
        _write(temporary, fields, weights, saved.tokenizer, card)
        write_modules(temporary, saved.config.model, pooling, head)
    print(f"{path}\n{path / 'README.md'} shows how sentence-transformers opens it")
    return path


def _export_to_onnx(config: ExportConfig, path: Path) -> Path:
    if not config.heads:
        raise SettingError(
            "heads=false does not work with format=onnx, which writes the heads too",
            allowed="heads=false with format=compact or huggingface",
        )
    for name in ("onnx", "onnxscript", "onnxruntime"):
        if find_spec(name) is None:
            raise SettingError(f"format=onnx needs {name}, which is not installed", remedy='Run pip install "encoderlab[onnx]"')
    assembly = reopen(OpenRunConfig(cache_dir=config.cache_dir, run=config.run, device="cpu", precision=Precision.fp32))
    assembly.model.load_state_dict(in_user_units(assembly.saved(assembly.opened)).weights)
    with _new_folder(path) as temporary:
        fields = _write_graph(temporary / "model.onnx", assembly)
        _write_json(temporary / "config.json", fields)
        _write_tokenizer(temporary / "tokenizer.json", assembly)
        card = f"{_card(config, assembly.config.task.name)}\n{onnx_card(fields, paired=assembly.opened.paired)}"
        card += window_card(assembly.task.windows, assembly.task.max_length)
        (temporary / "README.md").write_text(for_library(card, "onnx"), encoding="utf-8")
    off = f"{fields['largest_difference']:.1e} of the largest output (at most {fields['tolerance']:g} is allowed)"
    print(f"{path}\nopset {fields['opset']}, checked with onnxruntime {fields['onnxruntime']}: off by {off}; see its README.md")
    return path


def _write_graph(path: Path, assembly: Assembly) -> dict[str, Any]:
    """Write the graph and compare it with the model; return the fields of config.json. Raises DataError if they differ."""
    task, max_length = assembly.task, assembly.config.model.reach
    whole = WholeModel(assembly.model).eval()
    write_graph(whole, path)
    off = largest_difference(whole, path, max_length, assembly.tokenizer.vocabulary_size)
    of_texts = "texts" if task.heads.sequence_classes is not None else "nothing"
    return {
        "task": assembly.config.task.name,
        "answers_for": of_texts if task.heads.token_classes is None else "words",
        "problem_type": None if task.heads.sequence_classes is None else PROBLEM_TYPES[task.heads.sequence_target],
        "id2label": dict(enumerate(task.labels)),
        "label2id": {label: index for index, label in enumerate(task.labels)},
        "inputs": whole.inputs,
        "outputs": whole.outputs,
        "max_length": max_length,
        "pad_token_id": assembly.tokenizer.pad_id,
        "special_tokens": getattr(assembly.config.task, "special_tokens", True),
        "opset": OPSET,
        "tolerance": TOLERANCE,
        "largest_difference": off,
        "onnxruntime": version("onnxruntime"),
    } | _thresholds(assembly.config.task)


def _thresholds(task: TaskConfig) -> dict[str, Any]:
    """Return what config.json says of labels: each one's threshold, and the positive class of a binary task."""
    if isinstance(task, MultilabelConfig) and task.thresholds:
        return {"thresholds": task.thresholds}
    if not isinstance(task, ClassificationConfig) or task.positive_label is None:
        return {}
    chosen = {} if task.threshold is None else {"thresholds": {task.positive_label: task.threshold}}
    return {"positive_label": task.positive_label} | chosen


def _write_tokenizer(path: Path, assembly: Assembly) -> None:
    """Write a tokenizer.json that truncates and pads as the model needs, so that no other file has to be read for it."""
    assembly.tokenizer.save(path)
    path.with_name("tokenizer_config.json").unlink()  # for transformers, which has no class for such a folder
    backend = tokenizers.Tokenizer.from_file(str(path))
    backend.enable_truncation(assembly.config.model.reach)
    backend.enable_padding(pad_id=assembly.tokenizer.pad_id, pad_token=assembly.tokenizer.specials["pad_token"])
    backend.save(str(path))


def _export_compact(config: ExportConfig, path: Path) -> Path:
    saved = _read(config, path)
    if saved.config.dataset is None and config.heads:
        wrong = f"run={config.run} is not an encoderlab run, and format=compact stores a run's settings with its heads"
        raise SettingError(wrong, remedy="Use heads=false to write only its encoder")
    stored, change = in_compact_storage(saved)
    before = sum(weight.nbytes for weight in saved.weights.values())
    card = _card(config, saved.config.task.name)
    with _new_folder(path) as temporary:
        write_model(temporary, stored, COMPACT)
        after = (temporary / "model.safetensors").stat().st_size
        section = compact_card(before, after, change, {name: sha256_of(temporary / name) for name in HASHED})
        (temporary / "README.md").write_text(f"{card.rstrip()}\n\n{section}", encoding="utf-8")
    print(f"{path}\nweights of {megabytes(before)} in {megabytes(after)}; {change_in_words(change)}")
    return path


def _read(config: ExportConfig, path: Path) -> SavedModel:
    """Return the model to export; without heads it is named after its new folder."""
    saved = read_model(model_folder(config.run))
    check_shapes(saved, f"run={config.run}")
    return saved if config.heads else encoder_alone(saved, path.resolve().name)


def _card(config: ExportConfig, name: str) -> str:
    """Return the text of the card: the file in `config.card`, else the model's own, else a title. Raises DataError."""
    card = model_folder(config.run) / "README.md" if config.card is None else Path(config.card)
    if config.card is None and not card.is_file():
        return f"# {name}\n"
    try:
        return card.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise DataError(f"card={card} cannot be read: {reason}", allowed="a Markdown file") from None


def _as_huggingface(saved: SavedModel) -> tuple[dict[str, Any], dict[str, Any]]:
    if not getattr(saved.config.task, "special_tokens", True):
        raise SettingError(
            "The model was trained with task.special_tokens=false, but tokenizers of transformers add [CLS] and [SEP] to words",
            remedy="Train with task.special_tokens=true to export",
        )
    task = saved.task()
    return to_huggingface(
        saved.config.model,
        task.heads,
        saved.weights,
        labels=task.labels,
        vocabulary_size=saved.tokenizer.vocabulary_size,
        pad_id=saved.tokenizer.pad_id,
    )


def _write(folder: Path, fields: dict[str, Any], weights: dict[str, Any], tokenizer: Tokenizer, card: str) -> None:
    _write_json(folder / "config.json", fields)
    content = safetensors.torch.save(weights, metadata={"format": "pt"})
    (folder / "model.safetensors").write_bytes(content)  # safetensors' own writer lets no other user read the file
    tokenizer.save(folder / "tokenizer.json")
    _complete(folder / "tokenizer_config.json", fields)
    (folder / "README.md").write_text(card, encoding="utf-8")


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder to write to, which becomes `path` whole or not at all. Raises DataError if it cannot be written."""
    try:
        with atomic_write(path) as temporary:
            temporary.mkdir(parents=True)
            yield temporary
    except OSError as error:
        raise DataError(f"path={path} cannot be written: {error.strerror}", remedy="Choose another folder") from None


def _complete(path: Path, fields: dict[str, Any]) -> None:
    """Set the tokenizer's longest sequence for transformers and, for DistilBERT, that there are no segments."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content["model_max_length"] = fields["max_position_embeddings"]
    if fields["model_type"] == "distilbert":
        content["model_input_names"] = ["input_ids", "attention_mask"]
    _write_json(path, content)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


EXPORTERS = {
    ExportFormat.huggingface: _export_to_huggingface,
    ExportFormat.sentence_transformers: _export_to_sentence_transformers,
    ExportFormat.onnx: _export_to_onnx,
    ExportFormat.compact: _export_compact,
}
