"""The kinds of each config group, the settings of each command by its name, and settings as plain values."""

from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any

from encoderlab.config.commands import (
    AsPretrained,
    AttentionConfig,
    BaselineConfig,
    CompareConfig,
    DataConfig,
    DistillConfig,
    EmbedConfig,
    EvalConfig,
    ExplainConfig,
    ExportConfig,
    FinetuneConfig,
    LabelConfig,
    PredictConfig,
    PretrainConfig,
    RunConfig,
    SelectConfig,
    ServeConfig,
)
from encoderlab.data.built_in import ArticlesDataset, BracketsDataset, IntentsDataset, ReverseDataset
from encoderlab.data.files import FilesDataset
from encoderlab.data.hub import HubDataset, WikipediaDataset
from encoderlab.data.tokenizer_config import AsPretrainedTokenizer, PretrainedConfig, SymbolsConfig, WordPieceConfig
from encoderlab.model.config import ModelConfig, TransformersConfig
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.tasks.contrastive import ContrastiveConfig
from encoderlab.tasks.multilabel import MultilabelConfig
from encoderlab.tasks.pretraining import PretrainingConfig
from encoderlab.tasks.regression import RegressionConfig
from encoderlab.tasks.tagging import TaggingConfig
from encoderlab.tasks.vectors import TeacherVectorsConfig
from encoderlab.training.config import TrainingConfig

if TYPE_CHECKING:
    from omegaconf import DictConfig

NO_SETTINGS = {"overrides"}  # fields of settings classes
SCHEMAS: dict[tuple[str, str], type] = {
    ("task", "classification"): ClassificationConfig,
    ("task", "multilabel"): MultilabelConfig,
    ("task", "regression"): RegressionConfig,
    ("task", "tagging"): TaggingConfig,
    ("task", "pretraining"): PretrainingConfig,
    ("task", "teacher_vectors"): TeacherVectorsConfig,
    ("task", "contrastive"): ContrastiveConfig,
    ("dataset", "articles"): ArticlesDataset,
    ("dataset", "intents"): IntentsDataset,
    ("dataset", "brackets"): BracketsDataset,
    ("dataset", "reverse"): ReverseDataset,
    ("dataset", "files"): FilesDataset,
    ("dataset", "hub"): HubDataset,
    ("dataset", "wikipedia"): WikipediaDataset,
    ("tokenizer", "wordpiece"): WordPieceConfig,
    ("tokenizer", "pretrained"): PretrainedConfig,
    ("tokenizer", "symbols"): SymbolsConfig,
    ("tokenizer", "as_pretrained"): AsPretrainedTokenizer,
    ("model", "model"): ModelConfig,
    ("model", "as_pretrained"): AsPretrained,
    ("training", "training"): TrainingConfig,
}
# What a file of settings may hold, but no command line.
SAVED_SCHEMAS: dict[tuple[str, str], type] = {**SCHEMAS, ("model", "transformers"): TransformersConfig}

GROUPS = {group for group, _ in SCHEMAS}
COMMAND_CONFIGS: dict[str, type] = {
    "train": RunConfig,
    "eval": EvalConfig,
    "predict": PredictConfig,
    "select": SelectConfig,
    "label": LabelConfig,
    "serve": ServeConfig,
    "attention": AttentionConfig,
    "explain": ExplainConfig,
    "pretrain": PretrainConfig,
    "finetune": FinetuneConfig,
    "distill": DistillConfig,
    "embed": EmbedConfig,
    "export": ExportConfig,
    "data": DataConfig,
    "baseline": BaselineConfig,
    "compare": CompareConfig,
}


@cache
def register_schemas(command: str) -> None:
    """Register with Hydra the schemas that configs extend by name: that of `command`, and those of groups."""
    from hydra.core.config_store import ConfigStore

    for (group, name), schema in {(None, command): COMMAND_CONFIGS[command], **SCHEMAS}.items():
        ConfigStore.instance().store(group=group, name=f"{name}_schema", node=open_settings(schema))


def open_settings(schema: type) -> "DictConfig":
    """Return a config of the settings of `schema` with their defaults, for OmegaConf to fill in and check."""
    from omegaconf import OmegaConf, flag_override

    config = OmegaConf.structured(schema)
    with flag_override(config, "struct", False):
        for name in NO_SETTINGS & config.keys():
            del config[name]
    return config


def names_of(schema: type) -> list[str]:
    """Return the names of a dataclass's settings."""
    return [declared.name for declared in fields(schema) if declared.name not in NO_SETTINGS]


def settings_to_dict(settings: Any) -> dict[str, Any]:
    """Return settings as plain values, with the `schema` of each config group for `settings_from_dict`."""
    schemas = {schema: name for (_, name), schema in SAVED_SCHEMAS.items()}
    plain: dict[str, Any] = {"schema": schemas[type(settings)]} if type(settings) in schemas else {}
    for name in names_of(type(settings)):
        value = getattr(settings, name)
        if is_dataclass(value):
            value = settings_to_dict(value)
        plain[name] = value.name if isinstance(value, Enum) else value
    return plain
