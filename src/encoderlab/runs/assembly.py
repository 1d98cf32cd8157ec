"""Assembles tokenizer, task and model of a run, from its config or, once it is finished, from its folder.

What the settings leave open is decided once and recorded in config.yaml: `max_length` by the training rows before the
model is built (`with_length`), epochs and evaluations by the number of rows and `accumulate` by the memory after it
(`Assembly.settled`). A resumed run reads these decisions instead of making them again.

The settings decided by task and training rows: the sequence length, whether pairs are read separately, and the case.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from encoderlab.batch import Batch
from encoderlab.config.commands import OpenRunConfig, RunConfig
from encoderlab.config.schemas import settings_to_dict
from encoderlab.data.dataset import DatasetConfig
from encoderlab.data.tokenizers import AsPretrainedTokenizer, Tokenizer, TokenizerConfig, WordPieceConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics import SplitScores
from encoderlab.model.attention import attention_kernel
from encoderlab.model.config import ModelChoice, ModelConfig, Pairs
from encoderlab.model.heads import EncoderWithHeads, without_weights
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.document_corpus import DocumentCorpus
from encoderlab.runs.folder import model_folder
from encoderlab.runs.graph_model import GraphModel, compute_to_answer
from encoderlab.runs.pretrained import Pretrained, check_same_vocabulary, load_into
from encoderlab.runs.saved_model import Origin, SavedModel, SettledRun, check_shapes, read_model
from encoderlab.runs.task import build_task, label_loss_of, settled_task, start_from_frequencies
from encoderlab.system.device import Compute, choose_compute
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import TaggingConfig, TaskConfig
from encoderlab.tasks.task import Task
from encoderlab.training.batches import Rows, scoring_batches, training_batches
from encoderlab.training.checkpoint import weights_of
from encoderlab.training.compilation import WITH_GRAPHS, compile_encoder, seconds_uncompiled
from encoderlab.training.config import Compile, TrainingConfig, seconds_of
from encoderlab.training.distribution import Sharded, Whole, distribute, distribution, is_sharded
from encoderlab.training.evaluation import evaluate
from encoderlab.training.horizon import fixed_by_rows, passes_for, steps_per_epoch, total_steps
from encoderlab.training.loss import PLAIN, LabelLoss
from encoderlab.training.micro_batches import MicroBatches, choose_micro_batches
from encoderlab.training.optimizer import freeze, peak_for_width

NOT_IN_PIECES = "not compiled (its weights are sharded)"


@dataclass(frozen=True, slots=True)
class Assembly:
    """The assembled parts of a run, with the model on its device.

    For a reopened run, `origin` says where its weights come from. For a new one, `compiled` says whether its encoder
    is compiled, and why not, `micro_batches` in how many parts it computes a batch (see `settled` for both), and
    `label_loss` how its labels count. A model to be sharded is on the main process's CPU until it is distributed; the
    others only have its shapes.
    """

    config: SettledRun
    compute: Compute
    tokenizer: Tokenizer
    task: Task
    model: EncoderWithHeads
    origin: Origin | None = None
    compiled: str | None = None
    micro_batches: MicroBatches | None = None
    processes: Processes = SINGLE_PROCESS
    label_loss: LabelLoss = PLAIN

    @property
    def opened(self) -> Origin:
        """Return the `origin` of a reopened run."""
        assert self.origin is not None, "a new run has no origin"
        return self.origin

    @property
    def choices(self) -> list[str]:
        """Return what was chosen for speed, in short lines: the device, attention and compilation, and the batches of a
        new run.
        """
        compute, model = self.compute, self.config.model
        dropout = 0.0 if self.origin else model.attention_dropout
        if isinstance(self.model, GraphModel):
            return [f"{compute}, by onnxruntime"]
        attention = f"attention: {attention_kernel(compute.device, compute.precision, dropout, model.head_width)}"
        sharing = distribution(self.config.training, self.processes)
        lines = ((compute, sharing), (attention, self.compiled), (self.micro_batches,))
        return [", ".join(str(choice) for choice in line if choice is not None) for line in lines if line != (None,)]

    def evaluate(self, rows: Rows) -> SplitScores:
        """Score the model on all of `rows`."""
        batches = scoring_batches(
            rows, self.tokenizer.pad_id, self.compute.device, self.config.model.d_model, self.processes
        )
        return evaluate(self.model, batches, self.task.metrics(), self.compute, self.processes)

    def scoring_batches(self, rows: Rows) -> Iterator[Batch]:
        """Yield each of `rows` once, on the model's device."""
        return scoring_batches(rows, self.tokenizer.pad_id, self.compute.device, self.config.model.d_model)

    def training_batches(self, rows: Rows, after: int = 0, micro_batches: int | None = None) -> Iterator[list[Batch]]:
        """Yield the run's batches from step `after` + 1, without end, each in `micro_batches` (None: as configured)."""
        training, pad_id, device = self.config.training, self.tokenizer.pad_id, self.compute.device
        micro_batches = micro_batches or training.accumulate or 1
        return training_batches(
            rows,
            training,
            self.config.seed,
            pad_id,
            device,
            micro_batches=micro_batches,
            after=after,
            processes=self.processes,
        )

    def distribute(self) -> Whole | Sharded:
        """Return the model as the processes of the run train it; see `training.distribution`."""
        return distribute(self.model, self.config.training, self.processes, self.compute.device)

    def saved(self, origin: Origin) -> SavedModel:
        """Return the content of its model folder; `origin` says where its weights come from."""
        return SavedModel(self.config, self.task.labels, self.tokenizer, weights_of(self.model), origin)

    def settled(self, train: Rows) -> Assembly:
        """Return the assembly with the open settings of `training` decided by the rows and the encoder's width."""
        lengths = train.epoch(self.config.seed, 0).lengths
        micro_batches = choose_micro_batches(
            self.config.training, self.config.model, int(lengths.max()), self.compute.device, self.processes
        )
        # Windows do not change the number of epochs: a row is one example, however much of it is read.
        tokens = int(np.minimum(lengths, self.task.max_length).sum())
        passes = passes_for(self.config.training, self.config.task.passes, len(self.task.labels))
        training = fixed_by_rows(self.config.training, len(train), tokens, passes)
        training = replace(training, accumulate=micro_batches.number)
        if training.learning_rate is None:
            width = self.config.model.d_model
            training = replace(training, learning_rate=peak_for_width(width))
            print(
                f"training.learning_rate={training.learning_rate:g}, suited to an encoder of width {width}",
                file=sys.stderr,
            )
        compiled = self._compiled(training, len(train), tokens)
        return replace(
            self, config=replace(self.config, training=training), micro_batches=micro_batches, compiled=compiled
        )

    def _compiled(self, training: TrainingConfig, rows: int, tokens: int) -> str:
        """Compile the encoder if it is worth it for a run with `tokens` tokens per epoch; return what was done."""
        if is_sharded(training, self.processes):
            return NOT_IN_PIECES
        if training.compile is Compile.cuda_graphs and self.model.window_pooling is not None:
            return "not compiled (CUDA graphs would be recorded for each number of windows)"
        if training.budget is None:
            steps, layers = total_steps(training, rows), self.model.parameters_by_part()["layers"]
            read = tokens * steps // steps_per_epoch(training, rows) // self.processes.size
            seconds = seconds_uncompiled(steps, read, self.config.model.n_layers, layers)
        else:
            seconds = seconds_of(training.budget)
        compiled = compile_encoder(self.model.encoder, training.compile, self.compute, seconds)
        if compiled == WITH_GRAPHS:
            self.model.let_batches_decide_all_shapes()
        return compiled


def compute_for(config: RunConfig, processes: Processes = SINGLE_PROCESS) -> Compute:
    """Return what a run with these full settings computes on. Raises SettingError as `choose_compute` does."""
    training = config.training
    assert isinstance(config.model, ModelConfig)
    return choose_compute(
        training.device,
        training.precision.value,
        training.threads,
        width=config.model.d_model,
        deterministic=training.deterministic,
        processes=processes,
    )


def assemble(
    config: RunConfig,
    compute: Compute,
    corpus: Corpus | DocumentCorpus,
    pretrained: Pretrained | None = None,
    processes: Processes = SINGLE_PROCESS,
    teacher: Pretrained | None = None,
) -> Assembly:
    """Build tokenizer, task and model for training, from `pretrained` if there is one.

    Without one, tokenizer=as_pretrained is that of the `teacher`. The weights depend only on `config.seed` and
    `pretrained`. The assembly's config describes the model in full, but not where it came from. Raises SettingError and
    DataError if the parts do not match.
    """
    check_pairs(config.model, corpus)
    config = run_settings(replace(config, tokenizer=with_case(config.tokenizer, config.task)), pretrained)
    tokenizer = _tokenizer(config, corpus, pretrained, teacher)
    config = replace(config, task=settled_task(config.task, corpus), model=with_pairs(config.model, corpus))
    config = replace(config, model=with_length(config.model, config.task, tokenizer, corpus, pretrained))
    task = build_task(config.task, tokenizer, corpus.labels, config.model.reach)
    torch.manual_seed(config.seed)
    sharded = is_sharded(config.training, processes)
    model = build_model(config, tokenizer, task, weights=processes.is_main or not sharded)
    if pretrained is not None:
        _start_from(pretrained, model, task)
    label_loss = label_loss_of(config.task, corpus)
    start_from_frequencies(model, task.heads, corpus, label_loss)
    freeze(model, config.training)
    if not sharded:  # a model to be sharded may not fit on the device
        model.to(compute.device)
    return Assembly(config, compute, tokenizer, task, model, processes=processes, label_loss=label_loss)


def run_settings(config: RunConfig, pretrained: Pretrained | None) -> SettledRun:
    """Return the part of `config` that any run has, with the model's full settings; it is enough to reopen a finished
    run.

    `max_length` may still be open; see `with_length`. Raises SettingError if they do not match the encoder that the
    run starts from.
    """
    shared: dict[str, Any] = {declared.name: getattr(config, declared.name) for declared in fields(RunConfig)}
    model = config.model.resolve(None if pretrained is None else pretrained.settings_for(config.task))
    return cast("SettledRun", RunConfig(**{**shared, "model": model}))


def reopen(run: OpenRunConfig, processes: Processes = SINGLE_PROCESS, *, or_graph: bool = False) -> Assembly:
    """Open a finished run, a Hugging Face folder or, with `or_graph`, an exported graph. Only the main process reads it, and broadcasts
    it.

    Raises DataError if it is damaged or missing.
    """
    saved = processes.broadcast_from_main(lambda: read_model(model_folder(run.run), or_graph=or_graph))
    check_shapes(saved, f"run={run.run}")
    compute = compute_to_answer(run, saved.config.model.d_model, processes, graph=saved.graph is not None)
    model = saved.model().to(compute.device)
    return Assembly(saved.config, compute, saved.tokenizer, saved.task(), model, saved.origin, processes=processes)


def check_paired(assembly: Assembly, paired: bool) -> None:
    """Raise DataError for one text if the model was trained on pairs, and for a pair if it was not, as far as that is
    known.
    """
    trained_on_pairs = assembly.opened.paired
    if trained_on_pairs is not None and paired != trained_on_pairs:
        wants, found = ("pairs of texts", "one text") if trained_on_pairs else ("single texts", "a pair")
        remedy = "Add text_pair (or its column)" if trained_on_pairs else "Remove text_pair"
        raise DataError(f"This model was trained on {wants}, but {found} was given", remedy=remedy)


def own_dataset(assembly: Assembly) -> DatasetConfig:
    """Return the dataset the run was trained on. Raises DataError for a model without a run."""
    if assembly.config.dataset is None:
        raise DataError(
            f"{assembly.config.task.name} is a model without a run, so its dataset and its splits are unknown",
            remedy="Set text=... or input=FILE, or, with eval, dataset=...",
        )
    return assembly.config.dataset


def cache_folder(setting: str) -> Path:
    """Return the folder of the setting `cache_dir`, with ~ expanded."""
    return Path(setting).expanduser()


def _tokenizer(
    config: RunConfig, corpus: Corpus | DocumentCorpus, pretrained: Pretrained | None, teacher: Pretrained | None
) -> Tokenizer:
    own = pretrained or teacher
    if own is not None and isinstance(config.tokenizer, AsPretrainedTokenizer):
        return own.tokenizer
    tokenizer = config.tokenizer.build(corpus.training_texts, corpus.cache)
    if pretrained is not None:
        chosen = getattr(config.tokenizer, "name", None) or settings_to_dict(config.tokenizer)["schema"]
        check_same_vocabulary(
            tokenizer, f"The tokenizer {chosen} (chosen by you or by task={config.task.name})", pretrained
        )
    return tokenizer


def _start_from(pretrained: Pretrained, model: EncoderWithHeads, task: Task) -> None:
    """Load the pretrained weights, and print what they are and which weights are fresh."""
    fresh = load_into(model, pretrained, task.labels)
    drawn = sum(weight.numel() for name, weight in model.named_parameters() if name.rpartition(".")[0] in fresh)
    taken = f"{model.n_parameters - drawn:,} pretrained weights"
    print(f"From {pretrained.name}: {taken}; fresh: {', '.join(fresh) or 'nothing'} ({drawn:,})", file=sys.stderr)


def build_model(config: SettledRun, tokenizer: Tokenizer, task: Task, *, weights: bool = True) -> EncoderWithHeads:
    """Return the model of a run, with fresh `weights` or only their shapes. Raises SettingError if it does not fit into
    memory.
    """
    try:
        return (EncoderWithHeads if weights else without_weights)(
            config.model, tokenizer.vocabulary_size, tokenizer.pad_id, task.heads
        )
    except RuntimeError as error:
        if "allocate" not in str(error):
            raise
        size = f"model.n_layers={config.model.n_layers} model.d_model={config.model.d_model}"
        raise SettingError(
            f"A model of {size} does not fit into this machine's memory", remedy="Choose a smaller one"
        ) from None


FURTHEST = 512  # tokens: the most that rows can decide for an encoder from scratch, as in BERT
PRETRAINING_LENGTH = 128


def check_pairs(model: ModelChoice, corpus: Corpus | DocumentCorpus) -> None:
    """Raise SettingError for separate pairs if there are none, or in pretraining."""
    if getattr(model, "pairs", None) is not Pairs.separate or reads_pairs(corpus):
        return
    rows = (
        "pretraining reads two texts as one sequence"
        if isinstance(corpus, DocumentCorpus)
        else "the rows are single texts"
    )
    raise SettingError(f"model.pairs=separate is set, but {rows}", remedy="Remove model.pairs")


def with_pairs(model: ModelConfig, corpus: Corpus | DocumentCorpus) -> ModelConfig:
    """Return the settings of a model for these rows: with single texts there are no pairs to read separately."""
    return model if reads_pairs(corpus) else replace(model, pairs=Pairs.joint)


def reads_pairs(corpus: Corpus | DocumentCorpus) -> bool:
    """Return whether each row is a pair of texts with a label."""
    return isinstance(corpus, Corpus) and corpus.paired


def with_case(tokenizer: TokenizerConfig, task: TaskConfig) -> TokenizerConfig:
    """Return the settings of a tokenizer, with an open `lowercase` decided: a task that labels words keeps their case.

    From scratch on French parts of speech (Sequoia, validation) this gains 0.3 points of token accuracy.
    """
    if not isinstance(tokenizer, WordPieceConfig) or tokenizer.lowercase is not None:
        return tokenizer
    return replace(tokenizer, lowercase=not isinstance(task, TaggingConfig))


def with_length(
    model: ModelConfig,
    task: TaskConfig,
    tokenizer: Tokenizer,
    corpus: Corpus | DocumentCorpus,
    pretrained: Pretrained | None = None,
) -> ModelConfig:
    """Return the settings with a number as `max_length`: if it is open, what the training rows need. It is printed.

    It is at most the pretrained encoder's length, or FURTHEST from scratch. Documents fit any length: there it is the
    encoder's own, or PRETRAINING_LENGTH.
    """
    if model.max_length is not None:
        return model
    if isinstance(corpus, DocumentCorpus):
        length = PRETRAINING_LENGTH if pretrained is None else pretrained.config.max_length
        why = "the default for documents" if pretrained is None else "the length of the pretrained encoder"
        print(f"model.max_length={length}, {why}", file=sys.stderr)
        return replace(model, max_length=length)
    furthest = FURTHEST if pretrained is None else pretrained.config.reach
    length = corpus.needed_length(build_task(task, tokenizer, corpus.labels, furthest))
    limit = "the limit from scratch, unless you set it" if pretrained is None else "the limit of this encoder"
    enough = f"enough for 99% of the training rows (at most {furthest})"
    why = enough if length < furthest else f"{limit}; more than 1% of the training rows may be longer"
    print(f"model.max_length={length}, {why}", file=sys.stderr)
    return replace(model, max_length=length)
