"""The kinds of runs to compare: each is the line a user would type, with nothing tuned."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.minilm import NOT_INSTALLED, minilm_folder


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to get a model: an encoderlab command, and the `words` that follow those of the data set.

    {minilm} stands for the folder of all-MiniLM-L6-v2, {teacher} for the run that `teacher` names for the same set. A
    `slow` kind gets one seed where there are many rows. Students learn where a text, or a word, has one label
    (`only_classes`).
    """

    title: str
    command: str
    words: tuple[str, ...] = ()
    slow: bool = False
    teacher: str = ""
    only_classes: bool = False


KINDS: Mapping[str, Kind] = {
    "scratch": Kind("from scratch", "train"),
    "box": Kind("from mini-en", "finetune"),
    "minilm": Kind("from MiniLM", "finetune", ("init_from={minilm}",), slow=True),
    "student": Kind(
        "distilled student",
        "distill",
        ("teacher={teacher}", "model=as_pretrained", "init_from=mini-en"),
        teacher="minilm",
        only_classes=True,
    ),
}


def missing(kind: str) -> str:
    """Return why runs of that kind cannot be started; nothing if they can."""
    needs_minilm = "{minilm}" in " ".join(KINDS[kind].words)
    return NOT_INSTALLED if needs_minilm and minilm_folder() is None else ""


def missing_data(needs: str, suite: Path) -> str:
    """Return why the sets with these needs cannot be read; nothing if they can."""
    if needs == "hub" and not os.environ.get("HF_ENDPOINT"):
        return "no hub is set: put HF_ENDPOINT=URL in front, such as the URL of the stand-in ../shared/hub/serve.py"
    if needs == "suite" and not suite.is_dir():
        return f"{suite} is not a folder: set suite=FOLDER or ENCODERLAB_SUITE to the folder of the development suite"
    return ""
