"""What is installed: the versions of required packages, and which optional libraries are there."""

from __future__ import annotations

import platform
import re
from importlib.metadata import requires

from encoderlab.runs.records.environment import PACKAGES, installed_version

DEVELOPERS = ("dev", "bench", "docs")  # extras for developers only


def versions() -> dict[str, str | None]:
    """Return the version of Python and of each package that results depend on; None if one is missing."""
    return {"python": platform.python_version(), **{name: installed_version(name) for name in PACKAGES}}


def optional_libraries() -> dict[str, dict[str, str | None]]:
    """Return for each extra of this package the libraries it installs, and their versions if they are installed."""
    found: dict[str, dict[str, str | None]] = {}
    for requirement in requires("encoderlab") or ():
        named = re.fullmatch(r"([\w.-]+)(?:\[[^\]]*\])?[^;]*;.*extra == ['\"]([\w-]+)['\"].*", requirement)
        if named and named[2] not in DEVELOPERS:
            found.setdefault(named[2], {})[named[1]] = installed_version(named[1])
    return found
