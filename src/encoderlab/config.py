"""The settings of every command, the table of schemas behind the config groups, and the way from Hydra's config to a typed one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import MissingMandatoryValue

from encoderlab.data.sources.dataset import DatasetConfig
from encoderlab.data.sources.docstrings import DocsDataset
from encoderlab.data.sources.files import FilesDataset
from encoderlab.data.sources.generated import BracketsDataset, ReverseDataset
from encoderlab.data.sources.hub import HubDataset
from encoderlab.data.tokenizer_config import PretrainedConfig, SymbolsConfig, TokenizerConfig, WordPieceConfig
from encoderlab.errors import SettingError, closest
from encoderlab.model.config import ModelConfig
from encoderlab.settings import REQUIRED, check_settings, setting
from encoderlab.tasks.config import ClassificationConfig, TaggingConfig, TaskConfig
from encoderlab.training.config import Precision, TrainingConfig

SCHEMAS: dict[tuple[str, str], type] = {
    ("task", "classification"): ClassificationConfig,
    ("task", "tagging"): TaggingConfig,
    ("dataset", "docs"): DocsDataset,
    ("dataset", "brackets"): BracketsDataset,
    ("dataset", "reverse"): ReverseDataset,
    ("dataset", "files"): FilesDataset,
    ("dataset", "hub"): HubDataset,
    ("tokenizer", "wordpiece"): WordPieceConfig,
    ("tokenizer", "pretrained"): PretrainedConfig,
    ("tokenizer", "symbols"): SymbolsConfig,
    ("model", "model"): ModelConfig,
    ("training", "training"): TrainingConfig,
}


class PredictionFormat(Enum):
    """How predictions are written: a table, a JSON object a line, or GLUE's submission form."""

    csv = "csv"
    jsonl = "jsonl"
    glue = "glue"


RUN_DIR = "Folder for what this run writes; null: outputs/<command>/<task>/<time>-<uid>."


@dataclass
class CommandConfig:
    """What every command shares."""

    cache_dir: str = setting(REQUIRED, "Folder for what can be made again: corpora, tokenizers, token stores.")

    def __post_init__(self) -> None:
        check_settings(self, "")
        if not self.cache_dir:
            raise SettingError("cache_dir is empty", allowed="a folder", remedy="Leave it out to use ~/.cache/encoderlab")


@dataclass
class RunConfig(CommandConfig):
    """Train an encoder and report how good it is."""

    task: TaskConfig = setting(REQUIRED, "What is asked of the encoder.")
    dataset: DatasetConfig = setting(REQUIRED, "Where examples come from.")
    tokenizer: TokenizerConfig = setting(REQUIRED, "How text becomes ids.")
    model: ModelConfig = setting(REQUIRED, "Size and shape of the encoder.")
    training: TrainingConfig = setting(REQUIRED, "Length, batch, optimizer, schedule, precision and device.")
    seed: int = setting(0, "Seed of the weights, the batches and dropout.", least=0, most=2**32 - 1)
    run_dir: str | None = setting(None, RUN_DIR)
    baselines: bool = setting(True, "Fit the linear baselines on the same rows, to be compared with.")


@dataclass
class OpenRunConfig(CommandConfig):
    """What every command that opens a finished run shares."""

    run: str = setting(REQUIRED, "A run folder, or its model/ folder.")
    device: str = setting("auto", "auto (CUDA, then MPS, then CPU), cpu, cuda, cuda:1 or mps.")
    precision: Precision = setting(Precision.auto, "Format of the matrix products: auto (bf16 where it pays), fp32 or bf16.")
    threads: int | None = setting(None, "CPU threads; null: one for each core this process may use.", least=1, most=1024)


@dataclass
class EvalConfig(OpenRunConfig):
    """Score a finished run on a split of its dataset, or of another one."""

    split: str | None = setting(None, "The split to score; null: test where it has labels, else validation.")
    dataset: DatasetConfig | None = setting(None, "Another dataset to score on; null: the run's own.")
    run_dir: str | None = setting(None, RUN_DIR)


@dataclass
class PredictConfig(OpenRunConfig):
    """Answer for new texts: one row out for each row in, in order."""

    text: str | None = setting(None, "One text to answer for.")
    text_pair: str | None = setting(None, "The second text, for a task on pairs.")
    input: str | None = setting(None, "File to answer for (csv, tsv, jsonl, parquet or txt); null: lines of standard input.")
    split: str | None = setting(None, "A split of the run's dataset to answer for.")
    text_column: str | None = setting(None, "Column of `input` that holds the text; null: the one the run was trained on.")
    text_pair_column: str | None = setting(None, "Column of `input` that holds the second text; null: as trained.")
    output: str | None = setting(None, "File to write; null: standard output.")
    format: PredictionFormat = setting(PredictionFormat.csv, "csv, jsonl, or glue (index and prediction, for GLUE's server).")


@dataclass
class AttentionConfig(OpenRunConfig):
    """Draw where each token looks: one figure per layer, and the arrays."""

    text: str | None = setting(None, "One text to look at.")
    text_pair: str | None = setting(None, "The second text, for a task on pairs.")
    split: str | None = setting(None, "A split of the run's dataset to take rows from; null: validation.")
    rows: list[int] | None = setting(None, "Rows of the split to look at, such as [0,7], counted from 0; null: the first.")
    run_dir: str | None = setting(None, RUN_DIR)


COMMAND_CONFIGS: dict[str, type] = {
    "train": RunConfig,
    "eval": EvalConfig,
    "predict": PredictConfig,
    "attention": AttentionConfig,
}
Typed = TypeVar("Typed", bound=CommandConfig)


def register_schemas() -> None:
    """Make the schemas known to Hydra: the configs extend them by name."""
    from hydra.core.config_store import ConfigStore

    store = ConfigStore.instance()
    for (group, name), schema in SCHEMAS.items():
        store.store(group=group, name=f"{name}_schema", node=schema)
    for command, schema in COMMAND_CONFIGS.items():
        store.store(name=f"{command}_schema", node=schema)


def typed(config: DictConfig, schema: type[Typed]) -> Typed:
    """The config as an instance of `schema`, every range checked.

    Raises SettingError for a key the schema lacks (Hydra lets `+model.n_layer=2` pass), for a required setting that was not given,
    and for a value out of range.
    """
    for key, owner in _keys(config, schema):
        known = [declared.name for declared in fields(owner)]
        if key.rpartition(".")[2] not in known:
            raise unknown_setting(key, known)
    try:
        return OmegaConf.to_object(config)
    except MissingMandatoryValue as error:
        raise required_setting(str(error.full_key)) from None


def unknown_setting(key: str, known: list[str]) -> SettingError:
    """The refusal of a key that is none of the `known` names beside it; names the closest, or where the key belongs."""
    group, _, name = key.rpartition(".")
    prefix = f"{group}." if group else ""
    if near := closest(name, known):
        return SettingError(f"There is no setting {key}", remedy=f"Did you mean {prefix}{near}?")
    owners = [option for (owner, option), schema in SCHEMAS.items() if owner == group and name in _names(schema)]
    if owners:
        return SettingError(f"{key} is no setting of the chosen {group}", remedy=f"It belongs to {group}={' or '.join(owners)}")
    return SettingError(f"There is no setting {key}", allowed=", ".join(f"{prefix}{name}" for name in known))


def required_setting(key: str) -> SettingError:
    """The refusal to start without a setting that has no default."""
    return SettingError(f"{key} is not set", remedy=f"Type {key}=...")


def _names(schema: type) -> list[str]:
    return [declared.name for declared in fields(schema)]


def _keys(config: DictConfig, schema: type, prefix: str = "") -> Iterator[tuple[str, type]]:
    """Every key of the config with dots, and the dataclass that should declare it."""
    for name in config:
        yield f"{prefix}{name}", schema
        value = config._get_node(name)
        node_type = OmegaConf.get_type(config, name) if isinstance(value, DictConfig) else None
        if is_dataclass(node_type):
            yield from _keys(value, node_type, f"{prefix}{name}.")


def settings_to_dict(settings: Any) -> dict[str, Any]:
    """Settings as plain values. A member of a config group also names its `schema`: `settings_from_dict` can then read it back."""
    schemas = {schema: name for (_, name), schema in SCHEMAS.items()}
    plain: dict[str, Any] = {"schema": schemas[type(settings)]} if type(settings) in schemas else {}
    for declared in fields(settings):
        value = getattr(settings, declared.name)
        if is_dataclass(value):
            value = settings_to_dict(value)
        plain[declared.name] = value.name if isinstance(value, Enum) else value
    return plain


def settings_from_dict(plain: dict[str, Any], schema: type[Typed]) -> Typed:
    """The settings that `settings_to_dict` wrote, every type and range checked.

    Raises SettingError for an unknown schema or key, or a bad value.
    """
    config = OmegaConf.structured(schema)
    for name, value in plain.items():
        if isinstance(value, dict):
            group = SCHEMAS.get((name, value.get("schema", "")))
            if group is None:
                raise SettingError(f"{name} has no schema {value.get('schema')}")
            value = OmegaConf.merge(OmegaConf.structured(group), {k: v for k, v in value.items() if k != "schema"})
        if name not in _names(schema):
            raise unknown_setting(name, _names(schema))
        config[name] = value
    return typed(config, schema)
