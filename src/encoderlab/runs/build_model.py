"""The parts of a run before its first step: what its settings allow, the device, the facts about its rows, the model,
and how its steps are computed. `train.prepare` calls them in order.
"""

from __future__ import annotations

import sys
from itertools import chain

import numpy as np

from encoderlab.config.commands import RunConfig
from encoderlab.data.data import Data
from encoderlab.data.documents import Documents
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import SettingError
from encoderlab.models.model import Model, build_network
from encoderlab.models.pretrained import load_into
from encoderlab.network.config import ModelConfig, Pairs
from encoderlab.reports.training import show_pairs
from encoderlab.runs.load_data import TextTokens, Tokens, pair_facts
from encoderlab.runs.resume import Beginning
from encoderlab.runs.settle import Facts
from encoderlab.runs.tracking import check_trackers
from encoderlab.runs.training import Training
from encoderlab.system.device import Compute, set_up_compute
from encoderlab.system.processes import Processes
from encoderlab.training.batches import MicroBatchCount, Rows, RowStream
from encoderlab.training.compilation import compile_encoder, seconds_uncompiled
from encoderlab.training.config import Optimizer, seconds_of, steps_per_epoch, total_steps
from encoderlab.training.distribution import is_sharded
from encoderlab.training.loss import LabelWeights
from encoderlab.training.occurring_rows import train_occurring_rows
from encoderlab.training.optimizer import freeze


def check_settings(config: RunConfig, processes: Processes) -> None:
    """Raise SettingError for a task that another command trains, a missing tracker, or processes that cannot train it
    as set.
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
    if config.training.optimizer is Optimizer.muon and is_sharded(config.training, processes):
        problem = "training.optimizer=muon needs whole matrices, and training.sharding=full divides them"
        raise SettingError(problem, remedy="Set training.optimizer=adamw or training.sharding=none")


def compute_for(beginning: Beginning, start_shape: ModelConfig | None, processes: Processes) -> Compute:
    """Choose and set up the device, the precision and the number of threads that a run computes with."""
    config = beginning.config
    training = config.training
    return set_up_compute(
        training.device,
        beginning.precision.value,
        beginning.threads,
        width=config.model.resolve(start_shape).d_model,
        deterministic=training.deterministic,
        processes=processes,
    )


def gather_facts(
    tokens: Tokens,
    start_shape: ModelConfig | None,
    teacher: Model | None,
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
        teacher_width=None if teacher is None else teacher.shape.d_model,
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


def micro_batch_count(config: RunConfig, beginning: Beginning, processes: Processes) -> MicroBatchCount:
    """Return in how many micro-batches a step is computed, and whether that may change when memory runs out."""
    if config.task.of_vectors:
        assert config.training.accumulate is not None
        return MicroBatchCount(config.training.accumulate, "of rows that are compared")
    return MicroBatchCount.from_settings(beginning.accumulate, config.training, processes)


def build_model(
    config: RunConfig,
    data: Data | Documents,
    tokenizer: Tokenizer,
    start: Model | None,
    compute: Compute,
    processes: Processes,
) -> tuple[Model, LabelWeights | None]:
    """Return the model of a run with settled `config`, on its device; a model to be sharded, which may not fit there,
    on the main process's CPU; and what labels weigh in the loss.

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
    return Model(config, task, network, compute, processes=processes), label_weights


def choose_token_rows(training: Training) -> str:
    """Train only the rows of the token table that occur in what a fit reads, where that pays; return in words what was
    done.

    The rows of any other text are read, but not trained; `train.fit_with` puts all together again.
    """
    model = training.model
    if is_sharded(model.config.training, model.processes):
        return "all rows of the token table are trained: its weights are sharded"
    if isinstance(training.rows, RowStream):
        return "all rows of the token table are trained: the texts of a stream are not known beforehand"
    read = [training.rows] if training.validation is None else [training.rows, training.validation]
    texts = chain.from_iterable(rows.token_ids() for rows in read)
    return train_occurring_rows(model.network, texts, model.tokenizer.special_ids, model.config.cache)


def compile_if_it_pays(training: Training) -> str:
    """Compile the encoder if that pays in a run on these rows; return what was done, in words."""
    model = training.model
    train = training.rows
    settings = model.config.training
    processes = model.processes
    if is_sharded(settings, processes):
        return "not compiled (its weights are sharded)"
    if settings.budget is not None:
        seconds = seconds_of(settings.budget)
    else:
        lengths = train.epoch(model.config.seed, 0).lengths
        tokens = int(np.minimum(lengths, model.task.max_length).sum())
        steps = total_steps(settings, len(train))
        read = tokens * steps // steps_per_epoch(settings, len(train)) // processes.size
        layers = model.network.parameters_by_part()["layers"]
        seconds = seconds_uncompiled(steps, read, model.shape.n_layers, layers)
    return compile_encoder(model.network, settings.compile, model.compute, seconds)
