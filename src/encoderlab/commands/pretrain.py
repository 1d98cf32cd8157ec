"""encoderlab pretrain: from documents to an encoder that has seen much text, and a report of what it learned of it."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import Any

from encoderlab.command_settings import PretrainConfig
from encoderlab.device import choose_compute
from encoderlab.errors import SettingError
from encoderlab.reports.filled_masks import readable
from encoderlab.reports.pretraining_report import build_pretraining_report, pretraining_card, write_pretraining_report
from encoderlab.reports.pretraining_screen import show_pairs, show_pretraining_report
from encoderlab.runs.assembly import Assembly, assemble, cache_folder
from encoderlab.runs.document_corpus import DocumentCorpus
from encoderlab.runs.filling import fill_masks
from encoderlab.runs.fit import Fitted, fit
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.initial import Initial, open_initial
from encoderlab.runs.pair_facts import guessed_pairs, guessed_tokens, pair_facts
from encoderlab.runs.records import record_start
from encoderlab.runs.saved_model import Origin, save_model
from encoderlab.tasks.config import PretrainingConfig
from encoderlab.tasks.sentence_rows import SentenceRows


def pretrain(config: PretrainConfig) -> RunFolder:
    """Pretrain, score on held-out documents, and write the run folder; what can be refused is refused before it is made.

    Raises SettingError, DataError or TrainingError with what the user can do.
    """
    check_free(config.run_dir)
    task = _pretraining_task(config)
    initial = None if config.init_from is None else open_initial(config.init_from)
    config = replace(config, model=config.model.resolve(None if initial is None else initial.config))
    compute = choose_compute(config.training.device, config.training.precision.value, config.training.threads)
    corpus = DocumentCorpus.load(config.dataset, task, cache_folder(config.cache_dir))
    scored = corpus.scored_splits()
    assembly = assemble(config, compute, corpus, initial)
    rows = {name: corpus.rows(name, assembly.task) for name in ("train", *scored)}
    pairs = pair_facts(rows["train"], corpus)
    guessed = guessed_pairs(rows["train"], rows[scored[-1]]) if config.baselines else {}
    show_pairs(pairs, guessed)
    folder = RunFolder.create(config.run_dir, "pretrain", task.name)
    with folder.discarded_if_nothing_came_of_it():
        record_start(folder, config, compute, corpus)
        print(f"{assembly.model.n_parameters:,} parameters; {compute}; run folder {folder.root}", file=sys.stderr)
        _fit_and_report(assembly, corpus, rows, folder, pairs, guessed, initial)
    return folder


def _pretraining_task(config: PretrainConfig) -> PretrainingConfig:
    if not isinstance(config.task, PretrainingConfig):
        raise SettingError(
            f"task={config.task.name} asks for labels, and pretraining has none",
            allowed="task=pretraining, task=wikipedia",
            remedy=f"Leave task out, or type encoderlab train task={config.task.name}",
        )
    return config.task


def _fit_and_report(
    assembly: Assembly,
    corpus: DocumentCorpus,
    rows: dict[str, SentenceRows],
    folder: RunFolder,
    pairs: dict[str, Any],
    guessed: dict[str, dict[str, float]],
    initial: Initial | None,
) -> None:
    scored = [name for name in rows if name != "train"]
    fitted = fit(assembly, rows["train"], rows.get("validation"), folder)
    scores = {name: assembly.evaluate(rows[name]) for name in scored}
    counted = guessed_tokens(rows["train"], scores[scored[-1]].token_labels) if assembly.config.baselines else {}
    report = build_pretraining_report(
        task=assembly.config.task.name,
        seed=assembly.config.seed,
        parameters={"total": assembly.model.n_parameters, **assembly.model.parameters_by_part()},
        splits=scores,
        baselines=counted | guessed,
        throughput=fitted.throughput,
        checkpoint=fitted.checkpoint,
        notes=fitted.notes,
        pairs=pairs,
        filled_masks=[readable(filled) for filled in fill_masks(assembly, rows[scored[-1]])],
        second_sentence=assembly.config.task.second_sentence.value,
        init_from=None if initial is None else initial.name,
    )
    _write(assembly, corpus, folder, report, fitted)


def _write(assembly: Assembly, corpus: DocumentCorpus, folder: RunFolder, report: dict[str, Any], fitted: Fitted) -> None:
    origin = Origin(fitted.checkpoint, bool(assembly.task.labels), corpus.fingerprints())
    save_model(assembly, folder.model, origin, pretraining_card(report))
    write_pretraining_report(folder, report)
    paths = {"report": str(folder.report), "plots": str(folder.plots), "model": str(folder.model)}
    root = shlex.quote(str(folder.root))
    following = [f"encoderlab finetune task=docs init_from={root}", f"encoderlab export run={root} path=exported"]
    show_pretraining_report(report, paths, following)
