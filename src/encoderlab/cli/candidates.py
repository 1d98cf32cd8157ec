"""The candidates for the last word of a line: commands, config groups and their options, settings and their values,
paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from encoderlab.cli.overview import COMMANDS
from encoderlab.cli.settings_table import Offered, Settings, Table, settings_table
from encoderlab.commands.list import LISTED, options_of
from encoderlab.encoders.catalogue import shipped_names
from encoderlab.settings import Names

SHELLS = ("bash", "zsh", "fish")
FOR_ALL = {"--help": "Show the commands.", "--version": "Print the version of encoderlab."}
FLAGS = {
    "--help": "Show the settings of this command.",
    "--cfg": "Print the config that would run: job, hydra or all.",
    "--config-dir": "A folder with your own configs.",
    "--multirun": "Run every combination of a,b values.",
    "--hydra-help": "Show Hydra's own help.",
}
CONFIG_DIR = ("--config-dir", "-cd")
MULTIRUN = ("-m", "--multirun")
LAUNCHER = "hydra/launcher"
TAKES_FOLDERS = "compare"
DEVICES = ("auto", "cpu", "cuda", "mps")
SPLITS = ("train", "validation", "test")
SCHEMA = re.compile(r"^ *- (\w+?)(_schema)?$", re.MULTILINE)  # an entry of a defaults list: a schema, or another option


class Candidate(NamedTuple):
    """A word that may stand where the last one is typed, and what it means. It is to be continued if it ends with = .
    or /.
    """

    word: str
    help: str = ""


def candidates(words: list[str], shipped: Path) -> list[Candidate]:
    """Return the candidates for the last of `words`, which follow the name of the program; shipped configs are in
    `shipped`.
    """
    *before, current = words
    if not before:
        offered = _described(FOR_ALL if current.startswith("-") else COMMANDS)
    elif before[0] == "completion":
        offered = map(Candidate, SHELLS if len(before) == 1 else ())
    elif before[-1] in CONFIG_DIR:
        offered = paths(current, folders_only=True)
    elif before[0] == "list":
        offered = (
            _described({"--config-dir": FLAGS["--config-dir"]}) if current.startswith("-") else map(Candidate, LISTED)
        )
    else:
        offered = _of_command(before[0], before[1:], current, shipped)
    return [candidate for candidate in offered if candidate.word.startswith(current)]


def _described(lines: dict[str, str]) -> Iterator[Candidate]:
    return (Candidate(word, line) for word, line in lines.items())


def _of_command(command: str, before: list[str], current: str, shipped: Path) -> Iterator[Candidate]:
    if before and before[-1] in ("--cfg", "-c"):
        return map(Candidate, ("job", "hydra", "all"))
    if current.startswith("-"):
        return _described(FLAGS)
    table = settings_table()
    if command not in table.commands:
        return iter(())
    line = _Line(command, before, table, _config_folders(before, shipped))
    if "=" in current:
        return _values(line, current)
    return _names(line, current)


class _Line(NamedTuple):
    """What was typed before the last word, and where configs are."""

    command: str
    before: list[str]
    table: Table
    folders: list[Path]

    @property
    def multirun(self) -> bool:
        return not {*MULTIRUN}.isdisjoint(self.before)

    @property
    def chosen(self) -> dict[str, str]:
        """Return the words name=value before the last word."""
        return {name: value for name, equals, value in (word.partition("=") for word in self.before) if equals}

    @property
    def settings(self) -> Settings:
        return self.table.commands[self.command] | (self.table.sweep if self.multirun else {})

    def of_group(self, group: str) -> Settings:
        """Return the settings of a group: those of the chosen option's schema, or of all schemas if none is chosen."""
        schemas = self.table.schemas.get(group, {})
        name = self.chosen.get(group) or (self.chosen.get("task") if group == "dataset" else None)
        schema = schemas.get(_schema_of(self.folders, group, name or "") or "")
        if schema is not None:
            return schema
        return {setting: offered for one in reversed(schemas.values()) for setting, offered in one.items()}


def _config_folders(before: list[str], shipped: Path) -> list[Path]:
    own = [folder for flag, folder in zip(before, before[1:], strict=False) if flag in CONFIG_DIR]
    own += [
        folder for flag, equals, folder in (word.partition("=") for word in before) if equals and flag in CONFIG_DIR
    ]
    return [shipped, *(Path(folder).expanduser() for folder in own)]


def _schema_of(folders: list[Path], group: str, option: str) -> str | None:
    """Return the name of the schema that an option of a group extends, directly or through another option."""
    read: set[str] = set()
    while option not in read:
        read.add(option)
        file = next((file for folder in folders if (file := folder / group / f"{option}.yaml").is_file()), None)
        extended = SCHEMA.search(file.read_text(encoding="utf-8", errors="replace")) if file else None
        if extended is None or extended[2]:
            return extended and extended[1]
        option = extended[1]
    return None


def _names(line: _Line, current: str) -> Iterator[Candidate]:
    groups = [group for group in line.table.groups[line.command] if group != "sweep" or line.multirun]
    group, dot, _ = current.partition(".")
    if dot:
        yield from _unset(line, line.of_group(group) if group in groups else {})
        return
    if line.command == TAKES_FOLDERS:
        yield from paths(current, folders_only=True)
    yield from (Candidate(f"{group}=", f"Choose a {group}.") for group in groups if group not in line.chosen)
    yield from (Candidate(f"{group}.", f"Settings of the {group}.") for group in groups if group in line.table.schemas)
    yield from _unset(line, line.settings)
    if line.multirun:
        yield Candidate(f"{LAUNCHER}=", "Run the jobs of a sweep in parallel.")


def _unset(line: _Line, settings: Settings) -> Iterator[Candidate]:
    return (Candidate(f"{name}=", offered.help) for name, offered in settings.items() if name not in line.chosen)


def _values(line: _Line, current: str) -> Iterator[Candidate]:
    name, _, value = current.partition("=")
    start = f"{name}={value.rpartition(',')[0]}," if line.multirun and "," in value else f"{name}="
    typed = current[len(start) :]
    key = name.lstrip("+")
    if key in line.table.groups[line.command] or key == LAUNCHER:
        found = {option: text for folder in reversed(line.folders) for option, text in options_of(folder, key).items()}
        offered: Iterable[Candidate] = _described(found)
    else:
        group = key.partition(".")[0]
        offered = _of_setting((line.of_group(group) if "." in key else line.settings).get(key), typed)
    return (Candidate(start + candidate.word, candidate.help) for candidate in offered)


def _of_setting(setting: Offered | None, typed: str) -> Iterator[Candidate]:
    if setting is None:
        return
    yield from map(Candidate, setting.values)
    names = Names[setting.names] if setting.names else None
    words = {
        Names.device: DEVICES,
        Names.split: SPLITS,
        Names.encoder: shipped_names(),
        Names.unfinished_run: ("auto",),
    }
    yield from map(Candidate, words.get(names, ()) if names else ())
    if names in (Names.path, Names.folder, Names.encoder, Names.unfinished_run):
        yield from paths(typed, folders_only=names is not Names.path)


def paths(typed: str, *, folders_only: bool) -> Iterator[Candidate]:
    """Yield the files and folders whose path starts with `typed`; hidden ones if its last part starts with a dot."""
    folder, slash, start = typed.rpartition("/")
    try:
        entries = sorted(Path(folder + slash or ".").expanduser().iterdir(), key=lambda entry: entry.name)
    except (OSError, ValueError, RuntimeError):  # not a folder, not readable, or ~ of no user
        return
    for entry in entries:
        shown = entry.name.startswith(start) and (start.startswith(".") or not entry.name.startswith("."))
        if shown and entry.is_dir():
            yield Candidate(f"{folder}{slash}{entry.name}/")
        elif shown and not folders_only:
            yield Candidate(f"{folder}{slash}{entry.name}")
