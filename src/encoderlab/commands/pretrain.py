"""encoderlab pretrain: trains an encoder on documents, and reports how well it predicts masked tokens and next
sentences.
"""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

from encoderlab.config.commands import EvalConfig, PretrainConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics import PretrainingScores
from encoderlab.reports.cards import model_card
from encoderlab.reports.preparation import show_dry_run
from encoderlab.reports.pretraining import (
    build_pretraining_report,
    readable,
    show_pairs,
    show_pretraining_report,
    write_pretraining_report,
)
from encoderlab.runs.assembly import Assembly, assemble, cache_folder, compute_for, own_dataset, run_settings
from encoderlab.runs.document_corpus import DocumentCorpus
from encoderlab.runs.dry_run import dry_run
from encoderlab.runs.fit import Fitted
from encoderlab.runs.fitting.training_run import Prepared, Training, refuse_endless, run_training
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.for_reports import commands_for_encoder, files_of, run_facts, summary_of
from encoderlab.runs.journal import evaluation_throughput
from encoderlab.runs.predict import fill_masks
from encoderlab.runs.pretrained import Pretrained
from encoderlab.runs.records import announce, record_start
from encoderlab.runs.saved_model import Origin, save_model
from encoderlab.runs.score import guessed_pairs, guessed_tokens, pair_facts, training_facts
from encoderlab.runs.trackers import Trackers
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import PretrainingConfig
from encoderlab.tasks.pretraining import Pretraining
from encoderlab.tasks.sentence_rows import SentenceRows
from encoderlab.tasks.stream import sample_of
from encoderlab.training.batches import EVALUATION_SEED


def pretrain(config: PretrainConfig, processes: Processes = SINGLE_PROCESS) -> RunFolder | None:
    """Pretrain, score on held-out documents, and write the run folder. Anything invalid is refused before the folder is
    created.

    The `processes` share the work. Raises SettingError, DataError or TrainingError, each with a remedy.
    """
    return run_training(_Pretraining(), config, processes)


class _Pretraining(Training[PretrainConfig]):
    """Pretraining on documents, by masked tokens and sentence pairs."""

    command = "pretrain"

    def __init__(self) -> None:
        self.init_from = None
        self.pairs: dict[str, Any] = {}
        self.guessed: dict[str, dict[str, float]] = {}

    def check(self, config: PretrainConfig) -> None:
        """See `Training.check`."""
        _pretraining_task(config)
        refuse_endless(config)

    def prepare(self, config: PretrainConfig, pretrained: Pretrained | None, processes: Processes) -> Prepared:
        """See `Training.prepare`. Also prints what is known of the pairs before training begins."""
        self.init_from = config.init_from
        compute = compute_for(replace(config, model=run_settings(config, pretrained).model), processes)
        corpus = DocumentCorpus.load(config.dataset, _pretraining_task(config), cache_folder(config.cache_dir))
        scored = corpus.scored_splits()
        assembly = assemble(config, compute, corpus, pretrained, processes)
        rows: dict[str, Any] = {"train": corpus.training_rows(_task_of(assembly), config.seed)}
        rows |= {name: corpus.rows(name, _task_of(assembly)) for name in scored}
        if processes.is_main:
            sample = sample_of(rows["train"])
            self.pairs = training_facts(rows["train"], corpus)
            self.guessed = guessed_pairs(sample, list(rows.values())[-1]) if config.baselines else {}
            show_pairs(self.pairs, self.guessed)
        return Prepared(assembly, corpus, rows)

    def show_dry_run(self, prepared: Prepared) -> None:
        """See `Training.show_dry_run`."""
        show_dry_run(dry_run(prepared.assembly, prepared.rows), "pretrain", sys.stdout)

    def report(self, prepared: Prepared, fitted: Fitted, folder: RunFolder, trackers: Trackers) -> None:
        """See `Training.report`."""
        assembly, rows = prepared.assembly, prepared.rows
        scores = {name: _scores(assembly, part) for name, part in rows.items() if name != "train"}
        assembly.processes.leave()
        if not assembly.processes.is_main:
            return
        facts = _Facts("pretrain", self.pairs, self.guessed, self.init_from)
        report = _report(assembly, rows, scores, facts, fitted)
        origin = Origin(fitted.checkpoint, bool(assembly.task.labels), prepared.corpus.fingerprints())
        described = run_facts(folder, "pretrain")
        save_model(assembly.saved(origin), folder.model, model_card(report, described))
        trackers.report(report)
        write_pretraining_report(folder.root, report, described)
        files = files_of(folder, "page", "report", "plots", "model")
        show_pretraining_report(report, files, commands_for_encoder(folder))


def _pretraining_task(config: PretrainConfig) -> PretrainingConfig:
    if not isinstance(config.task, PretrainingConfig):
        raise SettingError(
            f"task={config.task.name} needs labels, which pretraining does not use",
            allowed="task=pretraining, task=wikipedia",
            remedy=f"Remove task, or run encoderlab train task={config.task.name}",
        )
    return config.task


def _task_of(assembly: Assembly) -> Pretraining:
    assert isinstance(assembly.task, Pretraining)
    return assembly.task


def _scores(assembly: Assembly, rows: SentenceRows) -> PretrainingScores:
    scores = assembly.evaluate(rows)
    assert isinstance(scores, PretrainingScores)
    return scores


def score_pretrained(config: EvalConfig, assembly: Assembly) -> RunFolder:
    """Score a pretraining run on a split of its documents, or of others; this is its `encoderlab eval`.

    Raises DataError if there is no such split, or if the run's own documents have changed.
    """
    processes = assembly.processes
    with processes.main_process_first():
        corpus, rows = _documents_to_score(config, assembly)
    split = list(rows)[-1]
    with processes.entered_by_main(lambda: RunFolder.new(config.run_dir, "eval", assembly.config.task.name)) as folder:
        if processes.is_main:
            record_start(folder, "eval", config, assembly.compute, corpus)
        announce((*assembly.choices, f"run folder {folder.root}"))
        started = time.perf_counter()
        scores = {split: _scores(assembly, rows[split])}
        processes.leave()
        if processes.is_main:
            _report_scores(config, assembly, corpus, rows, scores, folder, time.perf_counter() - started)
    return folder


def _documents_to_score(config: EvalConfig, assembly: Assembly) -> tuple[DocumentCorpus, dict[str, SentenceRows]]:
    """Return the documents, and the rows that were trained on and, last, those to score."""
    task = _task_of(assembly)
    corpus = DocumentCorpus.load(config.dataset or own_dataset(assembly), task.config, cache_folder(config.cache_dir))
    split = config.split or corpus.scored_splits()[-1]
    if split not in corpus.documents.by_name:
        raise DataError(f"split={split} is not in this dataset", allowed=", ".join(corpus.documents.by_name))
    found = corpus.fingerprints()
    if config.dataset is None and any(
        found[name] != assembly.opened.fingerprints.get(name) for name in {"train", split}
    ):
        raise DataError(
            "The documents have changed since this model was pretrained, so some may now be in another split",
            remedy="To score on new documents, set dataset=files dataset.path=FILE",
        )
    return corpus, {name: corpus.rows(name, task) for name in ("train", split)}


def _report_scores(
    config: EvalConfig,
    assembly: Assembly,
    corpus: DocumentCorpus,
    rows: dict[str, SentenceRows],
    scores: dict[str, PretrainingScores],
    folder: RunFolder,
    seconds: float,
) -> None:
    split = list(scores)[-1]
    tokens = int(rows[split].epoch(EVALUATION_SEED, 0).lengths.sum())
    speed = evaluation_throughput(tokens, len(rows[split]), seconds)
    facts = _Facts("eval", pair_facts(rows["train"], corpus), guessed_pairs(rows["train"], rows[split]), None)
    report = _report(assembly, rows, scores, facts, Fitted(assembly.opened.checkpoint, speed, []))
    write_pretraining_report(folder.root, report, run_facts(folder, "eval"))
    following = [f"encoderlab embed run={shlex.quote(config.run)} split={split} output=vectors.npy"]
    show_pretraining_report(report, files_of(folder, "page", "report"), following)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a report shows next to the scores: the command, the pairs, the baselines on them, and where the weights came
    from.
    """

    command: str
    pairs: dict[str, Any]
    guessed: dict[str, dict[str, float]]
    init_from: str | None


def _report(
    assembly: Assembly,
    rows: dict[str, SentenceRows],
    scores: dict[str, PretrainingScores],
    facts: _Facts,
    fitted: Fitted,
) -> dict[str, Any]:
    scored = list(scores)[-1]
    counted = guessed_tokens(sample_of(rows["train"]), scores[scored].token_labels) if assembly.config.baselines else {}
    return build_pretraining_report(
        summary_of(facts.command, assembly, fitted, facts.init_from),
        scores,
        counted | facts.guessed,
        pairs=facts.pairs,
        filled_masks=[readable(filled) for filled in fill_masks(assembly, rows[scored])],
        second_sentence=_task_of(assembly).config.second_sentence.value,
    )
