"""The plan: the arguments of `python -m benchmarks suite`, and the runs they imply."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.minilm import minilm_folder
from benchmarks.processes import ROOT
from benchmarks.suite.kinds import KINDS
from benchmarks.suite.sets import SETS
from encoderlab.errors import SettingError, closest

SEEDS = (0, 1, 2)
FOLDERS = {
    "suite": ROOT.parent / "shared" / "suite",
    "output": ROOT / "outputs" / "suite",
    "page": ROOT / "benchmarks",
}
NAMES = ("sets", "kinds", "seeds", "timed", *FOLDERS)


@dataclass(frozen=True, slots=True)
class Settings:
    """The choices. `suite` is the folder of the data, `output` of the runs, `page` of SUITE.md with its chart and
    results.

    `seeds` are those of every run; if empty, SEEDS, of which slow kinds get only the first if there are many rows.
    `overrides` are added to every command. `timed` is false if other work runs at the same time, which makes seconds
    and memory meaningless.
    """

    sets: tuple[str, ...] = tuple(SETS)
    kinds: tuple[str, ...] = tuple(KINDS)
    seeds: tuple[int, ...] = ()
    suite: Path = FOLDERS["suite"]
    output: Path = FOLDERS["output"]
    page: Path = FOLDERS["page"]
    overrides: tuple[str, ...] = ()
    timed: bool = True

    def seeds_of(self, name: str, kind: str) -> tuple[int, ...]:
        """Return the seeds of the runs of `kind` on the set `name`."""
        if not self.seeds and KINDS[kind].slow and SETS[name].has_many_rows:
            return SEEDS[:1]
        return self.seeds or SEEDS

    @property
    def places(self) -> dict[str, str]:
        """Return the values of {suite}, {output} and {minilm} in a command on this machine."""
        folders = {"suite": self.suite, "output": self.output, "minilm": minilm_folder()}
        return {name: str(folder) for name, folder in folders.items() if folder is not None}


@dataclass(frozen=True, slots=True)
class Run:
    """A run of the suite, or with kind `baselines` the linear models of a set. Folders and words are deterministic."""

    name: str
    kind: str
    seed: int
    settings: Settings = field(repr=False)

    @property
    def folder(self) -> Path:
        """Return the run folder."""
        return self.settings.output / self.name / self.kind / str(self.seed)

    @property
    def record(self) -> Path:
        """Return the path of the suite's own record of the run, beside its folder, which belongs to encoderlab alone."""
        return self.folder.with_suffix(".json")

    @property
    def teacher(self) -> Path | None:
        """Return the run that a student learns from: the first seed's, so that all students of a set have one teacher."""
        kind = KINDS[self.kind].teacher
        first = (self.settings.seeds or SEEDS)[0]
        return self.settings.output / self.name / kind / str(first) if kind else None

    @property
    def words(self) -> tuple[str, ...]:
        """Return the command and its overrides, with {suite}, {output} and {minilm} in place of this machine's folders."""
        kind = KINDS[self.kind]
        teacher = self.teacher and f"{{output}}/{self.teacher.relative_to(self.settings.output)}"
        own = (word.replace("{teacher}", str(teacher)) for word in kind.words)
        run_dir = f"run_dir={{output}}/{self.name}/{self.kind}/{self.seed}"
        return kind.command, *SETS[self.name].words, *own, f"seed={self.seed}", *self.settings.overrides, run_dir


def filled(words: Iterable[str], places: dict[str, str]) -> list[str]:
    """Return the words with each {place} filled in; other braces are kept."""
    found = []
    for word in words:
        for name, folder in places.items():
            word = word.replace(f"{{{name}}}", folder)
        found.append(word)
    return found


def parsed(words: Sequence[str]) -> Settings:
    """Return the settings that the arguments NAME=VALUE choose. Raises SettingError for an invalid name or value."""
    given: dict[str, str] = {}
    overrides = []
    for word in words:
        name, equals, value = word.partition("=")
        if equals and "." in name:
            overrides.append(word)
        elif not equals or name not in NAMES:
            raise _unknown(
                "setting", word if not equals else name, (*(f"{known}=..." for known in NAMES), "training.NAME=...")
            )
        else:
            given[name] = value
    folders = {
        name: _folder(given.get(name) or _from_environment(name) or default) for name, default in FOLDERS.items()
    }
    sets = _names("set", given.get("sets"), SETS)
    kinds = _names("kind", given.get("kinds"), KINDS)
    timed = _yes_or_no("timed", given.get("timed", "true"))
    return Settings(sets, kinds, _numbers(given.get("seeds")), overrides=tuple(overrides), timed=timed, **folders)


def _from_environment(name: str) -> str | None:
    return os.environ.get("ENCODERLAB_SUITE") if name == "suite" else None


def _folder(path: str | Path) -> Path:
    """Return the folder as an absolute path, or relative to the repository, where the runs start, if it is inside."""
    found = Path(path).expanduser().resolve()
    return found.relative_to(ROOT) if found.is_relative_to(ROOT) else found


def _names(what: str, typed: str | None, known: Iterable[str]) -> tuple[str, ...]:
    names = tuple(name for name in (typed or "").split(",") if name) or tuple(known)
    for name in names:
        if name not in known:
            raise _unknown(what, name, known)
    return tuple(dict.fromkeys(names))


def _numbers(typed: str | None) -> tuple[int, ...]:
    numbers = [one for one in (typed or "").split(",") if one]
    for one in numbers:
        if not one.isdecimal():
            raise SettingError(
                f"seeds={typed} is not a list of seeds", allowed="whole numbers with commas, such as 0,1,2"
            )
    return tuple(dict.fromkeys(int(one) for one in numbers))


def _yes_or_no(name: str, typed: str) -> bool:
    if typed not in ("true", "false"):
        raise SettingError(f"{name}={typed} is not a choice", allowed="true, false")
    return typed == "true"


def _unknown(what: str, name: str, known: Iterable[str]) -> SettingError:
    near = closest(name, list(known))
    return SettingError(
        f"There is no {what} {name}", allowed=", ".join(known), remedy=f"Did you mean {near}?" if near else ""
    )
