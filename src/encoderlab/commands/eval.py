"""encoderlab eval: scores a finished run on a split of its dataset, or of another one."""

import shlex
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from encoderlab.config.commands import EvalConfig
from encoderlab.data.corpus import Corpus
from encoderlab.data.data import Data
from encoderlab.data.examples import Split
from encoderlab.data.survey import hashed
from encoderlab.data.token_store import tokenize_examples
from encoderlab.errors import DataError, UserError
from encoderlab.metrics.scores import PredictionScores, SplitScores
from encoderlab.models.explain import word_importance
from encoderlab.models.folder import open_model
from encoderlab.models.labelled_file import as_trained, reading_note
from encoderlab.models.model import Model
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.reports.slices import scores_by_column
from encoderlab.reports.training import build_report, show_report, write_encoder_report, write_report
from encoderlab.reports.wording import counted
from encoderlab.runs.finish import encoder_report
from encoderlab.runs.fit import Result
from encoderlab.runs.gate import compared, open_older, refuse_worse
from encoderlab.runs.load_data import DocumentTokens, ReadRows, TextTokens, load_documents
from encoderlab.runs.record import record_start
from encoderlab.runs.run import Run, check_free
from encoderlab.runs.summary import run_facts, summary_of
from encoderlab.system.messages import print_lines, say
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.rows import ExampleRows
from encoderlab.training.batches import EVALUATION_SEED, Rows


def eval(config: EvalConfig, processes: Processes = SINGLE_PROCESS) -> Run:
    """Score the run into a run folder of its own, and compare it with an older one if the settings name one.

    Raises DataError if the split has no labels, or others; UserError, once everything is written, if the run is worse
    than the older one by more than allowed.
    """
    processes.broadcast_from_main(lambda: check_free(config.run_dir))
    model = open_model(config, processes, or_graph=processes.size == 1)
    model.task.metrics()  # refuses an encoder without a head, before any data is read
    if model.task.heads.teacher_width is not None:
        problem = f"{config.run} was distilled from a teacher's vectors, and cannot be scored without the teacher"
        raise DataError(problem, remedy="See the scores in its report.json, or finetune it on a task")
    if model.config.task.of_vectors:
        problem = f"{config.run} was trained beside the encoder it started from, and cannot be scored without it"
        raise DataError(problem, remedy="See the scores in its report.json, or finetune it on a task")
    older = open_older(config, model)

    # The split to score, as the model reads it.
    kind = _DocumentEvaluation if model.config.task.of_documents else _RowEvaluation
    with processes.main_process_first():
        evaluation = kind.read(config, model)

    # All processes score; the main one writes the report.
    against = None
    with _new_run(evaluation) as run:
        scores, result = _score(evaluation)
        if processes.is_main:
            against = evaluation.report(run, scores, result, older)
    if against is not None:
        refuse_worse(config, against)
    return run


@dataclass(frozen=True, slots=True)
class _Evaluation(ABC):
    """A `split` of `data` to score, whose `rows` are as the model reads them."""

    config: EvalConfig
    model: Model
    data: Corpus
    split: str
    rows: Rows

    @classmethod
    @abstractmethod
    def read(cls, config: EvalConfig, model: Model) -> Self:
        """Read the split that the settings name. Raises DataError if there is none, or nothing in it to score."""

    @abstractmethod
    def report(self, run: Run, scores: SplitScores, result: Result, older: Model | None) -> dict[str, Any] | None:
        """Write and show the report; return what it says of an `older` model to compare with, if there is one."""


@dataclass(frozen=True, slots=True)
class _RowEvaluation(_Evaluation):
    """Labelled rows to score. `data_notes` say how they are read, and `known` which have texts of training rows."""

    data: Data
    rows: ExampleRows
    data_notes: list[str]
    known: np.ndarray

    @classmethod
    def read(cls, config: EvalConfig, model: Model) -> Self:
        # Of a file of one's own, the columns that the model was trained on.
        dataset, different = as_trained(config, model)
        config = replace(config, dataset=dataset)
        data, split = _rows_to_score(config, model)
        rows = TextTokens(data, model.tokenizer, [split], config.cache).rows(model.task)[split]
        notes = [*different, reading_note(data), model.task.reading_note(split, rows)]
        known = _trained_on(model, data.split(split), config.cache, data if config.dataset is None else None)
        return cls(config, model, data, split, rows, [note for note in notes if note], known)

    def report(self, run: Run, scores: SplitScores, result: Result, older: Model | None) -> dict[str, Any] | None:
        assert isinstance(scores, PredictionScores)
        config = self.config
        model = self.model
        data = self.data
        examples = data.split(self.split)

        # What report.json holds besides scores: rows of training among them, an older model, groups of rows.
        extra: dict[str, Any] = {"data_notes": self.data_notes}
        against = None
        if self.known.any():
            without = _scores_of_others(model, examples, self.known)
            extra["trained_on"] = {"split": self.split, "n": int(self.known.sum()), "scores_without": without}
        if older is not None:
            older_knows = int(_trained_on(older, examples, config.cache).sum())
            against = compared(config, older, examples, scores, model.config.seed)
            extra["against"] = against | {"trained_on": older_knows}
        columns = (config.dataset or model.own_dataset).slice_columns
        if columns:
            extra["slices"] = scores_by_column(scores, examples.carried, columns, model.config.seed)

        # What a reader of the scores should know.
        notes = [*self.data_notes]
        n_left = data.origin.get("rows_without_label", 0)
        if n_left:
            notes.append(f"Not scored, because they have no label: {counted(n_left, 'row')}")
        if data.labels != model.labels:
            matched = f"{model.labels} are matched with the dataset's {data.labels}, in this order"
            notes.append(f"The model's labels {matched}")
        notes += _notes_on_known_rows(scores, extra)

        summary = summary_of(config.command, model, result.checkpoint, result.throughput, notes, dataset=config.dataset)
        report = {**build_report(summary, {self.split: scores}, {}), **extra}
        explain = partial(word_importance, model) if isinstance(model.network, EncoderWithHeads) else None
        write_report(run.folder, report, run_facts(run), examples, scores, explain)
        files = run.files("page", "report", "predictions", "plots")
        show_report(report, files, [f"encoderlab predict run={shlex.quote(config.run)} text='...'"])
        return against


@dataclass(frozen=True, slots=True)
class _DocumentEvaluation(_Evaluation):
    """Documents to score. The token counts of those of training, which are among the `documents`, are the baseline."""

    documents: ReadRows

    @classmethod
    def read(cls, config: EvalConfig, model: Model) -> Self:
        dataset = config.dataset or model.own_dataset
        data = load_documents(dataset, model.config.task, config)
        split = config.split or data.scored_splits()[-1]
        data.split(split)
        if config.dataset is None:
            _check_unchanged(model, data, split)
        names = list(dict.fromkeys(["train", split]))
        tokens = DocumentTokens(data, model.tokenizer, names, config.cache, pack=dataset.pack, seed=EVALUATION_SEED)
        documents = tokens.read_by(model.task)
        return cls(config, model, data, split, documents.by_split[split], documents)

    def report(self, run: Run, scores: SplitScores, result: Result, older: Model | None) -> None:  # noqa: ARG002
        summary = summary_of(self.config.command, self.model, result.checkpoint, result.throughput, [])
        documents = self.documents
        report = encoder_report(summary, self.model, documents.by_split, {self.split: scores}, documents.pairs)
        write_encoder_report(run.folder, report, run_facts(run))
        line = f"encoderlab embed run={shlex.quote(self.config.run)} input=texts.txt output=vectors.npy"
        show_report(report, run.files("page", "report"), [line])


@contextmanager
def _new_run(evaluation: _Evaluation) -> Iterator[Run]:
    """Open the folder of an evaluation, and record in it what is scored."""
    config = evaluation.config
    model = evaluation.model
    processes = model.processes
    with processes.entered_by_main(lambda: Run.new(config.run_dir, config.command, model.task_name)) as run:
        if processes.is_main:
            run.record = record_start(run.folder, config, model.compute, data=evaluation.data)
        print_lines(*model.choices, f"run folder {run.folder}")
        yield run


def _score(evaluation: _Evaluation) -> tuple[SplitScores, Result]:
    """Return the scores of a split, and how its model was chosen, with the speed of scoring."""
    model = evaluation.model
    rows = evaluation.rows
    started = time.perf_counter()
    scores = model.evaluate(rows)
    seconds = max(time.perf_counter() - started, 1e-9)
    model.processes.leave()
    checkpoint = model.origin.checkpoint
    # A split of another dataset may have the same name.
    if evaluation.config.dataset is not None and checkpoint["chosen_on"] is not None:
        checkpoint = {**checkpoint, "chosen_on": f"{checkpoint['chosen_on']} of the dataset it was trained on"}
    counts = {"tokens": int(rows.epoch(EVALUATION_SEED, 0).lengths.sum()), "examples": len(rows)}
    speed = {f"{name}_per_second": round(count / seconds, 1) for name, count in counts.items()}
    return scores, Result(checkpoint, speed | {"evaluation_seconds": round(seconds, 2)}, [])


def _trained_on(model: Model, scored: Split, cache: Path, own: Data | None = None) -> np.ndarray:
    """Return which `scored` rows have the texts of the model's training rows, as far as these can be read: bool [rows].

    `own` is the model's own dataset, if it has been read.
    """
    try:
        trained = own or model.own_rows(cache)
    except UserError as error:
        say(f"whether rows were trained on is not known: {error}")
        return np.zeros(len(scored), bool)
    return np.isin(hashed(scored).texts, hashed(trained.split("train")).texts)


def _scores_of_others(model: Model, split: Split, known: np.ndarray) -> dict[str, float]:
    """Return the scores on the rows that are not `known` from training, by this process; none if all rows are."""
    if known.all():
        return {}
    others = split.take(np.flatnonzero(~known))
    rows = model.task.rows_of_split(tokenize_examples(list(others), model.tokenizer), others)
    return replace(model, processes=SINGLE_PROCESS).evaluate(rows).values


def _notes_on_known_rows(scores: PredictionScores, extra: Mapping[str, Any]) -> list[str]:
    """Return sentences on rows that the model, or the older one, was trained on."""
    notes = []
    if "trained_on" in extra:
        seen = extra["trained_on"]
        without = seen["scores_without"].get(scores.main_score)
        rest = f"{scores.n - seen['n']:,} rows"
        said = "" if without is None else f". Without them {scores.main_score} is {without:.3f} ({rest})"
        n_rows = f"{seen['n']:,} of {scores.n:,} rows of {seen['split']}"
        notes.append(f"{n_rows} have texts that the model was trained on{said}")
    if extra.get("against", {}).get("trained_on"):
        n_rows = f"{extra['against']['trained_on']:,} of {scores.n:,} rows"
        notes.append(f"{n_rows} have texts that the older model was trained on, so the comparison favours it")
    return notes


def _rows_to_score(config: EvalConfig, model: Model) -> tuple[Data, str]:
    """Return the data, and the split of it to score. A file of your own is scored whole, with the labels named as in
    the model.

    Raises DataError for rows without labels, of another form, with other labels, or that the model may have been
    trained on.
    """
    # A file of one's own is scored whole; any other dataset has splits.
    target = model.config.task.target
    own_file = None
    if config.dataset is not None and config.split is None:
        own_file = config.dataset.as_one_file(model.config.dataset, model.labels or None)
    if own_file is not None:
        data = own_file.load(config.cache, target).as_one_split()
        split = "all"
    else:
        data = config.dataset.load(config.cache, target) if config.dataset else model.own_rows(config.cache)
        split = config.split or data.scored_splits()[-1]

    # The rows must suit the model, and must not be those it was trained on.
    data.split(split)
    if config.dataset is None:
        _check_unchanged(model, data, split)
    model.check_paired(data.paired)
    if not data.is_labelled(split):
        remedy = f"Run encoderlab predict run=... split={split} to write predictions"
        raise DataError(f"split={split} has no labels to score against", remedy=remedy)
    if data.labels != model.labels and not _same_in_other_words(data.labels, model):
        problem = f"The dataset's labels are {data.labels}, but the model predicts {model.labels}"
        raise DataError(
            problem, allowed="the model's labels, in the same order (set it with dataset.label_names=[...])"
        )
    return data, split


def _check_unchanged(model: Model, data: Corpus, split: str) -> None:
    """Raise DataError if training rows may by now be in the split to score."""
    fingerprints = data.fingerprints()
    if any(fingerprints[name] != model.origin.fingerprints.get(name) for name in {"train", split}):
        problem = "The dataset has changed since this model was trained, so training rows may now be in another split"
        raise DataError(problem, remedy="To score on new rows, set dataset=files dataset.path=FILE")


def _same_in_other_words(labels: list[str], model: Model) -> bool:
    """Return whether a Hugging Face model means these labels: in another case, or as numbers starting with LABEL_0."""
    if model.config.dataset is not None:
        return False
    numbered = [f"LABEL_{number}" for number in range(len(labels))]
    if model.labels == numbered:
        return True
    return [label.casefold() for label in model.labels] == [label.casefold() for label in labels]
