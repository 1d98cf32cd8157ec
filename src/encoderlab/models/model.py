"""A model: an encoder with its heads, its tokenizer and task, on a device; built for a run or loaded from a folder.

It is what `encoderlab.load` returns, what `predict` and `serve` hold, and what a run trains.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from encoderlab.batch import Batch, Prediction
from encoderlab.config.commands import RunConfig, VectorPooling
from encoderlab.data.dataset import DatasetConfig
from encoderlab.data.examples import Example, TextExample, WordsExample
from encoderlab.data.token_store import tokenize_examples
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError, one_line
from encoderlab.metrics.novelty import Novelty
from encoderlab.metrics.scores import PredictionScores, SplitScores
from encoderlab.models.branch import LinearBranch
from encoderlab.network.config import HeadSizes, ModelConfig, Pairs, Pooling
from encoderlab.network.heads import ClsPool, EncoderWithHeads, MaxPool, MeanPool, pool_windows, without_weights
from encoderlab.network.packing import FIRST_TOKENS
from encoderlab.system.device import Compute, set_up_compute
from encoderlab.system.messages import unsaid
from encoderlab.system.processes import SINGLE_PROCESS, Processes
from encoderlab.tasks.rows import ExampleRows, example_rows
from encoderlab.tasks.task import NO_ABSTENTION, Abstention, RowPrediction, Task
from encoderlab.training.batches import Rows, scoring_batches
from encoderlab.training.distribution import distribution_in_words, is_sharded
from encoderlab.training.evaluation import evaluate, predict_batches

if TYPE_CHECKING:
    from pathlib import Path

    from encoderlab.data.data import Data
    from encoderlab.tables.columns import Columns
    from encoderlab.tables.formats import Dialect

UNASSIGNED = Compute(torch.device("cpu"), torch.float32, 1, "not used yet")  # until a command chooses a device
POOLINGS = {VectorPooling.cls: ClsPool(), VectorPooling.mean: MeanPool(), VectorPooling.max: MaxPool()}
Output = TypeVar("Output")


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a model comes from: after which step its weights were taken and why, and what it was trained on.

    `paired` tells whether an example is two texts (None: unknown); `fingerprints` has one for each split's rows, so
    that a dataset that has changed since is noticed. `longest_row` is the length in tokens of the longest training row
    (None: unknown): what a model does with much longer ones has never been tested.
    """

    checkpoint: dict[str, Any]
    paired: bool | None
    fingerprints: dict[str, str]
    longest_row: int | None = None


@dataclass(eq=False)
class Model:
    """An encoder with its heads (`network`), tokenizer and task, on a device.

    `config` has the settings it was trained with, those of the encoder (`shape`) in full; `config.dataset` is None if
    there was no run, as for an encoder alone. `provenance` is None while it is trained. `pooler` holds the weights of
    BERT's pooler (`pool.dense.*`) that came with an encoder without a head: only a run that starts from it uses them.
    The `processes` share its scoring. `novelty` says how unlike the training texts a text is (None: not known). The
    outputs of a linear `branch` are added to the network's.
    """

    config: RunConfig
    task: Task
    network: EncoderWithHeads
    compute: Compute
    provenance: Provenance | None = None
    pooler: dict[str, Tensor] = field(default_factory=dict)
    processes: Processes = SINGLE_PROCESS
    novelty: Novelty | None = None
    branch: LinearBranch | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle weights, settings and tokenizer; the device is chosen where the model is opened again."""
        network = self.network
        if self.compute.device.type != "cpu":
            network = copy.deepcopy(network).to("cpu")
        is_open = self.compute is not UNASSIGNED
        return _reopened, (
            self.config,
            self.task,
            network,
            self.provenance,
            self.pooler,
            self.novelty,
            self.branch,
            is_open,
        )

    def on(self, compute: Compute, processes: Processes = SINGLE_PROCESS) -> Model:
        """Return the model where `compute` says, with its network moved there; the `processes` share its scoring."""
        self.network.to(compute.device)
        return replace(self, compute=compute, processes=processes)

    def with_shape(self, shape: ModelConfig, network: EncoderWithHeads | None = None) -> Model:
        """Return the model with another shape in its settings, and the `network` that has it (None: its own does)."""
        config = replace(self.config, model=shape)
        return replace(self, config=config, network=self.network if network is None else network)

    def with_task(self, task: Task, network: EncoderWithHeads | None = None) -> Model:
        """Return the model with other settings of its task, and the `network` that suits them (None: its own does)."""
        config = replace(self.config, task=task.config)
        return replace(self, config=config, task=task, network=self.network if network is None else network)

    @property
    def shape(self) -> ModelConfig:
        """Return the encoder's settings in full."""
        return self.config.shape

    @property
    def tokenizer(self) -> Tokenizer:
        return self.task.tokenizer

    @property
    def labels(self) -> list[str]:
        """Return the names of the classes, in the order of their ids."""
        return self.task.labels

    @property
    def task_name(self) -> str:
        """Return the name of the task it was trained on; of an encoder alone, its own."""
        return self.config.task.name

    @property
    def strips_html(self) -> bool:
        """Return whether texts are read without HTML, because the training rows were."""
        trained: DatasetConfig | None = self.config.dataset  # an encoder alone has none
        return trained is not None and trained.strips_html

    @property
    def file_columns(self) -> Columns:
        """Return the columns that a file of new texts is expected to have."""
        from encoderlab.tables.columns import USUAL_COLUMNS

        trained: DatasetConfig | None = self.config.dataset
        return USUAL_COLUMNS if trained is None else trained.file_columns

    @property
    def file_dialect(self) -> Dialect:
        """Return how files of new texts are read; what it leaves open is decided for each."""
        from encoderlab.tables.formats import Dialect

        trained: DatasetConfig | None = self.config.dataset
        return Dialect() if trained is None else trained.dialect

    @property
    def origin(self) -> Provenance:
        """Return the `provenance` of a finished model."""
        assert self.provenance is not None, "a model in training has none"
        return self.provenance

    @property
    def network_alone(self) -> Model:
        """Return the model without its branch, with the thresholds that suit the network."""
        if self.branch is None:
            return self
        config = replace(self.task.config, **self.branch.network_thresholds)
        task = config.build(self.tokenizer, self.labels, self.task.max_length)
        return replace(self.with_task(task), branch=None)

    @property
    def weights(self) -> dict[str, Tensor]:
        """Return all weights by name, and those of a `pooler`."""
        return self.network.state_dict() | self.pooler

    @property
    def choices(self) -> list[str]:
        """Return what was chosen for speed, in lines: the device and, of our own network, how attention is computed."""
        compute = self.compute
        if not isinstance(self.network, EncoderWithHeads):
            return [f"{compute}, by onnxruntime"]
        dropout = 0.0 if self.provenance else self.shape.attention_dropout
        kernel = self.network.encoder.attention_kernel(compute.device, compute.precision, dropout)
        sharing = distribution_in_words(self.config.training, self.processes)
        return [str(compute) if sharing is None else f"{compute}, {sharing}", f"attention: {kernel}"]

    def rows(self, examples: Sequence[Example]) -> ExampleRows:
        """Return new texts as rows for this model. Raises DataError for one that it cannot read.

        They are read without HTML if it was trained without.
        """
        if self.strips_html:
            examples = [example.without_html() for example in examples]
        rows = self.task.rows(tokenize_examples(examples, self.tokenizer))
        rows.examples = examples
        return rows

    def scoring_batches(self, rows: Rows, processes: Processes = SINGLE_PROCESS) -> Iterator[Batch]:
        """Yield each of `rows` once, on the model's device; the `processes` take batches in turn."""
        return scoring_batches(rows, self.tokenizer.pad_id, self.compute.device, self.shape, processes)

    def evaluate(self, rows: Rows) -> SplitScores:
        """Score the model on all of `rows`; the processes of the run share them."""
        batches = self.scoring_batches(rows, self.processes)
        metrics = self.task.metrics()
        return evaluate(self.network, batches, metrics, self.compute, self.processes, self._forward(rows))

    def _forward(self, rows: Rows) -> Callable[[Batch], Prediction]:
        """Return a function from batches of the `rows` to the network's output, pooled with that of the branch."""
        branch = self.branch
        if branch is None:
            return self.network
        outputs = branch.outputs(example_rows(rows).examples or ())

        def both(batch: Batch) -> Prediction:
            prediction = self.network(batch)
            assert prediction.sequence_logits is not None, "a branch is for whole texts"
            logits = branch.added_to(prediction.sequence_logits, outputs[batch.rows.cpu().numpy()])
            return prediction._replace(sequence_logits=logits)

        return both

    def evaluate_predictions(self, rows: Rows) -> PredictionScores:
        """Score the model of a task on labelled rows, with a prediction for each; see `evaluate`."""
        scores = self.evaluate(rows)
        assert isinstance(scores, PredictionScores)
        return scores

    def predict(
        self,
        texts: str | Sequence[str | tuple[str, str]],
        *,
        min_probability: float | None = None,
        unlike_training: float | None = None,
    ) -> list[dict[str, Any]]:
        """Return a prediction for each text, or pair of texts, in their order; for a single string, a list of one.

        `predicted` is a label, with the `probabilities` of all labels; a list of labels, with those probabilities; or a
        number. A blank text has None for each of them. For a task on words, it is a list with a label for each word
        that the model reads. A label below `min_probability` is None. So is that of a text unlike the training texts,
        and `reason` says so, with `unlike_training`, the share of texts like them that may be lost. Raises SettingError
        if `texts` is not a list of texts, DataError for texts that cannot be read.
        """
        abstention = self.abstention(min_probability, unlike_training)
        examples = self._examples(texts)
        for example in examples:
            self.check_paired(example.paired)
        return self.plain_predictions(examples, abstention)

    def plain_predictions(
        self, examples: Sequence[Example], abstention: Abstention = NO_ABSTENTION
    ) -> list[dict[str, Any]]:
        """Return the prediction for each example as plain values, see `Task.plain`; of a blank text, None for each."""
        predictions = []
        for example, prediction in zip(examples, self.predictions(examples), strict=True):
            predictions.append(unless_blank(example, self.task.plain(prediction, abstention)))
        return predictions

    def abstention(self, min_probability: float | None = None, unlike_training: float | None = None) -> Abstention:
        """Return when the model gives no label, by the settings of those names (None: not asked for).

        Raises SettingError if the model does not predict one label for each row or word, or knows nothing of novelty.
        """
        if min_probability is not None and not self.task.gives_one_label:
            problem = (
                "min_probability needs a model with one label per row, and this one predicts numbers or sets of labels"
            )
            raise SettingError(problem, remedy="Remove min_probability")
        if unlike_training is None:
            return Abstention(min_probability or 0.0)
        if not 0 < unlike_training < 1:
            raise SettingError(f"unlike_training is {unlike_training}", allowed="a share between 0 and 1, such as 0.05")
        if self.novelty is None:
            problem = "unlike_training does not work with this model, which has no record of its training texts"
            allowed = "a classifier of single texts, trained here with at least 50 validation rows or its head alone"
            raise SettingError(problem, allowed=allowed, remedy="Remove unlike_training, or train again")
        return Abstention(min_probability or 0.0, self.novelty.threshold(unlike_training))

    def embed(
        self, texts: str | Sequence[str | tuple[str, str]], pooling: str | None = None, *, normalize: bool | None = None
    ) -> np.ndarray:
        """Return a vector for each text, [texts, d_model]: the `mean` or `max` of its tokens or its `cls`, of length
        1 if `normalize`. Without a `pooling` it is as its sentence vectors were trained, or the `mean`, and without
        `normalize` it has length 1 if they were trained so.

        Raises SettingError and DataError as `predict` does.
        """
        if pooling is not None and pooling not in VectorPooling.__members__:
            raise SettingError(f"pooling={pooling} is not a valid choice", allowed=", ".join(VectorPooling.__members__))
        vector_pooling = None if pooling is None else VectorPooling[pooling]
        scales = self.config.task.normalizes_vectors if normalize is None else normalize
        return self.vectors(self.rows(self._examples(texts)), vector_pooling, normalize=scales)

    def _examples(self, texts: str | Sequence[str | tuple[str, str]]) -> list[Example]:
        listed = [texts] if isinstance(texts, str) else texts
        if not isinstance(listed, Sequence) or not all(map(_is_text, listed)):
            problem = f"{one_line(repr(listed))[:80]} is not a list of texts"
            raise SettingError(problem, allowed='["..."], or pairs as [("...", "...")]')
        examples = []
        for text in listed:
            first, second = text if isinstance(text, tuple) else (text, None)
            examples.append(self.example(first, second))
        return examples

    def example(self, text: str, text_pair: str | None = None) -> Example:
        """Return one text or a pair as an example; for a task on words, the text split at white space."""
        return WordsExample(tuple(text.split())) if self.task.config.of_words else TextExample(text, text_pair)

    def predictions(self, examples: Sequence[Example]) -> list[RowPrediction]:
        """Return the prediction for each example. Raises DataError for one that the model cannot read."""
        return self.outputs(self.rows(examples), self.read_predictions)

    def read_predictions(self, prediction: Prediction, batch: Batch) -> list[RowPrediction]:
        """Return the prediction for each row of a batch, from the network's output, with its novelty if it is known."""
        predictions = self.task.predictions(prediction, batch)
        vectors = prediction.sequence_vectors
        if self.novelty is None or vectors is None:
            return predictions
        novelties = self.novelty.measure(vectors.float().cpu().numpy())
        return [replace(one, novelty=novelty) for one, novelty in zip(predictions, novelties.tolist(), strict=True)]

    def outputs(
        self,
        rows: ExampleRows,
        read: Callable[[Prediction, Batch], Iterable[Output]],
        done: Callable[[int], None] = lambda _: None,
    ) -> list[Output]:
        """Return what `read` makes of the network's output for each row: an item for each row of a batch.

        `done` is told how many rows each batch had.
        """
        forward = self._forward(rows)

        def predict(batch: Batch) -> Iterable[Output]:
            with torch.inference_mode():
                with self.compute.autocast():
                    prediction = forward(batch)
                return read(prediction, batch)

        outputs: dict[int, Output] = {}
        for batch, answers in predict_batches(self.scoring_batches(rows), predict, self.compute):
            outputs.update(zip(batch.rows.tolist(), answers, strict=True))
            done(len(batch.rows))
        return [outputs[row] for row in range(len(rows))]

    def vectors(
        self,
        rows: ExampleRows,
        pooling: VectorPooling | None = None,
        *,
        normalize: bool = False,
        layer: int | None = None,
        done: Callable[[int], None] = lambda _: None,
    ) -> np.ndarray:
        """Return the vector of each row, [rows, d_model]; for a row in several windows, the mean of theirs.

        Without a `pooling`, it is pooled as `vector_pooling` says. They are those after a `layer`, counted from 1 (0:
        the embeddings), or after the last. `done` is told how many rows each batch had.
        """
        if pooling is None:
            pooling = self.vector_pooling
        encode = partial(self._vectors_of_batch, pooling=pooling, normalize=normalize, layer=layer)
        vectors = np.empty((len(rows), self.shape.d_model), np.float32)
        for batch, encoded in predict_batches(self.scoring_batches(rows), encode, self.compute):
            vectors[batch.rows.cpu().numpy()] = encoded
            done(len(batch.rows))
        return vectors

    @torch.inference_mode()
    def _vectors_of_batch(
        self, batch: Batch, *, pooling: VectorPooling, normalize: bool, layer: int | None
    ) -> np.ndarray:
        # The last layer computes only the first token where that is all the pooling reads.
        selection = FIRST_TOKENS if pooling is VectorPooling.cls else None
        with self.compute.autocast():
            inputs = (batch.input_ids, batch.token_type_ids, batch.attention_mask)
            if layer is None:
                hidden = self.network.encoder.encode(*inputs, selection=selection)
            else:
                hidden = self.network.encoder.hidden_states(*inputs)[layer]
        vectors = POOLINGS[pooling](hidden.float(), batch.attention_mask)
        if batch.attention_mask is not None:  # a row without tokens, such as an empty text, is zero
            vectors = vectors.where(batch.attention_mask.any(dim=1, keepdim=True), 0.0)
        if batch.row_of_sequence is not None:
            vectors = pool_windows(vectors, batch.row_of_sequence, len(batch), "mean")
        if normalize:
            vectors = F.normalize(vectors, dim=-1)
        return vectors.cpu().numpy()

    def check_paired(self, paired: bool) -> None:
        """Raise DataError for one text if the model was trained on pairs, and the reverse, as far as is known."""
        trained_on_pairs = self.origin.paired
        if trained_on_pairs is not None and paired != trained_on_pairs:
            expected, got = ("pairs of texts", "one text") if trained_on_pairs else ("single texts", "a pair")
            remedy = "Add text_pair (or its column)" if trained_on_pairs else "Remove text_pair"
            raise DataError(f"This model was trained on {expected}, but {got} was given", remedy=remedy)

    @property
    def first_token_is_trained(self) -> bool:
        """Return whether the vector of the first token was trained to stand for the whole text: by labels, or, in an
        encoder that reads the texts of a pair separately, as its sentence vector.
        """
        if self.shape.pooling is not Pooling.cls:
            return False
        return self.task.heads.judges_texts or self.shape.pairs is Pairs.separate

    @property
    def vector_pooling(self) -> VectorPooling:
        """Return how the vectors of a text's tokens become one: as they were trained to, or by their mean."""
        if self.first_token_is_trained:
            return VectorPooling.cls
        return VectorPooling.max if self.shape.pooling is Pooling.max else VectorPooling.mean

    @property
    def own_dataset(self) -> DatasetConfig:
        """Return the dataset the model was trained on. Raises DataError for a model without a run."""
        if self.config.dataset is None:
            problem = f"{self.task_name} is a model without a run, so its dataset and its splits are unknown"
            raise DataError(problem, remedy="Set text=... or input=FILE, or, with eval, dataset=...")
        return self.config.dataset

    def own_rows(self, cache: Path) -> Data:
        """Return the rows of the run's own dataset, in silence: how they are read was said when it was trained.

        Raises DataError if there is none, or as reading it does.
        """
        with unsaid():
            return self.own_dataset.load(cache, self.config.task.target)


def _reopened(
    config: RunConfig,
    task: Task,
    network: EncoderWithHeads,
    provenance: Provenance | None,
    pooler: dict[str, Tensor],
    novelty: Novelty | None,
    branch: LinearBranch | None,
    is_open: bool,
) -> Model:
    """Return a model that was pickled, on the device that its settings choose on this machine if it was open."""
    compute = UNASSIGNED
    if is_open:
        training = config.training
        width = config.model.resolve(None).d_model
        compute = set_up_compute(training.device, training.precision.value, training.threads, width=width)
        network.to(compute.device)
    return Model(config, task, network, compute, provenance, pooler, novelty=novelty, branch=branch)


def _is_text(value: Any) -> bool:
    """Return whether the value is a text, or a pair of texts."""
    pair = isinstance(value, tuple) and len(value) == 2
    return isinstance(value, str) or (pair and all(isinstance(part, str) for part in value))


def is_blank(example: Example) -> bool:
    """Return whether nothing can be predicted for the example, because a text of it is empty or white space."""
    if not isinstance(example, TextExample):
        return False
    has_pair = example.text_pair is None or bool(example.text_pair.strip())
    return not (example.text.strip() and has_pair)


def unless_blank(example: Example, prediction: dict[str, Any]) -> dict[str, Any]:
    """Return the prediction; for a blank example, the same keys without values."""
    if not is_blank(example):
        return prediction
    empty = {"probabilities": dict.fromkeys(prediction.get("probabilities", {}))}
    return {name: empty.get(name) for name in prediction}


def build_network(config: RunConfig, tokenizer: Tokenizer, heads: HeadSizes, processes: Processes) -> EncoderWithHeads:
    """Return a network with fresh weights, drawn from `config.seed`; of one to be sharded, only the main process has
    weights.

    Raises SettingError if they do not fit into memory.
    """
    shape = config.shape
    arguments = (shape, tokenizer.vocabulary_size, tokenizer.pad_id, heads)
    torch.manual_seed(config.seed)
    if is_sharded(config.training, processes) and not processes.is_main:
        return without_weights(*arguments)
    try:
        return EncoderWithHeads(*arguments)
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
    size = f"{without_weights(*arguments).n_parameters:,} parameters"
    remedy = f"Choose a smaller one than model.n_layers={shape.n_layers} model.d_model={shape.d_model}"
    raise SettingError(f"A model of {size} does not fit into this machine's memory", remedy=remedy)
