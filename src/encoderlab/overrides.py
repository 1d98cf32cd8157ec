"""Makes the arguments of the command line safe for Hydra's grammar: a text or a path is taken as it was typed."""

import re

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException

FREE_TEXT = ("text", "text_pair")


def quoted_arguments(arguments: list[str]) -> list[str]:
    """The arguments, with the value quoted wherever Hydra's grammar would misread it or cannot read it.

    `text="Dull, dull, dull."` is a sentence and no list of three values; a path with brackets or blanks is a path.
    """
    parser = OverridesParser.create()
    return [_quoted(argument, parser) for argument in arguments]


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


def quote(value: str) -> str:
    """The value as a quoted string of Hydra's grammar that reads back as exactly `value`, with no interpolation in it."""
    value = re.sub(r"(\\*)\$\{", r"\1\1\\${", value)  # OmegaConf: a backslash keeps ${ from being an interpolation
    value = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + ("\\'" if found[2] else ""), value)
    return f"'{value}'"
