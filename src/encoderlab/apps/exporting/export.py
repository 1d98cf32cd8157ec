"""encoderlab export: writes a run's model for transformers or onnxruntime, to be opened without our code.

Its tokenizer gives the same ids as ours, truncated texts included, with two exceptions. transformers reads [MASK] and
the like in a text as the special token, as its users expect; we never let a text contain one. And when both texts of a
pair are truncated, an odd number of positions is left and the second text is at least as long, transformers gives the
odd position to the second text; we give it to the first, as BERT's own code does.
"""

from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from encoderlab.apps.exporting.card import TEMPLATES, export_card
from encoderlab.apps.exporting.exports import (
    as_huggingface,
    opens,
    predicts,
    with_full_positions,
    write_graph_folder,
    write_json,
    write_tokenizer,
)
from encoderlab.apps.exporting.settings import ExportConfig, ExportFormat
from encoderlab.apps.exporting.web import find_library, write_web_folder
from encoderlab.config.commands import OpenRunConfig
from encoderlab.errors import SettingError
from encoderlab.exchange.sentence_transformers import sentence_settings
from encoderlab.exchange.transformers_models import to_folder
from encoderlab.metrics.novelty import NOVELTY_FILE
from encoderlab.models.branch import BRANCH_FILES, LinearBranch
from encoderlab.models.folder import (
    INT8_GRAPH,
    MODEL,
    encoder_alone,
    in_user_units,
    model_folder,
    open_model,
    read_model,
)
from encoderlab.models.model import Model
from encoderlab.network.config import HeadSizes, Pooling
from encoderlab.reports.blocks import render
from encoderlab.reports.cards import LICENSE, escaped
from encoderlab.reports.predictions import trial_of
from encoderlab.reports.wording import words_of
from encoderlab.system.files import written_whole
from encoderlab.system.messages import say
from encoderlab.system.tensor_files import write_tensors
from encoderlab.training.config import Precision


def export(config: ExportConfig) -> Path:
    """Write the folder `path`. Raises SettingError if it exists or the format cannot hold the model, and DataError."""
    path = Path(config.path)
    if not config.path or path.exists():
        problem = f"path={config.path} already exists" if config.path else "path is empty"
        raise SettingError(problem, allowed="a new folder", remedy="Choose another name")
    if config.license is not None and not LICENSE.fullmatch(config.license):
        raise SettingError(
            f"license={config.license} is not an identifier of a licence",
            allowed="small letters, digits, points and hyphens, such as apache-2.0, mit or cc-by-4.0",
        )
    writers = {ExportFormat.huggingface: _export_to_huggingface, ExportFormat.web: _export_to_web}
    return writers.get(config.format, _export_to_onnx)(config, path)


def _export_to_huggingface(config: ExportConfig, path: Path) -> Path:
    opened = _without_branch(read_model(model_folder(config.run)))
    model = _with_chosen_heads(config, opened)
    if model.novelty is not None:
        left_out = "format=huggingface has no unlike_training: every text gets a label"
        say(f"{left_out}; format=onnx, int8 and web can tell texts unlike the training texts")
    task = model.task
    if not task.config.adds_special_tokens:
        problem = "transformers adds [CLS] and [SEP], but the model was trained with task.special_tokens=false"
        raise SettingError(problem, remedy="Train with task.special_tokens=true to export")
    extended = _extended(config, opened, model)
    fields, weights = to_folder(as_huggingface(extended), model.tokenizer.pad_id)
    fields |= model.config.task.exported_thresholds
    about = {"windows": task.windows, "max_length": task.max_length, "paired": bool(model.origin.paired)}
    with written_whole("path", path) as temporary:
        temporary.mkdir(parents=True)
        write_json(temporary / "config.json", fields)
        write_tensors(temporary / "model.safetensors", weights, {"format": "pt"})
        if task.heads == HeadSizes():
            _write_sentence_settings(temporary, opened)
        write_tokenizer(temporary, model, has_segments=fields.get("type_vocab_size", 0) >= 2)
        _write_card(temporary, config, model.task_name, "transformers", fields, **about)
    print(f"{path}\nIts README.md has a program that opens it")
    return path


def _without_branch(opened: Model) -> Model:
    """Return the model without a linear model beside its network, with thresholds of its own; say what that costs."""
    if opened.branch is not None:
        say(f"format=huggingface leaves out the linear model beside the network: {_cost_without(opened.branch)}")
    return opened.network_alone


def _cost_without(branch: LinearBranch) -> str:
    """Return in words how much worse the network predicts without its branch."""
    facts = branch.facts
    if "validation" not in facts.get("splits", {}):
        return "its predictions differ from those of predict"
    parts = facts["splits"]["validation"]
    score = f"{words_of(facts['score'])} on validation"
    return f"{score} is {parts['network']:.3f} without it, and {parts['both']:.3f} with it"


def _write_sentence_settings(folder: Path, opened: Model) -> None:
    """Let sentence-transformers make the vectors of texts as `embed` does."""
    pooling = Pooling[opened.vector_pooling.name]
    normalizes = opened.config.task.normalizes_vectors
    for name, content in sentence_settings(opened.shape.d_model, pooling, normalizes=normalizes).items():
        (folder / name).parent.mkdir(exist_ok=True)
        write_json(folder / name, content)


def _with_chosen_heads(config: ExportConfig, model: Model) -> Model:
    """Return the model as it is exported: its numbers in the user's units, or the encoder alone.

    A teacher's vectors were what an encoder learned from, not what it is for, so a head for them is left out.
    """
    if config.heads and model.task.heads.teacher_width is None:
        return in_user_units(model)
    return encoder_alone(model, Path(config.path).resolve().name)


def _extended(config: ExportConfig, opened: Model, exported: Model) -> Model:
    """Return the `exported` model with positions for texts longer than its run read; a pretrained encoder has its own.

    `opened` is the model with all its heads.
    """
    return with_full_positions(exported, model_folder(config.run)) if predicts(opened) else exported


def _export_to_onnx(config: ExportConfig, path: Path) -> Path:
    model, extended = _opened_for_onnx(config)
    is_int8 = config.format is ExportFormat.int8
    with written_whole("path", path) as temporary:
        temporary.mkdir(parents=True)
        written = write_graph_folder(temporary, model, extended, is_int8=is_int8, cache=config.cache)
        about = {"windows": model.task.windows, "max_length": model.task.max_length, "change": written.change}
        about["opened"] = opens(model)
        _write_card(temporary, config, model.task_name, "onnx", written.fields, **about)
    print(f"{path}\n{written.checked}; see its README.md")
    return path


def _export_to_web(config: ExportConfig, path: Path) -> Path:
    """Write a page with the 8-bit graph, which is checked as with format=int8."""
    library = find_library(Path(config.library).expanduser())
    model, extended = _opened_for_onnx(config)
    folder = model_folder(config.run)
    title = trial_of(folder.parent if folder.name == MODEL else folder, model.task_name).title
    page = render("web.html", TEMPLATES, title=title, paired=bool(model.origin.paired), novelty_file=NOVELTY_FILE)
    with written_whole("path", path) as temporary, TemporaryDirectory() as scratch:
        temporary.mkdir(parents=True)
        graph_folder = Path(scratch) / "graph"
        written = write_graph_folder(graph_folder, model, extended, is_int8=True, cache=config.cache)
        optional = (NOVELTY_FILE, *BRANCH_FILES)
        write_web_folder(temporary, page, graph_folder, graph_folder / INT8_GRAPH, library, optional)
        about = {"windows": model.task.windows, "max_length": model.task.max_length, "change": written.change}
        about["libraries"] = library.versions
        _write_card(temporary, config, model.task_name, "transformers.js", written.fields, **about)
    size = sum(file.stat().st_size for file in path.iterdir()) / 1e6
    print(f"{path}\n{written.checked}\n{size:.0f} MB: open {path / 'index.html'} in a browser, or copy the folder")
    return path


def _opened_for_onnx(config: ExportConfig) -> tuple[Model, Model]:
    """Return the model to export, and the same with positions for long texts.

    Raises SettingError if a library for it is missing or it makes no predictions to be checked, or DataError.
    """
    for name in ("onnx", "onnxscript", "onnxruntime"):
        if find_spec(name) is None:
            problem = f"format={config.format.name} needs {name}, which is not installed"
            raise SettingError(problem, remedy='Run pip install "encoderlab[onnx]"')
    run = OpenRunConfig(cache_dir=config.cache_dir, run=config.run, device="cpu", precision=Precision.fp32)
    opened = open_model(run)
    model = _with_chosen_heads(config, opened)
    if model.branch is not None and config.format is not ExportFormat.web:
        adding = "predict.py, encoderlab predict and serve add the linear model beside the network to the graph"
        say(f"{adding}; in a program that runs the graph alone, {_cost_without(model.branch)}")
    if config.format is not ExportFormat.onnx and not predicts(model):
        checked = f"format={config.format.name} is checked"
        problem = f"{model.task_name} is an encoder without predictions, by which {checked}"
        raise SettingError(problem, remedy="Use format=onnx")
    return model, _extended(config, opened, model)


def _write_card(folder: Path, config: ExportConfig, name: str, *about: Any, **more: Any) -> None:
    """Write README.md: the model's own card, else a title, with sections on the library that opens the folder."""
    more["license_name"] = config.license
    own = model_folder(config.run) / "README.md"
    card = own.read_text(encoding="utf-8", errors="replace") if own.is_file() else f"# {escaped(name)}\n"
    (folder / "README.md").write_text(export_card(card, *about, **more), encoding="utf-8")
