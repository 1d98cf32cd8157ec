"""Trains on the rows given to an estimator, in a temporary folder or in a run folder that is kept, and returns the
model.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from encoderlab.api import compose
from encoderlab.commands.train import encoded_splits, load_examples, train_on_labels
from encoderlab.config.commands import RunConfig
from encoderlab.config.composing import quote
from encoderlab.data.examples import TextExample
from encoderlab.data.files import FilesDataset
from encoderlab.runs.assembly import assemble, compute_for, load_start, settle
from encoderlab.runs.fit import fit as fit_rows
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.records import open_run
from encoderlab.runs.saved_model import Origin, SavedModel, read_model
from encoderlab.runs.score import score_splits
from encoderlab.system.processes import SINGLE_PROCESS

NOT_KEPT = "rows given from Python"  # in place of the file of a run whose folder is gone
# Settings, PyTorch's generator and the standard streams belong to the process: fits in several threads take turns.
_ONE_AT_A_TIME = threading.RLock()


@dataclass(frozen=True, slots=True)
class Fit:
    """What is to be trained: `task` on the rows, `names` being those of the classes in order, with `settings` by name.

    Without `init_from` the encoder starts from fresh weights. With `run_dir` the run folder stays, with its report.
    """

    task: str
    names: list[str] | None
    init_from: str | None
    settings: Mapping[str, Any]
    run_dir: str | None
    verbose: bool


def fitted(fit: Fit, examples: Sequence[TextExample], targets: Sequence[str] | Sequence[float]) -> SavedModel:
    """Train on the examples and their targets. Raises SettingError, DataError, TrainingError as `encoderlab finetune`
    does.
    """
    with (
        _ONE_AT_A_TIME,
        _quiet(fit.verbose),
        torch.random.fork_rng(),
        TemporaryDirectory(prefix="encoderlab-fit-") as temporary,
    ):
        if fit.run_dir is not None:
            return _kept_run(fit, Path(fit.run_dir), examples, targets)
        rows = Path(temporary) / "rows.parquet"
        _write_rows(rows, examples, targets)
        config = _config(fit, rows, str(Path(temporary) / "run"))
        config = replace(config, cache_dir=str(Path(temporary) / "cache"))
        return _without_paths(_train_in_memory(config, _command(fit)))


def _kept_run(
    fit: Fit, folder: Path, examples: Sequence[TextExample], targets: Sequence[str] | Sequence[float]
) -> SavedModel:
    """Train as the command does; the rows are written next to the folder, so that the run's other commands
    find them.
    """
    check_free(fit.run_dir)
    folder.parent.mkdir(parents=True, exist_ok=True)
    rows = folder.with_name(f"{folder.name}-rows.parquet")
    _write_rows(rows, examples, targets)
    train_on_labels(_config(fit, rows, str(folder)), _command(fit), SINGLE_PROCESS)
    return read_model(RunFolder(folder).model)


def _train_in_memory(config: RunConfig, command: str) -> SavedModel:
    """Train as the command does, but keep only the model, and report nothing. There may be no split to score."""
    pretrained = load_start(config, SINGLE_PROCESS)
    compute = compute_for(config, pretrained)
    corpus = load_examples(config)
    assembly = assemble(config, compute, corpus, pretrained)
    rows = encoded_splits(
        corpus, assembly.task, [name for name in ("validation", "test") if name in corpus.splits.by_name]
    )
    assembly = settle(assembly, rows)
    with open_run(command, assembly, corpus, rows, config=config, resumed=None) as run:
        fitted = fit_rows(assembly, rows, run.folder)
    assembly, _ = score_splits(assembly, {name: part for name, part in rows.items() if name == "validation"})
    return assembly.saved(Origin(fitted.checkpoint, corpus.paired, corpus.fingerprints()))


def _config(fit: Fit, rows: Path, run_dir: str) -> RunConfig:
    """Return the settings of the run, from the shipped configs. Raises SettingError."""
    given = [] if fit.init_from is None else [f"init_from={quote(fit.init_from)}"]
    pair = ["dataset.text_pair=text_pair"] if "text_pair" in pq.read_schema(rows).names else []
    dataset = ["dataset=files", f"dataset.path={quote(str(rows))}", *pair]
    typed = [f"{name}={_as_typed(value)}" for name, value in fit.settings.items()]
    config = compose(f"task={fit.task}", *dataset, *given, *typed, command=_command(fit))
    assert isinstance(config.dataset, FilesDataset)
    return replace(config, dataset=replace(config.dataset, label_names=fit.names), run_dir=run_dir)


def _command(fit: Fit) -> str:
    return "train" if fit.init_from is None else "finetune"


def _as_typed(value: Any) -> str:
    """Return a value of Python as it is typed on the command line; a string is as typed already."""
    value = _plain(value)
    if isinstance(value, Enum):
        return value.name
    if value is None:
        return "null"
    if isinstance(value, Mapping):  # see `config.composing`
        return json.dumps({str(name): _plain(one) for name, one in value.items()}, ensure_ascii=False)
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{','.join(map(_inside, value))}]" if isinstance(value, list | tuple) else str(value)


def _inside(value: Any) -> str:
    """Return the same for a value in a list, where a string has to be quoted."""
    return quote(value) if isinstance(value, str) else _as_typed(value)


def _plain(value: Any) -> Any:
    """Return a number of NumPy as one of Python, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _write_rows(path: Path, examples: Sequence[TextExample], targets: Sequence[str] | Sequence[float]) -> None:
    columns: dict[str, Any] = {"text": pa.array([example.text for example in examples], pa.large_string())}
    if examples[0].text_pair is not None:
        columns["text_pair"] = pa.array([example.text_pair for example in examples], pa.large_string())
    columns["label"] = pa.array(targets)
    pq.write_table(pa.table(columns), path)


def _without_paths(saved: SavedModel) -> SavedModel:
    """Return the model with settings that name nothing in the temporary folder."""
    dataset = saved.config.dataset
    assert isinstance(dataset, FilesDataset)
    config = replace(saved.config, dataset=replace(dataset, path=NOT_KEPT), run_dir=None, cache_dir=".")
    return replace(saved, config=config)


@contextmanager
def _quiet(verbose: bool) -> Iterator[None]:
    """Suppress what training prints, unless `verbose`."""
    if verbose:
        yield
        return
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield
