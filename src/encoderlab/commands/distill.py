"""encoderlab distill: trains a small student to predict what a larger teacher predicts, and reports how close it comes."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from encoderlab.commands.train import train_on_labels
from encoderlab.config.commands import DistillConfig
from encoderlab.config.errors import required_setting
from encoderlab.distillation.student import check_start, start_student
from encoderlab.distillation.task import TaskDistillation
from encoderlab.distillation.teacher import VectorTeacher, teacher_fingerprints
from encoderlab.errors import SettingError
from encoderlab.metrics.pretraining import TeacherVectorsScores
from encoderlab.reports.cards import model_card
from encoderlab.reports.preparation import show_dry_run
from encoderlab.reports.pretraining import build_vectors_report, show_pretraining_report, write_pretraining_report
from encoderlab.runs.assembly import Assembly, assemble, cache_folder, compute_for
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.document_corpus import DocumentCorpus
from encoderlab.runs.dry_run import dry_run
from encoderlab.runs.fit import Fitted
from encoderlab.runs.fitting.training_run import Prepared, Training, refuse_endless, run_training
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.for_reports import commands_for_encoder, files_of, run_facts, summary_of
from encoderlab.runs.pretrained import Pretrained
from encoderlab.runs.saved_model import Origin, save_model
from encoderlab.runs.score import training_facts
from encoderlab.runs.trackers import Trackers
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import PretrainingConfig, TaggingConfig, TeacherVectorsConfig
from encoderlab.tasks.sentence_rows import SentenceRows
from encoderlab.tasks.teacher_vectors import TeacherVectors


def distill(config: DistillConfig, processes: Processes = SINGLE_PROCESS) -> RunFolder | None:
    """Train the student, score it, and write the run folder. Anything invalid is refused before the folder is created.

    The `processes` share the work. Raises SettingError, DataError or TrainingError, each with a remedy.
    """
    task = config.task
    if config.teacher is None:
        raise required_setting("teacher")
    if isinstance(task, PretrainingConfig):
        raise SettingError(
            f"task={task.name} is masked-language modelling and uses no teacher",
            remedy="Use task=teacher_vectors to distill on documents, or a task with labels such as task=sst2",
        )
    if not isinstance(task, TeacherVectorsConfig):
        return _on_a_task(config, processes)
    return run_training(_VectorDistillation(), config, processes)


def _on_a_task(config: DistillConfig, processes: Processes) -> RunFolder | None:
    """Train the student on a task's labels and its teacher's probabilities."""
    if config.task.target != "label":
        raise SettingError(
            f"task={config.task.name} has no class probabilities to learn from a teacher",
            allowed="tasks with one label for a text or a word",
            remedy="Use encoderlab finetune",
        )
    if processes.size > 1:
        raise SettingError(
            f"Distillation on a task needs a single process, and there are {processes.size}",
            remedy="Start one process, or distill on documents (task=teacher_vectors)",
        )

    def taught_by(config: DistillConfig, corpus: Corpus) -> TaskDistillation:
        return TaskDistillation(config, corpus, isinstance(config.task, TaggingConfig))

    return train_on_labels(config, "distill", processes, taught_by)


class _VectorDistillation(Training[DistillConfig]):
    """Distillation on documents: the student learns its teacher's vectors."""

    command = "distill"

    def check(self, config: DistillConfig) -> None:
        """See `Training.check`."""
        refuse_endless(config)

    def prepare(self, config: DistillConfig, pretrained: Pretrained | None, processes: Processes) -> Prepared:
        """See `Training.prepare`: the student with its teacher, and the documents."""
        task, self.config = config.task, config
        assert isinstance(task, TeacherVectorsConfig)
        resolved = config.model.resolve(None if pretrained is None else pretrained.config)
        compute = compute_for(replace(config, model=resolved), processes)
        assert config.teacher is not None
        teacher = VectorTeacher.open(config.teacher, compute)
        config = replace(config, task=replace(task, teacher_width=teacher.width))
        corpus = DocumentCorpus.load(config.dataset, task, cache_folder(config.cache_dir))
        scored = corpus.scored_splits()
        assembly = assemble(config, compute, corpus, pretrained, processes, teacher.encoder)
        assert isinstance(assembly.task, TeacherVectors)
        teacher.teach(assembly.task)
        rows: dict[str, Any] = {"train": corpus.training_rows(assembly.task, config.seed)}
        rows |= {name: corpus.rows(name, assembly.task) for name in scored}
        if pretrained is None:
            check_start(assembly.config.model, teacher.encoder.config, config.start)
        self.facts = training_facts(rows["train"], corpus)
        return Prepared(assembly, corpus, rows)

    def begin(self, prepared: Prepared) -> None:
        """See `Training.begin`: gives the student parts of its teacher, unless it has a pretrained encoder of its own."""
        if self.config.init_from is not None:
            return
        assembly = prepared.assembly
        assert isinstance(assembly.task, TeacherVectors)
        assert isinstance(assembly.task.teacher, VectorTeacher)
        encoder = assembly.task.teacher.encoder
        start_student(assembly.model, assembly.config.model, encoder, self.config.start)

    def show_dry_run(self, prepared: Prepared) -> None:
        """See `Training.show_dry_run`."""
        show_dry_run(dry_run(prepared.assembly, prepared.rows), "distill", sys.stdout)

    def fingerprints(self) -> dict[str, str]:
        """See `Training.fingerprints`."""
        return teacher_fingerprints(self.config)

    def report(self, prepared: Prepared, fitted: Fitted, folder: RunFolder, trackers: Trackers) -> None:
        """See `Training.report`."""
        assembly, rows, config = prepared.assembly, prepared.rows, self.config
        scores = {name: _scores(assembly, part) for name, part in rows.items() if name != "train"}
        assembly.processes.leave()
        if not assembly.processes.is_main:
            return
        assert isinstance(assembly.task, TeacherVectors)
        assert config.teacher is not None
        summary = summary_of("distill", assembly, fitted, config.init_from)
        report = build_vectors_report(summary, scores, teacher=config.teacher, pairs=self.facts)
        origin = Origin(fitted.checkpoint, False, prepared.corpus.fingerprints())
        facts = run_facts(folder, "distill")
        save_model(assembly.saved(origin), folder.model, model_card(report, facts))
        trackers.report(report)
        write_pretraining_report(folder.root, report, facts)
        files = files_of(folder, "page", "report", "plots", "model")
        show_pretraining_report(report, files, commands_for_encoder(folder))


def _scores(assembly: Assembly, rows: SentenceRows) -> TeacherVectorsScores:
    scores = assembly.evaluate(rows)
    assert isinstance(scores, TeacherVectorsScores)
    return scores
