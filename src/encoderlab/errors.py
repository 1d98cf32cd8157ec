"""Errors a user can fix: one clear line each, printable whatever it quotes, and the exit code of the command line."""

import difflib
from collections.abc import Iterable
from itertools import islice

LONGEST_PART = 3000  # characters of each part of a message, which may quote a file
MOST_COMPARED = 1000  # names, such as columns: each comparison takes a few microseconds


class UserError(Exception):
    """An error that the user can fix.

    `wrong` says what is wrong and with which value, `allowed` what would be right, `remedy` what to do or set instead.
    All three are printed as one line.
    """

    exit_code = 1

    def __init__(self, wrong: str, *, allowed: str = "", remedy: str = "") -> None:
        self.wrong, self.allowed, self.remedy = (one_line(part) for part in (wrong, allowed, remedy))
        parts = [self.wrong, f"Allowed: {self.allowed}" if self.allowed else "", self.remedy]
        super().__init__(" ".join(part if part[-1] in ".?!" else f"{part}." for part in parts if part))


class SettingError(UserError):
    """A setting that does not exist, or has an invalid value."""

    exit_code = 2


class DataError(UserError):
    """Data that is missing, unreadable or unsuitable, or a hub that cannot be reached."""

    exit_code = 3


class TrainingError(UserError):
    """Training that cannot continue, for example because its loss is no longer finite."""

    exit_code = 4


def one_line(text: str) -> str:
    """Return the text safe for a terminal: line ends become blanks, and anything else that is not printable is escaped.

    No label or column of a file can then move the cursor, change colours or reverse the direction of writing. Text
    longer than LONGEST_PART is truncated.
    """
    text = " ".join(text[: LONGEST_PART + 1].splitlines())
    cut = f"{text[:LONGEST_PART]}..." if len(text) > LONGEST_PART else text
    return printable(cut)


def printable(text: str) -> str:
    """Return the text with everything that is not printable (str.isprintable) escaped as in Python's strings."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def closest(name: str, choices: Iterable[str], cutoff: float = 0.5) -> str:
    """Return the choice (of the first MOST_COMPARED) spelled most like `name`; "" if none is as close as `cutoff`."""
    near = difflib.get_close_matches(name, islice(choices, MOST_COMPARED), n=1, cutoff=cutoff)
    return near[0] if near else ""
