"""Mistakes a user can mend: one clear line each, and the exit code the command line ends with."""

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """Something the user can mend.

    `wrong` says what is wrong and with which value, `allowed` what would be right, `remedy` what to do or type instead. All three
    are printed as one line.
    """

    exit_code = 1

    def __init__(self, wrong: str, *, allowed: str = "", remedy: str = "") -> None:
        self.wrong, self.allowed, self.remedy = wrong, allowed, remedy
        parts = [wrong, f"Allowed: {allowed}" if allowed else "", remedy]
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


def closest(name: str, choices: Iterable[str]) -> str:
    """The choice spelled most like `name`, or "" where none comes near."""
    near = difflib.get_close_matches(name, list(choices), n=1, cutoff=0.5)
    return near[0] if near else ""
