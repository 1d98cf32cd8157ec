"""encoderlab pretrain: trains an encoder on documents to predict masked tokens and next sentences."""

import shlex
from collections.abc import Mapping
from typing import Any, cast

from encoderlab.config.commands import PretrainConfig, RunConfig
from encoderlab.errors import SettingError
from encoderlab.metrics.pretraining import PretrainingScores
from encoderlab.reports import training as reports
from encoderlab.reports.cards import model_card
from encoderlab.runs.assembly import Assembly, assemble, load_init_from, resolve_training
from encoderlab.runs.corpus import DocumentCorpus, guessed_pairs, guessed_tokens, pair_facts
from encoderlab.runs.fit import Fitted, dry_run, fit
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.records import Run, beginning_of, files_of, open_run, run_facts, summary_of
from encoderlab.runs.saved_model import Origin, save_model
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import PretrainingConfig
from encoderlab.tasks.pretraining import DocumentTask
from encoderlab.tasks.stream import sample_of


def pretrain(config: PretrainConfig, processes: Processes = SINGLE_PROCESS) -> RunFolder | None:
    """Pretrain, score on held-out documents, and write the run folder. Anything invalid is refused before the folder is
    created.

    The `processes` share the work. Raises SettingError, DataError or TrainingError, each with a remedy.
    """
    task = config.task
    if not isinstance(task, PretrainingConfig):
        wrong = f"task={task.name} needs labels, which pretraining does not use"
        raise SettingError(wrong, remedy=f"Remove task, or run encoderlab train task={task.name}")
    refuse_endless(config)
    config, beginning = beginning_of(config, "pretrain", processes)
    pretrained = load_init_from(config, processes)
    with processes.main_process_first():
        corpus = DocumentCorpus.load(config.dataset, cast("PretrainingConfig", config.task), config.cache)
        scored = corpus.scored_splits()
        assembly = assemble(config, corpus, pretrained, processes)
        rows = document_rows(corpus, assembly, scored)
        pairs = pair_facts(rows["train"], corpus)
        guessed = guessed_pairs(sample_of(rows["train"]), rows[scored[-1]]) if config.baselines else {}
        reports.show_pairs(pairs, guessed)
    del pretrained  # its weights are as large as the model's
    assembly = resolve_training(assembly, rows)
    if config.dry_run:
        return dry_run(assembly, rows, "pretrain")
    with open_run("pretrain", assembly, corpus, rows, config=config, beginning=beginning) as run:
        fitted = fit(assembly, rows, run.folder)
        scores = {name: cast("PretrainingScores", assembly.evaluate(rows[name])) for name in scored}
        processes.leave()
        if processes.is_main:
            summary = summary_of("pretrain", assembly, fitted, config.init_from)
            report = pretraining_report(summary, assembly, rows, scores, pairs=pairs, guessed=guessed)
            save_encoder(run, assembly, corpus, fitted, report)
    return run.folder


def refuse_endless(config: RunConfig) -> None:
    """Raise SettingError if a stream, which has no end, is to be read for a number of epochs."""
    if config.dataset.is_stream and config.training.steps is None and config.training.budget is None:
        wrong = "dataset.streaming=true has no end, and neither training.steps nor training.budget is set"
        raise SettingError(wrong, remedy="Set training.steps=100000, or training.budget=12h")


def document_rows(corpus: DocumentCorpus, assembly: Assembly, scored: list[str]) -> dict[str, Any]:
    """Return the rows of `train`, perhaps a stream, and of the `scored` splits."""
    task = cast("DocumentTask", assembly.task)
    train = corpus.training_rows(task, assembly.config.seed)
    return {"train": train, **{name: corpus.rows(name, task) for name in scored}}


def pretraining_report(
    summary: Mapping[str, Any],
    assembly: Assembly,
    rows: Mapping[str, Any],
    scores: Mapping[str, PretrainingScores],
    *,
    pairs: dict[str, Any],
    guessed: dict[str, dict[str, float]],
) -> dict[str, Any]:
    """Return report.json's content of an encoder scored on documents, with baselines."""
    split, config = list(scores)[-1], assembly.config
    assert isinstance(config.task, PretrainingConfig)
    tokens = guessed_tokens(sample_of(rows["train"]), scores[split].token_labels) if config.baselines else {}
    second = config.task.second_sentence.value
    report = reports.run_report(summary, scores, baselines=tokens | guessed, second_sentence=second, pairs=pairs)
    return report | {"verdict": reports.pretraining_verdict(report)}


def save_encoder(run: Run, assembly: Assembly, corpus: DocumentCorpus, fitted: Fitted, report: dict[str, Any]) -> None:
    """Save an encoder trained on documents, and write and show its report."""
    folder, facts = run.folder, run_facts(run.folder, run.command)
    origin = Origin(fitted.checkpoint, bool(assembly.task.labels), corpus.fingerprints())
    save_model(assembly.saved(origin), folder.model, model_card(report, facts))
    reports.write_encoder_report(folder.root, report, facts)
    root = shlex.quote(str(folder.root))
    next_commands = [
        f"encoderlab finetune task=intents init_from={root}",
        f"encoderlab embed run={root} input=texts.txt output=vectors.npy",
    ]
    reports.show_report(report, files_of(folder, "page", "report", "plots", "model"), next_commands)
    run.drop_state(fitted.checkpoint["step"])
