"""Functions of one's own, by their dotted names: `module:function`, in the current folder or on Python's path."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from encoderlab.errors import SettingError, one_line

_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
EXAMPLE = "module:function, such as mine:kappa for the function kappa of mine.py in the current folder"


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """A function of one's own: its dotted name, and the first line of its docstring, by which reports explain it."""

    dotted: str
    about: str
    call: Callable[..., Any]

    @property
    def name(self) -> str:
        """Return the name of the function alone."""
        return function_name(self.dotted)


def is_dotted(name: str) -> bool:
    """Return whether a setting names a function of one's own."""
    return _DOTTED.fullmatch(name) is not None


def with_colon(name: str) -> str:
    """Return how a function named with points alone, such as mine.kappa, is written here; "" for other names."""
    module, _, function = name.rpartition(".")
    written = f"{module}:{function}"
    return written if is_dotted(written) else ""


def function_name(dotted: str) -> str:
    """Return the name of the function that a dotted name ends with."""
    return dotted.rpartition(":")[2]


def own_function(dotted: str, setting: str) -> OwnFunction:
    """Return the function that a `setting` names. Raises SettingError if it cannot be imported or has no docstring."""
    module_name, _, name = dotted.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        module = import_module(module_name)
    except Exception as error:  # of any kind: the module is the user's
        problem = f"{setting}={dotted}: {type(error).__name__}: {one_line(str(error))[:300]}"
        raise SettingError(problem, allowed=EXAMPLE) from None
    finally:
        sys.path.remove(here)
    function = getattr(module, name, None)
    if not callable(function):
        raise SettingError(f"{setting}={dotted}: {module_name} has no function {name}", allowed=EXAMPLE)
    about = (function.__doc__ or "").strip().partition("\n")[0]
    if not about:
        remedy = "Give it one: its first line explains it in reports"
        raise SettingError(f"{setting}={dotted} has no docstring", remedy=remedy)
    return OwnFunction(dotted, one_line(about), function)
