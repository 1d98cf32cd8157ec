"""What a run prints before it begins: a short line for each decision."""

import sys
from collections.abc import Iterable


def announce(lines: Iterable[str]) -> None:
    """Print each of the lines to standard error, with a capital letter."""
    for line in lines:
        print(line[:1].upper() + line[1:], file=sys.stderr)
