"""encoderlab eval: scores a finished run on a split of its dataset, or of another one."""

from __future__ import annotations

import shlex
import time
from dataclasses import replace
from functools import partial
from typing import Any

from encoderlab.commands.pretrain import score_pretrained
from encoderlab.config.commands import EvalConfig
from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError
from encoderlab.reports.training import build_report, show_report, write_report
from encoderlab.runs.assembly import Assembly, cache_folder, check_paired, own_dataset, reopen
from encoderlab.runs.corpus import Corpus, reading_note
from encoderlab.runs.explain import token_importance
from encoderlab.runs.fit import Fitted
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.for_reports import files_of, run_facts, summary_of
from encoderlab.runs.journal import evaluation_throughput
from encoderlab.runs.records import announce, record_start
from encoderlab.runs.score import scores_of
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import PretrainingConfig, TeacherVectorsConfig
from encoderlab.tasks.rows import ExampleRows


def eval(config: EvalConfig, processes: Processes = SINGLE_PROCESS) -> RunFolder:
    """Score the run and write a run folder of its own. Raises DataError if the split has no labels, or different ones."""
    processes.broadcast_from_main(lambda: check_free(config.run_dir))
    assembly = reopen(config, processes)
    assembly.task.metrics()  # refuses an encoder without a head, before any data is read
    if isinstance(assembly.config.task, TeacherVectorsConfig):
        raise DataError(
            f"{config.run} was distilled from a teacher's vectors, and cannot be scored without the teacher",
            remedy="See the scores in its report.json, or train it on a task with encoderlab finetune init_from=...",
        )
    if isinstance(assembly.config.task, PretrainingConfig):
        return score_pretrained(config, assembly)
    with processes.main_process_first():
        corpus, split = _what_to_score(config, assembly)
        _check_rows(assembly, corpus, split, own=config.dataset is None)
        rows = corpus.rows(split, assembly.task)
    with processes.entered_by_main(lambda: RunFolder.new(config.run_dir, "eval", assembly.config.task.name)) as folder:
        if processes.is_main:
            record_start(folder, "eval", config, assembly.compute, corpus)
        announce((*assembly.choices, f"run folder {folder.root}"))
        _score_and_report(config, assembly, corpus, split, rows, folder)
    return folder


def _what_to_score(config: EvalConfig, assembly: Assembly) -> tuple[Corpus, str]:
    """Return the rows, and the name of their split. A file of your own is scored whole, with the labels named as in the
    model.
    """
    cache = cache_folder(config.cache_dir)
    if isinstance(config.dataset, FilesDataset) and config.dataset.path and config.split is None:
        unsplit = replace(
            config.dataset, validation_fraction=0.0, test_fraction=0.0, label_names=assembly.task.labels or None
        )
        return Corpus.load_unsplit(unsplit, cache, assembly.config.task.target), "all"
    corpus = Corpus.load(config.dataset or own_dataset(assembly), cache, assembly.config.task.target)
    return corpus, config.split or corpus.scored_splits()[-1]


def _score_and_report(
    config: EvalConfig, assembly: Assembly, corpus: Corpus, split: str, rows: ExampleRows, folder: RunFolder
) -> None:
    started = time.perf_counter()
    scores = scores_of(assembly, rows)
    seconds = time.perf_counter() - started
    assembly.processes.leave()
    if not assembly.processes.is_main:
        return
    notes = reading_note(rows, assembly.task)
    if corpus.splits.labels != assembly.task.labels:
        notes.append(
            f"The model's labels {assembly.task.labels} are matched with the dataset's {corpus.splits.labels}, in this order"
        )
    throughput = evaluation_throughput(int(rows.lengths.sum()), len(rows), seconds)
    scored = Fitted(_checkpoint(assembly, config), throughput, notes)
    report = build_report(summary_of("eval", assembly, scored), {split: scores}, {})
    importance = partial(token_importance, assembly)
    examples = corpus.split(split)
    carried = None if examples.carried is None else examples.carried.select(scores.rows)
    write_report(folder.root, report, run_facts(folder, "eval"), examples, scores, importance, carried)
    files = files_of(folder, "page", "report", "predictions", "plots")
    show_report(report, files, [f"encoderlab predict run={shlex.quote(config.run)} text='...'"])


def _check_rows(assembly: Assembly, corpus: Corpus, split: str, *, own: bool) -> None:
    """Raise DataError for rows without labels, of another form, with other labels, or that the model may have been
    trained on.
    """
    corpus.split(split)
    if own and any(corpus.fingerprints()[name] != assembly.opened.fingerprints.get(name) for name in {"train", split}):
        raise DataError(
            "The dataset has changed since this model was trained, so training rows may now be in another split",
            remedy="To score on new rows, set dataset=files dataset.path=FILE",
        )
    check_paired(assembly, corpus.paired)
    if not corpus.labelled(split):
        raise DataError(
            f"split={split} has no labels to score against",
            remedy=f"Run encoderlab predict run=... split={split} to write predictions",
        )
    if corpus.splits.labels != assembly.task.labels and not _same_in_other_words(corpus.splits.labels, assembly):
        raise DataError(
            f"The dataset's labels are {corpus.splits.labels}, but the model predicts {assembly.task.labels}",
            allowed="data with the model's labels in the same order (set it with dataset.label_names=[...])",
        )


def _same_in_other_words(labels: list[str], assembly: Assembly) -> bool:
    """Return whether a Hugging Face model means these labels: in another case, or as numbers starting with LABEL_0."""
    theirs = assembly.task.labels
    numbered = [f"LABEL_{number}" for number in range(len(labels))]
    same = theirs == numbered or [label.casefold() for label in theirs] == [label.casefold() for label in labels]
    return assembly.config.dataset is None and same


def _checkpoint(assembly: Assembly, config: EvalConfig) -> dict[str, Any]:
    """Return how the weights were chosen. Another dataset had no part in that, even if its split has the same name."""
    checkpoint = assembly.opened.checkpoint
    if config.dataset is None or checkpoint["chosen_on"] is None:
        return checkpoint
    return {**checkpoint, "chosen_on": f"{checkpoint['chosen_on']} of the dataset it was trained on"}
