"""encoderlab eval: the scores of a finished run on a split of its dataset, or of another one."""

from __future__ import annotations

import sys
import time
from typing import Any

from encoderlab.config import EvalConfig
from encoderlab.errors import DataError
from encoderlab.reports.report import build_report
from encoderlab.reports.screen import show_report
from encoderlab.reports.written import write_report
from encoderlab.runs.assembly import Assembly, cache_folder, reopen
from encoderlab.runs.batches import truncated_share
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.folder import RunFolder, check_free
from encoderlab.runs.records import record_start


def eval(config: EvalConfig) -> RunFolder:
    """Score the run and write a run folder of its own. Raises DataError where the split has no labels or other ones."""
    check_free(config.run_dir)
    assembly = reopen(config)
    corpus = Corpus.load(config.dataset or assembly.config.dataset, cache_folder(config.cache_dir))
    split = config.split or corpus.scored_splits()[-1]
    _check_labels(assembly, corpus, split)
    store = corpus.store(split, assembly.task)
    folder = RunFolder.create(config.run_dir, "eval", assembly.config.task.name)
    record_start(folder, config, assembly.compute, corpus)
    print(f"{assembly.compute}; run folder {folder.root}", file=sys.stderr)

    started = time.perf_counter()
    scores = assembly.evaluate(store)
    seconds = time.perf_counter() - started
    cut = truncated_share(store)
    notes = [f"{cut:.1%} of the rows were cut to model.max_length={assembly.config.model.max_length} tokens"] if cut else []
    report = build_report(
        command="eval",
        task=assembly.config.task.name,
        seed=assembly.config.seed,
        parameters={"total": assembly.model.n_parameters, **assembly.model.parameters_by_part()},
        splits={split: scores},
        baselines={},
        throughput=_throughput(store["input_ids"].lengths().sum(), len(store), seconds),
        checkpoint=_checkpoint(assembly, config),
        notes=notes,
    )
    write_report(folder, report, corpus.split(split), scores)
    paths = {"report": str(folder.report), "predictions": str(folder.predictions), "plots": str(folder.plots)}
    show_report(report, paths, [f"encoderlab predict run={config.run} text='...'"])
    return folder


def _check_labels(assembly: Assembly, corpus: Corpus, split: str) -> None:
    """Refuse a split without answers, and a dataset whose label ids mean something else than the model's."""
    corpus.split(split)
    if not corpus.labelled(split):
        raise DataError(
            f"split={split} has no labels, so there is nothing to score against",
            remedy=f"Type encoderlab predict run=... split={split} to write predictions (format=glue for GLUE's server)",
        )
    if corpus.splits.labels != assembly.task.labels:
        raise DataError(
            f"The dataset's labels are {corpus.splits.labels}, and the model answers with {assembly.task.labels}",
            remedy=f"Name them in the model's order: dataset.label_names=[{','.join(assembly.task.labels)}]",
        )


def _checkpoint(assembly: Assembly, config: EvalConfig) -> dict[str, Any]:
    """How the weights were chosen; rows of another dataset had no say in it, whatever their split is called."""
    if config.dataset is None or assembly.checkpoint["chosen_on"] is None:
        return assembly.checkpoint
    return {**assembly.checkpoint, "chosen_on": f"{assembly.checkpoint['chosen_on']} of the dataset it was trained on"}


def _throughput(tokens: Any, examples: int, seconds: float) -> dict[str, float]:
    seconds = max(seconds, 1e-9)
    return {
        "tokens_per_second": round(float(tokens) / seconds, 1),
        "examples_per_second": round(examples / seconds, 1),
        "evaluation_seconds": round(seconds, 2),
    }
