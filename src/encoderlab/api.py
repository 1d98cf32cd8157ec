"""encoderlab from Python, for notebooks and programs: the settings, commands and runs of the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from encoderlab.commands.distill import distill as distill_command
from encoderlab.commands.finetune import finetune as finetune_command
from encoderlab.commands.pretrain import pretrain as pretrain_command
from encoderlab.commands.train import train as train_command
from encoderlab.config.commands import (
    DistillConfig,
    FinetuneConfig,
    OpenRunConfig,
    PretrainConfig,
    RunConfig,
    VectorPooling,
    settings_to_dict,
)
from encoderlab.config.composing import composed, explained, read_line, settings_from_dict
from encoderlab.data.examples import Example
from encoderlab.errors import SettingError, one_line
from encoderlab.runs.assembly import Assembly, check_paired, reopen
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.predict import encoded_rows, example_of, predictions_of, reads_words, unless_blank, vectors_of
from encoderlab.runs.tracking import check_installed, track
from encoderlab.settings import CACHE

COMMAND_OF = {RunConfig: "train", PretrainConfig: "pretrain", FinetuneConfig: "finetune", DistillConfig: "distill"}


def compose(*settings: str, command: str = "train") -> RunConfig:
    """Return the settings of a run, from the arguments of `encoderlab train` (or pretrain, finetune, distill).

    They come from the shipped configs, and are dataclasses that `dataclasses.replace` can change. Raises SettingError.
    """
    if command not in COMMAND_OF.values():
        raise SettingError(f"command={command} does not start a run", allowed=", ".join(COMMAND_OF.values()))
    if not all(isinstance(one, str) for one in settings):
        wrong = f"compose was given {one_line(str(settings))}"
        raise SettingError(wrong, allowed='settings as strings, such as "task=sst2"')
    return composed(read_line(command, settings))


def train(config: RunConfig) -> Run | None:
    """Run `encoderlab train`; return None for a dry run. Raises SettingError, DataError, TrainingError."""
    return _run(train_command, config, RunConfig)


def pretrain(config: PretrainConfig) -> Run | None:
    """Run `encoderlab pretrain`; return None for a dry run. Raises SettingError, DataError, TrainingError."""
    return _run(pretrain_command, config, PretrainConfig)


def finetune(config: FinetuneConfig) -> Run | None:
    """Run `encoderlab finetune`; return None for a dry run. Raises SettingError, DataError, TrainingError."""
    return _run(finetune_command, config, FinetuneConfig)


def distill(config: DistillConfig) -> Run | None:
    """Run `encoderlab distill`; return None for a dry run. Raises SettingError, DataError, TrainingError."""
    return _run(distill_command, config, DistillConfig)


def _run(command: Callable[[Any], RunFolder | None], config: Any, wanted: type) -> Run | None:
    """Run a command if the config suits it (finetune's has more than train's), with its values' types checked."""
    if type(config) is not wanted:
        remedy = f'Make it with encoderlab.compose("task=...", command="{COMMAND_OF[wanted]}")'
        raise SettingError(f"The settings are {one_line(repr(config))[:80]}", allowed=wanted.__name__, remedy=remedy)
    with explained(COMMAND_OF[wanted]):
        checked = settings_from_dict(settings_to_dict(config), wanted)
    if checked.tracking is not None:
        check_installed(checked.tracking)
    folder = command(checked)
    if folder is not None and checked.tracking is not None:
        track(folder, checked.tracking)
    return None if folder is None else Run(folder.root)


def load(run: str | Path, device: str = "auto") -> Run:
    """Open a finished run, its model folder, a Hugging Face folder or a shipped encoder.

    Raises DataError if it is damaged or missing.
    """
    loaded = Run(run, device)
    _ = loaded.assembly
    return loaded


class Run:
    """A finished run. Its model is opened on `device` when first needed."""

    def __init__(self, folder: str | Path, device: str = "auto") -> None:
        self.folder, self.device = Path(folder), device

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    @cached_property
    def assembly(self) -> Assembly:
        """Return the model with its tokenizer, task and settings."""
        cache = os.environ.get("ENCODERLAB_CACHE", CACHE)
        return reopen(OpenRunConfig(cache_dir=cache, run=str(self.folder), device=self.device))

    @cached_property
    def report(self) -> dict[str, Any]:
        """Return the content of report.json. Raises SettingError if the folder is only a model."""
        path = RunFolder(self.folder).report
        if not path.is_file():
            raise SettingError(f"{self.folder} has no report.json", allowed="the folder of a finished run")
        return json.loads(path.read_text(encoding="utf-8"))

    @property
    def labels(self) -> list[str]:
        """Return the names of the classes, in the order of their ids."""
        return self.assembly.task.labels

    def predict(self, texts: str | Sequence[str | tuple[str, str]]) -> list[dict[str, Any]]:
        """Return a prediction for each text, or pair of texts, in their order; for a single string, a list of one.

        `predicted` is a label, with the `probabilities` of all labels; a list of labels, with those probabilities; or a
        number. A blank text has None for each of them. For a task on words, it is a list with a label for each word
        that the model reads. Raises SettingError if `texts` is not a list of texts, DataError for texts that cannot be
        read.
        """
        examples = self._examples(texts)
        answers = predictions_of(self.assembly, examples)
        if reads_words(self.assembly):
            return [{"predicted": list(answer.labels)} for answer in answers]
        target = self.assembly.task.heads.sequence_target
        return list(map(unless_blank, examples, (answer.as_dict(self.labels, target) for answer in answers)))

    def embed(
        self, texts: str | Sequence[str | tuple[str, str]], pooling: str | None = None, *, normalize: bool = False
    ) -> np.ndarray:
        """Return a vector for each text, [texts, d_model]: the `mean` of its tokens or its `cls`, of length 1 if
        `normalize`. Without a `pooling` it is the one that the encoder's sentence vectors were trained with, else mean.

        Raises SettingError and DataError as `predict` does.
        """
        if pooling is not None and pooling not in VectorPooling.__members__:
            raise SettingError(f"pooling={pooling} is not a valid choice", allowed=", ".join(VectorPooling.__members__))
        rows = encoded_rows(self.assembly, self._examples(texts, any_number=True))
        vector_pooling = None if pooling is None else VectorPooling[pooling]
        return vectors_of(self.assembly, rows, vector_pooling, normalize=normalize)

    def _examples(self, texts: str | Sequence[str | tuple[str, str]], *, any_number: bool = False) -> list[Example]:
        texts = [texts] if isinstance(texts, str) else texts
        if not isinstance(texts, Sequence) or not all(map(_is_text, texts)):
            wrong = f"{one_line(repr(texts))[:80]} is not a list of texts"
            raise SettingError(wrong, allowed='["..."], or pairs as [("...", "...")]')
        words = reads_words(self.assembly)
        examples = []
        for text in texts:
            pair = text if isinstance(text, tuple) else (text, None)
            if not any_number:
                check_paired(self.assembly, pair[1] is not None)
            examples.append(example_of(*pair, words))
        return examples


def _is_text(value: Any) -> bool:
    """Return whether the value is a text, or a pair of texts."""
    pair = isinstance(value, tuple) and len(value) == 2
    return isinstance(value, str) or (pair and all(isinstance(one, str) for one in value))
