"""Every setting that the rows and the starting encoder decide if a command line leaves it open, and the rule.

`settle` turns the settings of a run and the facts about its data, its starting encoder and this machine into the final
settings, with notes that say what was decided and why. It reads no file, prints nothing and asks no other process. The
settings are decided in the order of the table; each function decides one row.

| settings | decided by | from |
| --- | --- | --- |
| dataset.text, label, sheet | `FilesDataset.read`, when the rows are read | the columns and their values |
| dataset.validation_fraction | `load_data`, after the rows are read | the number of rows |
| tokenizer.lowercase | `TokenizerConfig.for_task`, before the texts are tokenised | the kind of task |
| model=as_pretrained, model.pairs | `settle_shape` | the starting encoder, whether rows are pairs |
| task.* | `TaskConfig.settled` | the labels and numbers of the training rows |
| task.teacher_width | `settle` | the teacher |
| model.max_length | `settle_length` | the lengths of the training rows |
| training.batching, freeze_layers | `settle_few_rows` | whether training rows, or those of rare labels, are few |
| training.contrast_weight | `settle_contrast` | the task, whether training rows are few |
| training.epochs, evaluate_every | `settle_epochs` | the numbers of rows, tokens and labels |
| training.learning_rate, layer_decay | `settle_learning_rate` | the encoder to start from, labels, pairs, optimizer |
| training.keep, patience | `settle_validation` | the numbers of validation rows and labels |
| training.accumulate | `settle_micro_batches` | the task, the longest row, the device's memory |
| training.device, precision, threads | `set_up_compute`, before | this machine |
| training.precision, threads | `fastest_compute`, after | how long some steps take |
| training.compile | `compile_if_it_pays`, after | the device, how long the run is |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from encoderlab.config.commands import AnyRunConfig, RunConfig
from encoderlab.data.data import VALIDATION_FRACTION
from encoderlab.data.survey import SplitSurvey
from encoderlab.errors import SettingError
from encoderlab.network.config import ModelConfig, Pairs, Pooling
from encoderlab.tasks.classification import is_uneven
from encoderlab.tasks.task import TaskConfig
from encoderlab.training.batches import initial_micro_batches
from encoderlab.training.config import (
    ENOUGH_EPOCHS,
    MANY_LABELS,
    Batching,
    Keep,
    Optimizer,
    TrainingConfig,
    can_choose_by,
    resolve_by_rows,
)
from encoderlab.training.optimizer import (
    LAYER_DECAY,
    PEAK_FROM_SCRATCH,
    PEAK_OF_MANY_LABELS,
    PEAK_OF_MUON_FROM_SCRATCH,
    PEAK_OF_PAIRS,
    peak_for_width,
)

LONGEST_FROM_SCRATCH = 512  # tokens: the most that rows can decide for an encoder from scratch, as in BERT
PRETRAINING_LENGTH = 128
SHORTEST = 32  # tokens: shorter sequences save nothing, and later inputs may be longer than the training rows
COVERED = 99  # percent of the training rows that `model.max_length` holds whole
RowLengths = Callable[[TaskConfig, int], np.ndarray]  # of the training rows, for the most tokens that are read
CONTRAST_WEIGHT = 0.5  # for few rows: benchmarks/results/contrast_weight.md has what else was tried


@dataclass(frozen=True, slots=True)
class Facts:
    """What the open settings depend on.

    `survey` has the statistics of each split of labelled rows (None: documents), and `n_rows` the number of rows of
    each split that is used. `row_lengths` returns the length of each training row for a task and the most tokens that
    are read. `start_shape` is that of the encoder that the run starts from (None: fresh weights).
    """

    row_lengths: RowLengths
    n_rows: Mapping[str, int]
    labels: Sequence[str] = ()
    survey: Mapping[str, SplitSurvey] | None = None
    n_undivided: int = 0  # training rows, before some were held out for validation
    has_validation: bool = True
    is_tested: bool = True  # whether some rows are held out from training, or nobody asks for scores
    paired: bool = False
    start_shape: ModelConfig | None = None
    teacher_width: int | None = None
    decided: Mapping[str, object] = field(default_factory=dict)  # settings of the dataset, while its rows were read
    device: str = "cpu"
    processes: int = 1


def settle(config: AnyRunConfig, facts: Facts) -> tuple[AnyRunConfig, list[str]]:
    """Return the settings of a run after all decisions of the table but the last three rows, and a note on each that a
    user may want to know.

    Raises SettingError if settings contradict the starting encoder, DataError if no rows can be made of the data.
    """
    notes: list[str] = []

    # What was decided while the rows were read and tokenised.
    dataset = config.dataset
    if facts.decided:
        dataset = replace(dataset, **facts.decided)
    # The tokenizer was made by the same rule (`tokenizer_for`).
    tokenizer = config.tokenizer.for_task(of_words=config.task.of_words)

    # What is to be learned.
    task = config.task
    if facts.teacher_width is not None and hasattr(task, "teacher_width"):
        task = replace(task, teacher_width=facts.teacher_width)
    if facts.survey is not None:
        task, more = task.settled(facts.labels, facts.survey["train"], has_validation=facts.has_validation)
        notes += more

    # The shape of the model.
    shape = settle_shape(config, facts)
    shape, more = settle_length(shape, task, facts)
    notes += more

    # How it is trained. A row's length is known only now.
    lengths = facts.row_lengths(task, shape.reach)
    training, more = settle_few_rows(config.training, task, shape, facts)
    notes += more
    training, more = settle_contrast(training, task, shape, facts)
    notes += more
    training = settle_epochs(training, task, facts, lengths, shape.reach)
    training, more = settle_learning_rate(training, task, shape, facts)
    notes += more
    training, more = settle_validation(training, task, facts)
    notes += more
    training = settle_micro_batches(training, task, shape, facts, lengths)
    settled = replace(config, dataset=dataset, tokenizer=tokenizer, task=task, model=shape, training=training)
    return settled, notes


def settle_shape(config: RunConfig, facts: Facts) -> ModelConfig:
    """Return the model's settings in full, of which only `max_length` may still be open.

    Without pairs there is nothing to read separately, except by encoders that are trained to be started from. Raises
    SettingError if they do not match the starting encoder.
    """
    shape = config.model.resolve(facts.start_shape)
    if config.task.of_vectors and shape.pooling not in (Pooling.cls, Pooling.mean):
        problem = f"model.pooling={shape.pooling.value} has weights of its own, but the vectors of texts are trained"
        raise SettingError(problem, allowed="cls or mean")
    return shape if facts.paired or config.task.of_vectors else replace(shape, pairs=Pairs.joint)


def settle_length(shape: ModelConfig, task: TaskConfig, facts: Facts) -> tuple[ModelConfig, list[str]]:
    """Decide the most tokens that the model reads: what the training rows need, up to what the encoder can read.

    Documents fit any length: there it is the starting encoder's own, or PRETRAINING_LENGTH. So do texts whose vectors
    are trained for other texts.
    """
    if shape.max_length is not None:
        return shape, []
    if facts.survey is None or task.of_vectors:
        length = PRETRAINING_LENGTH if facts.start_shape is None else facts.start_shape.reach
        why = "the default for documents, or the length of the pretrained encoder"
    else:
        # A few very long rows would slow down every step, so the length covers nearly all rows, and not all.
        longest = LONGEST_FROM_SCRATCH if facts.start_shape is None else facts.start_shape.reach
        lengths = facts.row_lengths(task, longest)
        needed = int(np.percentile(lengths, COVERED, method="higher"))
        length = min(max(needed, SHORTEST), longest)
        why = f"enough for {COVERED}% of the training rows, and at most {longest}"
    return replace(shape, max_length=length), [f"model.max_length={length}, {why}"]


def settle_few_rows(
    training: TrainingConfig, task: TaskConfig, shape: ModelConfig, facts: Facts
) -> tuple[TrainingConfig, list[str]]:
    """Decide how few training rows are batched, and which layers stay as pretrained.

    A few rows are batched at random, because three batches by length would hold the same rows in each epoch. The
    embeddings and the lowest quarter of the layers stay as they are.
    """
    # Both decisions are about pretrained encoders; a run from scratch has nothing to keep.
    few = False
    rare = 0
    if facts.start_shape is not None and task.one_class_per_text:
        rare = few_rare_rows(training, facts)
        few = rare > 0 or _trains_on_few_rows(training, task, facts)
    batching = training.batching or (Batching.random if few else Batching.length)
    freeze_layers = training.freeze_layers
    if freeze_layers is None:
        freeze_layers = shape.n_layers // 4 if few else 0
    training = replace(training, batching=batching, freeze_layers=freeze_layers)
    return training, _few_rows_notes(training, task, shape, facts, rare)


def _few_rows_notes(
    training: TrainingConfig, task: TaskConfig, shape: ModelConfig, facts: Facts, rare: int
) -> list[str]:
    """Return a sentence on how a run on few training rows, or few of rare labels, is trained, if they are few."""
    if facts.survey is None:
        return []
    frozen = ""
    if training.freeze_layers:
        layers = f"{training.freeze_layers} of {shape.n_layers} layers"
        frozen = f"the embeddings and {layers} stay as pretrained (training.freeze_layers)"

    # Few rows are told of only as far as the run differs from one on many.
    if _trains_on_few_rows(training, task, facts):
        kept = "none are held out for validation, and the last weights are kept (training.min_validation_rows)"
        if not facts.is_tested:
            kept += "; there is nothing to test on, so add folds=5, which tests on every row"
        what_is_done = [sentence for sentence in ("" if facts.has_validation else kept, frozen) if sentence]
        if what_is_done:
            return [f"{facts.n_rows['train']:,} training rows are few: {'; '.join(what_is_done)}"]
    elif frozen and rare:
        return [f"Only {rare:,} training rows have rarer labels, so {frozen}"]
    return []


def settle_contrast(
    training: TrainingConfig, task: TaskConfig, shape: ModelConfig, facts: Facts
) -> tuple[TrainingConfig, list[str]]:
    """Decide how much a pretrained encoder learns from comparing the rows of a batch: something from few rows of few
    labels (Gunel et al. 2021), otherwise nothing.

    Of many labels, a batch has hardly two rows; and several processes would compare only their own. Raises SettingError
    if it was set for a task that compares nothing.
    """
    # As set, unless it would have no effect.
    can_compare = task.one_class_per_text and shape.pairs is Pairs.joint
    if training.contrast_weight is not None:
        if training.contrast_weight and not can_compare:
            problem = f"training.contrast_weight={training.contrast_weight:g} would have no effect"
            allowed = "a task that gives each text, or pair read as one, one label"
            raise SettingError(problem, allowed=allowed, remedy="Remove training.contrast_weight")
        return training, []

    # Otherwise by the rows.
    starts = facts.start_shape is not None and not facts.paired and facts.processes == 1
    few_labels = len(facts.labels) < MANY_LABELS
    compares = can_compare and starts and few_labels
    if not (compares and _trains_on_few_rows(training, task, facts)):
        return replace(training, contrast_weight=0.0), []
    what = "texts of one label are also to have similar vectors, and others not"
    note = f"With so few training rows, {what} (training.contrast_weight={CONTRAST_WEIGHT:g})"
    return replace(training, contrast_weight=CONTRAST_WEIGHT), [note]


def _trains_on_few_rows(training: TrainingConfig, task: TaskConfig, facts: Facts) -> bool:
    """Return whether there were few training rows before validation rows were taken from them."""
    return has_few_rows(training, task, facts.n_undivided, len(facts.labels))


def has_few_rows(training: TrainingConfig, task: TaskConfig, n_rows: int, n_labels: int) -> bool:
    """Return whether a tenth of the training rows, before any are held out, is too few to choose a checkpoint by."""
    labels = n_labels if task.one_class_per_text else 0
    return not can_choose_by(training, round(VALIDATION_FRACTION * n_rows), labels)


def too_few_to_hold_out(training: TrainingConfig, n_rows: int) -> bool:
    """Return whether the rows of a dataset without other splits are so few that a tenth would say nothing: all of them
    are trained on, and scored.

    With 12 rows, a tenth is one row, of a label that has only two.
    """
    return n_rows < training.min_validation_rows


def few_rare_rows(training: TrainingConfig, facts: Facts) -> int:
    """Return how many training rows have rarer labels than the most frequent one, if that has nearly all rows and the
    others are few; otherwise 0.

    Without this, a run on 45 positives of 1,500 rows (subjectivity) ended at chance, with an average precision of 0.14
    instead of 0.77.
    """
    if facts.survey is None:
        return 0
    counts = facts.survey["train"].labels
    rare = sum(counts.values()) - max(counts.values())

    # The same measure as for few rows, here of those that the model has to find.
    enough = can_choose_by(training, round(VALIDATION_FRACTION * rare), len(facts.labels))
    return rare if not enough and is_uneven(facts.labels, counts) else 0


def settle_epochs(
    training: TrainingConfig, task: TaskConfig, facts: Facts, lengths: np.ndarray, max_length: int
) -> TrainingConfig:
    """Decide how often the training rows are read, and how often the model is evaluated.

    Windows do not change the number of epochs: a row is one example, however much of it is read.
    """
    n_tokens = int(np.minimum(lengths, max_length).sum())

    # By the number of rows and their length; a run of many labels is longer, because each of them has few rows.
    epochs = resolve_by_rows(training, len(lengths), n_tokens, task.length_factor).epochs
    if epochs is not None and len(facts.labels) >= MANY_LABELS:
        factor = max(task.length_factor, training.many_labels_passes)
        longer = resolve_by_rows(training, len(lengths), n_tokens, factor).epochs
        assert longer is not None, "neither steps nor a budget decide"
        epochs = min(longer, max(epochs, ENOUGH_EPOCHS))

    # How often it is evaluated depends on the length that was decided.
    return resolve_by_rows(replace(training, epochs=epochs), len(lengths), n_tokens)


def settle_learning_rate(
    training: TrainingConfig, task: TaskConfig, shape: ModelConfig, facts: Facts
) -> tuple[TrainingConfig, list[str]]:
    """Decide the learning rates: how they fall from layer to layer, and the peak: from scratch one for each optimizer,
    from a pretrained encoder by its width, higher for one of many classes, lower for pairs that are read separately.
    """
    # How rates fall from layer to layer.
    if training.layer_decay is None:
        training = replace(training, layer_decay=1.0 if facts.start_shape is None else LAYER_DECAY)

    # The peak: as set, of fresh weights, or of a pretrained encoder.
    if training.learning_rate is not None:
        return training, []
    if facts.start_shape is None:
        peak = PEAK_FROM_SCRATCH if training.optimizer is Optimizer.adamw else PEAK_OF_MUON_FROM_SCRATCH
        return replace(training, learning_rate=peak), [f"training.learning_rate={peak:g}, suited to fresh weights"]
    peak = peak_for_width(shape.d_model)
    suits = "the encoder's width"
    if task.one_class_per_text and shape.pairs is Pairs.separate:
        peak *= PEAK_OF_PAIRS
        suits += ", and pairs that are read separately"
    elif task.one_class_per_text and len(facts.labels) >= MANY_LABELS:
        peak *= PEAK_OF_MANY_LABELS
        suits += f", and {len(facts.labels)} labels"

    # Two digits, as a person would set it.
    peak = float(f"{peak:.1e}")
    return replace(training, learning_rate=peak), [f"training.learning_rate={peak:g}, suited to {suits}"]


def settle_validation(training: TrainingConfig, task: TaskConfig, facts: Facts) -> tuple[TrainingConfig, list[str]]:
    """Keep the last weights, and do not stop early, if validation is too small to choose a checkpoint by."""
    n_rows = facts.n_rows.get("validation")
    n_labels = len(facts.labels) if task.one_class_per_text else 0
    last = replace(training, keep=Keep.last, patience=None)
    if n_rows is None or training == last or can_choose_by(training, n_rows, n_labels):
        return training, []
    rows = "1 validation row is" if n_rows == 1 else f"{n_rows:,} validation rows are"
    why = f"training.min_validation_rows={training.min_validation_rows}"
    kept = "the last is kept, and training does not stop early"
    return last, [f"{rows} too few to choose a checkpoint, so {kept} ({why})"]


def settle_micro_batches(
    training: TrainingConfig, task: TaskConfig, shape: ModelConfig, facts: Facts, lengths: np.ndarray
) -> TrainingConfig:
    """Decide in how many micro-batches a batch is computed at first; a GPU takes more when its memory runs out."""
    # A task that compares the rows of a micro-batch decides, then the setting, then the memory of the device.
    accumulate = task.n_micro_batches(training) or training.accumulate
    if accumulate is None:
        longest = int(lengths.max())
        accumulate = initial_micro_batches(training, shape, longest, facts.device, facts.processes)
    return replace(training, accumulate=accumulate)
