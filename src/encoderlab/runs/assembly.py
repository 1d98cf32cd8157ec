"""Assembles tokenizer, task and model of a run, from its settings or, once it is finished, from its folder.

Settings that are left open are resolved once, and recorded in config.yaml, from which a resumed run reads them:

| settings | resolved by | from |
| --- | --- | --- |
| dataset.validation_fraction | `commands.train.load_examples` | the number of rows |
| dataset.text, dataset.label | `data.files` | the columns of the file |
| model of model=as_pretrained | `resolve_run` | the pretrained encoder |
| tokenizer.lowercase | `assemble` | the kind of task |
| model.pairs | `assemble` | whether rows are pairs |
| task.score, class_weights, threshold, positive_label, mean, deviation | `resolve_task` | the targets of the rows |
| task.teacher_width | `commands.distill` | the teacher |
| model.max_length | `resolve_length` | the lengths of the rows |
| training.batching, freeze_layers | `assemble` | whether training rows, or those of rare labels, are few |
| training.epochs, evaluate_every, keep, patience | `resolve_training` | the numbers of rows and tokens |
| training.learning_rate, accumulate | `resolve_training` | the encoder's width; the memory |

After training, `runs.fit.score_splits` replaces the rule of a threshold by the threshold that it gives on validation.
"""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast

import numpy as np
import torch

from encoderlab.batch import Batch
from encoderlab.config.commands import OpenRunConfig, RunConfig, settings_to_dict
from encoderlab.data.dataset import VALIDATION_FRACTION, DatasetConfig
from encoderlab.data.tokenizers import AsPretrainedTokenizer, Tokenizer, WordPieceConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics.scores import SplitScores
from encoderlab.model.attention import attention_kernel
from encoderlab.model.config import ModelConfig, Pairs
from encoderlab.model.heads import EncoderWithHeads, without_weights
from encoderlab.runs import saved_model
from encoderlab.runs import task as tasks
from encoderlab.runs.corpus import AnyCorpus, Corpus
from encoderlab.runs.folder import model_folder
from encoderlab.runs.saved_model import Origin, ResolvedRun, SavedModel
from encoderlab.system.device import Compute, choose_compute
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.config import ClassificationConfig, TaggingConfig, TaskConfig
from encoderlab.tasks.task import Task
from encoderlab.training.batches import MicroBatches, Rows, choose_micro_batches, scoring_batches, training_batches
from encoderlab.training.checkpoint import weights_of
from encoderlab.training.config import (
    MANY_LABELS,
    Keep,
    TrainingConfig,
    can_choose_by,
    resolve_by_rows,
    resolve_for_few_rows,
    seconds_of,
    steps_per_epoch,
    total_steps,
)
from encoderlab.training.distribution import compile_encoder, distribution, is_sharded, seconds_uncompiled
from encoderlab.training.evaluation import evaluate
from encoderlab.training.loss import LabelWeights
from encoderlab.training.optimizer import PEAK_OF_PAIRS, freeze, peak_for_width

LONGEST_FROM_SCRATCH = 512  # tokens: the most that rows can decide for an encoder from scratch, as in BERT
PRETRAINING_LENGTH = 128


@dataclass(frozen=True, slots=True)
class Assembly:
    """The assembled parts of a run, with the model on its device.

    For a reopened run, `origin` says where its weights come from. For a new one, `compiled` says whether its encoder
    is compiled, and why not, `micro_batches` in how many it computes a batch (see `resolve_training` for both), and
    `label_weights` weigh its labels. A model to be sharded is on the main process's CPU until it is distributed; the
    others only have its shapes.
    """

    config: ResolvedRun
    compute: Compute
    tokenizer: Tokenizer
    task: Task
    model: EncoderWithHeads
    origin: Origin | None = None
    compiled: str | None = None
    micro_batches: MicroBatches | None = None
    processes: Processes = SINGLE_PROCESS
    label_weights: LabelWeights | None = None

    @property
    def known_origin(self) -> Origin:
        """Return the `origin` of a reopened run."""
        assert self.origin is not None, "a new run has no origin"
        return self.origin

    @property
    def choices(self) -> list[str]:
        """Return what was chosen for speed, in lines: device, attention and compilation, and micro-batches."""
        compute, model = self.compute, self.config.model
        if not isinstance(self.model, EncoderWithHeads):
            return [f"{compute}, by onnxruntime"]
        dropout = 0.0 if self.origin else model.attention_dropout
        attention = f"attention: {attention_kernel(compute.device, compute.precision, dropout, model.head_width)}"
        sharing = distribution(self.config.training, self.processes)
        lines = ((compute, sharing), (attention, self.compiled), (self.micro_batches,))
        return [", ".join(str(choice) for choice in line if choice is not None) for line in lines if line != (None,)]

    def evaluate(self, rows: Rows) -> SplitScores:
        """Score the model on all of `rows`; the processes of the run share them."""
        batches = self.scoring_batches(rows, self.processes)
        return evaluate(self.model, batches, self.task.metrics(), self.compute, self.processes)

    def scoring_batches(self, rows: Rows, processes: Processes = SINGLE_PROCESS) -> Iterator[Batch]:
        """Yield each of `rows` once, on the model's device."""
        pad_id, width = self.tokenizer.pad_id, self.config.model.d_model
        return scoring_batches(rows, pad_id, self.compute.device, width, processes)

    def training_batches(self, rows: Rows, after: int = 0, micro_batches: int | None = None) -> Iterator[list[Batch]]:
        """Yield the run's batches from step `after` + 1, without end, each in `micro_batches` (None: as configured)."""
        training = self.config.training
        return training_batches(
            rows,
            training,
            self.config.seed,
            self.tokenizer.pad_id,
            self.compute.device,
            micro_batches=micro_batches or training.accumulate or 1,
            after=after,
            processes=self.processes,
        )

    def saved(self, origin: Origin) -> SavedModel:
        """Return the content of its model folder; `origin` says where its weights come from."""
        return SavedModel(self.config, self.task.labels, self.tokenizer, weights_of(self.model), origin)


def assemble(
    config: RunConfig,
    corpus: AnyCorpus,
    pretrained: SavedModel | None = None,
    processes: Processes = SINGLE_PROCESS,
    teacher: SavedModel | None = None,
) -> Assembly:
    """Build tokenizer, task and model for training, from `pretrained` if there is one, on the device of the settings.

    Without one, tokenizer=as_pretrained is that of the `teacher`. The weights depend only on `config.seed` and
    `pretrained`. The assembly's config describes the model in full, but not where it came from. Raises SettingError and
    DataError if the parts do not match each other or this machine.
    """
    if isinstance(config.tokenizer, WordPieceConfig) and config.tokenizer.lowercase is None:
        # Labelled words keep their case: on French parts of speech (Sequoia, validation) this gains 0.3 points.
        lowercase = not isinstance(config.task, TaggingConfig)
        config = replace(config, tokenizer=replace(config.tokenizer, lowercase=lowercase))
    settings, training = resolve_run(config, pretrained), config.training
    hardware, width = (training.device, training.precision.value, training.threads), settings.model.d_model
    compute = choose_compute(*hardware, width=width, deterministic=training.deterministic, processes=processes)
    are_pairs = isinstance(corpus, Corpus) and corpus.paired  # otherwise there is nothing to read separately
    model_config = settings.model if are_pairs else replace(settings.model, pairs=Pairs.joint)
    tokenizer = _tokenizer(config, corpus, pretrained, teacher)
    task_config = tasks.resolve_task(settings.task, corpus)
    if note := tasks.uneven_note(task_config, corpus):
        print(note, file=sys.stderr)
    model_config = resolve_length(model_config, task_config, tokenizer, corpus, pretrained)
    few = False
    if pretrained is not None and isinstance(config.task, ClassificationConfig) and isinstance(corpus, Corpus):
        few = has_few_rows(config, corpus) or few_rare_rows(config, corpus) > 0
    training = resolve_for_few_rows(config.training, few, model_config.n_layers)
    settings = replace(settings, task=task_config, model=model_config, training=training)
    if model_config.pairs is Pairs.separate and tokenizer.pair_separators > 1:
        tokenizer = tokenizer.with_pair_separators(1)  # each text ends in one when it is read by itself
    task = tasks.build_task(task_config, tokenizer, corpus.labels, model_config.reach)
    torch.manual_seed(config.seed)
    sharded = is_sharded(training, processes)
    model = _build(model_config, tokenizer, task, weights=processes.is_main or not sharded)
    if pretrained is not None:
        fresh = saved_model.load_into(model, pretrained, task.labels)
        drawn = sum(weight.numel() for name, weight in model.named_parameters() if name.rpartition(".")[0] in fresh)
        kept = f"{model.n_parameters - drawn:,} pretrained weights"
        print(f"From {config.starts_from}: {kept}; fresh: {', '.join(fresh) or 'nothing'} ({drawn:,})", file=sys.stderr)
    label_weights = tasks.label_weights_of(task_config, corpus)
    tasks.start_from_frequencies(model, task.heads, corpus, label_weights)
    freeze(model, training)
    if not sharded:  # a model to be sharded may not fit on the device
        model.to(compute.device)
    return Assembly(settings, compute, tokenizer, task, model, processes=processes, label_weights=label_weights)


def _build(config: ModelConfig, tokenizer: Tokenizer, task: Task, *, weights: bool) -> EncoderWithHeads:
    """Return a model with fresh `weights`, or only their shapes. Raises SettingError if they do not fit into memory."""
    shape = (config, tokenizer.vocabulary_size, tokenizer.pad_id, task.heads)
    try:
        return EncoderWithHeads(*shape) if weights else without_weights(*shape)
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
    size = f"{without_weights(*shape).n_parameters:,} parameters"
    remedy = f"Choose a smaller one than model.n_layers={config.n_layers} model.d_model={config.d_model}"
    raise SettingError(f"A model of {size} does not fit into this machine's memory", remedy=remedy)


def has_few_rows(config: RunConfig, corpus: Corpus) -> bool:
    """Return whether a tenth of the training rows, before any are held out, is too few to choose a checkpoint by."""
    labels = len(corpus.labels) if isinstance(config.task, ClassificationConfig) else 0
    parts = ("train", "validation") if "validation" in corpus.splits.origin.get("taken_from_train", {}) else ("train",)
    rows = sum(len(corpus.split(name)) for name in parts)
    return not can_choose_by(config.training, round(VALIDATION_FRACTION * rows), labels)


def few_rare_rows(config: RunConfig, corpus: Corpus) -> int:
    """Return how many training rows have rarer labels than the most frequent one, if that has nearly all rows and the
    others are few; otherwise 0.

    Without this, a run on 45 positives of 1,500 rows (subjectivity) ended at chance, with an average precision of 0.14
    instead of 0.77.
    """
    counts = corpus.survey["train"].labels
    rare = sum(counts.values()) - max(counts.values())
    few = not can_choose_by(config.training, round(VALIDATION_FRACTION * rare), len(corpus.labels))
    return rare if few and tasks.is_uneven(corpus.labels, counts) else 0


def few_rows_note(assembly: Assembly, corpus: Corpus) -> str:
    """Return a sentence on how a run on few training rows, or few of rare labels, was trained; "" if they are more."""
    config, training, model = assembly.config, assembly.config.training, assembly.config.model
    frozen = f"the embeddings and {training.freeze_layers} of {model.n_layers} layers stayed as pretrained"
    frozen = f"{frozen} (training.freeze_layers)" if training.freeze_layers else ""
    if has_few_rows(config, corpus):
        kept = "none are held out for validation, and the last weights are kept (training.min_validation_rows)"
        done = "; ".join(filter(None, ["" if "validation" in corpus.splits.by_name else kept, frozen]))
        return f"{len(corpus.split('train')):,} training rows are few: {done}" if done else ""
    if frozen and isinstance(config.task, ClassificationConfig) and (rare := few_rare_rows(config, corpus)):
        return f"Only {rare:,} training rows have rarer labels, so {frozen}"
    return ""


def resolve_training(assembly: Assembly, rows: Mapping[str, Rows]) -> Assembly:
    """Return the assembly with the open settings of `training` decided: how often to read the rows of `train` and
    evaluate, the learning rate by the encoder's width, whether validation is large enough to choose a checkpoint; and
    with its encoder compiled, if that pays.
    """
    config, n_rows, lengths = assembly.config, len(rows["train"]), rows["train"].epoch(assembly.config.seed, 0).lengths
    longest, device = int(lengths.max()), assembly.compute.device
    micro_batches = choose_micro_batches(config.training, config.model, longest, device, assembly.processes)
    # Windows do not change the number of epochs: a row is one example, however much of it is read.
    tokens = int(np.minimum(lengths, assembly.task.max_length).sum())
    many = config.training.many_labels_passes if len(assembly.task.labels) >= MANY_LABELS else 1
    factor = max(config.task.length_factor, many)
    training = resolve_by_rows(config.training, n_rows, tokens, factor)
    training = replace(training, accumulate=micro_batches.number)
    if training.learning_rate is None:
        of_pairs = assembly.model.separates_pairs and isinstance(config.task, ClassificationConfig)
        peak = peak_for_width(config.model.d_model) * (PEAK_OF_PAIRS if of_pairs else 1)
        training = replace(training, learning_rate=peak)
        suits = f"the encoder's width{', and pairs that are read separately' * of_pairs}"
        print(f"training.learning_rate={peak:g}, suited to {suits}", file=sys.stderr)
    labels = len(assembly.task.labels) if isinstance(config.task, ClassificationConfig) else 0
    n = len(rows["validation"]) if "validation" in rows else None
    last = replace(training, keep=Keep.last, patience=None)
    if n is not None and training != last and not can_choose_by(training, n, labels):
        few = f"{n:,} validation {'row is' if n == 1 else 'rows are'} too few to choose a checkpoint"
        least = f"training.min_validation_rows={training.min_validation_rows}"
        print(f"{few}, so the last is kept, and training does not stop early ({least})", file=sys.stderr)
        training = last
    compiled = _compile(assembly, training, n_rows, tokens)
    return replace(assembly, config=replace(config, training=training), compiled=compiled, micro_batches=micro_batches)


def _compile(assembly: Assembly, training: TrainingConfig, rows: int, tokens: int) -> str:
    """Compile the encoder if it pays in a run with `tokens` tokens per epoch; return what was done, in words."""
    model, processes = assembly.model, assembly.processes
    if is_sharded(training, processes):
        return "not compiled (its weights are sharded)"
    if training.budget is None:
        steps, layers = total_steps(training, rows), model.parameters_by_part()["layers"]
        read = tokens * steps // steps_per_epoch(training, rows) // processes.size
        seconds = seconds_uncompiled(steps, read, assembly.config.model.n_layers, layers)
    else:
        seconds = seconds_of(training.budget)
    return compile_encoder(model.encoder, training.compile, assembly.compute, seconds)


def resolve_run(config: RunConfig, pretrained: SavedModel | None) -> ResolvedRun:
    """Return the part of `config` that any run has, with the model's full settings; it is enough to reopen a finished
    run.

    `max_length` may still be open; see `resolve_length`. Raises SettingError if they do not match the encoder that the
    run starts from.
    """
    shared: dict[str, Any] = {declared.name: getattr(config, declared.name) for declared in fields(RunConfig)}
    start = None if pretrained is None else saved_model.settings_for(config.task, pretrained)
    return cast("ResolvedRun", RunConfig(**{**shared, "model": config.model.resolve(start)}))


def resolve_length(
    model: ModelConfig, task: TaskConfig, tokenizer: Tokenizer, corpus: AnyCorpus, pretrained: SavedModel | None = None
) -> ModelConfig:
    """Return the settings with a number as `max_length`: if it is open, what the training rows need. It is printed.

    It is at most the pretrained encoder's length, or LONGEST_FROM_SCRATCH. Documents fit any length: there it is the
    encoder's own, or PRETRAINING_LENGTH.
    """
    if model.max_length is not None:
        return model
    own = None if pretrained is None else pretrained.config.model
    if isinstance(corpus, Corpus):
        longest = LONGEST_FROM_SCRATCH if own is None else own.reach
        length = corpus.needed_length(tasks.build_task(task, tokenizer, corpus.labels, longest))
        why = f"enough for 99% of the training rows, and at most {longest}"
    else:
        length = PRETRAINING_LENGTH if own is None else own.max_length
        why = "the default for documents, or the length of the pretrained encoder"
    print(f"model.max_length={length}, {why}", file=sys.stderr)
    return replace(model, max_length=length)


def _tokenizer(
    config: RunConfig, corpus: AnyCorpus, pretrained: SavedModel | None, teacher: SavedModel | None
) -> Tokenizer:
    own = pretrained or teacher
    if own is not None and isinstance(config.tokenizer, AsPretrainedTokenizer):
        return own.tokenizer
    tokenizer = config.tokenizer.build(corpus.training_texts, corpus.cache)
    if pretrained is not None and (differs := saved_model.vocabulary_difference(tokenizer, pretrained.tokenizer)):
        name = getattr(config.tokenizer, "name", None) or settings_to_dict(config.tokenizer)["schema"]
        wrong = f"The tokenizer {name} is not that of init_from={config.starts_from}: {differs}"
        raise SettingError(wrong, remedy="Use tokenizer=as_pretrained")
    return tokenizer


def load_init_from(config: RunConfig, processes: Processes) -> SavedModel | None:
    """Return the encoder that the run starts from, read by the main process; None for fresh weights.

    Of a model to be sharded, the others only get the shapes of the weights.
    """
    init_from = config.starts_from
    if init_from is None:
        resolve_run(config, None)  # refuses model=as_pretrained
        return None

    def load() -> SavedModel:
        saved = saved_model.load_pretrained(init_from)
        resolve_run(config, saved)  # what does not match is refused before any data is read
        return saved

    if not is_sharded(config.training, processes):
        return processes.broadcast_from_main(load)
    whole: list[SavedModel] = []  # on the main process

    def shapes() -> SavedModel:
        whole.append(load())
        return replace(whole[0], weights={name: weight.to("meta") for name, weight in whole[0].weights.items()})

    shared = processes.broadcast_from_main(shapes)
    return whole[0] if whole else shared


def reopen(run: OpenRunConfig, processes: Processes = SINGLE_PROCESS, *, or_graph: bool = False) -> Assembly:
    """Open a finished run, a Hugging Face folder or, with `or_graph`, an exported graph. Only the main process reads
    it, and broadcasts it.

    Raises DataError if it is damaged or missing.
    """
    saved = processes.broadcast_from_main(lambda: saved_model.read_model(model_folder(run.run), or_graph=or_graph))
    device, precision = run.device, run.precision.value
    if saved.graph is not None:
        if device not in ("auto", "cpu") or precision == "bf16":
            named = f"precision={precision}" if device in ("auto", "cpu") else f"device={device}"
            wrong = f"{named} does not work with {run.run}, an ONNX graph"
            raise SettingError(wrong, allowed="device=cpu precision=fp32")
        device, precision = "cpu", "fp32"
    width = saved.config.model.d_model
    compute = choose_compute(device, precision, run.threads, width=width, setting="device", processes=processes)
    model = saved.model().to(compute.device)
    return Assembly(saved.config, compute, saved.tokenizer, saved.task(), model, saved.origin, processes=processes)


def check_paired(assembly: Assembly, paired: bool) -> None:
    """Raise DataError for one text if the model was trained on pairs, and the reverse, as far as is known."""
    trained_on_pairs = assembly.known_origin.paired
    if trained_on_pairs is not None and paired != trained_on_pairs:
        expected, got = ("pairs of texts", "one text") if trained_on_pairs else ("single texts", "a pair")
        remedy = "Add text_pair (or its column)" if trained_on_pairs else "Remove text_pair"
        raise DataError(f"This model was trained on {expected}, but {got} was given", remedy=remedy)


def own_dataset(assembly: Assembly) -> DatasetConfig:
    """Return the dataset the run was trained on. Raises DataError for a model without a run."""
    if assembly.config.dataset is None:
        wrong = f"{assembly.config.task.name} is a model without a run, so its dataset and its splits are unknown"
        raise DataError(wrong, remedy="Set text=... or input=FILE, or, with eval, dataset=...")
    return assembly.config.dataset
