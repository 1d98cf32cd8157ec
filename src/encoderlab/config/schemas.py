"""The schemas behind config groups and commands, and settings as plain values."""

from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from typing import Any

from encoderlab.config import commands
from encoderlab.data.built_in import ArticlesDataset, BracketsDataset, IntentsDataset, ReverseDataset
from encoderlab.data.files import FilesDataset
from encoderlab.data.hub import HubDataset, WikipediaDataset
from encoderlab.data.tokenizers import AsPretrainedTokenizer, PretrainedConfig, SymbolsConfig, WordPieceConfig
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelChoice, ModelConfig, Pairs, Pooling, check_reach
from encoderlab.settings import check_settings, setting
from encoderlab.tasks import config as tasks
from encoderlab.training.config import TrainingConfig


@dataclass
class AsPretrained(ModelChoice):
    """The pretrained encoder's own settings, taken from `init_from`, except for those given here."""

    max_length: int | None = setting(
        None, "Longest sequence; null: enough for 99% of the rows (pretrain: as pretrained).", least=1, most=1048576
    )
    pooling: Pooling | None = setting(None, "cls, mean, pooler, relu_pooler; null: as trained on labels, else mean.")
    pairs: Pairs | None = setting(
        None, "How a pair is read: joint or separate; null: separate by an encoder of sentence vectors, else joint."
    )
    dropout: float | None = setting(
        None, "Dropout of embeddings, sublayers and heads; null: as pretrained.", least=0, most=0.9
    )
    attention_dropout: float | None = setting(
        None, "Dropout of attention weights; null: as pretrained.", least=0, most=0.9
    )

    def __post_init__(self) -> None:
        check_settings(self, self.group)

    def resolve(self, pretrained: ModelConfig | None) -> ModelConfig:
        """Return the pretrained encoder's settings with those given here.

        With rotary or sinusoidal positions, `max_length` may be larger than in pretraining. If it is null, the rows
        decide.
        """
        if pretrained is None:
            remedy = "Set init_from=... (encoderlab finetune or pretrain), or another model such as model=mini"
            raise SettingError("model=as_pretrained needs init_from=..., the encoder to start from", remedy=remedy)
        changes = {declared.name: getattr(self, declared.name) for declared in fields(self)}
        own = {name: value for name, value in changes.items() if value is not None}
        resolved = replace(pretrained, **own | {"max_length": self.max_length})
        check_reach(resolved.max_length, pretrained)
        return resolved


SCHEMAS: dict[tuple[str, str], type] = {
    ("task", "classification"): tasks.ClassificationConfig,
    ("task", "multilabel"): tasks.MultilabelConfig,
    ("task", "regression"): tasks.RegressionConfig,
    ("task", "tagging"): tasks.TaggingConfig,
    ("task", "pretraining"): tasks.PretrainingConfig,
    ("task", "teacher_vectors"): tasks.TeacherVectorsConfig,
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
    "train": commands.RunConfig,
    "eval": commands.EvalConfig,
    "predict": commands.PredictConfig,
    "serve": commands.ServeConfig,
    "attention": commands.AttentionConfig,
    "explain": commands.ExplainConfig,
    "pretrain": commands.PretrainConfig,
    "finetune": commands.FinetuneConfig,
    "distill": commands.DistillConfig,
    "embed": commands.EmbedConfig,
    "export": commands.ExportConfig,
    "data": commands.DataConfig,
    "baseline": commands.BaselineConfig,
    "compare": commands.CompareConfig,
}


@cache
def register_schemas(command: str) -> None:
    """Register with Hydra the schemas that configs extend by name: that of `command`, and those of groups."""
    from hydra.core.config_store import ConfigStore

    for (group, name), node in {(None, command): COMMAND_CONFIGS[command], **SCHEMAS}.items():
        ConfigStore.instance().store(group=group, name=f"{name}_schema", node=node)


def names_of(schema: type) -> list[str]:
    """Return the names of a dataclass's settings."""
    return [declared.name for declared in fields(schema)]


def settings_to_dict(settings: Any) -> dict[str, Any]:
    """Return settings as plain values, with the `schema` of each config group for `settings_from_dict`."""
    schemas = {schema: name for (_, name), schema in SCHEMAS.items()}
    plain: dict[str, Any] = {"schema": schemas[type(settings)]} if type(settings) in schemas else {}
    for declared in fields(settings):
        value = getattr(settings, declared.name)
        if is_dataclass(value):
            value = settings_to_dict(value)
        plain[declared.name] = value.name if isinstance(value, Enum) else value
    return plain
