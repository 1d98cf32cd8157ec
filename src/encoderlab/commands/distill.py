"""encoderlab distill: trains a small student to predict what a larger teacher predicts, and says how close it comes."""

from dataclasses import replace
from typing import Any, cast

from encoderlab.commands.pretrain import document_rows, refuse_endless, save_encoder
from encoderlab.commands.train import encoded_splits, load_examples, report_on_labels
from encoderlab.config.commands import DistillConfig
from encoderlab.config.composing import required_setting
from encoderlab.errors import SettingError
from encoderlab.metrics.pretraining import TeacherVectorsScores
from encoderlab.reports.facts import show_survey
from encoderlab.reports.training import run_report
from encoderlab.runs.assembly import Assembly, assemble, load_init_from, resolve_training
from encoderlab.runs.corpus import Corpus, DocumentCorpus, pair_facts
from encoderlab.runs.distillation import TaskTeacher, fingerprints, start_student, taught_rows, teach_vectors
from encoderlab.runs.fit import dry_run, fit, score_splits
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.records import beginning_of, open_run, summary_of
from encoderlab.runs.saved_model import SavedModel, load_pretrained
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import PretrainingConfig, TaskConfig, TeacherVectorsConfig
from encoderlab.tasks.pretraining import TeacherVectors


def distill(config: DistillConfig, processes: Processes = SINGLE_PROCESS) -> RunFolder | None:
    """Train the student, score it, and write the run folder. Anything invalid is refused before the folder is created.

    The `processes` share the work. Raises SettingError, DataError or TrainingError, each with a remedy.
    """
    if config.teacher is None:
        raise required_setting("teacher")
    learns_vectors = isinstance(config.task, TeacherVectorsConfig)
    if learns_vectors:
        refuse_endless(config)
    else:
        _check_task(config.task, processes)
    config, beginning = beginning_of(config, "distill", processes)
    pretrained = load_init_from(config, processes)
    with processes.main_process_first():
        prepare = _prepare_documents if learns_vectors else _prepare_examples
        config, assembly, corpus, rows = prepare(config, pretrained, processes)
    del pretrained  # its weights are as large as the model's
    assembly = resolve_training(assembly, rows)
    if config.dry_run:
        return dry_run(assembly, rows, "distill")
    files = fingerprints(config)
    with open_run("distill", assembly, corpus, rows, config=config, beginning=beginning, files=files) as run:
        fitted = fit(assembly, rows, run.folder)
        if isinstance(corpus, Corpus):
            assembly, scores = score_splits(assembly, rows)
            report_on_labels(run, assembly, corpus, rows, fitted, scores)
            return run.folder
        scores = {name: cast("TeacherVectorsScores", assembly.evaluate(rows[name])) for name in corpus.scored_splits()}
        processes.leave()
        if processes.is_main:
            summary = summary_of("distill", assembly, fitted, config.init_from)
            texts = pair_facts(rows["train"], corpus)
            report = run_report(summary, scores, teacher=str(config.teacher), pairs=texts)
            save_encoder(run, assembly, corpus, fitted, report)
    return run.folder


def _check_task(task: TaskConfig, processes: Processes) -> None:
    """Raise SettingError for a task without class probabilities, and for several processes."""
    if isinstance(task, PretrainingConfig):
        remedy = "Use task=teacher_vectors to distill on documents, or a task with labels such as task=sst2"
        raise SettingError(f"task={task.name} is masked-language modelling and uses no teacher", remedy=remedy)
    if task.target != "label":
        wrong = f"task={task.name} has no class probabilities to learn from a teacher"
        raise SettingError(wrong, remedy="Use encoderlab finetune, or a task with one label for a text or a word")
    if processes.size > 1:
        wrong = f"Distillation on a task needs a single process, and there are {processes.size}"
        raise SettingError(wrong, remedy="Start one process, or distill on documents (task=teacher_vectors)")


def _prepare_examples(
    config: DistillConfig, pretrained: SavedModel | None, processes: Processes
) -> tuple[DistillConfig, Assembly, Corpus, dict[str, Any]]:
    """Load a task's rows, those of `train` with the teacher's probabilities, and assemble the student."""
    config, corpus = load_examples(config)
    scored = corpus.scored_splits()
    show_survey(corpus.description()["splits"])
    teacher = TaskTeacher.open(config, corpus)
    encoder = None if pretrained else load_pretrained(str(config.teacher), "teacher")
    assembly = assemble(config, corpus, pretrained, processes, encoder)
    rows = encoded_splits(corpus, assembly.task, scored)
    if encoder is not None:
        start_student(assembly, encoder, config.start)
    return config, assembly, corpus, rows | {"train": taught_rows(config, teacher, assembly, corpus, rows["train"])}


def _prepare_documents(
    config: DistillConfig, pretrained: SavedModel | None, processes: Processes
) -> tuple[DistillConfig, Assembly, DocumentCorpus, dict[str, Any]]:
    """Load documents, and assemble a student that learns the teacher's vectors of them."""
    assert config.teacher is not None and isinstance(config.task, TeacherVectorsConfig)
    teacher = load_pretrained(config.teacher, "teacher")
    task = replace(config.task, teacher_width=teacher.config.model.d_model)
    config = replace(config, task=task)
    corpus = DocumentCorpus.load(config.dataset, task, config.cache)
    scored = corpus.scored_splits()
    assembly = assemble(config, corpus, pretrained, processes, teacher)
    teach_vectors(cast("TeacherVectors", assembly.task), teacher, assembly.compute)
    if pretrained is None:
        start_student(assembly, teacher, config.start)
    return config, assembly, corpus, document_rows(corpus, assembly, scored)
