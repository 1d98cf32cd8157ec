"""The model folder: weights, config and tokenizer, all that eval, predict and attention need, in formats that run no
code.

Only known schemas are built from a saved config. Weights are compared with the shapes that the config requires before a
model of its size is built.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors.torch
import torch
from torch import Tensor

from encoderlab.config.commands import OpenRunConfig, RunConfig
from encoderlab.config.schemas import SAVED_SCHEMAS, settings_from_dict, settings_to_dict
from encoderlab.data.tokenizer_config import PretrainedConfig
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError, one_line
from encoderlab.exchange.sentence_transformers import normalizes, sentence_pooling
from encoderlab.exchange.weights import check_shapes, read_config, read_weights
from encoderlab.metrics.novelty import NOVELTY_FILE, Novelty
from encoderlab.models.branch import in_units, read_branch
from encoderlab.models.model import UNASSIGNED, Model, Provenance
from encoderlab.network.config import ModelConfig, Pairs, Pooling
from encoderlab.network.heads import EncoderWithHeads, weight_shapes, without_weights
from encoderlab.settings import CACHE, REQUIRED, without_folders
from encoderlab.shipped import shipped_folder, suggestion
from encoderlab.system.device import set_up_compute
from encoderlab.system.files import MANIFEST, atomic_write, differing_files, expanded, write_manifest
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.system.records import yaml_of
from encoderlab.system.tensor_files import write_tensors
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.tasks.multilabel import MultilabelConfig
from encoderlab.tasks.pretraining import PretrainingConfig, SecondSentence
from encoderlab.tasks.regression import RegressionConfig
from encoderlab.tasks.tagging import Decoding, TaggingConfig
from encoderlab.tasks.task import Task, TaskConfig
from encoderlab.tasks.vectors import EncodingConfig
from encoderlab.training.checkpoint import weights_of
from encoderlab.training.config import TrainingConfig

if TYPE_CHECKING:
    from encoderlab.exchange.config_json import HuggingFaceModel


MODEL_TYPE = "encoderlab"  # in the config.json of our own models
MODEL = "model"  # the folder of the model inside that of its run
GRAPH = "onnx/model.onnx"  # where transformers.js and optimum look for it
INT8_GRAPH = "onnx/model_quantized.onnx"
GRAPH_ENTRY = "graph"  # in config.json of an exported graph: what transformers has no field for
RUN_ENTRY = "run"  # there: the content of the model's own config.json, with which predict, serve and eval open it
GRAPH_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")
MODEL_FILES = ("model.safetensors", "config.json", "tokenizer.json")
NOT_KNOWN = {"step": None, "chosen_by": "checkpoint as it was found", "chosen_on": None}
HASHED = ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json")
PLACES = {"cache_dir": CACHE, "run_dir": None, "resume": None}  # of another machine
ENCODER = "encoder"  # in config.json, the entry of an encoder without a head
BY_TOKEN = ("encoder.embeddings.token.weight", "masked_token_head.decoder.weight", "masked_token_head.bias")


def save_model(model: Model, folder: Path, card: str) -> None:
    """Write a model to `folder`, with `card` as its README.md and a manifest of hashes; it appears whole or not at all.

    A model that a run wrote before it was resumed is replaced.
    """
    with atomic_write(folder) as temporary:
        temporary.mkdir(parents=True)
        write_model(temporary, model, weights_of(model.network), {"format": "pt"})
        (temporary / "README.md").write_text(card, encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)


def write_model(folder: Path, model: Model, weights: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write the content of a model folder, and its manifest, to an existing folder: the `weights` with `metadata`."""
    write_tensors(folder / "model.safetensors", weights, metadata)
    model.tokenizer.save(folder / "tokenizer.json")
    config = json.dumps(config_json(model), indent=2, ensure_ascii=False) + "\n"
    (folder / "config.json").write_text(config, encoding="utf-8")
    write_manifest(folder, [*HASHED, *write_beside_network(folder, model)])


def write_beside_network(folder: Path, model: Model) -> list[str]:
    """Write what a model knows besides its network, if anything: which texts are new to it, and a linear model. Return
    the names of the files.
    """
    written: list[str] = []
    if model.novelty is not None:
        write_novelty(folder, model.novelty)
        written.append(NOVELTY_FILE)
    if model.branch is not None:
        written += model.branch.write(folder)
    return written


def config_json(model: Model) -> dict[str, Any]:
    """Return the content of config.json, with files named without their folders. An encoder without a head has only its
    name, size and shape, not a run's settings.
    """
    names = dict(enumerate(model.labels))
    content: dict[str, Any] = {
        "model_type": MODEL_TYPE,
        "id2label": names,
        "label2id": {label: index for index, label in names.items()},
        "origin": asdict(model.origin),
    }
    if model.config.task.of_encoder_alone:
        content[ENCODER] = {"name": model.task_name, "model": settings_to_dict(model.shape)}
    else:
        content["encoderlab"] = without_folders(settings_to_dict(_settings_of_any_run(model.config))) | PLACES
    return content


def _settings_of_any_run(config: RunConfig) -> RunConfig:
    """Return the settings that any run has, without those of a single command, such as init_from."""
    return RunConfig(**{one.name: getattr(config, one.name) for one in fields(RunConfig)})


def encoder_shape(config: RunConfig) -> ModelConfig:
    """Return the encoder's settings for another run; an encoder of sentence vectors separates pairs."""
    shape = config.model.resolve(None)
    return replace(shape, pairs=Pairs.separate) if config.task.separates_pairs else shape


def encoder_alone(model: Model, name: str) -> Model:
    """Return the encoder of a model without a head, called `name`, without the run's dataset.

    Models trained from it use mean pooling unless its first token was trained to be the vector of a text, and reports
    call it by that name.
    """
    shape = replace(encoder_shape(model.config), name=name)
    if not model.config.task.of_vectors:
        shape = replace(shape, pooling=Pooling.mean)
    no_dataset: Any = None
    config = replace(model.config, task=EncodingConfig(name=name), dataset=no_dataset, model=shape, run_dir=None)
    task = config.task.build(model.tokenizer, [], shape.reach)
    kept = {weight: value for weight, value in model.network.state_dict().items() if weight.startswith("encoder.")}
    network = network_of(shape, task, kept)
    return Model(config, task, network, model.compute, Provenance(model.origin.checkpoint, None, {}))


def in_user_units(model: Model) -> Model:
    """Return the model with the mean and deviation of a predicted number folded into its last layer, and its branch."""
    task = model.config.task
    if not isinstance(task, RegressionConfig) or task.mean is None or task.deviation is None:
        return model
    weights = dict(model.network.state_dict())
    weights["sequence_head.weight"] = weights["sequence_head.weight"] * task.deviation
    weights["sequence_head.bias"] = weights["sequence_head.bias"] * task.deviation + task.mean
    scaled = replace(task, mean=0.0, deviation=1.0).build(model.tokenizer, model.labels, model.shape.reach)
    scaled_model = model.with_task(scaled, network_of(model.shape, scaled, weights))
    if model.branch is None:
        return scaled_model
    linear = in_units(model.branch.model, -task.mean / task.deviation, 1 / task.deviation)
    return replace(scaled_model, branch=replace(model.branch, model=linear))


def network_of(shape: ModelConfig, task: Task, weights: dict[str, Tensor], *, copied: bool = True) -> EncoderWithHeads:
    """Return a network with these weights, in evaluation mode, without drawing others first.

    Unless they are `copied`, those in float32 stay a part of the file that they were read from, which must not change
    meanwhile, and take memory only as they are read.
    """
    tokenizer = task.tokenizer
    network = without_weights(shape, tokenizer.vocabulary_size, tokenizer.pad_id, task.heads)
    own = {name: weights[name].to(torch.float32, copy=copied) for name in network.state_dict()}
    network.load_state_dict(own, assign=True)
    return network.eval()


def write_novelty(folder: Path, novelty: Novelty) -> None:
    """Write it as a file of `folder`."""
    tensors = {
        "whitening": torch.from_numpy(novelty.whitening),
        "means": torch.from_numpy(novelty.means),
        "held_out": torch.from_numpy(novelty.held_out),
    }
    (folder / NOVELTY_FILE).write_bytes(safetensors.torch.save(tensors))


def read_novelty(folder: Path, width: int, n_classes: int) -> Novelty | None:
    """Return that of a model folder whose head reads vectors of this width; None if it has none.

    Raises DataError if the file is damaged.
    """
    if not (folder / NOVELTY_FILE).is_file():
        return None
    tensors = read_weights(folder / NOVELTY_FILE)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    expected = {"whitening": (width, width), "means": shapes.get("means"), "held_out": shapes.get("held_out")}
    n_means, *rest = shapes.get("means") or (0,)
    if shapes != expected or rest != [width] or not 0 < n_means <= n_classes or not tensors["held_out"].numel():
        raise DataError(f"{folder / NOVELTY_FILE} is damaged: its shapes are {shapes}", remedy="Use another copy")
    arrays = {name: tensor.float().numpy() for name, tensor in tensors.items()}
    return Novelty(**arrays)


def load_model(run: str | Path, device: str = "auto") -> Model:
    """Open a finished run, its model folder, a Hugging Face folder, an exported graph or a shipped encoder.

    Raises DataError if it is damaged or missing.
    """
    cache = os.environ.get("ENCODERLAB_CACHE", CACHE)
    return open_model(OpenRunConfig(cache_dir=cache, run=str(run), device=device), or_graph=True)


def open_model(run: OpenRunConfig, processes: Processes = SINGLE_PROCESS, *, or_graph: bool = False) -> Model:
    """Open the model that `run.run` names, on the device that the settings choose; with `or_graph`, an exported graph
    too.

    Only the main process reads it, and broadcasts it. Raises DataError if it is damaged or missing.
    """
    model = processes.broadcast_from_main(lambda: read_model(model_folder(run.run), or_graph=or_graph))
    device = run.device
    precision = run.precision.value
    if not isinstance(model.network, EncoderWithHeads):
        if device not in ("auto", "cpu") or precision == "bf16":
            unusable = f"precision={precision}" if device in ("auto", "cpu") else f"device={device}"
            problem = f"{unusable} does not work with {run.run}, an ONNX graph"
            raise SettingError(problem, allowed="device=cpu precision=fp32")
        device = "cpu"
        precision = "fp32"
    compute = set_up_compute(
        device, precision, run.threads, width=model.shape.d_model, setting="device", processes=processes
    )
    return model.on(compute, processes)


def read_model(folder: Path, *, or_graph: bool = False, copied: bool = True) -> Model:
    """Read a model folder, ours or one of transformers; with `or_graph` also an exported graph, which can only predict.
    Unless they are `copied`, its weights stay a part of their file, as `network_of` has it.

    Raises DataError if it is damaged, not supported, or has other weights than its config requires.
    """
    graph = graph_of(folder)
    has_settings = graph is not None and RUN_ENTRY in read_config(folder)[GRAPH_ENTRY]
    if graph is not None and not (or_graph and has_settings):
        openers = "only predict, serve and eval" if has_settings else "no command"
        problem = f"{folder} contains an ONNX graph without weights, which {openers} can open"
        raise DataError(problem, remedy="Use the run it was exported from")
    if graph is None and is_huggingface(folder):
        return _of_huggingface(folder, copied=copied)
    if (folder / MANIFEST).is_file():
        differing = differing_files(folder)
        if differing:
            # neither safetensors nor PyTorch notices a flipped bit in a weight
            remedy = f"Use another copy; if you changed a file yourself, remove {folder / MANIFEST}"
            raise DataError(f"{folder} is damaged: {differing[0]} does not match {MANIFEST}", remedy=remedy)
    try:
        content = read_config(folder)
        if graph is not None:
            content = content[GRAPH_ENTRY][RUN_ENTRY]
        labels = [str(content["id2label"][str(index)]) for index in range(len(content["id2label"]))]
        provenance = Provenance(**content["origin"])
        config = _settings_of(folder, content)
        if not isinstance(config.model, ModelConfig):
            raise ValueError("config.json does not contain the model's size and shape")
        if not isinstance(provenance.longest_row, int | None):
            raise ValueError("config.json has no number as the length of the longest training row")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, SettingError) as error:
        problem = f"{folder} is damaged or not an encoderlab model: {one_line(str(error))[:200]}"
        raise DataError(problem, remedy="Use another run") from None
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    task = config.task.build(tokenizer, labels, config.model.reach)
    branch = read_branch(folder, task)
    if graph is not None:
        network = _graph_network(graph, config.model, task)
        novelty = read_novelty(folder, config.model.d_model, len(labels)) if "vectors" in network.outputs else None
        return Model(config, task, network, UNASSIGNED, provenance, novelty=novelty, branch=branch)
    weights = read_weights(folder / "model.safetensors")
    required = weight_shapes(config.model, tokenizer.vocabulary_size, tokenizer.pad_id, task.heads)
    check_shapes(folder, required, weights)
    novelty = read_novelty(folder, config.model.d_model, len(labels))
    network = network_of(config.model, task, weights, copied=copied)
    return Model(config, task, network, UNASSIGNED, provenance, novelty=novelty, branch=branch)


def _graph_network(graph: Path, shape: ModelConfig, task: Task) -> Any:
    """Return a graph in the place of a network: it predicts, and refuses everything else."""
    from encoderlab.exchange.onnx import GraphModel

    tokenizer = task.tokenizer
    return GraphModel(graph, without_weights(shape, tokenizer.vocabulary_size, tokenizer.pad_id, task.heads))


def _settings_of(folder: Path, content: dict[str, Any]) -> RunConfig:
    """Return the settings in our config.json. If they are damaged, raises whatever parsing raises."""
    encoder = content.get(ENCODER)
    if encoder:
        shape = dict(encoder["model"])
        kind = SAVED_SCHEMAS["model", shape.pop("schema")]
        return _without_run(folder, EncodingConfig(name=encoder["name"]), settings_from_dict(shape, kind))
    settings = content["encoderlab"]
    run_settings = folder.parent / "config.yaml"
    if folder.name == MODEL and run_settings.is_file():  # it knows the folder of the rows
        settings |= {"dataset": yaml_of(run_settings.read_text(encoding="utf-8"))["dataset"]}
    return settings_from_dict(settings, RunConfig)


def _without_run(folder: Path, task: TaskConfig, shape: ModelConfig) -> RunConfig:
    """Return the settings of a model without a run."""
    no_dataset: Any = None  # see `Model`
    return RunConfig(REQUIRED, task, no_dataset, PretrainedConfig(name=str(folder)), shape, TrainingConfig())


def _of_huggingface(folder: Path, *, copied: bool) -> Model:
    """Return the model of a Hugging Face folder, for a task of ours that is named after the folder."""
    from encoderlab.exchange.transformers_models import read_folder

    model = read_folder(folder)
    path = folder / "tokenizer.json"
    if path.is_file():
        tokenizer = Tokenizer.load(path)
    elif (folder / "vocab.txt").is_file():  # without, transformers would build a tokenizer without a single token
        tokenizer = PretrainedConfig(name=str(folder)).build(list, folder)
    else:
        raise DataError(
            f"{folder} has no tokenizer",
            allowed="a folder with tokenizer.json or vocab.txt",
            remedy="Write one there with transformers: AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER)",
        )
    n_tokens = tokenizer.vocabulary_size
    if n_tokens > model.vocabulary_size:
        problem = f"{folder} has embeddings of {model.vocabulary_size:,} tokens, but its tokenizer has {n_tokens:,}"
        raise DataError(problem, remedy="Use a checkpoint with its own tokenizer")
    # tables are often padded to a round number of rows, which no text uses
    tables = {name: model.weights[name][:n_tokens].contiguous() for name in BY_TOKEN if name in model.weights}
    weights = model.weights | tables
    task_config = _task_of(model, folder)
    shape = model.config
    pooling = sentence_pooling(folder)
    if task_config.of_encoder_alone and pooling is not None:
        shape = replace(shape, pooling=pooling, pairs=Pairs.separate)
    config = _without_run(folder, task_config, shape)
    task = task_config.build(tokenizer, model.labels, _stated_length(folder, shape.reach))
    network = network_of(shape, task, weights, copied=copied)
    own = network.state_dict()
    pooler = {}
    for name, weight in weights.items():
        if name.startswith("pool.") and name not in own:
            pooler[name] = weight.to(
                torch.float32, copy=True
            )  # not a part of the file, which would stay in memory whole
    return Model(config, task, network, UNASSIGNED, Provenance(NOT_KNOWN, None, {}), pooler)


def _stated_length(folder: Path, reach: int) -> int:
    """Return how many tokens of a text are read: as many as the tokenizer states, and at most `reach`, the positions
    that there are.
    """
    if not (folder / "tokenizer_config.json").is_file():
        return reach
    stated = read_config(folder, "tokenizer_config.json").get("model_max_length")
    # transformers writes a number of 31 digits where nothing is known
    return min(stated, reach) if isinstance(stated, int) and stated > 1 else reach


def _task_of(model: HuggingFaceModel, folder: Path) -> TaskConfig:
    """Return the task that the checkpoint's heads were trained for."""
    name = folder.resolve().name
    heads = model.heads
    if heads.vocabulary:
        second = SecondSentence.next if model.labels else SecondSentence.none
        return PretrainingConfig(name=name, second_sentence=second)
    if heads.token_classes is not None:
        # it may have learned IOB1, and transformers decodes this way
        return TaggingConfig(name=name, decoding=Decoding.argmax)
    if heads.sequence_classes is None:
        return EncodingConfig(name=name, normalize=normalizes(folder))
    if heads.sequence_target == "number":
        return RegressionConfig(name=name, mean=0.0, deviation=1.0)
    if heads.sequence_target == "label_set":
        return MultilabelConfig(name=name, thresholds=model.thresholds)
    return ClassificationConfig(name=name, positive_label=model.positive_label, thresholds=model.thresholds)


def model_folder(name: str, setting: str = "run") -> Path:
    """Return the model folder that `setting`=`name` names: a run's model/, that folder itself, a Hugging Face folder,
    or a shipped encoder's.

    Raises DataError if there is none, or the shipped encoder is damaged.
    """
    if (shipped := shipped_folder(name)) is not None:
        return shipped
    path = expanded(name, setting)
    for folder in (path / MODEL, path):
        if all((folder / file).is_file() for file in MODEL_FILES) or graph_of(folder) is not None:
            return folder
    if is_huggingface(path):
        return path
    if not path.exists():
        remedy = suggestion(name, setting) or f"Set {setting}=... to the folder that training printed at its end"
        raise DataError(f"{setting}={name} does not exist", remedy=remedy)
    first = path / "fold-1"
    remedy = f"Its folds have models: {setting}={first}" if first.is_dir() else ""
    allowed = f"a run folder, a folder with {', '.join(MODEL_FILES)}, or a Hugging Face folder with a config.json"
    raise DataError(f"{setting}={name} has no finished model", allowed=allowed, remedy=remedy)


def is_huggingface(folder: Path) -> bool:
    """Return whether the folder has a config.json that names another kind of model than ours."""
    return _model_type(folder) not in (None, MODEL_TYPE)


def graph_of(folder: Path) -> Path | None:
    """Return the graph that we exported to a folder, None if there is none."""
    graphs = [folder / name for name in (GRAPH, INT8_GRAPH) if (folder / name).is_file()]
    if not graphs or not all((folder / name).is_file() for name in GRAPH_FILES):
        return None
    try:
        is_ours = isinstance(read_config(folder).get(GRAPH_ENTRY), dict)
    except DataError:
        return None
    return graphs[0] if is_ours else None


def _model_type(folder: Path) -> str | None:
    try:
        return read_config(folder).get("model_type")
    except DataError:
        return None
