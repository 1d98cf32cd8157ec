"""The model folder: weights, config and tokenizer, all that eval, predict and attention need, in formats that run no
code.

Only known schemas are built from a saved config. Weights are compared with the shapes that the config requires before a
model of its size is built.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import safetensors.torch
import torch
import yaml
from torch import Tensor

from encoderlab.config.commands import RunConfig
from encoderlab.config.composing import settings_from_dict
from encoderlab.config.schemas import settings_to_dict
from encoderlab.data.tokenizers import PretrainedConfig, Tokenizer
from encoderlab.errors import DataError, SettingError, one_line
from encoderlab.exchange.weights import check_shapes, read_config, read_weights, shapes_of
from encoderlab.model.config import ModelConfig, Pairs, Pooling
from encoderlab.model.heads import EncoderWithHeads, without_weights
from encoderlab.runs.folder import GRAPH, MODEL_TYPE, RunFolder, is_graph, is_huggingface
from encoderlab.runs.task import build_task
from encoderlab.settings import CACHE, REQUIRED, without_folders
from encoderlab.system.files import MANIFEST, atomic_write, differing_files, write_manifest
from encoderlab.tasks.config import (
    ClassificationConfig,
    Decoding,
    MultilabelConfig,
    PretrainingConfig,
    RegressionConfig,
    SecondSentence,
    TaggingConfig,
    TaskConfig,
    TeacherVectorsConfig,
)
from encoderlab.tasks.task import Task
from encoderlab.tasks.texts import EncodingConfig
from encoderlab.training.config import TrainingConfig

if TYPE_CHECKING:
    from encoderlab.data.dataset import DatasetConfig
    from encoderlab.exchange.huggingface import HuggingFaceModel

    class ResolvedRun(RunConfig):
        """A run's settings, with the model's in full (see `ModelChoice.resolve`). Only type checkers tell it from
        `RunConfig`: a class of its own would be another schema of the same config.yaml.
        """

        model: ModelConfig
else:
    ResolvedRun = RunConfig


NOT_KNOWN = {"step": None, "chosen_by": "checkpoint as it was found", "chosen_on": None}
HASHED = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")
PLACES = {"cache_dir": CACHE, "run_dir": None, "resume": None}  # of another machine
ENCODER = "encoder"  # in config.json, the entry of an encoder without a head
BY_PIECE = ("encoder.embeddings.token.weight", "masked_token_head.decoder.weight", "masked_token_head.bias")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a model comes from: after which step its weights were taken and why, and what it was trained on.

    `paired` tells whether an example is two texts (None: unknown); `fingerprints` has one for each split's rows, so
    that a dataset that has changed since is noticed.
    """

    checkpoint: dict[str, Any]
    paired: bool | None
    fingerprints: dict[str, str]


@dataclass(frozen=True, slots=True)
class SavedModel:
    """The content of a model folder. `config.dataset` is None without a run: for an encoder alone, or from Hugging
    Face.

    An exported ONNX folder has a `graph` instead of `weights`. The weights of a Hugging Face encoder without a head may
    include a pooler (`pool.dense.*`), which only a run that starts from it uses.
    """

    config: ResolvedRun
    labels: list[str]
    tokenizer: Tokenizer
    weights: dict[str, Tensor]
    origin: Origin
    graph: Path | None = None

    def task(self) -> Task:
        """Return the model's task. Raises SettingError if no example fits into its sequences."""
        return build_task(self.config.task, self.tokenizer, self.labels, self.config.model.reach)

    def model(self) -> EncoderWithHeads:
        """Return the model with its weights, in evaluation mode, without drawing others first."""
        model = self.without_weights()
        if self.graph is not None:
            from encoderlab.exchange.onnx import GraphModel

            return cast("EncoderWithHeads", GraphModel(self.graph, model))  # it predicts, and refuses everything else
        weights = {name: self.weights[name].to(torch.float32, copy=True) for name in model.state_dict()}
        model.load_state_dict(weights, assign=True)
        return model.eval()

    def without_weights(self) -> EncoderWithHeads:
        """Return the model that the config describes, without memory for its weights."""
        return without_weights(
            self.config.model, self.tokenizer.vocabulary_size, self.tokenizer.pad_id, self.task().heads
        )


def save_model(saved: SavedModel, folder: Path, card: str) -> None:
    """Write a model to `folder`, with `card` as its README.md and a manifest of hashes; it appears whole or not at all.

    A model that a run wrote before it was resumed is replaced.
    """
    with atomic_write(folder) as temporary:
        temporary.mkdir(parents=True)
        write_model(temporary, saved, {"format": "pt"})
        (temporary / "README.md").write_text(card, encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)


def write_model(folder: Path, saved: SavedModel, metadata: dict[str, str]) -> None:
    """Write the content of a model folder, and its manifest, to an existing folder; with `metadata`."""
    weights = safetensors.torch.save(saved.weights, metadata=metadata)
    (folder / "model.safetensors").write_bytes(weights)  # safetensors' own writer has no errno for a full disk
    saved.tokenizer.save(folder / "tokenizer.json")
    (folder / "config.json").write_text(
        json.dumps(config_json(saved), indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    write_manifest(folder, HASHED)


def config_json(saved: SavedModel) -> dict[str, Any]:
    """Return the content of config.json, with files named without their folders. An encoder without a head has only its
    name, size and shape, not a run's settings.
    """
    labels, settings = dict(enumerate(saved.labels)), settings_to_dict(saved.config)
    is_encoder = isinstance(saved.config.task, EncodingConfig)
    encoder = {"name": saved.config.task.name, "model": settings_to_dict(saved.config.model)}
    return {
        "model_type": MODEL_TYPE,
        "id2label": labels,
        "label2id": {label: index for index, label in labels.items()},
        "origin": asdict(saved.origin),
        **({ENCODER: encoder} if is_encoder else {"encoderlab": without_folders(settings) | PLACES}),
    }


def encoder_settings(config: ResolvedRun) -> ModelConfig:
    """Return the encoder's settings for another run; an encoder of sentence vectors separates pairs."""
    model = config.model.resolve(None)
    return replace(model, pairs=Pairs.separate) if isinstance(config.task, TeacherVectorsConfig) else model


def encoder_alone(saved: SavedModel, name: str) -> SavedModel:
    """Return the encoder of a model without a head, called `name`, without the run's dataset.

    Models trained from it use mean pooling unless configured otherwise, and reports call it by that name.
    """
    weights = {key: weight for key, weight in saved.weights.items() if key.startswith("encoder.")}
    model = replace(encoder_settings(saved.config), name=name, pooling=Pooling.mean)
    config = replace(saved.config, task=EncodingConfig(name=name), dataset=None, model=model, run_dir=None)
    return SavedModel(config, [], saved.tokenizer, weights, Origin(saved.origin.checkpoint, None, {}))


def in_user_units(saved: SavedModel) -> SavedModel:
    """Return the model with the mean and deviation of a predicted number folded into its last layer."""
    task = saved.config.task
    if not isinstance(task, RegressionConfig) or task.mean is None or task.deviation is None:
        return saved
    weight, bias = (saved.weights[f"sequence_head.{name}"] for name in ("weight", "bias"))
    weights = {"sequence_head.weight": weight * task.deviation, "sequence_head.bias": bias * task.deviation + task.mean}
    config = replace(saved.config, task=replace(task, mean=0.0, deviation=1.0))
    return replace(saved, config=config, weights=saved.weights | weights)


def read_model(folder: Path, *, or_graph: bool = False) -> SavedModel:
    """Read a model folder, ours or one of transformers; with `or_graph` also an exported graph, which can only predict.

    Raises DataError if it is damaged, not supported, or has other weights than its config requires.
    """
    graph = folder / GRAPH if is_graph(folder) else None
    if graph is not None and not or_graph:
        wrong = f"{folder} contains an ONNX graph without weights, which only predict and serve can open"
        raise DataError(wrong, remedy="Use the run it was exported from")
    if is_huggingface(folder):
        return _of_huggingface(folder)
    _check_hashes(folder)
    try:
        config = read_config(folder)
        labels = [str(config["id2label"][str(index)]) for index in range(len(config["id2label"]))]
        origin, settings = Origin(**config["origin"]), _settings_of(folder, config)
        if not isinstance(settings.model, ModelConfig):
            raise ValueError("config.json does not contain the model's size and shape")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SettingError, yaml.YAMLError) as error:
        wrong = f"{folder} is damaged or not an encoderlab model: {one_line(str(error))[:200]}"
        raise DataError(wrong, remedy="Use another run") from None
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    weights = read_weights(folder / "model.safetensors") if graph is None else {}
    saved = SavedModel(cast("ResolvedRun", settings), labels, tokenizer, weights, origin, graph)
    if graph is None:
        check_shapes(folder, shapes_of(saved.without_weights().state_dict()), weights)
    return saved


def _check_hashes(folder: Path) -> None:
    """Raise DataError if a file of our model folder differs from its manifest, if it has one.

    Neither safetensors nor PyTorch notices a flipped bit in a weight.
    """
    if (folder / MANIFEST).is_file() and (differing := differing_files(folder)):
        remedy = f"Use another copy; if you changed a file yourself, remove {folder / MANIFEST}"
        raise DataError(f"{folder} is damaged: {differing[0]} does not match {MANIFEST}", remedy=remedy)


def _settings_of(folder: Path, config: dict[str, Any]) -> RunConfig:
    """Return the settings in our config.json. If they are damaged, raises whatever parsing raises."""
    if encoder := config.get(ENCODER):
        model = {name: value for name, value in encoder["model"].items() if name != "schema"}
        return _without_run(folder, EncodingConfig(name=encoder["name"]), settings_from_dict(model, ModelConfig))
    settings, run = config["encoderlab"], RunFolder(folder.parent)
    if folder.name == run.model.name and run.config.is_file():  # it knows the folder of the rows
        settings |= {"dataset": yaml.safe_load(run.config.read_text(encoding="utf-8"))["dataset"]}
    return settings_from_dict(settings, RunConfig)


def _without_run(folder: Path, task: TaskConfig, model: ModelConfig) -> ResolvedRun:
    """Return the settings of a model without a run."""
    tokenizer = PretrainedConfig(name=str(folder))
    no_dataset = cast("DatasetConfig", None)  # see `SavedModel`
    settings = RunConfig(
        REQUIRED, task=task, dataset=no_dataset, tokenizer=tokenizer, model=model, training=TrainingConfig()
    )
    return cast("ResolvedRun", settings)


def _of_huggingface(folder: Path) -> SavedModel:
    """Return the model of a Hugging Face folder, for a task of ours that is named after the folder."""
    from encoderlab.exchange.huggingface import read_huggingface

    model = read_huggingface(folder)
    if (path := folder / "tokenizer.json").is_file():
        tokenizer = Tokenizer.load(path)
    elif (folder / "vocab.txt").is_file():  # without, transformers would build a tokenizer without a single token
        tokenizer = PretrainedConfig(name=str(folder)).build(list, folder)
    else:
        raise DataError(f"{folder} has no tokenizer", allowed="a folder with tokenizer.json or vocab.txt")
    if (pieces := tokenizer.vocabulary_size) > model.vocabulary_size:
        wrong = f"{folder} has embeddings of {model.vocabulary_size:,} tokens, but its tokenizer has {pieces:,}"
        raise DataError(wrong, remedy="Use a checkpoint with its own tokenizer")
    # tables are often padded to a round number of rows, which no text uses
    tables = {name: model.weights[name][:pieces].contiguous() for name in BY_PIECE if name in model.weights}
    config = _without_run(folder, _task_of(model, folder.resolve().name), model.config)
    return SavedModel(config, model.labels, tokenizer, model.weights | tables, Origin(NOT_KNOWN, None, {}))


def _task_of(model: HuggingFaceModel, name: str) -> TaskConfig:
    """Return the task that the checkpoint's heads were trained for."""
    heads = model.heads
    if heads.vocabulary:
        second = SecondSentence.next if model.labels else SecondSentence.none
        return PretrainingConfig(name=name, second_sentence=second)
    if heads.token_classes is not None:
        # it may have learned IOB1, and transformers decodes this way
        return TaggingConfig(name=name, decoding=Decoding.argmax)
    if heads.sequence_classes is None:
        return EncodingConfig(name=name)
    if heads.sequence_target == "number":
        return RegressionConfig(name=name, mean=0.0, deviation=1.0)
    if heads.sequence_target == "label_set":
        return MultilabelConfig(name=name, thresholds=model.thresholds)
    threshold = (model.thresholds or {}).get(model.positive_label or "")
    return ClassificationConfig(name=name, positive_label=model.positive_label, threshold=threshold)
