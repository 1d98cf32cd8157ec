"""Mistakes a user can mend: one clear line each, and the exit code the command line ends with.

What a message quotes from a file is made printable in `UserError`.
"""

import difflib
from collections.abc import Iterable
from itertools import islice

LONGEST_PART = 3000  # characters of each part of a message, which may quote a file
MOST_COMPARED = 1000  # names, as of columns: comparing takes some microseconds each


class UserError(Exception):
    """Something the user can mend.

    `wrong` says what is wrong and with which value, `allowed` what would be right, `remedy` what to do or set instead. All three
    are printed as one line.
    """

    exit_code = 1

    def __init__(self, wrong: str, *, allowed: str = "", remedy: str = "") -> None:
        self.wrong, self.allowed, self.remedy = (one_line(part) for part in (wrong, allowed, remedy))
        parts = [self.wrong, f"Allowed: {self.allowed}" if self.allowed else "", self.remedy]
        super().__init__(" ".join(part if part[-1] in ".?!" else f"{part}." for part in parts if part))


class SettingError(UserError):
    """A setting that does not exist, or has a value it cannot have."""

    exit_code = 2


class DataError(UserError):
    """Data that is missing, cannot be read, or cannot answer what is asked of it; a hub that cannot be reached."""

    exit_code = 3


class TrainingError(UserError):
    """A training run that cannot go on, for instance because its loss is no longer finite."""

    exit_code = 4


def one_line(text: str) -> str:
    """The text as a terminal may safely be given it: line ends become blanks, whatever else is not printed is escaped.

    So no label or column of a file can move the cursor, colour the screen or turn the direction of writing. What is longer than
    LONGEST_PART is cut.
    """
    text = " ".join(text[: LONGEST_PART + 1].splitlines())
    cut = f"{text[:LONGEST_PART]}..." if len(text) > LONGEST_PART else text
    return printable(cut)


def printable(text: str) -> str:
    """The text with everything that is not printed (str.isprintable) in the escapes of Python's strings."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def closest(name: str, choices: Iterable[str]) -> str:
    """The choice spelled most like `name`, or "" where none comes near; of very many, the first are compared."""
    near = difflib.get_close_matches(name, islice(choices, MOST_COMPARED), n=1, cutoff=0.5)
    return near[0] if near else ""
