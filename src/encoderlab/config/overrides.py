"""Prepares command-line arguments for Hydra, so that texts and paths arrive as they were typed.

Free text is quoted for Hydra's grammar: `text="Dull, dull, dull."` is a sentence and not a list of three values.
"""

import json
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from yaml import YAMLError

from encoderlab.system.bounded_yaml import load_yaml

FOLDERS = {"compare": "runs"}  # commands that take folders as plain arguments, and the setting these become
INTENTS_BY_DEFAULT = ("train", "finetune", "data", "baseline")  # commands whose task is intents if none is chosen
MAPPINGS = ("task.class_weights", "task.thresholds", "dataset.label_names")
FREE_TEXT = ("text", "text_pair", "label", "unsure")
# The recipe's batch, and with it the result, stays the same: the machine decides only the number of micro-batches. (The
# setting is not a union of number and text because OmegaConf 2.3 cannot merge one, see its issue 1087.)
_AUTO_PARTS = "training.accumulate=null"
MEANT = {
    "training.batch_size=auto": _AUTO_PARTS,
    "training.accumulate=auto": _AUTO_PARTS,
    "training.epochs=auto": "training.epochs=null",
    "training.learning_rate=auto": "training.learning_rate=null",
    "model.max_length=auto": "model.max_length=null",
}


def with_task_of_own_data(command: str, arguments: list[str]) -> list[str]:
    """Return the arguments, with task=classification added if they choose files or a hub dataset but no task.

    The default task, intents, has data of its own; a user's data would only inherit its name.
    """
    chosen = {argument.partition("=")[0] for argument in arguments}
    own = {"dataset=files", "dataset=hub"} & set(arguments)
    unnamed = command in INTENTS_BY_DEFAULT and own and not chosen & {"task", "experiment", "resume"}
    return [*arguments, "task=classification"] if unnamed else arguments


def folders_as_setting(command: str, arguments: list[str], typed: Collection[str]) -> list[str]:
    """Return the arguments of `compare a b output=c` as those of `compare runs=[a,b] output=c`.

    `typed` are the arguments other than Hydra's flags and their values. A folder is an argument without an equals sign,
    or one that exists, because a path may contain one.
    """
    if command not in FOLDERS:
        return arguments
    folders = [argument for argument in arguments if argument in typed and ("=" not in argument or _is_there(argument))]
    if not folders:
        return arguments
    others = [argument for argument in arguments if argument not in folders]
    return [*others, f"{FOLDERS[command]}=[{','.join(map(quote, folders))}]"]


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long, or with a null character
        return False


def quoted_arguments(arguments: list[str]) -> list[str]:
    """Return the arguments, with the value quoted wherever Hydra's grammar would misread it or cannot read it.

    `text="Dull, dull, dull."` is a sentence and not a list of three values; a path with brackets or blanks is a path.
    An alias is replaced: `training.batch_size=auto` becomes `training.accumulate=null`.
    """
    parser = OverridesParser.create()
    return [_quoted(MEANT.get(argument, argument), parser) for argument in arguments]


def _quoted(argument: str, parser: OverridesParser) -> str:
    key, equals, value = argument.partition("=")
    if not equals or argument.startswith("-"):
        return argument
    if key not in FREE_TEXT:
        try:
            parser.parse_override(argument)
        except HydraException:
            pass
        else:
            return argument
    return f"{key}={quote(value)}"


def read_mappings(config: DictConfig) -> None:
    """Replace the mappings in `config` that have arrived as texts, read as JSON or else as YAML.

    Hydra's grammar has no quoted keys and no letters beyond ASCII in them: it cannot read `task.class_weights={größer:
    5}`.
    """
    for name in MAPPINGS:
        given = OmegaConf.select(config, name, throw_on_missing=False, throw_on_resolution_failure=False)
        if not isinstance(given, str) or not given.startswith("{"):
            continue
        with suppress(ValueError, YAMLError):  # otherwise it stays a text, which the setting refuses
            if isinstance(found := _mapping(given), dict):
                OmegaConf.update(config, name, found)


def _mapping(given: str) -> Any:
    with suppress(ValueError):
        return json.loads(given)
    found = load_yaml(given, words_as_texts=True)
    if isinstance(found, dict) and set(found.values()) == {None}:  # Hydra needs no blank after a colon, and YAML does
        found = load_yaml(given.replace(":", ": "), words_as_texts=True)
    return found


def uninterpolated(value: str) -> str:
    """Return the value with `${` escaped by a backslash, so that OmegaConf reads back exactly `value`."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value)


def quote(value: str) -> str:
    """Return the value as a quoted string of Hydra's grammar that reads back as exactly `value`, without interpolation."""
    value = uninterpolated(value)
    value = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value)
    return f"'{value}'"
