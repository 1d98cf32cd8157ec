"""The model of a run, and the facts that decide its settings."""

from __future__ import annotations

import sys

from encoderlab.config.commands import RunConfig
from encoderlab.data.corpus import Corpus
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.models.model import Model, build_network
from encoderlab.models.pretrained import load_into
from encoderlab.network.config import ModelConfig, Pairs
from encoderlab.runs.load_data import Tokens
from encoderlab.runs.settle import Facts
from encoderlab.system.device import Compute, return_freed_memory
from encoderlab.system.processes import Processes
from encoderlab.training.distribution import is_sharded
from encoderlab.training.loss import LabelWeights
from encoderlab.training.optimizer import freeze


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


def build_model(
    config: RunConfig,
    data: Corpus,
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
        return_freed_memory()  # of the drawn weights: the network has that of the pretrained ones
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
