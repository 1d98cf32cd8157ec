"""The end of a run: saves the model, scores the baselines, and writes and shows the report."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from encoderlab.baselines.supervised import Baseline, NGramModel, baselines
from encoderlab.data.corpus import Corpus
from encoderlab.data.examples import Split
from encoderlab.metrics.pretraining import PretrainingScores
from encoderlab.metrics.scores import SplitScores
from encoderlab.models.explain import word_importance
from encoderlab.models.folder import save_model
from encoderlab.models.frozen import frozen_vectors
from encoderlab.models.model import Model, Provenance
from encoderlab.reports import training as reports
from encoderlab.reports.cards import model_card
from encoderlab.reports.facts import RunFacts, conflicting_rows, labels_alike, shared_rows
from encoderlab.reports.slices import scores_by_column
from encoderlab.runs.fit import Result
from encoderlab.runs.prepared import PreparedRun
from encoderlab.runs.run import Run
from encoderlab.runs.scoring import Scored, novelty_of
from encoderlab.runs.summary import run_facts, summary_of
from encoderlab.system.device import return_freed_memory
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.tasks.sentence_rows import SentenceRows
from encoderlab.training.batches import EVALUATION_SEED
from encoderlab.training.checkpoint import keep_only_weights
from encoderlab.training.occurring_rows import set_table_aside

_TOKENS_AT_A_TIME = 10_000_000


@dataclass(frozen=True, slots=True)
class _Ending:
    """What differs at the end of runs by what they have learned: a task on labelled rows, or an encoder.

    `report` is the content of report.json. `write` writes it with the other files of the report, of which the run lists
    `files`, and `commands` are lines to copy. With the model is saved whether a row is `paired`, and the length of
    the `longest_row`.
    """

    report: dict[str, Any]
    write: Callable[[RunFacts], None]
    files: tuple[str, ...]
    commands: list[str]
    paired: bool
    longest_row: int | None = None


def finish(run: Run, prepared: PreparedRun, scored: Scored, result: Result) -> None:
    """Save the model, and write and show the report of a run; only clean-up and trackers follow.

    The model of `scored` is that of `prepared` with what scoring fitted on validation.
    """
    model = scored.model
    config = model.config

    # What report.json says of any run besides scores.
    notes = [*result.notes, *prepared.notes, *prepared.data_notes]
    init_from = config.starts_from
    summary = summary_of(config.command, model, result.checkpoint, result.throughput, notes, init_from=init_from)
    summary |= {"not_logged": result.not_logged} if result.not_logged else {}
    summary["choices"] = [*result.notes, *prepared.notes]
    if prepared.pairs is None:
        summary["data_notes"] = prepared.data_notes

    # Its scores, and what they are compared with.
    if config.task.trains_encoder:
        ending = _encoder_ending(run, prepared, scored, summary)
    else:
        ending = _task_ending(run, prepared, scored, summary)
    facts = run_facts(run)

    # The model comes before the report, which says that the run is finished.
    fingerprints = prepared.data.fingerprints()
    model.provenance = Provenance(result.checkpoint, ending.paired, fingerprints, ending.longest_row)
    head_alone = result.checkpoint.get("head_alone", {}).get("kept", False)
    model.novelty = novelty_of(model, prepared.rows, head_alone=head_alone)
    save_model(model, run.model_folder, model_card(ending.report, facts, model.labels))
    ending.write(facts)

    # What to do with it now.
    reports.show_report(ending.report, run.files(*ending.files), ending.commands)
    if not config.training.keep_state and run.has_checkpoint:
        keep_only_weights(run.checkpoints_folder, {result.checkpoint["step"]})


def _task_ending(run: Run, prepared: PreparedRun, scored: Scored, summary: dict[str, Any]) -> _Ending:
    """Return the end of a run on labelled rows, whose predictions are compared with those of simple models."""
    data = prepared.data
    model = scored.model
    scores = scored.predictions
    config = model.config
    if not scores:  # of very few rows, none were held out; the other processes have left
        alone = replace(model, processes=SINGLE_PROCESS)
        scores = {"train": alone.evaluate_predictions(prepared.rows["train"])}
    # One split stands for the run: test, or the nearest to it that there is.
    split = reports.scored_split(scores)
    examples: Split = data.split(split)

    # What a reader of the scores should know about the run and the rows.
    survey = data.description()["splits"]
    about_rows = [shared_rows(split, survey[split]), labels_alike(survey["train"]["labels"]), conflicting_rows(survey)]
    # From the rules as set, which `prepared.model` still has: `model` has the thresholds that were fitted.
    notes = [*summary["notes"], *prepared.model.task.threshold_notes(scores)]
    summary = summary | {"notes": [*notes, *(note for note in about_rows if note)]}

    # What report.json says of the rows, and the baselines on the same ones.
    simple_models = _baselines(data, split, prepared.model, scored.on_ngrams)
    languages = prepared.languages
    if languages is not None:
        summary["languages"] = {languages.kind: dict(languages.shares), "of_encoder": languages.of_encoder}
    if scored.linear_branch is not None:
        summary["linear_branch"] = scored.linear_branch
    columns = config.dataset.slice_columns
    if columns:
        summary["slices"] = scores_by_column(scores[split], examples.carried, columns, config.seed)
    report = reports.build_report(summary, scores, simple_models)

    def write(facts: RunFacts) -> None:
        # The report reads few rows of the token table, and its pictures need memory.
        set_table_aside(model.network, config.cache)
        return_freed_memory()
        reports.write_report(run.folder, report, facts, examples, scores[split], partial(word_importance, model))

    named = f"run={shlex.quote(str(run.folder))}"
    text = "text='...' text_pair='...'" if data.paired else "text='...'"
    names = ("predict", "attention") if examples.holds_words else ("predict", "explain", "attention")
    commands = [*(f"encoderlab {name} {named} {text}" for name in names), f"encoderlab serve {named}"]
    return _Ending(
        report,
        write,
        files=("page", "report", "predictions", "plots", "model"),
        commands=[] if run.is_nested else commands,
        paired=data.paired,
        longest_row=int(prepared.training.rows.epoch(EVALUATION_SEED, 0).lengths.max()),
    )


def _baselines(data: Corpus, split: str, model: Model, on_ngrams: NGramModel | None) -> dict[str, Baseline]:
    """Return the baselines on a split; the linear ones of two classes get a threshold by the task's rule. A model
    `on_ngrams` has been fitted already, unless it is None.
    """
    config = model.config
    if not config.baselines or split == "train":
        return {}
    if config.training.is_trial:
        frozen = (
            f"a run of {config.training.steps} steps is a trial, and reading all rows with an encoder would take longer"
        )
    else:
        frozen = frozen_vectors(data.split("train"), config.tokenizer, model.compute)
    threshold, positive = config.task.two_class_rule(model.labels)
    return baselines(data, split, threshold, positive, frozen=frozen, on_ngrams=on_ngrams)


def _encoder_ending(run: Run, prepared: PreparedRun, scored: Scored, summary: dict[str, Any]) -> _Ending:
    """Return the end of a run that has trained an encoder without a task."""
    model = scored.model
    report = encoder_report(summary, model, prepared.rows, scored.scores, prepared.pairs)
    folder = shlex.quote(str(run.folder))
    return _Ending(
        report,
        partial(reports.write_encoder_report, run.folder, report),
        files=("page", "report", "plots", "model"),
        commands=[
            f"encoderlab finetune task=intents init_from={folder}",
            f"encoderlab embed run={folder} input=texts.txt output=vectors.npy",
        ],
        paired=bool(model.labels),  # an encoder has labels only if it was trained to judge pairs
    )


def encoder_report(
    summary: Mapping[str, Any],
    model: Model,
    rows: Mapping[str, Any],
    scores: Mapping[str, SplitScores],
    pairs: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Return report.json's content of an encoder: its scores, with its teacher if it has one; masked tokens and pairs
    of texts are compared with what guessing would score. `pairs` are statistics of documents (None: labelled rows).
    """
    own: dict[str, Any] = {} if pairs is None else {"pairs": pairs}
    teacher = getattr(model.config, "teacher", None)
    if teacher is not None:
        own["teacher"] = teacher
    split = reports.scored_split(scores)
    guessable = scores[split]
    if isinstance(guessable, PretrainingScores):
        train = rows["train"].sample
        if model.config.baselines:
            own["baselines"] = guessed_tokens(train, guessable.token_labels) | guessed_pairs(train, rows[split])
        own["second_sentence"] = "none" if guessable.pairs_right is None else "next"
    report = reports.run_report(summary, scores, **own)
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
