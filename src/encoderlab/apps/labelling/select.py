"""encoderlab select: which texts of a file to label next, and what the labels so far say."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from encoderlab.apps.labelling.pool import Pool, read_pool, rows_to_write, types_to_write
from encoderlab.apps.labelling.selection import (
    Chosen,
    Probabilities,
    accuracy_so_far,
    choose_rows,
    classifier_of,
    unlike_neighbours,
)
from encoderlab.apps.labelling.settings import PoolConfig, RowsWritten, SelectConfig
from encoderlab.apps.labelling.tools import TOOLS
from encoderlab.batch import Batch, Prediction
from encoderlab.config.commands import PredictionFormat
from encoderlab.data.selected import FEW_RANDOM, SELECTED, Reason
from encoderlab.errors import DataError, SettingError, one_line
from encoderlab.models.folder import open_model
from encoderlab.models.frozen import MOST_UNKNOWN, cached_vectors, share_unknown
from encoderlab.models.model import Model
from encoderlab.models.row_files import (
    WRITERS,
    Row,
    check_output,
    format_to_write,
    output_file,
    printable_row,
    without_formulas,
)
from encoderlab.reports.wording import counted, interval, score
from encoderlab.tables.columns import listed

SHOWN_LABELS = 10
SHOWN_LINES = 5
ONLY_HERE = ("input", "output", "overwrite", "labelled")  # settings that the next round has others of


def select(config: SelectConfig) -> None:
    """Write the rows to label next. Raises SettingError, DataError."""
    check_output(config)
    write = _writer(config)
    if config.input in (None, "-"):
        raise SettingError("select reads a file of texts", remedy="Run encoderlab select texts.csv n=50")
    model, pool, vectors = open_pool(config)
    _say_what_is_known(config, model, pool, vectors)

    # Without a classifier, texts are chosen because they are typical; in the first round, all of them.
    probabilities = _probabilities(model, pool, vectors)
    is_first_round = probabilities is None and not len(pool.labelled)
    share = 0.0 if is_first_round else config.random_share
    chosen = choose_rows(
        vectors, pool.candidates, config.n, random_share=share, seed=config.seed, probabilities=probabilities
    )

    written = range(len(pool.split)) if config.rows is RowsWritten.all else chosen.rows
    rows = rows_to_write(pool, chosen, written)
    if config.output is None and sys.stdout.isatty():
        rows = map(printable_row, rows)
    with output_file(config.output) as file:
        write(file, rows, pool)
    _say_what_is_chosen(config, pool, chosen)


def _writer(config: SelectConfig) -> Callable[[TextIO, Iterator[Row], Pool], None]:
    """Return what writes the chosen rows of a pool: as a table, or as an annotation tool imports them.

    Raises SettingError for a format that cannot be written.
    """
    for_tool = TOOLS.get(config.format) if config.format is not None else None
    if for_tool is None:
        wanted = None if config.format is None else PredictionFormat[config.format.name]
        form = format_to_write(wanted, config.output)
        is_escaped = config.escape_formulas and form is PredictionFormat.csv

        def write_table(file: TextIO, rows: Iterator[Row], pool: Pool) -> None:
            WRITERS[form](file, map(without_formulas, rows) if is_escaped else rows, types_to_write(pool), ())

        return write_table
    if config.rows is RowsWritten.all:
        problem = "rows=all writes rows with labels too, and annotation tools are for those without"
        raise SettingError(problem, remedy="Remove rows")
    return lambda file, rows, pool: for_tool(file, rows, pool.file.text_columns)


def open_pool(config: PoolConfig) -> tuple[Model, Pool, np.ndarray]:
    """Return the model, the rows of the file, and a vector for each. Raises SettingError, DataError."""
    model = open_model(config)
    _check_model(model, config.run)

    pool = read_pool(config, model)
    unknown = share_unknown(model, pool.split)
    if unknown > MOST_UNKNOWN:
        problem = f"{config.run} does not know {unknown:.0%} of the tokens in {config.input}"
        raise DataError(problem, remedy="Set run=... to an encoder for texts of this kind")
    if model.config.task.one_class_per_text:
        model.check_paired(pool.split.paired)
    return model, pool, cached_vectors(model, pool.split, config.cache)


def _check_model(model: Model, run: str) -> None:
    """Raise SettingError for a model that gives neither one label to a text nor the vectors of an encoder alone."""
    heads = model.task.heads
    predicts_labels = heads.sequence_classes is not None or heads.token_classes is not None
    is_encoder = heads.vocabulary or not predicts_labels
    if not is_encoder and not model.config.task.one_class_per_text:
        problem = f"run={run} does not give each text one label"
        allowed = "a run of task=classification, or an encoder such as mini-en"
        raise SettingError(problem, allowed=allowed, remedy="Remove run")


def _probabilities(model: Model, pool: Pool, vectors: np.ndarray) -> Probabilities | None:
    """Return the probabilities of a trained model, or of a linear model of the labels; None without any labels."""
    if model.config.task.one_class_per_text:
        return partial(_probabilities_of_rows, model, pool)
    if len(pool.labels) < 2:
        return None
    return classifier_of(vectors, pool.ids)


def _probabilities_of_rows(model: Model, pool: Pool, rows: np.ndarray) -> np.ndarray:
    """Return the model's probabilities for rows of the pool, [rows, classes]."""

    def read(prediction: Prediction, batch: Batch) -> Sequence[Any]:
        return [list(one.probabilities or ()) for one in model.task.predictions(prediction, batch)]

    return np.array(model.outputs(model.rows(list(pool.split.take(rows))), read))


def _say(words: str) -> None:
    print(f"encoderlab: {one_line(words)}", file=sys.stderr)


def _say_what_is_known(config: SelectConfig, model: Model, pool: Pool, vectors: np.ndarray) -> None:
    """Say how many texts have a label, how accurate a model of them is, and how many labels look wrong."""
    labelled = pool.labelled
    n_rows = len(pool.split)
    if not len(labelled):
        _say(f"{config.input}: none of {counted(n_rows, 'text')} has a label in column {pool.file.label_column!r}")
        return
    ids = pool.ids[labelled]
    counts = Counter(pool.labels[id_] for id_ in ids.tolist()).most_common()
    shown = listed((f"{name} {count:,}" for name, count in counts), SHOWN_LABELS)
    _say(f"{config.input}: {len(labelled):,} of {counted(n_rows, 'text')} have a label ({shown})")

    own = np.asarray(vectors[labelled])
    if not model.config.task.one_class_per_text:  # a run has learned from these labels, and reports its own accuracy
        _say_accuracy(own, ids, pool.drawn_at_random, config.seed)
    odd = labelled[unlike_neighbours(own, ids)]
    if len(odd):
        places = (pool.split.where(int(row)).removeprefix(f"{pool.file.path}, ") for row in odd)
        verb = "disagrees" if len(odd) == 1 else "disagree"
        disagreeing = f"{len(odd):,} of {counted(len(labelled), 'label')} {verb} with those of the nearest texts"
        _say(f"{disagreeing}: {listed(places, SHOWN_LINES)}")


def _say_accuracy(vectors: np.ndarray, ids: np.ndarray, drawn_at_random: np.ndarray, seed: int) -> None:
    """Say how accurate a linear model of the labels is, on which rows, and whether more labels have helped."""
    accuracy = accuracy_so_far(vectors, ids, drawn_at_random, seed)
    if accuracy is None:
        return
    figure = f"accuracy so far {score(accuracy.value)} (95% interval {interval(accuracy.interval)})"
    how = f"by cross-validation of a linear model on {counted(accuracy.n, 'row')}"
    if accuracy.unbiased:
        how += " that were drawn at random"
    _say(f"{figure}, {how}; with half as many labels {score(accuracy.of_half)}")
    if not accuracy.unbiased:
        _say(f"fewer than {FEW_RANDOM} of these rows were drawn at random, so the accuracy on new texts may differ")


def _say_what_is_chosen(config: SelectConfig, pool: Pool, chosen: Chosen) -> None:
    """Say how many texts were chosen, and why; and what to do next."""
    why = {
        Reason.typical: "typical",
        Reason.unsure: "unsure",
        Reason.random: "random",
    }
    counts = Counter(chosen.reasons)
    parts = ", ".join(f"{counts[reason]:,} {words}" for reason, words in why.items() if counts[reason])
    n = len(chosen.rows)
    left = "; no other is left" if n == len(pool.candidates) else ""
    repeated = f"; {pool.n_repeated:,} with the text of another row are left out" if pool.n_repeated else ""
    _say(f"chose {counted(n, 'text')} of {len(pool.candidates):,} (column {SELECTED!r}): {parts}{left}{repeated}")
    if config.output is not None:
        more, train = _next_commands(config, pool)
        first = f"fill in {pool.file.label_column!r}"
        if config.format in TOOLS:
            first = "import it, label it, and export it over it"
        fill = f"Next: {first}, then {shlex.join(more)}, or {shlex.join(train)}"
        _say(f"wrote {config.output}. {fill}")


def _next_commands(config: SelectConfig, pool: Pool) -> tuple[list[str], list[str]]:
    """Return the command line that chooses more texts, with the settings of this one, and the one that trains on all
    labels.
    """
    assert config.input is not None and config.output is not None
    typed = [f"n={config.n}"] if config.overrides is None else config.overrides
    kept = [setting for setting in typed if setting.partition("=")[0] not in ONLY_HERE]
    kept.append(f"output={_free_name(Path(config.output))}")
    if config.rows is RowsWritten.all:
        more = [config.output, *kept]
        with_labels = [config.output]
    else:
        earlier = [] if config.labelled is None else config.labelled
        rounds = [*([earlier] if isinstance(earlier, str) else earlier), config.output]
        more = [config.input, f"labelled={_as_setting(rounds)}", *kept]
        with_labels = [config.input, *rounds] if any(pool.file.labels) else rounds
    train = with_labels if len(with_labels) == 1 else ["dataset=files", f"dataset.path={_as_setting(with_labels)}"]
    return ["encoderlab", "select", *more], ["encoderlab", "finetune", *train, *named_columns(config, pool)]


def named_columns(config: PoolConfig, pool: Pool) -> list[str]:
    """Return the settings with which finetune reads the columns that select read."""
    columns = {"text": config.text_column, "text_pair": config.text_pair_column, "label": pool.file.label_column}
    return [f"dataset.{name}={column}" for name, column in columns.items() if column not in (None, name)]


def _as_setting(files: Sequence[str]) -> str:
    """Return one file, or several, as the value of a setting."""
    return files[0] if len(files) == 1 else f"[{','.join(files)}]"


def _free_name(output: Path) -> Path:
    """Return the name of a file beside `output` that is not there yet."""
    names = (output.with_name(f"next-{number}{output.suffix}") for number in count(1))
    return next(name for name in names if not name.exists() and name != output)
