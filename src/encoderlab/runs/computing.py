"""How the steps of a run are computed: device, micro-batches, trained rows of the token table, compilation."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
from torch import nn

from encoderlab.config.commands import RunConfig
from encoderlab.network.config import ModelConfig
from encoderlab.runs.requested import RequestedRun
from encoderlab.runs.speed import fastest_compute
from encoderlab.runs.training import Training
from encoderlab.system.device import Compute, return_freed_memory, set_up_compute
from encoderlab.system.processes import Processes
from encoderlab.system.tensor_files import set_aside
from encoderlab.training.batches import MicroBatchCount, RowStream
from encoderlab.training.compilation import compile_encoder, seconds_uncompiled
from encoderlab.training.config import seconds_of, steps_per_epoch, total_steps
from encoderlab.training.distribution import is_sharded
from encoderlab.training.occurring_rows import train_occurring_rows


def compute_for(requested: RequestedRun, start_shape: ModelConfig | None, processes: Processes) -> Compute:
    """Choose and set up the device, the precision and the number of threads that a run computes with."""
    config = requested.config
    training = config.training
    return set_up_compute(
        training.device,
        requested.precision.value,
        requested.threads,
        width=config.model.resolve(start_shape).d_model,
        deterministic=training.deterministic,
        processes=processes,
    )


def decide_how_to_compute(training: Training, requested: RequestedRun) -> None:
    """Decide in how many micro-batches a step is computed, with which rows of the token table, in which precision and
    by how many threads.
    """
    model = training.model
    training.micro_batches = micro_batch_count(model.config, requested, model.processes)

    # A row of the token table that no text has costs time and memory in each step, and learns nothing.
    training.token_rows = choose_token_rows(training)

    # Trained weights leave the encoder's file for memory, and a large frozen table for a temporary file.
    if model.config.starts_from is not None and not is_sharded(model.config.training, model.processes):
        take_out_of_file(model.network, model.config.cache)

    # Speed is measured last, because all that was decided above changes it.
    model.compute = fastest_compute(training, resumed=requested.is_resumed)


def micro_batch_count(config: RunConfig, requested: RequestedRun, processes: Processes) -> MicroBatchCount:
    """Return in how many micro-batches a step is computed, and whether that may change when memory runs out."""
    if config.task.of_vectors:
        assert config.training.accumulate is not None
        return MicroBatchCount(config.training.accumulate, "of rows that are compared")
    return MicroBatchCount.from_settings(requested.accumulate, config.training, processes)


def choose_token_rows(training: Training) -> str:
    """Train only the rows of the token table that occur in what a fit reads, where that pays; return in words what was
    done.

    The rows of any other text are read, but not trained; `train.train_once` puts all together again.
    """
    model = training.model
    if is_sharded(model.config.training, model.processes):
        return "all rows of the token table are trained: its weights are sharded"
    if isinstance(training.rows, RowStream):
        return "all rows of the token table are trained: the texts of a stream are not known beforehand"

    # A fit also reads the validation rows, so their tokens stay in the table.
    read = [training.rows] if training.validation is None else [training.rows, training.validation]
    texts = chain.from_iterable(rows.token_ids() for rows in read)
    return train_occurring_rows(model.network, texts, model.tokenizer.special_ids, model.config.cache)


def take_out_of_file(network: nn.Module, folder: Path) -> None:
    """Give a network memory of its own; a large table that is frozen is kept in a temporary file in `folder`.

    Pretrained weights were a part of the file that they were read from, so that a large table of which few rows are
    trained has never been in memory.
    """
    for name, parameter in network.named_parameters():
        read = parameter.data
        kept = read if parameter.requires_grad else set_aside({name: read}, folder)[name]
        parameter.data = read.clone() if kept is read else kept
    return_freed_memory()


def compile_if_it_pays(training: Training) -> str:
    """Compile the encoder if that pays in a run on these rows; return what was done, in words."""
    model = training.model
    train = training.rows
    settings = model.config.training
    processes = model.processes
    if is_sharded(settings, processes):
        return "not compiled (its weights are sharded)"

    # Compiling takes up to a minute, so it pays if the run without it takes much longer.
    if settings.budget is not None:
        seconds = seconds_of(settings.budget)
    else:
        # The first epoch stands for all: how many tokens each process would read at its length.
        lengths = train.epoch(model.config.seed, 0).lengths
        tokens = int(np.minimum(lengths, model.task.max_length).sum())
        steps = total_steps(settings, len(train))
        read = tokens * steps // steps_per_epoch(settings, len(train)) // processes.size
        layers = model.network.parameters_by_part()["layers"]
        seconds = seconds_uncompiled(steps, read, model.shape.n_layers, layers)
    return compile_encoder(model.network, settings.compile, model.compute, seconds)
