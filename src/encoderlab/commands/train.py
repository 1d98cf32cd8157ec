"""encoderlab train: trains an encoder from a config, and reports how good it is."""

import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import cast

from encoderlab.baselines.supervised import Baseline, baselines
from encoderlab.config.commands import RunConfig
from encoderlab.data.dataset import ColumnDataset
from encoderlab.errors import SettingError
from encoderlab.metrics.scores import PredictionScores
from encoderlab.reports.cards import model_card
from encoderlab.reports.facts import conflicting_rows, labels_alike, shared_rows, show_survey
from encoderlab.reports.training import build_report, scored_split, show_report, write_report
from encoderlab.runs.assembly import Assembly, assemble, few_rows_note, has_few_rows, load_init_from, resolve_training
from encoderlab.runs.corpus import Corpus, reading_notes
from encoderlab.runs.explain import word_importance
from encoderlab.runs.fit import Fitted, dry_run, fit, score_splits, threshold_notes
from encoderlab.runs.folder import RunFolder
from encoderlab.runs.frozen import frozen_vectors, set_linear_head, wants_linear_head
from encoderlab.runs.records import Config, Run, beginning_of, files_of, open_run, run_facts, summary_of
from encoderlab.runs.saved_model import Origin, save_model
from encoderlab.runs.task import build_task, uneven_note
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import DocumentTaskConfig, MultilabelConfig, PretrainingConfig
from encoderlab.tasks.rows import ExampleRows
from encoderlab.tasks.task import Task
from encoderlab.tasks.texts import Classification
from encoderlab.training.batches import EVALUATION_SEED, Rows

LINEAR_HEAD = "The head was initialised with a logistic regression on the vectors of the encoder"
SHORTEST_RUN = 100  # steps: a shorter run has no frozen encoder as a baseline


def train(config: RunConfig, processes: Processes = SINGLE_PROCESS) -> RunFolder | None:
    """Train, score, and write the run folder. Anything invalid is refused before the folder is created.

    With `config.dry_run` no folder is written; an estimate of the run is printed. The `processes` share the work.
    Raises SettingError, DataError or TrainingError, each with a remedy.
    """
    return train_on_labels(config, "train", processes)


def train_on_labels(
    config: RunConfig, command: str, processes: Processes, finish: Callable[..., None] | None = None
) -> RunFolder | None:
    """Train and score from fresh weights, or from the pretrained encoder in `config.starts_from`.

    `finish` (the scikit-learn estimators keep the model in memory) takes the place of `report_on_labels`; no split then
    needs to be scored.
    """
    if isinstance(config.task, DocumentTaskConfig):
        other = "pretrain" if isinstance(config.task, PretrainingConfig) else "distill"
        raise SettingError(f"task={config.task.name} has no labels to learn", remedy=f"Run encoderlab {other}")
    if config.folds is not None:
        from encoderlab.runs.folds import cross_validate

        return cross_validate(config, command, processes, train_on_labels)
    config, beginning = beginning_of(config, command, processes)
    pretrained = load_init_from(config, processes)
    with processes.main_process_first():
        config, corpus = load_examples(config, scored=finish is None)
        if finish is None:
            scored = corpus.scored_splits()
        else:
            scored = [name for name in ("validation", "test") if name in corpus.splits.by_name]
        show_survey(corpus.description()["splits"])
        assembly = assemble(config, corpus, pretrained, processes)
        rows = encoded_splits(corpus, assembly.task, scored)
    del pretrained  # its weights are as large as the model's
    assembly = resolve_training(assembly, rows)
    if config.dry_run:
        return dry_run(assembly, rows, command)
    notes = []
    if config.starts_from is not None and wants_linear_head(assembly, corpus):
        notes.append(LINEAR_HEAD)
        resumed = beginning.resumed
        if resumed is None or not any(resumed.checkpoints.glob("step-*")):  # otherwise its weights replace these
            set_linear_head(assembly, cast("ExampleRows", rows["train"]))
            print(LINEAR_HEAD, file=sys.stderr)
    with open_run(command, assembly, corpus, rows, config=config, beginning=beginning) as run:
        fitted = fit(assembly, rows, run.folder)
        fitted.notes.extend(notes)
        assembly, scores = score_splits(assembly, rows)
        processes.leave()
        if processes.is_main:
            (finish or report_on_labels)(run, assembly, corpus, rows, fitted, scores)
    return run.folder


def load_examples(config: Config, *, scored: bool = True) -> tuple[Config, Corpus]:
    """Load the dataset of a run, and return the settings with its columns and its `validation_fraction` decided.

    If the latter is open, and a tenth of the rows is too few to choose a checkpoint by, all rows are trained on, unless
    the task fits thresholds on held-out rows, or there is no other split although one is to be `scored`. Raises
    SettingError or DataError if the dataset cannot be read, or nothing can be learned.
    """
    corpus = Corpus.load(config.dataset, config.cache, config.task.target)
    corpus.check_training_labels()
    config = replace(config, dataset=replace(config.dataset, **corpus.splits.guessed))
    dataset, task, splits = config.dataset, config.task, corpus.splits
    is_open = isinstance(dataset, ColumnDataset) and dataset.validation_fraction is None
    if not is_open or "validation" not in splits.origin.get("taken_from_train", {}):
        return config, corpus
    fits_thresholds = isinstance(task, MultilabelConfig) or isinstance(getattr(task, "threshold", None), str)
    if not has_few_rows(config, corpus) or fits_thresholds or (scored and "test" not in splits.by_name):
        return config, corpus
    config = replace(config, dataset=replace(dataset, validation_fraction=0.0))
    corpus = Corpus.load(config.dataset, corpus.cache, task.target)
    why = f"training.min_validation_rows={config.training.min_validation_rows}, and two per label"
    all_rows = f"All {len(corpus.split('train')):,} training rows are trained on, and the last weights are kept"
    print(f"{all_rows}: a tenth would be too few to choose a checkpoint by ({why})", file=sys.stderr)
    return config, corpus


def encoded_splits(corpus: Corpus, task: Task, scored: list[str]) -> dict[str, Rows]:
    """Return the rows of `train` and of the `scored` splits, and print how much of long ones is read."""
    rows: dict[str, Rows] = {name: corpus.rows(name, task) for name in ("train", *scored)}
    for note in reading_notes(rows, task):
        print(note, file=sys.stderr)
    return rows


def report_on_labels(
    run: Run,
    assembly: Assembly,
    corpus: Corpus,
    rows: Mapping[str, Rows],
    fitted: Fitted,
    scores: Mapping[str, PredictionScores],
) -> None:
    """Save the model, and write and show the report of a run on labelled rows."""
    config, folder, split = run.config, run.folder, scored_split(scores)
    survey = corpus.description()["splits"]
    warnings = [shared_rows(split, survey[split]), labels_alike(survey["train"]["labels"]), conflicting_rows(survey)]
    warnings += [few_rows_note(assembly, corpus), uneven_note(config.task, corpus) or ""]
    data_notes = reading_notes(rows, assembly.task)
    notes = [*fitted.notes, *data_notes, *threshold_notes(config.task, scores)]
    notes += filter(None, warnings)
    summary = summary_of(run.command, assembly, replace(fitted, notes=notes), config.starts_from)
    simple_models = _baselines(corpus, split, config, assembly)
    report = build_report({**summary, "data_notes": data_notes}, scores, simple_models)
    facts = run_facts(folder, run.command)
    longest_row = int(rows["train"].epoch(EVALUATION_SEED, 0).lengths.max())
    origin = Origin(fitted.checkpoint, corpus.paired, corpus.fingerprints(), longest_row)
    save_model(assembly.saved(origin), folder.model, model_card(report, facts, assembly.task.labels))
    examples, explain = corpus.split(split), partial(word_importance, assembly)
    write_report(folder.root, report, facts, examples, scores[split], explain)
    named = f"run={shlex.quote(str(folder.root))}"
    text = "text='...' text_pair='...'" if corpus.paired else "text='...'"
    commands = ("predict", "attention") if examples.holds_words else ("predict", "explain", "attention")
    following = [*(f"encoderlab {one} {named} {text}" for one in commands), f"encoderlab serve {named}"]
    files = files_of(folder, "page", "report", "predictions", "plots", "model")
    show_report(report, files, [] if folder.is_nested else following)
    run.drop_state(fitted.checkpoint["step"])


def _baselines(corpus: Corpus, split: str, config: RunConfig, assembly: Assembly) -> dict[str, Baseline]:
    """Return the baselines on a split; the linear ones of two classes get a threshold by the task's rule."""
    if not config.baselines:
        return {}
    task, steps = assembly.task, config.training.steps
    if steps is not None and steps < SHORTEST_RUN:
        frozen = f"a run of {steps} steps is a trial, and reading all rows with an encoder would take longer"
    else:
        frozen = frozen_vectors(corpus.split("train"), config.tokenizer, assembly.compute)
    unfitted = build_task(config.task, task.tokenizer, task.labels, task.max_length)
    if isinstance(unfitted, Classification):
        return baselines(corpus.splits, split, unfitted.threshold, unfitted.positive, frozen=frozen)
    return baselines(corpus.splits, split, frozen=frozen)
