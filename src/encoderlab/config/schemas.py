"""The kinds of each config group and the settings of each command by their names; settings from plain values, and back.

A key that no dataclass declares is refused, with the name that was probably meant.
"""

from collections.abc import Collection, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from encoderlab.config.commands import CommandConfig
from encoderlab.data.built_in import ArticlesDataset, BracketsDataset, IntentsDataset, ReverseDataset
from encoderlab.data.files import FilesDataset
from encoderlab.data.hub import HubDataset, WikipediaDataset
from encoderlab.data.tokenizer_config import AsPretrainedTokenizer, PretrainedConfig, SymbolsConfig, WordPieceConfig
from encoderlab.errors import SettingError, closest
from encoderlab.network.config import AsPretrained, ModelConfig, TransformersConfig
from encoderlab.settings import required_setting, uninterpolated
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

NO_SETTINGS = {"overrides", "inherited"}  # fields of settings classes
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

Typed = TypeVar("Typed")
ALIASES = {  # what other libraries call some settings
    "lr": "learning_rate",
    "wd": "weight_decay",
    "bs": "batch_size",
    "per_device_train_batch_size": "batch_size",
    "num_train_epochs": "epochs",
    "max_steps": "steps",
    "gradient_accumulation_steps": "accumulate",
    "hidden_size": "d_model",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "d_ff",
    "max_seq_length": "max_length",
}
GROUPS = {group for group, _ in SCHEMAS}


@cache
def register_schemas(command: type[CommandConfig]) -> None:
    """Register with Hydra the schemas of a command and of groups, and the config of a command that has no groups."""
    from hydra.core.config_store import ConfigStore

    for (group, name), schema in {(None, command.command): command, **SCHEMAS}.items():
        ConfigStore.instance().store(group=group, name=f"{name}_schema", node=open_settings(schema))
    if not groups_read(command):  # nothing is chosen, so there is no file
        defaults = [f"{command.command}_schema", "command", "_self_"]
        ConfigStore.instance().store(name=command.command, node={"defaults": defaults})


def groups_read(schema: type) -> list[str]:
    """Return the names of the config groups that users of a command may choose from."""
    return [
        declared.name for declared in fields(schema) if declared.name in GROUPS and not declared.metadata["internal"]
    ]


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


def to_settings(config: "DictConfig", schema: type[Typed]) -> Typed:
    """Return the config as an instance of `schema`, with every range checked.

    Raises SettingError for a key the schema lacks (Hydra accepts `+model.n_layer=2`), for a required setting that is
    missing, and for a value out of range.
    """
    from omegaconf import DictConfig, OmegaConf, errors

    for key, owner in _keys(config, schema):
        if key.rpartition(".")[2] not in names_of(owner):
            value = OmegaConf.select(config, key, throw_on_missing=False)
            group = key.partition(".")[0]
            if is_without_schema(owner, group):
                raise missing_schema(group, f"The config of {group}", list(OmegaConf.select(config, group)))
            inner = f".{next(iter(value))}" if isinstance(value, DictConfig) and value else ""  # +trainig.epochs=1
            raise unknown_setting(f"{key}{inner}", names_of(owner))
    try:
        settings: Any = OmegaConf.to_object(config)  # of the type of its schema
    except errors.MissingMandatoryValue as error:
        raise required_setting(str(error.full_key)) from None
    _refuse_without_schema(settings)
    return settings


def _refuse_without_schema(settings: Any) -> None:
    """Raise SettingError for a config of somebody's own that does not say which kind of task or dataset it is."""
    for group in sorted(GROUPS):
        value = getattr(settings, group, None)
        options = [option for owner, option in SCHEMAS if owner == group]
        if value is None or type(value) in {SCHEMAS[group, option] for option in options}:
            continue
        if any(isinstance(value, SCHEMAS[group, option]) for option in options):
            continue
        raise missing_schema(group, f"The config {group}={getattr(value, 'name', '')}")


def missing_schema(group: str, config: str, keys: Collection[str] = ()) -> SettingError:
    """Return the error for a config of somebody's own without a schema, with the one that has most of its `keys`."""
    options = [option for owner, option in SCHEMAS if owner == group]
    fitting = max(options, key=lambda option: len({*keys} & {*names_of(SCHEMAS[group, option])}))
    problem = f"{config} does not say which kind of {group} it is"
    remedy = f"Begin its file with defaults: [{fitting}_schema, _self_]"
    return SettingError(problem, allowed=", ".join(f"{option}_schema" for option in options), remedy=remedy)


def is_without_schema(kind: object, group: str) -> bool:
    """Return whether a config of a group has the type of all its kinds, and so no schema of its own."""
    kinds = [schema for (owner, _), schema in SCHEMAS.items() if owner == group]
    return isinstance(kind, type) and kind not in kinds and any(issubclass(schema, kind) for schema in kinds)


def _keys(config: "DictConfig", schema: type, prefix: str = "") -> Iterator[tuple[str, type]]:
    """Yield every key of the config with dots, and the dataclass that should declare it."""
    from omegaconf import DictConfig, OmegaConf

    for name in config:
        yield f"{prefix}{name}", schema
        value = config._get_node(name)
        declared = OmegaConf.get_type(config, str(name))
        if isinstance(value, DictConfig) and is_dataclass(declared):
            yield from _keys(value, declared, f"{prefix}{name}.")


def unknown_setting(key: str, known: list[str]) -> SettingError:
    """Return the error for a key that is not among the `known` names beside it, with the name that was meant."""
    group, _, name = key.rpartition(".")
    owners = [option for (owner, option), schema in SCHEMAS.items() if owner == group and name in names_of(schema)]
    if owners:
        where = f"another {group} (encoderlab list {group})" if group in owners else f"{group}={' or '.join(owners)}"
        return SettingError(f"{key} is not a setting of the chosen {group}", remedy=f"It belongs to {where}")
    beside = [f"{group}.{setting}" if group in GROUPS else setting for setting in known]
    group_settings = [f"{owner}.{setting}" for (owner, _), schema in SCHEMAS.items() for setting in names_of(schema)]
    elsewhere = [full for full in group_settings if group or full.partition(".")[0] in known]
    choices = [*beside, *elsewhere]
    name = ALIASES.get(name, name)
    same_name = [full for full in choices if full.rpartition(".")[2] == name]
    near = same_name[0] if same_name else closest(key, choices)
    if near:
        return SettingError(f"There is no setting {key}", remedy=f"Did you mean {near}?")
    return SettingError(f"There is no setting {key}", allowed=", ".join(beside))


def settings_from_dict(plain: dict[str, Any], schema: type[Typed]) -> Typed:
    """Return the settings that `settings_to_dict` wrote, with every type and range checked.

    Raises SettingError for an unknown schema or key, or a bad value.
    """
    from omegaconf import OmegaConf

    config = open_settings(schema)
    for name, value in literal(plain).items():
        if isinstance(value, dict) and name in GROUPS:
            group = SAVED_SCHEMAS.get((name, value.get("schema", "")))
            if group is None:
                raise SettingError(f"{name} has no schema {value.get('schema')}")
            value = OmegaConf.merge(OmegaConf.structured(group), {k: v for k, v in value.items() if k != "schema"})
        if name not in names_of(schema):
            raise unknown_setting(name, names_of(schema))
        config[name] = value
    return to_settings(config, schema)


def literal(value: Any) -> Any:
    """Return the value escaped for OmegaConf, so that text is never interpolated."""
    if isinstance(value, dict):
        return {name: literal(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [literal(inner) for inner in value]
    return uninterpolated(value) if isinstance(value, str) else value
