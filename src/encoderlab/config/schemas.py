"""The table of schemas behind the config groups and commands, and the conversion of Hydra's config to typed
settings.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from encoderlab.config.commands import (
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
    PredictConfig,
    PretrainConfig,
    RunConfig,
    ServeConfig,
)
from encoderlab.data.built_in import ArticlesDataset, IntentsDataset
from encoderlab.data.files import FilesDataset
from encoderlab.data.generated import BracketsDataset, ReverseDataset
from encoderlab.data.hub import HubDataset
from encoderlab.data.tokenizers import AsPretrainedTokenizer, PretrainedConfig, SymbolsConfig, WordPieceConfig
from encoderlab.data.wikipedia import WikipediaDataset
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelChoice, ModelConfig, Pairs, Pooling, check_reach
from encoderlab.settings import check_settings, setting
from encoderlab.tasks.config import (
    ClassificationConfig,
    MultilabelConfig,
    PretrainingConfig,
    RegressionConfig,
    TaggingConfig,
    TeacherVectorsConfig,
)
from encoderlab.training.config import TrainingConfig


@dataclass
class AsPretrained(ModelChoice):
    """The pretrained encoder's own settings, taken from `init_from`, except for those given here."""

    max_length: int | None = setting(
        None,
        "Longest sequence, with special tokens; null or auto: long enough for 99% of the training rows (pretrain: as "
        "pretrained).",
        least=1,
        most=1048576,
    )
    pooling: Pooling | None = setting(
        None,
        "Pooling of a sequence: cls, mean, max, pooler or relu_pooler; null: as trained if trained on labels, "
        "otherwise mean.",
    )
    pairs: Pairs | None = setting(
        None,
        "How a pair of texts is read: joint (as one sequence) or separate (each by itself, then compared); null: "
        "separate for an encoder trained for sentence vectors, otherwise joint.",
    )
    dropout: float | None = setting(
        None, "Dropout of embeddings, sublayers and heads; null: as pretrained.", least=0, most=0.9
    )
    attention_dropout: float | None = setting(
        None, "Dropout of attention weights; null: as pretrained.", least=0, most=0.9
    )
    word_dropout: float | None = setting(
        None, "Dropout of whole token embeddings; null: as pretrained.", least=0, most=0.9
    )

    def __post_init__(self) -> None:
        check_settings(self, self.group)

    def resolve(self, pretrained: ModelConfig | None) -> ModelConfig:
        """Return the pretrained encoder's settings with those given here.

        With rotary or sinusoidal positions, `max_length` may be larger than in pretraining. If it is null, the rows
        decide.
        """
        if pretrained is None:
            raise SettingError(
                "model=as_pretrained needs init_from=..., the encoder to start from",
                remedy="Set init_from=... (encoderlab finetune or pretrain), or another model such as model=mini",
            )
        changes = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        given = {name: value for name, value in changes.items() if value is not None}
        resolved = replace(pretrained, **given | {"max_length": self.max_length})
        check_reach(resolved.max_length, pretrained)
        return resolved


SCHEMAS: dict[tuple[str, str], type] = {
    ("task", "classification"): ClassificationConfig,
    ("task", "multilabel"): MultilabelConfig,
    ("task", "regression"): RegressionConfig,
    ("task", "tagging"): TaggingConfig,
    ("task", "pretraining"): PretrainingConfig,
    ("task", "teacher_vectors"): TeacherVectorsConfig,
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

GROUPS = {group for group, _ in SCHEMAS}
COMMAND_CONFIGS: dict[str, type] = {
    "train": RunConfig,
    "eval": EvalConfig,
    "predict": PredictConfig,
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


def register_schemas(command: str) -> None:
    """Register with Hydra the schemas that configs extend by name: that of `command`, and of groups if it has any.

    Each takes a millisecond, once in a process.
    """
    from hydra.core.config_store import ConfigStore
    from hydra.core.object_type import ObjectType

    store, schema = ConfigStore.instance(), COMMAND_CONFIGS[command]
    schemas: dict[tuple[str | None, str], type] = {(None, command): schema}
    if GROUPS.intersection(names_of(schema)):
        schemas |= SCHEMAS
    for (group, name), node in schemas.items():
        path = "/".join(filter(None, (group, f"{name}_schema.yaml")))
        if store.get_type(path) is ObjectType.NOT_FOUND:
            store.store(group=group, name=f"{name}_schema", node=node)


def names_of(schema: type) -> list[str]:
    """Return the names of a dataclass's settings."""
    return [declared.name for declared in fields(schema)]


def settings_to_dict(settings: Any) -> dict[str, Any]:
    """Return settings as plain values. An option of a config group also names its `schema`, which `settings_from_dict`
    needs.
    """
    schemas = {schema: name for (_, name), schema in SCHEMAS.items()}
    plain: dict[str, Any] = {"schema": schemas[type(settings)]} if type(settings) in schemas else {}
    for declared in fields(settings):
        value = getattr(settings, declared.name)
        if is_dataclass(value):
            value = settings_to_dict(value)
        plain[declared.name] = value.name if isinstance(value, Enum) else value
    return plain
