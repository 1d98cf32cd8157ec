"""Prepares a run: everything that is read, refused or decided before its folder exists and its first step is taken.

Of a few rows without validation, copies of the model are trained on folds here (`prepare_head_alone`).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, cast

import numpy as np

from encoderlab.config.commands import DistillConfig, FinetuneConfig, RunConfig
from encoderlab.data.data import Data
from encoderlab.data.documents import Documents
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import SettingError
from encoderlab.models.frozen import set_linear_head
from encoderlab.models.model import Model, build_network
from encoderlab.models.pretrained import load_into, load_start, shape_for, tokenizer_for
from encoderlab.network.config import ModelConfig, Pairs
from encoderlab.reports.facts import show_survey
from encoderlab.reports.training import show_pairs
from encoderlab.runs.fit_best import HeadAlone, prepare_head_alone, wants_linear_head
from encoderlab.runs.fit_branch import OutOfFold, check_linear_weight
from encoderlab.runs.load_data import TextTokens, Tokens, load_data, pair_facts, splits_to_score, tokenize
from encoderlab.runs.records import open_run
from encoderlab.runs.resume import Began, began, continues_from_checkpoint, settings_to_run_with
from encoderlab.runs.run import Run
from encoderlab.runs.settle import Facts, settle
from encoderlab.runs.speed import with_fastest_choice
from encoderlab.runs.start_language import TrainingLanguages, training_languages
from encoderlab.runs.tracking import check_trackers
from encoderlab.system.device import Compute, set_up_compute
from encoderlab.system.messages import print_lines
from encoderlab.system.processes import Processes
from encoderlab.tasks.rows import ExampleRows
from encoderlab.training.batches import MicroBatchCount, Rows, RowStream
from encoderlab.training.compilation import compile_encoder, seconds_uncompiled
from encoderlab.training.config import Optimizer, length_in_words, seconds_of, steps_per_epoch, total_steps
from encoderlab.training.distribution import is_sharded
from encoderlab.training.occurring_rows import rows_left_out, train_occurring_rows
from encoderlab.training.optimizer import freeze

if TYPE_CHECKING:
    from encoderlab.runs.distillation import Teacher
    from encoderlab.runs.further_texts import FurtherTexts

LINEAR_HEAD = "The head was initialised with a logistic regression on the vectors of the encoder"


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that is ready for its first step.

    The `model` has the final settings; `requested` are those before the open ones were decided (of a resumed run, its
    own), and `notes` say what was decided. `data_notes` say which rows are read in part. `rows` are those of `train`
    and of the splits that are scored; the model is `trained_on` those of `train`, and perhaps texts that nobody has
    labelled and names of labels. `fingerprints` are those of what it reads besides the data, by the setting that names
    it. `head_alone` is compared with the finetuned model or replaces it; None: neither. `out_of_fold` is what the
    better of both predicts of training rows; None: they were not compared so. `languages` are those of the training
    texts, where they are compared with those of the encoder that the run starts from.
    """

    requested: RunConfig
    data: Data | Documents
    model: Model
    rows: Mapping[str, Rows]
    trained_on: Rows
    notes: list[str]
    data_notes: list[str]
    fingerprints: Mapping[str, str]
    head_alone: HeadAlone | None = None
    out_of_fold: OutOfFold | None = None
    languages: TrainingLanguages | None = None

    def open_run(self) -> AbstractContextManager[Run]:
        """Open the run's folder, new or resumed, with its settings recorded in it."""
        model = self.model
        return open_run(
            model.config,
            self.data,
            model.compute,
            model.processes,
            requested=self.requested,
            notes=self.notes,
            fingerprints=self.fingerprints,
        )

    def announce(self, run: Run) -> None:
        """Print what is about to be trained, how fast and how long."""
        model = self.model
        epoch = "window" if model.config.dataset.is_stream else "epoch"
        evaluated = "validation" in self.rows
        length = length_in_words(model.config.training, len(self.trained_on), evaluated=evaluated, epoch=epoch)
        if self.head_alone is not None and self.head_alone.chosen is not None:
            length = "no steps: the head is a logistic regression on the encoder's vectors"
        parameters = f"{model.network.n_parameters + rows_left_out(model.network):,} parameters"
        print_lines(parameters, *model.choices, str(model.micro_batches), length, f"run folder {run.folder}")


def prepare(typed: RunConfig, processes: Processes, *, scored: bool = True) -> PreparedRun:
    """Read the data and the weights to start from, settle every open setting, and build the model and its rows.

    Unless a split is to be `scored`, none needs to have labels. Raises SettingError or DataError, each with a remedy,
    for anything that does not fit together or this machine.
    """
    # Only here are there three configs: what was typed, what is requested (a run that is resumed brings its settings),
    # and `config` below, in which everything is settled.
    requested = settings_to_run_with(typed, processes)
    _check_command(requested, processes)
    as_begun = began(requested, processes)

    # The encoder to start from is read first, so that what does not match it is refused at once.
    start, fingerprints = load_start(requested, processes)
    start_shape = shape_for(requested.task, start)
    teacher = open_teacher(requested)
    if start is None and teacher is None:
        requested.tokenizer.refuse_without_encoder()

    # The main process reads and tokenises, and the others find its work in the cache: they enter once it has left, so
    # nothing in here may wait for them.
    with processes.main_process_first():
        data = load_data(requested, scored=scored)
        names = splits_to_score(requested, data, scored=scored)
        if isinstance(data, Data):
            check_linear_weight(requested.task, data)
            show_survey(data.description()["splits"])
        if teacher is not None:
            teacher.check(data)
        tokenizer = tokenizer_for(requested, data, start, None if teacher is None else teacher.encoder)
        tokens = tokenize(data, tokenizer, ["train", *names], requested)

        # Every open setting is decided here, from facts alone. Whoever decides something prints its note; `notes`
        # collects them for the report.
        compute = compute_for(requested, start_shape, as_begun, processes)
        is_tested = bool(names) or not scored
        facts = gather_facts(tokens, start_shape, teacher, compute, processes, is_tested=is_tested)
        config, notes = settle(requested, facts)

        # The model, and the rows as it reads them.
        model = build_model(config, data, tokenizer, start, compute, processes)
        rows, data_notes = rows_for(model, tokens)
        languages = training_languages(config, data)
        foreign = "" if languages is None else languages.note(config.starts_from or "")
        for note in (*notes, *data_notes, *([foreign] if foreign else [])):
            print(note, file=sys.stderr)
        trained_on = taught(model, start, teacher, data, rows["train"])
    model.micro_batches = micro_batch_count(config, as_begun, processes)

    # What few labels are learned from besides their rows: the names of the labels, and texts that nobody has labelled.
    further = choose_further_texts(config, start, data, compute, processes)
    if further is not None:
        trained_on = further.after(trained_on, model)
        notes += further.notes

    # What is set once the rows are known: which rows of the token table are trained.
    model.trained_rows = choose_token_rows(model, trained_on, rows.get("validation"))

    # What else the machine leaves open is decided by real steps, which leave nothing behind.
    model.compute = with_fastest_choice(model, trained_on, resumed=requested.resume is not None)

    # A head that starts at a linear model, the head alone, a compiled encoder.
    head_alone = None
    out_of_fold = None
    if isinstance(data, Data) and not config.dry_run:
        head_alone, out_of_fold, more = prepare_head_alone(model, data, rows, trained_on)
        notes += more
        notes += start_at_linear_head(model, data, trained_on)
    model.compiled = compile_if_it_pays(model, trained_on)

    own_loss = config.task.own_functions().get("task.loss")
    if own_loss is not None:
        notes.append(f"The loss is {own_loss.dotted}: {own_loss.about}")

    # A resumed run has decided nothing: its report repeats what was decided when it began.
    notes = as_begun.notes or notes
    for source in (teacher, further):
        fingerprints |= {} if source is None else source.fingerprints()
    return PreparedRun(
        requested,
        data,
        model,
        rows,
        trained_on,
        notes,
        data_notes,
        fingerprints,
        head_alone,
        out_of_fold,
        languages,
    )


def open_teacher(config: RunConfig) -> Teacher | None:
    """Return the teacher of a distillation; None for any other run. Raises DataError if it is missing or damaged."""
    if not isinstance(config, DistillConfig):
        return None
    from encoderlab.runs.distillation import Teacher

    return Teacher.open(config)


def compute_for(config: RunConfig, start_shape: ModelConfig | None, as_begun: Began, processes: Processes) -> Compute:
    """Choose and set up the device, the precision and the number of threads that a run computes with."""
    training = config.training
    return set_up_compute(
        training.device,
        as_begun.precision.value,
        as_begun.threads,
        width=config.model.resolve(start_shape).d_model,
        deterministic=training.deterministic,
        processes=processes,
    )


def gather_facts(
    tokens: Tokens,
    start_shape: ModelConfig | None,
    teacher: Teacher | None,
    compute: Compute,
    processes: Processes,
    *,
    is_tested: bool,
) -> Facts:
    """Return what the open settings depend on."""
    data = tokens.data
    return Facts(
        row_lengths=tokens.row_lengths,
        n_rows=tokens.n_rows,
        labels=data.labels,
        survey=data.survey,
        n_undivided=data.n_undivided,
        has_validation=data.has_validation,
        is_tested=is_tested,
        paired=data.paired,
        start_shape=start_shape,
        teacher_width=None if teacher is None else teacher.width,
        decided=data.decided,
        device=compute.device.type,
        processes=processes.size,
    )


def rows_for(model: Model, tokens: Tokens) -> tuple[dict[str, Rows], list[str]]:
    """Return the rows of each split as the model reads them, and a sentence for each split of texts that it reads in
    part; print statistics of pairs of sentences.
    """
    if isinstance(tokens, TextTokens):
        texts = tokens.rows(model.task)
        notes = [model.task.reading_note(name, split_rows) for name, split_rows in texts.items()]
        return {**texts}, [note for note in notes if note]
    rows = tokens.rows(model.task)
    if model.config.task.command == "pretrain":
        show_pairs(pair_facts(rows["train"], tokens.data), {})
    return {**rows}, []


def micro_batch_count(config: RunConfig, as_begun: Began, processes: Processes) -> MicroBatchCount:
    """Return in how many micro-batches a step is computed, and whether that may change when memory runs out."""
    if config.task.of_vectors:
        assert config.training.accumulate is not None
        return MicroBatchCount(config.training.accumulate, "of rows that are compared")
    return MicroBatchCount.from_settings(as_begun.accumulate, config.training, processes)


def _check_command(config: RunConfig, processes: Processes) -> None:
    """Raise SettingError for a task that another command trains, a teacher that cannot teach it, or processes that
    cannot train it as set.
    """
    check_trackers(config)
    task = config.task
    task.own_functions()
    command = config.command
    if command == "pretrain" and task.command != "pretrain":
        problem = f"task={task.name} needs labels, which pretraining does not use"
        raise SettingError(problem, remedy=f"Remove task, or run encoderlab train task={task.name}")
    if command in ("train", "finetune") and task.command != "train":
        raise SettingError(f"task={task.name} has no labels to predict", remedy=f"Run encoderlab {task.command}")
    if task.of_vectors and config.starts_from is None:
        problem = f"task={task.name} keeps the vectors of an encoder near those it had, but init_from names none"
        raise SettingError(problem, remedy="Set init_from=mini-en, or to another encoder")
    if task.of_vectors and processes.size > 1:
        problem = f"task={task.name} needs a single process, and there are {processes.size}"
        raise SettingError(problem, remedy="Start one process")
    if config.training.optimizer is Optimizer.muon and is_sharded(config.training, processes):
        problem = "training.optimizer=muon needs whole matrices, and training.sharding=full divides them"
        raise SettingError(problem, remedy="Set training.optimizer=adamw or training.sharding=none")
    if isinstance(config, DistillConfig):
        from encoderlab.runs.distillation import check_distillation

        check_distillation(config, processes)


def build_model(
    config: RunConfig,
    data: Data | Documents,
    tokenizer: Tokenizer,
    start: Model | None,
    compute: Compute,
    processes: Processes,
) -> Model:
    """Return the model of a run with settled `config`, on its device; a model to be sharded, which may not fit there,
    on the main process's CPU.

    The weights depend only on `config.seed` and `start`. Raises SettingError and DataError if the parts do not match
    each other or this machine.
    """
    shape = config.shape
    if shape.pairs is Pairs.separate and tokenizer.pair_separators > 1:
        tokenizer = tokenizer.with_pair_separators(1)  # each text ends in one when it is read by itself
    task = config.task.build(tokenizer, data.labels, shape.reach)
    network = build_network(config, tokenizer, task.heads, processes)

    # Pretrained weights take the place of drawn ones, except in heads for other labels.
    if start is not None:
        fresh = load_into(network, start, task.labels)
        drawn = sum(weight.numel() for name, weight in network.named_parameters() if name.rpartition(".")[0] in fresh)
        kept = f"{network.n_parameters - drawn:,} pretrained weights"
        print(f"From {config.starts_from}: {kept}; fresh: {', '.join(fresh) or 'nothing'} ({drawn:,})", file=sys.stderr)

    # What the frequencies of labels say about the loss and a fresh head.
    label_weights = None
    if data.survey is not None:
        label_weights = task.label_weights(data.survey["train"])
        task.start_head(network, data.survey["train"], label_weights)

    freeze(network, config.training)
    if task.freezes_tokens:
        network.encoder.token_table.requires_grad_(False)
    if not is_sharded(config.training, processes):
        network.to(compute.device)
    return Model(config, task, network, compute, processes=processes, label_weights=label_weights)


def taught(model: Model, start: Model | None, teacher: Teacher | None, data: Data | Documents, train: Rows) -> Rows:
    """Return the rows of `train` with what another encoder says of them: a teacher, or the one whose vectors the run
    keeps.
    """
    if teacher is not None:
        return teacher.teach(model, start, data, train)
    if model.config.task.of_vectors and start is not None:
        from encoderlab.runs.distillation import keep_vectors

        keep_vectors(model, start, train)
    return train


def choose_further_texts(
    config: RunConfig, start: Model | None, data: Data | Documents, compute: Compute, processes: Processes
) -> FurtherTexts | None:
    """Return the texts that finetuning learns from besides the labelled rows, as the main process chooses them, and say
    why; None for any other command.
    """
    if start is None or not isinstance(config, FinetuneConfig) or not isinstance(data, Data):
        return None
    from encoderlab.runs.further_texts import further_texts

    with processes.main_process_first():  # the others wait for as long as it takes
        chosen = further_texts(config, start, data, compute) if processes.is_main else None
    further = processes.broadcast_from_main(lambda: chosen)
    assert further is not None, "the main process has chosen"
    for note in further.notes:
        print(note, file=sys.stderr)
    return further


def choose_token_rows(model: Model, trained_on: Rows, validation: Rows | None) -> str:
    """Train only the rows of the token table that occur in what a fit reads, where that pays; return in words what was
    done.

    The rows of any other text are read, but not trained; `fit_best` puts all together again.
    """
    if is_sharded(model.config.training, model.processes):
        return "all rows of the token table are trained: its weights are sharded"
    if isinstance(trained_on, RowStream):
        return "all rows of the token table are trained: the texts of a stream are not known beforehand"
    read = [trained_on] if validation is None else [trained_on, validation]
    texts = chain.from_iterable(rows.token_ids() for rows in read)
    return train_occurring_rows(model.network, texts, model.tokenizer.special_ids, model.config.cache)


def start_at_linear_head(model: Model, data: Data, trained_on: Rows) -> list[str]:
    """Start the head at a linear model on frozen vectors where that helps; return a note if it does.

    A resumed run has a head already.
    """
    config = model.config
    if config.starts_from is None or not wants_linear_head(model, data):
        return []
    if not continues_from_checkpoint(config):
        set_linear_head(model, cast("ExampleRows", trained_on))
        print(LINEAR_HEAD, file=sys.stderr)
    return [LINEAR_HEAD]


def compile_if_it_pays(model: Model, train: Rows) -> str:
    """Compile the encoder if that pays in a run on these rows; return what was done, in words."""
    training = model.config.training
    processes = model.processes
    if is_sharded(training, processes):
        return "not compiled (its weights are sharded)"
    if training.budget is not None:
        seconds = seconds_of(training.budget)
    else:
        lengths = train.epoch(model.config.seed, 0).lengths
        tokens = int(np.minimum(lengths, model.task.max_length).sum())
        steps = total_steps(training, len(train))
        read = tokens * steps // steps_per_epoch(training, len(train)) // processes.size
        layers = model.network.parameters_by_part()["layers"]
        seconds = seconds_uncompiled(steps, read, model.shape.n_layers, layers)
    return compile_encoder(model.network, training.compile, model.compute, seconds)
