"""encoderlab data: what a dataset contains, how long its texts are, how they are tokenized, and which rows are odd."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from encoderlab.apps.drift.drift import Drift, drift, new_texts, training_data
from encoderlab.apps.drift.report import changed_most, show_drift, show_rows
from encoderlab.apps.drift.settings import DataConfig
from encoderlab.config.commands import InputConfig, OpenRunConfig, TableFormat
from encoderlab.data.data import Data
from encoderlab.data.examples import Example, Split, WordsExample, text_of
from encoderlab.data.files import FilesDataset
from encoderlab.data.guesses import first_cells
from encoderlab.data.survey import Oddity, odd_rows
from encoderlab.data.token_store import lengths_of, tokenize_examples
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import SettingError
from encoderlab.models import inputs
from encoderlab.models.folder import open_model
from encoderlab.reports.blocks import json_safe
from encoderlab.runs.load_data import TextTokens
from encoderlab.runs.settle import Facts, settle_length
from encoderlab.system.files import written_whole
from encoderlab.system.messages import as_named
from encoderlab.tables.batches import in_lists
from encoderlab.tables.formats import Format, format_of
from encoderlab.tables.reading import Reading
from encoderlab.tables.remote import is_url
from encoderlab.tasks.task import Task

COUNTED_ROWS = 100_000  # per split, spread evenly, to count tokens of: more would not change the numbers shown
COUNTED_WORDS = 200_000
ROWS_SHOWN = 3  # of a file, as they stand in it
ODD_SHOWN = 3  # of each kind
MOST_CHARACTERS = 300  # of each text shown
MOST_PIECES = 60
_AT_A_TIME = 1000
_QUANTILES = {"min": 0, "median": 50, "p90": 90, "p95": 95, "p99": 99, "max": 100}


def data(config: DataConfig) -> None:
    """Print the facts of the dataset. Raises DataError if it cannot be read as the task needs, SettingError.

    With `config.run`, print those of a file's texts beside the rows that the run was trained on, and plot them if
    `config.plot` is set.
    """
    _check_plot(config)
    if config.run is not None:
        compared = _drift_of(config, config.run)
        try:
            if config.plot is not None:
                _plot(compared, config.plot)
        finally:
            _print(compared.facts, show_drift, config)
        return
    if config.task.of_documents:
        remedy = "Run encoderlab pretrain dry_run=true, which prints the facts of documents"
        raise SettingError(f"task={config.task.name} has no labelled rows", remedy=remedy)
    _print(_facts(config), show_rows, config)


def _print(facts: Mapping[str, Any], show: Callable[[Mapping[str, Any], TextIO], None], config: DataConfig) -> None:
    if config.format is TableFormat.json:
        print(as_named(json.dumps(json_safe(facts), indent=2, ensure_ascii=False)))
    else:
        show(facts, sys.stdout)


def _check_plot(config: DataConfig) -> None:
    """Raise SettingError if there is nothing to plot, or the plot cannot be written to this file."""
    if config.plot is None:
        return
    path = Path(config.plot)
    if config.run is None:
        problem = f"plot={config.plot} is for comparing new texts with the training rows of a run"
        raise SettingError(problem, remedy="Set run=..., or remove plot")
    if path.suffix.lower() != ".png":
        raise SettingError(f"plot={config.plot} does not end in .png", remedy="Choose another name")
    if not path.parent.is_dir():
        remedy = f"Create {path.parent}, or choose another folder"
        raise SettingError(f"plot={config.plot} is in a folder that does not exist", remedy=remedy)
    if path.is_dir():
        raise SettingError(f"plot={config.plot} is a folder", remedy="Choose another name")
    if path.exists() and not config.overwrite:
        remedy = "Choose another name, or set overwrite=true"
        raise SettingError(f"plot={config.plot} already exists", remedy=remedy)


def _plot(compared: Drift, file: str) -> None:
    """Write the plot of the comparison as a PNG. Raises DataError if it cannot be written."""
    from encoderlab.apps.drift.plot import drift_plot
    from encoderlab.reports.plots import write_png

    labels = compared.facts.get("labels", {})
    figure = drift_plot(
        compared.facts["verdict"],
        compared.similarities,
        compared.lengths,
        {name: labels[name] for name in changed_most(labels)},
        n_labels=len(labels),
    )
    with written_whole("plot", Path(file)) as temporary:
        write_png(figure, temporary)
    print(f"Plot: {file}", file=sys.stderr)


def _drift_of(config: DataConfig, run: str) -> Drift:
    """Return how a file's texts differ from the training rows, which the run's own settings name."""
    dataset = config.dataset
    path = getattr(dataset, "path", None)
    is_file = isinstance(path, str) and (is_url(path) or Path(path).is_file())
    if not isinstance(dataset, FilesDataset) or not isinstance(path, str) or not is_file:
        remedy = f"Run encoderlab data run={run} new.csv"
        raise SettingError(f"run={run} needs a file of new texts to compare with its training rows", remedy=remedy)
    model = open_model(OpenRunConfig(config.cache_dir, run))
    if model.config.task.of_documents:
        raise SettingError(f"{run} was trained on documents, not on texts with labels", remedy="Choose another run")
    data = training_data(model, run, config.cache)

    # The new texts, read as predict reads them.
    column = None if dataset.text == "text" else dataset.text
    dialect = dataset.dialect
    file = InputConfig(
        cache_dir=config.cache_dir,
        run=run,
        input=path,
        text_column=column,
        text_pair_column=dataset.text_pair,
        quoting=dialect.quoting,
        encoding=dialect.encoding,
        sheet=dialect.sheet,
    )
    examples, _, _ = inputs.texts_of_file(file, model)
    compared = drift(model, data, new_texts(examples, path, model))
    return replace(compared, facts={"run": run, "file": path} | compared.facts)


def _facts(config: DataConfig) -> dict[str, Any]:
    """Return the facts of labelled rows by split: counts, lengths in tokens, odd rows, examples."""
    # The rows and the tokenizer, as a run would read and train them.
    rows = config.dataset.load(config.cache, config.task.target)
    tokenizer = config.tokenizer.for_task(of_words=config.task.of_words).build(rows.training_texts, config.cache)

    # The length that a model would read, as a run settles it.
    tokens = TextTokens(rows, tokenizer, ["train"], config.cache)
    facts = Facts(tokens.row_lengths, {"train": len(rows.split("train"))}, rows.labels, rows.survey)
    settled, _ = config.task.settled(rows.labels, rows.survey["train"], has_validation=rows.has_validation)
    shape, notes = settle_length(config.model.resolve(None), settled, facts)
    for note in notes:
        print(note, file=sys.stderr)
    task = settled.build(tokenizer, rows.labels, shape.reach)

    # The facts of each split.
    odd = odd_rows(rows.by_name)
    splits = {}
    for name, counted in rows.description()["splits"].items():
        split = rows.by_name[name]
        splits[name] = {
            **counted,
            "tokens": _lengths(split, task),
            "odd_rows": [_odd(oddity, rows.by_name, name) for oddity in odd[name]],
            "examples": [_example(split, row, task) for row in _spread(len(split), config.examples)],
        }
    shared = {"task": settled.name, "origin": rows.origin, "labels": rows.labels, "max_length": shape.reach}
    read = rows.origin.get("reading", {})
    reading = Reading(**read) if "file" in read else None
    how = {"reading": reading.lines() if reading else [], "first_rows": _first_rows(config, rows, reading)}
    return {**shared, **how, "pieces": _pieces(tokenizer, rows), "splits": splits}


def _first_rows(config: DataConfig, rows: Data, reading: Reading | None) -> dict[str, list[str]]:
    """Return the first cells of each column of one's own file, those that are read first; none of another dataset."""
    if reading is None or not isinstance(config.dataset, FilesDataset):
        return {}
    dataset = replace(config.dataset, **rows.decided)
    path = Path(reading.file)
    kind = format_of(path, dataset.format)
    if kind in (Format.txt, Format.folder, Format.conll):
        return {}
    cells = first_cells(path, kind, dataset.dialect)
    used = [name for name in (*reading.texts, reading.text_pair, reading.label) if name in cells]
    return {name: [_shortened(cell) for cell in cells[name][:ROWS_SHOWN]] for name in dict.fromkeys([*used, *cells])}


def _pieces(tokenizer: Tokenizer, data: Data) -> dict[str, Any] | None:
    """Return how the first training words are tokenized, and the share of unknown tokens; None without words."""
    words = pieces = unknown = 0
    train = data.split("train")  # of sequences of words, each is tokenized on its own
    of_words = (word for example in train.of_words() for word in example.words)
    for texts in in_lists(of_words if train.holds_words else data.training_texts(), _AT_A_TIME):
        if words >= COUNTED_WORDS:
            break
        words += sum(len(text.split()) for text in texts)
        ids, _ = tokenizer.encode_flat(texts)
        pieces += len(ids)
        unknown += int((ids == tokenizer.unk_id).sum())
    if not words:
        return None
    shares = {"pieces_per_word": pieces / words, "unknown_pieces": unknown / max(pieces, 1)}
    return {"vocabulary_size": tokenizer.vocabulary_size, **shares}


def _lengths(split: Split, task: Task) -> dict[str, Any]:
    """Return quantiles of the lengths in tokens, with special ones and before truncation, and the share above
    `model.max_length`; `counted` are at most COUNTED_ROWS rows, spread evenly.
    """
    counted = split.evenly(COUNTED_ROWS)
    whole = replace(task.format, max_length=sys.maxsize, windows=None)  # a length that truncates nothing
    parts = [np.empty(0, np.int64)]
    for examples in in_lists(counted, _AT_A_TIME):
        parts.append(whole.lengths(*lengths_of(tokenize_examples(examples, task.tokenizer))))
    lengths = np.concatenate(parts)
    if not len(lengths):
        return {"counted": 0, "truncated": 0.0}
    quantiles = {name: float(np.percentile(lengths, percent)) for name, percent in _QUANTILES.items()}
    truncated = float((lengths > task.max_length).mean())
    return {"counted": len(lengths), **quantiles, "mean": float(lengths.mean()), "truncated": truncated}


def _odd(oddity: Oddity, by_name: Mapping[str, Split], name: str) -> dict[str, Any]:
    split = by_name[name]
    other = by_name[oddity.like_split or name]
    shown = []
    for place, row in enumerate(oddity.rows[:ODD_SHOWN].tolist()):
        facts = {"where": as_named(split.where(row)), "text": _shortened(text_of(split[row]))}
        shown.append(facts if oddity.like is None else facts | {"like": as_named(other.where(int(oddity.like[place])))})
    return {"kind": oddity.kind, "count": len(oddity.rows), "first": shown}


def _spread(total: int, count: int) -> list[int]:
    """Return `count` of the rows 0 to `total`, spread evenly; all if there are no more."""
    return np.linspace(0, total - 1, count).round().astype(int).tolist() if count < total else list(range(total))


def _example(split: Split, row: int, task: Task) -> dict[str, Any]:
    example = split[row]
    rows = task.rows(tokenize_examples([example], task.tokenizer))
    ids = rows.format.gather(rows.store, np.arange(1)).ids
    return {
        "where": as_named(split.where(row)),
        "label": _label_of(example, task.labels),
        "text": _shortened(text_of(example)),
        "pieces": task.tokenizer.pieces(ids[:MOST_PIECES]),
        "tokens": len(ids),
    }


def _label_of(example: Example, labels: Sequence[str]) -> str | None:
    if isinstance(example, WordsExample):
        return None if example.labels is None else _shortened(" ".join(labels[id_] for id_ in example.labels))
    if isinstance(example.label, tuple):
        return _shortened(", ".join(labels[id_] for id_ in example.label) or "no label applies")
    if isinstance(example.label, float):
        return f"{example.label:.6g}"
    return None if example.label is None else labels[example.label]


def _shortened(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."
