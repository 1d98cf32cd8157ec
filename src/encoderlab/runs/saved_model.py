"""The model folder: weights, config and tokenizer, all that eval, predict and attention need, in formats that run no
code.

Only known schemas are built from a saved config. Weights are compared with the shapes that the config requires before a
model of its size is built. A run starts from a model folder too, or from one of the hub, of which only settings,
safetensors and tokenizer are downloaded.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import safetensors.torch
import torch
import yaml
from torch import Tensor

from encoderlab.config.commands import RunConfig, settings_to_dict
from encoderlab.config.composing import settings_from_dict
from encoderlab.data.tokenizers import PretrainedConfig, Tokenizer
from encoderlab.errors import DataError, SettingError, one_line
from encoderlab.exchange.sentences import sentence_pooling
from encoderlab.exchange.weights import check_shapes, read_config, read_weights
from encoderlab.model.config import ModelConfig, Pairs, Pooling
from encoderlab.model.heads import EncoderWithHeads, weight_shapes, without_weights
from encoderlab.runs.folder import GRAPH, MODEL_TYPE, RunFolder, is_graph, is_huggingface, model_folder
from encoderlab.runs.task import build_task
from encoderlab.settings import CACHE, REQUIRED, without_folders
from encoderlab.shipped import shipped_folder, suggestion
from encoderlab.system.files import MANIFEST, atomic_write, differing_files, write_manifest
from encoderlab.system.hub_access import http_error, hub_answers, quiet
from encoderlab.tasks import config as tasks
from encoderlab.tasks.task import Task
from encoderlab.tasks.texts import EncodingConfig
from encoderlab.training.config import TrainingConfig

if TYPE_CHECKING:
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
TOKEN_TABLE = "encoder.embeddings.token.weight"
BY_PIECE = (TOKEN_TABLE, "masked_token_head.decoder.weight", "masked_token_head.bias")
# one row per position or token: a shorter table holds the first rows of a longer one
TABLES = ("encoder.embeddings.position.embedding.weight", *BY_PIECE)
DOWNLOADED = ["config.json", "model*.safetensors", "model.safetensors.index.json", "1_Pooling/config.json", "vocab.txt"]
DOWNLOADED += ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"]
DOWNLOADED += ["vocab.json", "merges.txt", "sentencepiece.bpe.model"]  # of byte-level and Unigram vocabularies
PROBE = "Déjà vu: the U.S. re-entered 12% of it, (so they say)"  # distinguishes case, accents and punctuation
STARTS = "a shipped encoder, a run folder, a Hugging Face folder or a hub name (OWNER/NAME)"
TASK_HEADS = ("sequence_head", "token_head")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a model comes from: after which step its weights were taken and why, and what it was trained on.

    `paired` tells whether an example is two texts (None: unknown); `fingerprints` has one for each split's rows, so
    that a dataset that has changed since is noticed. `longest_row` is the length in tokens of the longest training row
    (None: unknown): what a model does with much longer ones has never been tested.
    """

    checkpoint: dict[str, Any]
    paired: bool | None
    fingerprints: dict[str, str]
    longest_row: int | None = None


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
        tokenizer = self.tokenizer
        return without_weights(self.config.model, tokenizer.vocabulary_size, tokenizer.pad_id, self.task().heads)


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
    content = json.dumps(config_json(saved), indent=2, ensure_ascii=False) + "\n"
    (folder / "config.json").write_text(content, encoding="utf-8")
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
    return replace(model, pairs=Pairs.separate) if isinstance(config.task, tasks.TeacherVectorsConfig) else model


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
    if not isinstance(task, tasks.RegressionConfig) or task.mean is None or task.deviation is None:
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
    if (folder / MANIFEST).is_file() and (differing := differing_files(folder)):
        # neither safetensors nor PyTorch notices a flipped bit in a weight
        remedy = f"Use another copy; if you changed a file yourself, remove {folder / MANIFEST}"
        raise DataError(f"{folder} is damaged: {differing[0]} does not match {MANIFEST}", remedy=remedy)
    try:
        config = read_config(folder)
        labels = [str(config["id2label"][str(index)]) for index in range(len(config["id2label"]))]
        origin, settings = Origin(**config["origin"]), _settings_of(folder, config)
        if not isinstance(settings.model, ModelConfig):
            raise ValueError("config.json does not contain the model's size and shape")
        if not isinstance(origin.longest_row, int | None):
            raise ValueError("config.json has no number as the length of the longest training row")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SettingError, yaml.YAMLError) as error:
        wrong = f"{folder} is damaged or not an encoderlab model: {one_line(str(error))[:200]}"
        raise DataError(wrong, remedy="Use another run") from None
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    weights = read_weights(folder / "model.safetensors") if graph is None else {}
    saved = SavedModel(cast("ResolvedRun", settings), labels, tokenizer, weights, origin, graph)
    if graph is None:
        heads = saved.task().heads
        required = weight_shapes(saved.config.model, tokenizer.vocabulary_size, tokenizer.pad_id, heads)
        check_shapes(folder, required, weights)
    return saved


def _settings_of(folder: Path, config: dict[str, Any]) -> RunConfig:
    """Return the settings in our config.json. If they are damaged, raises whatever parsing raises."""
    if encoder := config.get(ENCODER):
        model = {name: value for name, value in encoder["model"].items() if name != "schema"}
        return _without_run(folder, EncodingConfig(name=encoder["name"]), settings_from_dict(model, ModelConfig))
    settings, run = config["encoderlab"], RunFolder(folder.parent)
    if folder.name == run.model.name and run.config.is_file():  # it knows the folder of the rows
        settings |= {"dataset": yaml.safe_load(run.config.read_text(encoding="utf-8"))["dataset"]}
    return settings_from_dict(settings, RunConfig)


def _without_run(folder: Path, task: tasks.TaskConfig, model: ModelConfig) -> ResolvedRun:
    """Return the settings of a model without a run."""
    no_dataset: Any = None  # see `SavedModel`
    parts = (task, no_dataset, PretrainedConfig(name=str(folder)), model, TrainingConfig())
    return cast("ResolvedRun", RunConfig(REQUIRED, *parts))


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
    task, encoder, pooling = _task_of(model, folder.resolve().name), model.config, sentence_pooling(folder)
    if isinstance(task, EncodingConfig) and pooling is not None:
        encoder = replace(encoder, pooling=pooling, pairs=Pairs.separate)
    config = _without_run(folder, task, encoder)
    return SavedModel(config, model.labels, tokenizer, model.weights | tables, Origin(NOT_KNOWN, None, {}))


def _task_of(model: HuggingFaceModel, name: str) -> tasks.TaskConfig:
    """Return the task that the checkpoint's heads were trained for."""
    heads = model.heads
    if heads.vocabulary:
        second = tasks.SecondSentence.next if model.labels else tasks.SecondSentence.none
        return tasks.PretrainingConfig(name=name, second_sentence=second)
    if heads.token_classes is not None:
        # it may have learned IOB1, and transformers decodes this way
        return tasks.TaggingConfig(name=name, decoding=tasks.Decoding.argmax)
    if heads.sequence_classes is None:
        return EncodingConfig(name=name)
    if heads.sequence_target == "number":
        return tasks.RegressionConfig(name=name, mean=0.0, deviation=1.0)
    if heads.sequence_target == "label_set":
        return tasks.MultilabelConfig(name=name, thresholds=model.thresholds)
    threshold = (model.thresholds or {}).get(model.positive_label or "")
    return tasks.ClassificationConfig(name=name, positive_label=model.positive_label, threshold=threshold)


def load_pretrained(init_from: str, setting: str = "init_from") -> SavedModel:
    """Open the encoder that `setting`=`init_from` names, with the settings that a run starts from in `config.model`.

    Raises SettingError or DataError if there is none, or it is damaged or of an unsupported kind.
    """
    folder = encoder_folder(init_from, setting)
    saved = read_model(folder)
    model = encoder_settings(saved.config)
    weights = saved.weights
    if (
        isinstance(saved.config.task, EncodingConfig) and sentence_pooling(folder) is not None
    ):  # its pooler is untrained
        weights = {name: weight for name, weight in weights.items() if not name.startswith("pool.")}
    return replace(saved, config=replace(saved.config, model=model), weights=weights)


def settings_for(task: tasks.TaskConfig, pretrained: SavedModel) -> ModelConfig:
    """Return the settings of a pretrained encoder for a run of `task`.

    The pooling is kept if a task with labels or a pooler was trained with it. Otherwise it is the mean, which from
    pretraining alone scored 0.727 on the built-in task, and the first token 0.699; an encoder of another family keeps
    that family's own, with which it can be exported. Pretraining reads a pair as one sequence.
    """
    model, heads = pretrained.config.model, pretrained.task().heads
    if isinstance(task, tasks.PretrainingConfig):
        return replace(model, pairs=Pairs.joint)
    has_classes = heads.sequence_classes is not None and not heads.vocabulary
    if has_classes or model.family is not None or "pool.dense.weight" in pretrained.weights:
        return model
    return replace(model, pooling=Pooling.mean)


def load_into(model: EncoderWithHeads, pretrained: SavedModel, labels: Sequence[str] = ()) -> list[str]:
    """Copy the weights of `pretrained` into `model`; return the names of the parts that stay fresh.

    The encoder is copied whole, with tables cut to the rows that are needed. Heads of a task are always fresh, except
    those of continued pretraining, and the head of pairs only if it has the same `labels`. A `model` of shapes only
    stays one.
    """
    continues = "masked_token_head.bias" in pretrained.weights and list(labels) == pretrained.labels
    weights, copied = model.state_dict(), {}
    for name, weight in weights.items():
        theirs = pretrained.weights.get(name)
        if theirs is None or (name.startswith(TASK_HEADS) and not (continues and model.masked_token_head is not None)):
            continue
        theirs = theirs[: len(weight)] if name in TABLES else theirs
        if theirs.shape == weight.shape:
            copied[name] = theirs
    assert all(name in copied for name in weights if name.startswith("encoder."))
    if model.has_weights:
        model.load_state_dict(copied, strict=False)
    return sorted({name.rpartition(".")[0] for name in weights if name not in copied})


def vocabulary_difference(mine: Tokenizer, other: Tokenizer) -> str:
    """Return the first difference between two tokenizers in words; "" if their ids mean the same."""
    if mine.fingerprint == other.fingerprint:
        return ""
    its, others = (part.pieces(range(part.vocabulary_size)) for part in (mine, other))
    if its != others:
        return f"{len(its):,} tokens, which are not its {len(others):,}"
    return "" if mine.encode([PROBE]) == other.encode([PROBE]) else f"it splits {PROBE!r} differently"


def encoder_folder(name: str, setting: str = "init_from") -> Path:
    """Return the model folder that `setting`=`name` names: a shipped encoder's, a run's, a Hugging Face folder or a hub
    model's.

    Raises DataError if there is none.
    """
    path = Path(name).expanduser()
    if shipped_folder(name) is not None or (name and path.is_dir()):
        if path.parent.name == RunFolder(path).checkpoints.name:
            remedy = f"Set {setting}={path.parent.parent}, the run it belongs to"
            raise DataError(f"{setting}={name} is a checkpoint", remedy=remedy)
        return model_folder(name, setting)
    remedy = suggestion(name, setting)
    if not name or remedy or path.is_file():
        remedy = remedy or "Use a name from encoderlab list encoders"
        raise DataError(f"{setting}={name} is neither a shipped encoder nor a folder", allowed=STARTS, remedy=remedy)
    return fetch_model_folder(name)


def fetch_model_folder(name: str) -> Path:
    """Return a model's folder in the hub's cache (HF_HOME), updated if the hub answers.

    Pickles and code are never downloaded. Raises DataError if there is no such model, or if it can neither be
    downloaded nor is in the cache.
    """
    from huggingface_hub import constants, snapshot_download

    online = not constants.HF_HUB_OFFLINE and hub_answers(constants.ENDPOINT)
    try:
        with quiet():
            folder = Path(snapshot_download(name, allow_patterns=DOWNLOADED, local_files_only=not online))
    except (OSError, ValueError, http_error()) as error:  # the hub's own errors are of these kinds
        reason = str(error).strip().partition("\n")[0].rstrip(".")[:200] if online else "it cannot be reached"
        wrong = f"{name} is not a folder, and not available on the hub {constants.ENDPOINT}: {reason}"
        remedy = "Check the name (OWNER/NAME), the network and HF_TOKEN, or set HF_HOME to a cache that has it"
        raise DataError(wrong, remedy=remedy) from None
    if not any(folder.glob("model*.safetensors")):
        remedy = "Convert weights in another format with transformers' save_pretrained, if you trust them"
        raise DataError(f"{name} has no readable weights", allowed="a model with model.safetensors", remedy=remedy)
    return folder
