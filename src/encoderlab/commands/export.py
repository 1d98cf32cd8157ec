"""encoderlab export: writes a run's model for transformers or onnxruntime, to be opened without our code, or in a
compact form.

Its tokenizer gives the same ids as ours, truncated texts included, with two exceptions. transformers reads [MASK] and
the like in a text as the special token, as its users expect; we never let a text contain one. And when both texts of a
pair are truncated, an odd number of positions is left and the second text is at least as long, transformers gives the
odd position to the second text; we give it to the first, as BERT's own code does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import safetensors.torch

from encoderlab.config.commands import ExportConfig, ExportFormat, ExportPrecision, OpenRunConfig
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.exchange.compact_weights import COMPACT
from encoderlab.exchange.huggingface import to_huggingface
from encoderlab.exchange.onnx_int8 import write_int8
from encoderlab.exchange.sentence_transformers import answers_texts, pooling_of, write_modules
from encoderlab.reports.cards import (
    agreement_in_words,
    export_card,
    huggingface_section,
    int8_section,
    line_that_opens,
    megabytes,
    onnx_section,
    sentence_transformers_section,
    windows_section,
)
from encoderlab.reports.tables import words_of
from encoderlab.runs.assembly import Assembly, cache_folder, reopen
from encoderlab.runs.folder import GRAPH, is_graph, model_folder
from encoderlab.runs.inference.int8_check import check_int8
from encoderlab.runs.models.compact_model import in_compact_storage
from encoderlab.runs.models.graph_folder import gives_answers, thresholds_json, write_checked_graph, write_graph_folder
from encoderlab.runs.models.saved_model import (
    SavedModel,
    check_shapes,
    encoder_alone,
    in_user_units,
    read_model,
    write_model,
)
from encoderlab.system.files import atomic_write
from encoderlab.training.config import Precision


def export(config: ExportConfig) -> Path:
    """Write the folder `path`. Raises SettingError if `path` exists or the format cannot represent the model,
    DataError.
    """
    path = Path(config.path)
    if not config.path or path.exists():
        wrong = f"path={config.path} already exists" if config.path else "path is empty"
        raise SettingError(wrong, allowed="a new folder", remedy="Choose another name")
    _check_precision(config)
    return EXPORTERS[config.format](config, path)


def _check_precision(config: ExportConfig) -> None:
    """Raise SettingError for a precision that the format does not support."""
    formats = {ExportFormat.onnx: list(ExportPrecision), ExportFormat.int8: [ExportPrecision.int8]}
    if config.precision is not None and config.precision not in formats.get(config.format, []):
        wrong = f"format={config.format.name} does not support precision={config.precision.name}"
        raise SettingError(
            wrong, allowed="format=onnx with fp32 or int8, format=int8 with int8", remedy="Remove precision"
        )


def _export_to_huggingface(config: ExportConfig, path: Path) -> Path:
    saved = in_user_units(_read(config, path))
    fields, weights = _as_huggingface(saved)
    fields |= thresholds_json(saved.config.task)
    long_texts = windows_section(saved.task().windows, saved.config.model.reach)
    card = export_card(_card(config, saved.config.task.name), "transformers", huggingface_section(fields), long_texts)
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
        fields |= {"id2label": labels, "label2id": {label: id_ for id_, label in labels.items()}} | thresholds_json(
            saved.config.task
        )
    section = sentence_transformers_section(heads, answers=answers, paired=bool(saved.origin.paired))
    long_texts = windows_section(saved.task().windows, saved.config.model.reach) if answers else ""
    card = export_card(_card(config, name), "sentence-transformers", section, long_texts)
    head = {part: saved.weights[f"sequence_head.{part}"] for part in ("weight", "bias")} if answers else {}
    with _new_folder(path) as temporary:
        _write(temporary, fields, weights, saved.tokenizer, card)
        write_modules(temporary, saved.config.model, pooling, head)
    print(f"{path}\n{path / 'README.md'} shows how sentence-transformers opens it")
    return path


def _export_to_onnx(config: ExportConfig, path: Path) -> Path:
    """Export an ONNX graph, with 8-bit weights on request; see `graph_folder`."""
    int8 = config.format is ExportFormat.int8 or config.precision is ExportPrecision.int8
    assembly = _opened_for_onnx(config, int8=int8)
    with _new_folder(path) as temporary:
        fields = write_checked_graph(temporary, assembly)
        checked, section = _quantized(config, temporary / GRAPH, assembly) if int8 else ("", "")
        fields |= {"precision": "int8"} if int8 else {}
        opened = gives_answers(assembly) and assembly.config.dataset is not None
        long_texts = windows_section(assembly.task.windows, assembly.task.max_length, reader="predict.py")
        sections = (onnx_section(fields, opened=opened), section, long_texts)
        card = export_card(_card(config, assembly.config.task.name), "onnx", *sections)
        write_graph_folder(temporary, assembly, fields, card)
    off = f"{fields['largest_difference']:.1e} of the largest output (allowed: {fields['tolerance']:g})"
    print(
        f"{path}\nopset {fields['opset']}, checked with onnxruntime {fields['onnxruntime']}: off by {off}; see its README.md"
    )
    if checked:
        print(checked)
    return path


def _opened_for_onnx(config: ExportConfig, *, int8: bool) -> Assembly:
    """Return the model to export. Raises SettingError or DataError, before anything is written, if that is impossible."""
    if not config.heads:
        raise SettingError(
            f"heads=false does not work with format={config.format.name}, which writes the heads too",
            allowed="heads=false with format=compact or huggingface",
        )
    for name in ("onnx", "onnxscript", "onnxruntime"):
        if find_spec(name) is None:
            wrong = f"format={config.format.name} needs {name}, which is not installed"
            raise SettingError(wrong, remedy='Run pip install "encoderlab[onnx]"')
    _refuse_graph(config)
    assembly = reopen(OpenRunConfig(cache_dir=config.cache_dir, run=config.run, device="cpu", precision=Precision.fp32))
    if int8 and not gives_answers(assembly):
        wrong = (
            f"{assembly.config.task.name} is an encoder without predictions, and format=int8 is verified by predictions"
        )
        raise SettingError(wrong, remedy="Use format=compact, or format=onnx in fp32")
    saved = in_user_units(assembly.saved(assembly.opened))
    assembly.model.load_state_dict(saved.weights)
    return replace(assembly, config=saved.config, task=saved.task())


def _refuse_graph(config: ExportConfig) -> None:
    """Raise DataError if the run is already a graph."""
    folder = model_folder(config.run)
    if is_graph(folder):
        raise DataError(
            f"run={config.run} contains an ONNX graph without weights", remedy="Use the run it was exported from"
        )


def _quantized(config: ExportConfig, graph: Path, assembly: Assembly) -> tuple[str, str]:
    """Replace the graph by an 8-bit one. Return a line for the screen and a section for the card on what changes."""
    in_32_bits = graph.with_name("fp32.onnx")
    data = graph.with_name(f"{graph.name}.data")
    if data.exists():
        raise SettingError("A graph of 2 GB or more cannot be exported in 8 bits", remedy="Use format=onnx in fp32")
    graph.rename(in_32_bits)
    write_int8(in_32_bits, graph)
    check = check_int8(assembly, graph, cache_folder(config.cache_dir))
    n_bytes = (in_32_bits.stat().st_size, graph.stat().st_size)
    in_32_bits.unlink()
    before, after = check.texts_per_second
    sizes = f"{megabytes(n_bytes[0])} reduced to {megabytes(n_bytes[1])}"
    scores = (
        "" if check.before is None else f"; {words_of(check.score)} {check.before:.4f} before, {check.after:.4f} after"
    )
    line = f"8 bits: {sizes}; {agreement_in_words(check)}{scores}; {before:,.0f} texts per second before, {after:,.0f} after"
    return line, int8_section(check, n_bytes)


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
        (temporary / "README.md").write_text(card, encoding="utf-8")
    changed = f"on a few sentences a vector changes by at most {change.vector:.2%} of its length"
    print(f"{path}\nweights: {megabytes(before)} reduced to {megabytes(after)}; {changed}")
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
    """Yield a temporary folder to write to, which becomes `path` whole or not at all. Raises DataError if it cannot be
    written.
    """
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
    ExportFormat.int8: _export_to_onnx,
    ExportFormat.compact: _export_compact,
}
