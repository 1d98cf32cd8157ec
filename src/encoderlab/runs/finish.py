"""The end of a run: saves the model, scores the baselines, and writes and shows the report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from encoderlab.baselines.supervised import Baseline, NGramModel, baselines
from encoderlab.data.data import Data
from encoderlab.data.documents import Documents
from encoderlab.metrics.pretraining import PretrainingScores
from encoderlab.metrics.scores import PredictionScores, SplitScores
from encoderlab.models.explain import word_importance
from encoderlab.models.folder import save_model
from encoderlab.models.frozen import SHORTEST_RUN, frozen_vectors
from encoderlab.models.model import Model, Provenance
from encoderlab.reports import training as reports
from encoderlab.reports.cards import model_card
from encoderlab.reports.facts import conflicting_rows, labels_alike, shared_rows
from encoderlab.reports.slices import scores_by_column
from encoderlab.runs.fit import Result
from encoderlab.runs.load_data import pair_facts
from encoderlab.runs.prepared import PreparedRun
from encoderlab.runs.run import Run
from encoderlab.runs.scoring import Scored, novelty_of
from encoderlab.runs.summary import run_facts, summary_of
from encoderlab.system.device import return_freed_memory
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.tasks.pretraining import PretrainingConfig
from encoderlab.tasks.sentence_rows import SentenceRows
from encoderlab.training.batches import EVALUATION_SEED
from encoderlab.training.checkpoint import keep_only_weights
from encoderlab.training.occurring_rows import set_table_aside

_TOKENS_AT_A_TIME = 10_000_000


def finish(run: Run, prepared: PreparedRun, scored: Scored, result: Result) -> None:
    """Save the model, and write and show the report of a run; only clean-up and trackers follow.

    The model of `scored` is that of `prepared` with what scoring fitted on validation.
    """
    data = prepared.data
    model = scored.model
    if isinstance(data, Data) and not model.config.task.of_vectors:
        _finish_task(run, prepared, data, scored, result)
    else:
        _finish_encoder(run, prepared, data, model, scored.scores, result)
    if not model.config.training.keep_state and run.has_checkpoint:
        keep_only_weights(run.checkpoints_folder, {result.checkpoint["step"]})


def _finish_task(
    run: Run,
    prepared: PreparedRun,
    data: Data,
    scored: Scored,
    result: Result,
) -> None:
    """Save the model of a run on labelled rows, and write and show its report."""
    model = scored.model
    scores = cast("Mapping[str, PredictionScores]", scored.scores)
    config = model.config
    if not scores:  # of very few rows, none were held out; the other processes have left
        alone = replace(model, processes=SINGLE_PROCESS)
        scores = {"train": alone.evaluate_predictions(prepared.rows["train"])}
    # One split stands for the run: test, or the nearest to it that there is.
    split = reports.scored_split(scores)

    # What a reader of the scores should know about the run and the rows.
    survey = data.description()["splits"]
    about_rows = [shared_rows(split, survey[split]), labels_alike(survey["train"]["labels"]), conflicting_rows(survey)]
    # From the rules as set, which `prepared.model` still has: `model` has the thresholds that were fitted.
    notes = [*result.notes, *prepared.notes, *prepared.data_notes, *prepared.model.task.threshold_notes(scores)]
    notes += [note for note in about_rows if note]

    # What report.json says of the run besides scores, and the baselines on the same rows.
    init_from = config.starts_from
    summary = summary_of(config.command, model, result.checkpoint, result.throughput, notes, init_from=init_from)
    summary |= {"not_logged": result.not_logged} if result.not_logged else {}
    simple_models = _baselines(data, split, prepared.model, scored.on_ngrams)
    summary |= {"data_notes": prepared.data_notes, "choices": [*result.notes, *prepared.notes]}
    languages = prepared.languages
    if languages is not None:
        summary["languages"] = {languages.kind: dict(languages.shares), "of_encoder": languages.of_encoder}
    if scored.linear_branch is not None:
        summary["linear_branch"] = scored.linear_branch
    examples = data.split(split)
    columns = config.dataset.slice_columns
    if columns:
        summary["slices"] = scores_by_column(scores[split], examples.carried, columns, config.seed)
    report = reports.build_report(summary, scores, simple_models)
    facts = run_facts(run)

    # The model comes before the report, which says that the run is finished.
    longest_row = int(prepared.training.rows.epoch(EVALUATION_SEED, 0).lengths.max())
    model.provenance = Provenance(result.checkpoint, data.paired, data.fingerprints(), longest_row)
    head_alone = result.checkpoint.get("head_alone", {}).get("kept", False)
    model.novelty = novelty_of(model, prepared.rows, head_alone=head_alone)
    save_model(model, run.model_folder, model_card(report, facts, model.labels))

    # The report reads few rows of the token table, and its pictures need memory.
    set_table_aside(model.network, config.cache)
    return_freed_memory()
    reports.write_report(run.folder, report, facts, examples, scores[split], partial(word_importance, model))

    # What to do with it now.
    named = f"run={shlex.quote(str(run.folder))}"
    text = "text='...' text_pair='...'" if data.paired else "text='...'"
    commands = ("predict", "attention") if examples.holds_words else ("predict", "explain", "attention")
    following = [f"encoderlab {name} {named} {text}" for name in commands]
    following.append(f"encoderlab serve {named}")
    files = run.files("page", "report", "predictions", "plots", "model")
    reports.show_report(report, files, [] if run.is_nested else following)


def _baselines(data: Data, split: str, model: Model, on_ngrams: NGramModel | None) -> dict[str, Baseline]:
    """Return the baselines on a split; the linear ones of two classes get a threshold by the task's rule. A model
    `on_ngrams` has been fitted already, unless it is None.
    """
    config = model.config
    if not config.baselines or split == "train":
        return {}
    steps = config.training.steps
    if steps is not None and steps < SHORTEST_RUN:
        frozen = f"a run of {steps} steps is a trial, and reading all rows with an encoder would take longer"
    else:
        frozen = frozen_vectors(data.split("train"), config.tokenizer, model.compute)
    threshold, positive = config.task.two_class_rule(model.labels)
    return baselines(data, split, threshold, positive, frozen=frozen, on_ngrams=on_ngrams)


def _finish_encoder(
    run: Run,
    prepared: PreparedRun,
    data: Data | Documents,
    model: Model,
    scores: Mapping[str, SplitScores],
    result: Result,
) -> None:
    """Save an encoder without a task, and write and show its report."""
    config = model.config
    rows: Mapping[str, Any] = prepared.rows

    # What report.json says of the run besides scores.
    notes = [*result.notes, *prepared.notes, *prepared.data_notes]
    init_from = config.starts_from
    summary = summary_of(config.command, model, result.checkpoint, result.throughput, notes, init_from=init_from)
    summary |= {"not_logged": result.not_logged} if result.not_logged else {}
    summary["choices"] = [*result.notes, *prepared.notes]

    # The scores, with what each kind of encoder is compared with: nothing, guesses, or its teacher.
    if isinstance(data, Data):
        report = reports.run_report({**summary, "data_notes": prepared.data_notes}, scores)
    elif isinstance(config.task, PretrainingConfig):
        report = pretraining_report(summary, model, data, rows, cast("Mapping[str, PretrainingScores]", scores))
    else:
        teacher = str(getattr(config, "teacher", None))
        report = reports.run_report(summary, scores, teacher=teacher, pairs=pair_facts(rows["train"], data))
    facts = run_facts(run)

    # The model comes before the report, which says that the run is finished.
    model.provenance = Provenance(result.checkpoint, bool(model.labels), data.fingerprints())
    save_model(model, run.model_folder, model_card(report, facts))
    reports.write_encoder_report(run.folder, report, facts)

    # What to do with it now.
    folder = shlex.quote(str(run.folder))
    following = [
        f"encoderlab finetune task=intents init_from={folder}",
        f"encoderlab embed run={folder} input=texts.txt output=vectors.npy",
    ]
    reports.show_report(report, run.files("page", "report", "plots", "model"), following)


def pretraining_report(
    summary: Mapping[str, Any],
    model: Model,
    data: Documents,
    rows: Mapping[str, Any],
    scores: Mapping[str, PretrainingScores],
) -> dict[str, Any]:
    """Return report.json's content of an encoder scored on documents, with what guessing would score."""
    config = model.config
    assert isinstance(config.task, PretrainingConfig)
    split = list(scores)[-1]
    train = rows["train"].sample
    guessed: dict[str, Any] = {}
    if config.baselines:
        guessed = guessed_tokens(train, scores[split].token_labels) | guessed_pairs(train, rows[split])
    report = reports.run_report(
        summary,
        scores,
        baselines=guessed,
        second_sentence=config.task.second_sentence.value,
        pairs=pair_facts(rows["train"], data),
    )
    return report | {"verdict": reports.pretraining_verdict(report)}


def guessed_pairs(train: SentenceRows, scored: SentenceRows) -> dict[str, dict[str, float]]:
    """Return the accuracy of always predicting the more frequent label of training; {} without pairs."""
    if not train.paired:
        return {}
    labels, target_labels = (rows.epoch(EVALUATION_SEED, 0).pairs.labels for rows in (train, scored))
    return {"majority": {"nsp_accuracy": float((np.bincount(labels).argmax() == target_labels).mean())}}


def guessed_tokens(train: SentenceRows, target_labels: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return the scores of predicting by training's token counts alone; `target_labels` [targets] are the true ids.

    `most_frequent_token` always predicts the same id; `unigram` gives every id its share of the training tokens, after
    adding one to each count (Laplace) so that none is impossible. Its `mlm_loss` is in nats per token.
    """
    tokenizer = train.task.tokenizer
    counts = np.zeros(tokenizer.vocabulary_size, dtype=np.int64)
    ids = train.store["input_ids"].values
    for start in range(0, len(ids), _TOKENS_AT_A_TIME):
        counts += np.bincount(ids[start : start + _TOKENS_AT_A_TIME], minlength=len(counts))
    counts[list(tokenizer.special_ids)] = 0
    most_frequent = int(counts.argmax())
    loss = float(-np.log((counts + 1) / (counts.sum() + len(counts)))[target_labels].mean())
    return {
        "most_frequent_token": {
            "mlm_accuracy": float((target_labels == most_frequent).mean()),
            "token_id": most_frequent,
            "token": tokenizer.pieces([most_frequent])[0],
        },
        "unigram": {"mlm_loss": loss, "mlm_perplexity": float(np.exp(loss))},
    }
