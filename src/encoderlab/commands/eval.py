"""encoderlab eval: scores a finished run on a split of its dataset, or of another one."""

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast

from encoderlab.commands.pretrain import pretraining_report
from encoderlab.config.commands import EvalConfig
from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError
from encoderlab.metrics.pretraining import PretrainingScores
from encoderlab.metrics.scores import PredictionScores, SplitScores
from encoderlab.reports.training import build_report, show_report, write_encoder_report, write_report
from encoderlab.runs.assembly import Assembly, check_paired, own_dataset, reopen
from encoderlab.runs.corpus import AnyCorpus, Corpus, DocumentCorpus, guessed_pairs, pair_facts, reading_notes
from encoderlab.runs.explain import word_importance
from encoderlab.runs.fit import Fitted
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.records import announce, files_of, record_start, run_facts, summary_of
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import PretrainingConfig, TeacherVectorsConfig
from encoderlab.tasks.pretraining import Pretraining
from encoderlab.training.batches import EVALUATION_SEED, Rows


def eval(config: EvalConfig, processes: Processes = SINGLE_PROCESS) -> RunFolder:
    """Score the run into a run folder of its own. Raises DataError if the split has no labels, or others."""
    processes.broadcast_from_main(lambda: check_free(config.run_dir))
    assembly = reopen(config, processes)
    assembly.task.metrics()  # refuses an encoder without a head, before any data is read
    if isinstance(assembly.config.task, TeacherVectorsConfig):
        wrong = f"{config.run} was distilled from a teacher's vectors, and cannot be scored without the teacher"
        raise DataError(wrong, remedy="See the scores in its report.json, or finetune it on a task")
    if isinstance(assembly.config.task, PretrainingConfig):
        return eval_on_documents(config, assembly, processes)
    with processes.main_process_first():
        corpus, split = _rows_to_score(config, assembly)
        rows = corpus.rows(split, assembly.task)
    with _new_folder(config, assembly, corpus) as folder:
        scores, scored = _score(assembly, config, rows)
        if processes.is_main:
            scores = cast("PredictionScores", scores)
            data_notes = reading_notes({split: rows}, assembly.task)
            notes = list(data_notes)
            if corpus.splits.labels != assembly.task.labels:
                matched = f"{assembly.task.labels} are matched with the dataset's {corpus.splits.labels}, in this order"
                notes.append(f"The model's labels {matched}")
            summary = summary_of("eval", assembly, replace(scored, notes=notes), dataset=config.dataset)
            report = build_report({**summary, "data_notes": data_notes}, {split: scores}, {})
            facts, explain = run_facts(folder, "eval"), partial(word_importance, assembly)
            write_report(folder.root, report, facts, corpus.split(split), scores, explain)
            files = files_of(folder, "page", "report", "predictions", "plots")
            show_report(report, files, [f"encoderlab predict run={shlex.quote(config.run)} text='...'"])
    return folder


def eval_on_documents(config: EvalConfig, assembly: Assembly, processes: Processes) -> RunFolder:
    """Score a pretraining run on a split of its documents, or of others.

    Raises DataError if there is no such split, or if the run's own documents have changed.
    """
    task = cast("Pretraining", assembly.task)
    with processes.main_process_first():
        corpus = DocumentCorpus.load(config.dataset or own_dataset(assembly), task.config, config.cache)
        split = config.split or corpus.scored_splits()[-1]
        if split not in corpus.documents.by_name:
            raise DataError(f"split={split} is not in this dataset", allowed=", ".join(corpus.documents.by_name))
        if config.dataset is None:
            _check_unchanged(assembly, corpus, split)
        rows: dict[str, Any] = {name: corpus.rows(name, task) for name in ("train", split)}
    with _new_folder(config, assembly, corpus) as folder:
        scores, scored = _score(assembly, config, cast("Rows", rows[split]))
        if processes.is_main:
            by_split = {split: cast("PretrainingScores", scores)}
            pairs, guessed = pair_facts(rows["train"], corpus), guessed_pairs(rows["train"], rows[split])
            summary = summary_of("eval", assembly, scored)
            report = pretraining_report(summary, assembly, rows, by_split, pairs=pairs, guessed=guessed)
            write_encoder_report(folder.root, report, run_facts(folder, "eval"))
            line = f"encoderlab embed run={shlex.quote(config.run)} input=texts.txt output=vectors.npy"
            show_report(report, files_of(folder, "page", "report"), [line])
    return folder


@contextmanager
def _new_folder(config: EvalConfig, assembly: Assembly, corpus: AnyCorpus) -> Iterator[RunFolder]:
    """Open the folder of an evaluation, and record in it what is scored."""
    processes, name = assembly.processes, assembly.config.task.name
    with processes.entered_by_main(lambda: RunFolder.new(config.run_dir, "eval", name)) as folder:
        if processes.is_main:
            record_start(folder, "eval", config, assembly.compute, corpus)
        announce(*assembly.choices, f"run folder {folder.root}")
        yield folder


def _score(assembly: Assembly, config: EvalConfig, rows: Rows) -> tuple[SplitScores, Fitted]:
    """Return the scores of a split, and how its model was chosen, with the speed of scoring."""
    started = time.perf_counter()
    scores = assembly.evaluate(rows)
    seconds = max(time.perf_counter() - started, 1e-9)
    assembly.processes.leave()
    checkpoint = assembly.known_origin.checkpoint
    if config.dataset is not None and checkpoint["chosen_on"] is not None:  # a split that may have the same name
        checkpoint = {**checkpoint, "chosen_on": f"{checkpoint['chosen_on']} of the dataset it was trained on"}
    counts = {"tokens": int(rows.epoch(EVALUATION_SEED, 0).lengths.sum()), "examples": len(rows)}
    speed = {f"{name}_per_second": round(count / seconds, 1) for name, count in counts.items()}
    return scores, Fitted(checkpoint, speed | {"evaluation_seconds": round(seconds, 2)}, [])


def _rows_to_score(config: EvalConfig, assembly: Assembly) -> tuple[Corpus, str]:
    """Return the corpus, and the split of it to score. A file of your own is scored whole, with the labels named as in
    the model.

    Raises DataError for rows without labels, of another form, with other labels, or that the model may have been
    trained on.
    """
    task, target = assembly.task, assembly.config.task.target
    if isinstance(config.dataset, FilesDataset) and config.dataset.path and config.split is None:
        dataset = config.dataset.read_as(assembly.config.dataset)
        unsplit = replace(dataset, validation_fraction=0.0, test_fraction=0.0, label_names=task.labels or None)
        corpus, split = Corpus.load(unsplit, config.cache, target, whole=True), "all"
    else:
        corpus = Corpus.load(config.dataset or own_dataset(assembly), config.cache, target)
        split = config.split or corpus.scored_splits()[-1]
    corpus.split(split)
    if config.dataset is None:
        _check_unchanged(assembly, corpus, split)
    check_paired(assembly, corpus.paired)
    if not corpus.is_labelled(split):
        remedy = f"Run encoderlab predict run=... split={split} to write predictions"
        raise DataError(f"split={split} has no labels to score against", remedy=remedy)
    if corpus.splits.labels != task.labels and not _same_in_other_words(corpus.splits.labels, assembly):
        wrong = f"The dataset's labels are {corpus.splits.labels}, but the model predicts {task.labels}"
        raise DataError(wrong, allowed="the model's labels, in the same order (set it with dataset.label_names=[...])")
    return corpus, split


def _check_unchanged(assembly: Assembly, corpus: AnyCorpus, split: str) -> None:
    """Raise DataError if training rows may by now be in the split to score."""
    fingerprints = corpus.fingerprints()
    if any(fingerprints[name] != assembly.known_origin.fingerprints.get(name) for name in {"train", split}):
        wrong = "The dataset has changed since this model was trained, so training rows may now be in another split"
        raise DataError(wrong, remedy="To score on new rows, set dataset=files dataset.path=FILE")


def _same_in_other_words(labels: list[str], assembly: Assembly) -> bool:
    """Return whether a Hugging Face model means these labels: in another case, or as numbers starting with LABEL_0."""
    theirs = assembly.task.labels
    numbered = [f"LABEL_{number}" for number in range(len(labels))]
    same = theirs == numbered or [label.casefold() for label in theirs] == [label.casefold() for label in labels]
    return assembly.config.dataset is None and same
