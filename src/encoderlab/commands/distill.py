"""encoderlab distill: trains a small student to predict what a larger teacher predicts, and reports how
close it comes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from encoderlab.commands.pretrain import document_rows, refuse_endless, save_encoder
from encoderlab.commands.train import encoded_splits, load_examples, report_on_labels
from encoderlab.config.commands import DistillConfig
from encoderlab.config.errors import required_setting
from encoderlab.distillation.student import start_student
from encoderlab.distillation.task import TaskTeacher, taught_rows
from encoderlab.distillation.teacher import VectorTeacher, teacher_fingerprints
from encoderlab.errors import SettingError
from encoderlab.metrics.pretraining import TeacherVectorsScores
from encoderlab.reports.preparation import show_survey
from encoderlab.reports.pretraining import build_vectors_report
from encoderlab.runs.assembly import assemble, cache_folder, compute_for, load_start, settle
from encoderlab.runs.document_corpus import DocumentCorpus
from encoderlab.runs.dry_run import dry_run
from encoderlab.runs.fit import fit
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.pretrained import load_pretrained
from encoderlab.runs.records import open_run, resumed_or_new, summary_of
from encoderlab.runs.score import score_splits, training_facts
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import PretrainingConfig, TeacherVectorsConfig
from encoderlab.tasks.teacher_vectors import TeacherVectors


def distill(config: DistillConfig, processes: Processes = SINGLE_PROCESS) -> RunFolder | None:
    """Train the student, score it, and write the run folder. Anything invalid is refused before the folder is created.

    The `processes` share the work. Raises SettingError, DataError or TrainingError, each with a remedy.
    """
    if config.teacher is None:
        raise required_setting("teacher")
    if isinstance(config.task, TeacherVectorsConfig):
        return distill_on_documents(config, processes)
    if isinstance(config.task, PretrainingConfig):
        raise SettingError(
            f"task={config.task.name} is masked-language modelling and uses no teacher",
            remedy="Use task=teacher_vectors to distill on documents, or a task with labels such as task=sst2",
        )
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
    return distill_on_task(config)


def distill_on_task(config: DistillConfig) -> RunFolder | None:
    """Train the student on a task's labels and its teacher's probabilities."""
    config, resumed = resumed_or_new(config, "distill", SINGLE_PROCESS)
    assert config.teacher is not None
    pretrained = load_start(config, SINGLE_PROCESS)
    corpus = load_examples(config)
    scored = corpus.scored_splits()
    show_survey(corpus.survey.as_dict())
    teacher = TaskTeacher.open(config, corpus)
    encoder = None if pretrained else load_pretrained(config.teacher, "teacher")
    compute = compute_for(config, pretrained)  # last: opening the teacher has changed threads and kernels
    assembly = assemble(config, compute, corpus, pretrained, teacher=encoder)
    rows = encoded_splits(corpus, assembly.task, scored)
    if encoder is not None:
        start_student(assembly, encoder, config.start)
    rows["train"] = taught_rows(config, teacher, assembly, corpus, rows["train"])
    assembly = settle(assembly, rows)
    if config.dry_run:
        return dry_run(assembly, rows, "distill")
    files = teacher_fingerprints(config)
    with open_run("distill", assembly, corpus, rows, config=config, resumed=resumed, files=files) as run:
        fitted = fit(assembly, rows, run.folder, run.trackers)
        assembly, scores = score_splits(assembly, rows)
        report_on_labels(run, assembly, corpus, rows, fitted, scores)
    return run.folder


def distill_on_documents(config: DistillConfig, processes: Processes) -> RunFolder | None:
    """Train the student on its teacher's vectors of documents."""
    refuse_endless(config)
    config, resumed = resumed_or_new(config, "distill", processes)
    assert config.teacher is not None and isinstance(config.task, TeacherVectorsConfig)
    pretrained = load_start(config, processes)
    with processes.main_process_first():
        compute = compute_for(config, pretrained, processes)
        teacher = VectorTeacher.open(config.teacher, compute)
        task = replace(config.task, teacher_width=teacher.width)
        config = replace(config, task=task)
        corpus = DocumentCorpus.load(config.dataset, task, cache_folder(config.cache_dir))
        scored = corpus.scored_splits()
        assembly = assemble(config, compute, corpus, pretrained, processes, teacher.encoder)
        teacher.teach(cast("TeacherVectors", assembly.task))
        if pretrained is None:
            start_student(assembly, teacher.encoder, config.start)
        rows = document_rows(corpus, assembly, scored)
        texts = training_facts(rows["train"], corpus)
    assembly = settle(assembly, rows)
    if config.dry_run:
        return dry_run(assembly, rows, "distill")
    files = teacher_fingerprints(config)
    with open_run("distill", assembly, corpus, rows, config=config, resumed=resumed, files=files) as run:
        fitted = fit(assembly, rows, run.folder, run.trackers)
        scores = {name: cast("TeacherVectorsScores", assembly.evaluate(rows[name])) for name in scored}
        processes.leave()
        if processes.is_main:
            summary = summary_of("distill", assembly, fitted, config.init_from)
            report = build_vectors_report(summary, scores, teacher=str(config.teacher), pairs=texts)
            save_encoder(run, assembly, corpus, fitted, report)
    return run.folder
