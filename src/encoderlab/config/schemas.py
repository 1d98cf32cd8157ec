"""The table of schemas behind the config groups and commands, and the conversion of Hydra's config to typed settings."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar, cast

from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import MissingMandatoryValue

from encoderlab.config.commands import (
    AttentionConfig,
    BaselineConfig,
    CommandConfig,
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
from encoderlab.config.overrides import read_mappings, uninterpolated
from encoderlab.data.built_in import ArticlesDataset, IntentsDataset
from encoderlab.data.files import FilesDataset
from encoderlab.data.generated import BracketsDataset, ReverseDataset
from encoderlab.data.hub import HubDataset
from encoderlab.data.tokenizers import AsPretrainedTokenizer, PretrainedConfig, SymbolsConfig, WordPieceConfig
from encoderlab.data.wikipedia import WikipediaDataset
from encoderlab.errors import SettingError, closest
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
        "Longest sequence, with special tokens; null or auto: long enough for 99% of the training rows (pretrain: as pretrained).",
        least=1,
        most=1048576,
    )
    pooling: Pooling | None = setting(
        None,
        "Pooling of a sequence: cls, mean, max, pooler or relu_pooler; null: as trained if trained on labels, otherwise mean.",
    )
    pairs: Pairs | None = setting(
        None,
        "How a pair of texts is read: joint (as one sequence) or separate (each by itself, then compared); null: separate for an "
        "encoder trained for sentence vectors, otherwise joint.",
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

MISSPELLED = 0.8  # how alike a setting of the same group has to be to be meant rather than one of another group
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
Typed = TypeVar("Typed")


def register_schemas(command: str, arguments: Sequence[str]) -> None:
    """Register with Hydra the schemas that configs extend by name: that of `command`, and of groups if it has or is
    given any.

    Each takes a millisecond, once in a process.
    """
    from hydra.core.config_store import ConfigStore
    from hydra.core.object_type import ObjectType

    store, schema = ConfigStore.instance(), COMMAND_CONFIGS[command]
    wanted: dict[tuple[str | None, str], type] = {(None, command): schema}
    given = {argument.partition("=")[0].lstrip("+~") for argument in arguments}
    if GROUPS & {*given, *(declared.name for declared in fields(schema))}:
        wanted |= SCHEMAS
    for (group, name), node in wanted.items():
        path = "/".join(filter(None, (group, f"{name}_schema.yaml")))
        if store.get_type(path) is ObjectType.NOT_FOUND:
            store.store(group=group, name=f"{name}_schema", node=node)


def typed(config: DictConfig, schema: type[Typed]) -> Typed:
    """Return the config as an instance of `schema`, with every range checked.

    Raises SettingError for a key the schema lacks (Hydra accepts `+model.n_layer=2`), for a required setting that is
    missing, and for a value out of range.
    """
    for key, owner in _keys(config, schema):
        known = _names(owner)
        if key.rpartition(".")[2] not in known:
            raise unknown_setting(_to_the_end(config, key), known)
    read_mappings(config)
    try:
        return cast("Typed", OmegaConf.to_object(config))  # guaranteed by its schema
    except MissingMandatoryValue as error:
        raise required_setting(str(error.full_key)) from None


def _to_the_end(config: DictConfig, key: str) -> str:
    """Return the key with the first names inside its value, because a misspelt `+trainig.epochs=1` creates a group."""
    inside = OmegaConf.select(config, key, throw_on_missing=False, throw_on_resolution_failure=False)
    while isinstance(inside, DictConfig) and len(inside):
        name = next(iter(inside))
        key, inside = f"{key}.{name}", inside._get_node(name)
    return key


def check_shown(config: DictConfig, schema: type[CommandConfig] | None) -> None:
    """Refuse in a config that is only shown whatever `typed` would refuse, except missing settings.

    `schema` is None if the config is to be used: its command will check it. Raises SettingError.
    """
    if schema is None:
        return
    try:
        typed(without_hydra(config), schema)
    except MissingSettingError:
        return


def without_hydra(config: DictConfig) -> DictConfig:
    """Return a copy of a composed config as a command gets it: without Hydra's own part."""
    own = copy.deepcopy(config)
    with read_write(own), open_dict(own):
        del own["hydra"]
    return own


def unknown_setting(key: str, known: list[str]) -> SettingError:
    """Return the refusal of a key that is not one of the `known` names next to it; it names the closest, or the right
    group.
    """
    group, _, name = key.rpartition(".")
    if group and group not in GROUPS:
        meant = closest(group, GROUPS)
        inside = closest(
            name, [name for (owner, _), schema in SCHEMAS.items() if owner == meant for name in _names(schema)]
        )
        remedy = (
            f"Did you mean {meant}.{inside}?"
            if inside
            else f"Settings with a dot start with {', '.join(sorted(GROUPS))}"
        )
        return SettingError(f"There is no setting {key}", remedy=remedy)
    prefix = f"{group}." if group else ""
    owners = [option for (owner, option), schema in SCHEMAS.items() if owner == group and name in _names(schema)]
    if owners:
        where = f"another {group} (encoderlab list {group})" if group in owners else f"{group}={' or '.join(owners)}"
        return SettingError(f"{key} is not a setting of the chosen {group}", remedy=f"It belongs to {where}")
    if not closest(name, known, MISSPELLED) and (elsewhere := _in_other_groups(name, group, known)):
        return SettingError(f"There is no setting {key}", remedy=f"Did you mean {' or '.join(elsewhere)}?")
    if near := closest(name, known) or next((one for one in known if name == initials(one)), ""):
        return SettingError(f"There is no setting {key}", remedy=f"Did you mean {prefix}{near}?")
    return SettingError(f"There is no setting {key}", allowed=", ".join(f"{prefix}{name}" for name in known))


def _in_other_groups(name: str, group: str, known: list[str]) -> list[str]:
    """Return the settings of that name, or with these initials, in other groups; for a key without a group, of the
    `known` ones.
    """
    names = {(owner, one) for (owner, _), schema in SCHEMAS.items() for one in _names(schema) if owner != group}
    names = {(owner, one) for owner, one in names if group or owner in known}
    exact = sorted(f"{owner}.{one}" for owner, one in names if one == name)
    return exact or sorted(
        f"{owner}.{one}" for owner, one in names if not group and "_" in one and initials(one) == name
    )


def initials(name: str) -> str:
    """Return what people shorten a name to: lr for learning_rate."""
    return "".join(word[:1] for word in name.split("_"))


class MissingSettingError(SettingError):
    """A setting without a default is missing."""


def required_setting(key: str) -> MissingSettingError:
    """Return the error for a missing setting that has no default."""
    return MissingSettingError(f"{key} is not set", remedy=f"Set {key}=...")


def _names(schema: type) -> list[str]:
    return [declared.name for declared in fields(schema)]


def _keys(config: DictConfig, schema: type, prefix: str = "") -> Iterator[tuple[str, type]]:
    """Yield every key of the config with dots, and the dataclass that should declare it."""
    for name in config:
        yield f"{prefix}{name}", schema
        value = config._get_node(name)
        if isinstance(value, DictConfig) and is_dataclass(node_type := OmegaConf.get_type(config, cast("str", name))):
            yield from _keys(value, node_type, f"{prefix}{name}.")


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


def settings_from_dict(plain: dict[str, Any], schema: type[Typed]) -> Typed:
    """Return the settings that `settings_to_dict` wrote, with every type and range checked.

    Raises SettingError for an unknown schema or key, or a bad value.
    """
    config = OmegaConf.structured(schema)
    for name, value in _literal(plain).items():
        if isinstance(value, dict):
            group = SCHEMAS.get((name, value.get("schema", "")))
            if group is None:
                raise SettingError(f"{name} has no schema {value.get('schema')}")
            value = OmegaConf.merge(OmegaConf.structured(group), {k: v for k, v in value.items() if k != "schema"})
        if name not in _names(schema):
            raise unknown_setting(name, _names(schema))
        config[name] = value
    return typed(config, schema)


def _literal(value: Any) -> Any:
    """Return the value escaped for OmegaConf, so that text is never interpolated."""
    if isinstance(value, dict):
        return {name: _literal(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_literal(inner) for inner in value]
    return uninterpolated(value) if isinstance(value, str) else value
