"""Makes the arguments of the command line fit for Hydra: a text or a path is taken as it was typed.

Free text is quoted for Hydra's grammar: `text="Dull, dull, dull."` is a sentence and not a list of three values.
"""

import re
from collections.abc import Collection
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

FOLDERS = {"compare": "runs"}  # commands that take folders without a name, and the setting that these become
DOCS_BY_DEFAULT = ("train", "finetune", "data", "baseline")  # commands whose task is docs where none is chosen
FREE_TEXT = ("text", "text_pair", "label", "unsure")
# The recipe's batch stays as it is, and with it the result: what is left to the machine is in how many parts it is computed. (The
# setting is no union of number and text: OmegaConf 2.3 cannot merge one, see its issue 1087.)
_AUTO_PARTS = "training.accumulate=null"
MEANT = {
    "training.batch_size=auto": _AUTO_PARTS,
    "training.accumulate=auto": _AUTO_PARTS,
    "training.epochs=auto": "training.epochs=null",
    "training.learning_rate=auto": "training.learning_rate=null",
    "model.max_length=auto": "model.max_length=null",
}


def with_task_of_own_data(command: str, arguments: list[str]) -> list[str]:
    """The arguments, with task=classification where they choose files or a hub dataset and no task.

    The default task, docs, comes with data of its own and would only lend its name to those of the user.
    """
    chosen = {argument.partition("=")[0] for argument in arguments}
    own = {"dataset=files", "dataset=hub"} & set(arguments)
    unnamed = command in DOCS_BY_DEFAULT and own and not chosen & {"task", "experiment", "resume"}
    return [*arguments, "task=classification"] if unnamed else arguments


def folders_as_setting(command: str, arguments: list[str], typed: Collection[str]) -> list[str]:
    """The arguments of `compare a b output=c` as those of `compare runs=[a,b] output=c`.

    `typed` are those among the arguments that are no flags of Hydra, nor their values. A folder is what has no equals sign, or is
    there: a path may hold one.
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
    """The arguments, with the value quoted wherever Hydra's grammar would misread it or cannot read it.

    `text="Dull, dull, dull."` is a sentence and no list of three values; a path with brackets or blanks is a path. What has
    another name among the settings is given it: `training.batch_size=auto` is `training.accumulate=null`.
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


def uninterpolated(value: str) -> str:
    """The value in which OmegaConf finds no interpolation, and that it makes `value` of: a backslash keeps ${ from being one."""
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value)


def quote(value: str) -> str:
    """The value as a quoted string of Hydra's grammar that reads back as exactly `value`, with no interpolation in it."""
    value = uninterpolated(value)
    value = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value)
    return f"'{value}'"
