"""A student of a teacher: what it learns from, and the weights it starts from.

The teacher is a finished run, whose probabilities the student learns in addition to a task's labels (Hinton et al.
2015), or an encoder, whose vectors it learns to reproduce on documents. The rows of a task stay the same in every
epoch, so the logits for them are computed once. On documents a teacher computes its vectors again at every step,
because rows are drawn each epoch and the vector of one token takes 0.8 kB. Either way a batch carries the targets
(`batch.TeacherOutputs`), and `training.loss` compares them with the student's outputs.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from encoderlab.batch import Batch, Prediction, TeacherOutputs
from encoderlab.config.commands import DistillConfig, OpenRunConfig, RunConfig, StudentStart
from encoderlab.data.corpus import Corpus
from encoderlab.data.examples import Example, TextExample
from encoderlab.data.token_store import tokenize_examples
from encoderlab.errors import DataError, SettingError
from encoderlab.models.branch import BRANCH_FILES
from encoderlab.models.folder import open_model
from encoderlab.models.inputs import unlabelled_texts
from encoderlab.models.model import Model
from encoderlab.models.pretrained import (
    TOKEN_TABLE,
    encoder_folder,
    load_pretrained,
    vocabulary_difference,
    weights_hash,
)
from encoderlab.network.config import ModelConfig, Positions
from encoderlab.network.heads import MeanPool
from encoderlab.network.packing import attendable
from encoderlab.recipes.finetuning import start_at_linear_head, wants_linear_head
from encoderlab.runs.prepared import PreparedRun
from encoderlab.runs.recipe import Recipe, StartingWeights
from encoderlab.settings import required_setting
from encoderlab.system.device import Compute
from encoderlab.system.files import sha256_of
from encoderlab.system.processes import Processes
from encoderlab.tables.remote import local_file
from encoderlab.tasks.rows import ExampleRows, TaughtRows, example_rows, followed_by
from encoderlab.tasks.vectors import TeacherVectors
from encoderlab.training.batches import Rows

POSITION_TABLE = "encoder.embeddings.position.embedding.weight"
SEGMENT_TABLE = "encoder.embeddings.segment.weight"
SAME_SHAPE = ("d_model", "n_heads", "head_width", "feed_forward_width", "norm", "norm_position", "activation", "bias")


class Distillation(Recipe):
    """The recipe of `encoderlab distill`."""

    teacher: Teacher

    def start(self, config: RunConfig, processes: Processes) -> StartingWeights:
        """Return the encoder that the student starts from, if one is named, and the teacher's."""
        assert isinstance(config, DistillConfig), "another command has another recipe"

        # What cannot be distilled is refused before two encoders are read.
        check_distillation(config, processes)
        start = super().start(config, processes)
        self.teacher = Teacher.open(config)
        return replace(
            start,
            teacher=self.teacher.encoder,
            fingerprints={**start.fingerprints, **self.teacher.fingerprints()},
        )

    def check(self, data: Corpus) -> None:
        """Raise DataError if the teacher was not trained on a task like the student's, or does not know its labels."""
        self.teacher.check(data)

    def extend_rows(self, prepared: PreparedRun, start: StartingWeights) -> None:
        """Add to the training rows what the teacher says of them, and texts that only the teacher has labelled."""
        training = prepared.training
        training.rows = self.teacher.teach(training.model, start.encoder, prepared.data, training.rows)

    def before_first_step(self, prepared: PreparedRun) -> None:
        """Start the head of a student that starts from an encoder at a linear model, as finetuning does."""
        data = prepared.data

        # Only an encoder that was trained before gives vectors for which a linear model is a good start.
        starts_from = prepared.model.config.starts_from
        if starts_from is not None and wants_linear_head(prepared.model, data):
            start_at_linear_head(prepared)


def check_distillation(config: DistillConfig, processes: Processes) -> None:
    """Raise SettingError without a teacher, and for a task that none can teach, or not in several processes."""
    task = config.task
    if config.teacher is None:
        raise required_setting("teacher")
    if task.command == "pretrain":
        remedy = "Use task=teacher_vectors to distill on documents, or a task with labels such as task=sst2"
        raise SettingError(f"task={task.name} is learned by encoderlab pretrain, without a teacher", remedy=remedy)

    # On documents the student learns vectors, which any encoder has.
    if task.of_documents:
        return

    # On a task it learns probabilities, for all rows computed once, before the first step, by this process.
    if task.target != "label":
        problem = f"task={task.name} has no class probabilities to learn from a teacher"
        raise SettingError(problem, remedy="Use encoderlab finetune, or a task with one label for a text or a word")
    if processes.size > 1:
        problem = f"Distillation on a task needs a single process, and there are {processes.size}"
        raise SettingError(problem, remedy="Start one process, or distill on documents (task=teacher_vectors)")


@dataclass(frozen=True, slots=True)
class Teacher:
    """The teacher that the `config` of a run names: its `encoder`, which gives vectors, the tokenizer and the student's
    start.

    On a task with labels it is also a `model` that predicts them.
    """

    config: DistillConfig
    encoder: Model
    model: Model | None = None

    @classmethod
    def open(cls, config: DistillConfig) -> Teacher:
        """Open what `config.teacher` names. Raises DataError if it is missing or damaged."""
        assert config.teacher is not None, "see `check_distillation`"

        # The encoder is needed in any case: the student may start from it, or take its tokenizer.
        encoder = load_pretrained(config.teacher, "teacher")
        if config.task.of_documents:
            return cls(config, encoder)

        # On a task it is also a model that predicts, opened as `predict` opens it.
        training = config.training
        folder = encoder_folder(config.teacher, "teacher")
        opened = OpenRunConfig(
            cache_dir=config.cache_dir,
            run=str(folder),
            device=training.device,
            precision=training.precision,
            threads=training.threads,
        )
        return cls(config, encoder, open_model(opened))

    def check(self, data: Corpus) -> None:
        """Raise DataError if the teacher was not trained on a task like the student's, or does not know its labels."""
        if self.model is None:
            return

        # Its head must predict what the student is to learn: a class for each text, or for each word.
        config = self.config
        heads = self.model.task.heads
        line = f"encoderlab finetune task={config.task.name} init_from={config.teacher}"
        remedy = f"Use a teacher that was finetuned on it: {line}"
        classes = heads.token_classes if config.task.of_words else heads.sequence_classes
        if heads.vocabulary or classes is None:
            problem = f"teacher={config.teacher} was not trained on a task like {config.task.name}"
            raise DataError(problem, remedy=remedy)

        # The student has a probability of each of its labels to learn.
        missing = [label for label in data.labels if label not in self.model.labels]
        if missing:
            problem = f"teacher={config.teacher} does not know the label {missing[0]!r}"
            allowed = f"a teacher of all {len(data.labels)} labels of the task"
            raise DataError(problem, allowed=allowed, remedy=remedy)
        self.model.check_paired(data.paired)

    def teach(self, student: Model, start: Model | None, data: Corpus, train: Rows) -> Rows:
        """Return the training rows with what the teacher says of them, and start a student without a `start` of its own
        from it.

        Raises SettingError or DataError if the teacher reads less, or other tokens, than the student.
        """
        # On documents, the vectors are computed again at every step.
        if self.model is None:
            task = cast("Any", train).task
            teach_vectors(task, self.encoder, student.compute)

        # The weights of a student that starts from its teacher.
        if start is None:
            start_student(student, self.encoder, self.config.start)

        # On a task, the teacher's logits are part of the rows.
        if self.model is None:
            return train
        return taught_rows(self.config, self.model, student, data, example_rows(train))

    def fingerprints(self) -> dict[str, str]:
        """Return hashes of the teacher's weights, with those of its linear branch, and of the unlabelled texts, by the
        setting that names them.
        """
        config = self.config
        folder = encoder_folder(config.teacher or "", "teacher")
        hashes = {"teacher": weights_hash(folder)}

        # A linear branch changes the logits, so it counts as a part of the teacher.
        if self.model is not None and self.model.branch is not None:
            hashes["teacher"] = " ".join([hashes["teacher"], *(sha256_of(folder / name) for name in BRANCH_FILES)])
        if config.unlabelled is not None:
            # A data set saved by `datasets` has a fingerprint of its own; any other file is hashed whole.
            path = local_file(config.unlabelled, config.cache).expanduser()
            hashes["unlabelled"] = sha256_of(path / "state.json" if path.is_dir() else path)
        return hashes


def taught_rows(config: DistillConfig, teacher: Model, student: Model, data: Corpus, rows: ExampleRows) -> ExampleRows:
    """Return the training rows with the teacher's logits, and with the texts of `config.unlabelled` that it labels.

    Raises DataError if the teacher reads less of the rows than the student, or the file cannot be read.
    """
    if not config.teacher_weight:
        return rows
    # The teacher's logits for the labelled rows.
    logits = teacher_logits(teacher, list(data.split("train")), data.labels)

    # The last words of a row that the teacher reads only in part would have no logits.
    few = sum(len(row_logits) < n for row_logits, n in zip(logits, rows.n_targets().tolist(), strict=True))
    if few:
        remedy = f"Set model.max_length to at most {teacher.shape.max_length}, the teacher's"
        raise DataError(f"The teacher reads fewer words of {few:,} rows than the student", remedy=remedy)

    # Further texts, whose labels are those of the teacher.
    if config.unlabelled is not None:
        texts = unlabelled_texts(config.unlabelled, student.config, data)
        more = teacher_logits(teacher, texts, data.labels)
        targets = [_predicted(text, row_logits) for text, row_logits in zip(texts, more, strict=True)]
        rows = followed_by(rows, student.task.rows(tokenize_examples(texts, student.tokenizer), targets))
        logits += more
    return TaughtRows(rows, logits, config.temperature, config.teacher_weight)


def teacher_logits(teacher: Model, examples: Sequence[Example], labels: Sequence[str]) -> list[np.ndarray]:
    """Return the teacher's logits for each example, [outputs, classes]: one output, or one for each word.

    The classes are in the order of `labels`, the student's.
    """
    order = [teacher.labels.index(label) for label in labels]

    def by_row(prediction: Prediction, batch: Batch) -> list[np.ndarray]:
        # A classifier of texts has one output for a row, one of words as many as the row has words.
        logits = prediction.sequence_logits
        counts = np.ones(len(batch), dtype=np.int64)
        if logits is None:
            logits = prediction.token_logits
            row_of_target = (batch.target_positions // batch.input_ids.shape[1]).cpu().numpy()
            counts = np.bincount(row_of_target, minlength=len(batch))
        assert logits is not None
        return np.split(logits.float().cpu().numpy()[:, order], np.cumsum(counts)[:-1])

    return teacher.outputs(teacher.rows(examples), by_row)


def _predicted(example: Example, logits: np.ndarray) -> int | list[int]:
    """Return the teacher's best class as the target of an example, or those of its words."""
    classes = logits.argmax(1).tolist()
    if isinstance(example, TextExample):
        return classes[0]
    return classes + [classes[-1]] * (len(example.words) - len(classes))  # words beyond the teacher's length


def teach_vectors(task: TeacherVectors, teacher: Model, compute: Compute) -> None:
    """Compute the targets of `task` by the encoder of `teacher` from now on.

    Raises SettingError for a student that reads more, or other tokens.
    """
    # Vectors of tokens can be compared only where both cut a text into the same tokens, and both read all of them.
    if difference := vocabulary_difference(task.tokenizer, teacher.tokenizer):
        problem = (
            f"Student and teacher have different tokenizers, but vectors of tokens need the same one: {difference}"
        )
        remedy = "Use tokenizer=as_pretrained without init_from, which takes the teacher's, or distill on a task"
        raise SettingError(problem, remedy=remedy)
    if task.max_length > (reach := teacher.shape.reach):
        problem = f"model.max_length is {task.max_length}, but the teacher reads {reach} tokens"
        raise SettingError(problem, allowed=f"at most {reach}", remedy=f"Set model.max_length={reach}")
    task.teacher = vectors_by(teacher, MeanPool(), compute)


def vectors_by(teacher: Model, pool: nn.Module, compute: Compute) -> Callable[[Batch], TeacherOutputs]:
    """Return a function from a batch to a teacher's vectors of its texts, pooled so, and of its target tokens."""
    # A copy, because a student that starts from this encoder changes its weights.
    encoder = copy.deepcopy(teacher.network.encoder).to(compute.device).requires_grad_(False)

    def vectors(batch: Batch) -> TeacherOutputs:
        with torch.inference_mode(), compute.autocast():
            hidden = encoder(batch.input_ids, batch.token_type_ids, batch.attention_mask)
            pooled = pool(hidden, attendable(batch.attention_mask))
            tokens = hidden.flatten(0, 1).index_select(0, batch.target_positions)
        # Autograd saves the targets for its backward pass, which is not possible with tensors made in inference mode.
        return TeacherOutputs(sequence_vectors=pooled.clone(), token_vectors=tokens.clone())

    return vectors


def start_student(student: Model, teacher: Model, start: StudentStart) -> None:
    """Copy the parts of the teacher that `start` names into the model of `student`.

    Raises SettingError if it cannot hold them, or reads other tokens.
    """
    if start is StudentStart.fresh:
        return

    # Weights fit a network of the same widths, and the rows of a table the same tokens.
    config = student.shape
    network = student.network
    _check_fits(config, teacher.shape, start)
    if difference := vocabulary_difference(student.tokenizer, teacher.tokenizer):
        problem = f"start={start.name} needs the teacher's tokenizer, but the student has another: {difference}"
        raise SettingError(problem, remedy="Use tokenizer=as_pretrained, or start=fresh")
    if not network.has_weights:  # to be sharded: the main process gives them to the others
        return

    # The tables are copied in any case, and the layers if they were asked for.
    parts = _tables(config, teacher, len(network.encoder.token_table))
    if start is StudentStart.layers:
        parts |= _layers(config, teacher)

    # A student keeps fresh weights where the teacher has none of that name and shape, such as longer tables.
    own = network.state_dict()
    fitting = {name: weight for name, weight in parts.items() if name in own and own[name].shape == weight.shape}
    network.load_state_dict(fitting, strict=False)
    n_weights = sum(map(torch.numel, fitting.values()))
    print(f"Student starts from the teacher's {start.name}: {n_weights:,} weights", file=sys.stderr)


def projection(table: Tensor, width: int) -> Tensor:
    """Return the `width` directions that keep most of a table's rows: [rows, d_teacher] -> [d_teacher, width].

    Principal components about zero, not about the mean: what all rows share is kept too.
    """
    table = table.double()
    _, directions = torch.linalg.eigh(table.T @ table)  # ascending eigenvalues
    return directions[:, -width:].flip(1).float()


def _tables(config: ModelConfig, teacher: Model, pieces: int) -> dict[str, Tensor]:
    """Return the tables of the teacher's embeddings at the student's width, cut to the rows the student has."""
    # A narrower student gets those directions that keep most of the teacher's token vectors.
    token = teacher.network.encoder.token_table.detach().float()
    same_width = token.shape[1] == config.d_model
    reduced = torch.eye(config.d_model) if same_width else projection(token, config.d_model)

    # All tables are reduced to the same directions, because a token's rows of them are added.
    rows = {TOKEN_TABLE: pieces, SEGMENT_TABLE: config.segments}
    if config.positions is Positions.learned:
        rows[POSITION_TABLE] = config.reach
    tables = {name: teacher.weights[name][:n].float() @ reduced for name, n in rows.items() if name in teacher.weights}

    # The norm that follows has a weight for each feature, which would mean nothing in other directions.
    norm = [f"encoder.embeddings.norm.{name}" for name in ("weight", "bias")] if same_width else []
    return tables | {name: teacher.weights[name].float() for name in norm if name in teacher.weights}


def _layers(config: ModelConfig, teacher: Model) -> dict[str, Tensor]:
    """Return evenly spaced layers of the teacher, ending with its last one."""
    layers = {}
    for layer in range(config.n_layers):
        source = (layer + 1) * teacher.shape.n_layers // config.n_layers - 1
        prefix = f"encoder.layers.{source}."
        for name, weight in teacher.weights.items():
            if name.startswith(prefix):
                layers[f"encoder.layers.{layer}.{name.removeprefix(prefix)}"] = weight.float()
    return layers


def _check_fits(config: ModelConfig, teacher: ModelConfig, start: StudentStart) -> None:
    """Raise SettingError for a student wider than its teacher or, to take layers, of another shape or deeper."""
    if start is StudentStart.layers and type(teacher) is not type(config):
        problem = f"start=layers: the teacher's layers are those of a {teacher.name}, which the student has not"
        raise SettingError(problem, remedy="Set start=embeddings, or start=fresh to copy nothing")

    # Embeddings can be made narrower, and layers left out; everything else must be the same for layers.
    for name in ("d_model", *(("n_layers", *SAME_SHAPE) if start is StudentStart.layers else ())):
        mine, theirs = (getattr(getattr(one, name), "value", getattr(one, name)) for one in (config, teacher))
        may_be_less = name == "n_layers" or start is StudentStart.embeddings
        if mine != theirs and not (may_be_less and mine < theirs):
            problem = f"start={start.name}: model.{name} is {mine}, and the teacher's is {theirs}"
            allowed = f"at most {theirs}" if may_be_less else f"{theirs}"
            raise SettingError(problem, allowed=allowed, remedy="Set start=fresh to copy nothing")
