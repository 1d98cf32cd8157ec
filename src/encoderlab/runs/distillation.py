"""A student of a teacher: what it learns from, and the weights it starts from.

The teacher is a finished run, whose probabilities the student learns in addition to a task's labels (Hinton et al.
2015), or an encoder, whose vectors it learns to reproduce on documents. The rows of a task stay the same in every
epoch, so the logits for them are computed once. On documents a teacher computes its vectors again at every step,
because rows are drawn each epoch and the vector of one token takes 0.8 kB. Either way a batch carries the targets
(`batch.TeacherOutputs`), and `training.loss` compares them with the student's outputs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from encoderlab.batch import Batch, Prediction, TeacherOutputs
from encoderlab.config.commands import DistillConfig, OpenRunConfig, StudentStart
from encoderlab.data.examples import Example, TextExample, WordsExample
from encoderlab.data.files import read_unlabelled
from encoderlab.errors import DataError, SettingError
from encoderlab.model.config import ModelConfig, Positions
from encoderlab.model.heads import MeanPool
from encoderlab.model.packing import attendable
from encoderlab.runs.assembly import Assembly, check_paired, reopen
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.predict import encoded_rows, outputs_of
from encoderlab.runs.saved_model import TOKEN_TABLE, SavedModel, encoder_folder, vocabulary_difference
from encoderlab.system.device import Compute
from encoderlab.system.files import sha256_of
from encoderlab.tasks.config import TaggingConfig
from encoderlab.tasks.pretraining import TeacherVectors
from encoderlab.tasks.rows import ExampleRows, TaughtRows, concatenated
from encoderlab.training.batches import Rows

POSITION_TABLE = "encoder.embeddings.position.embedding.weight"
SEGMENT_TABLE = "encoder.embeddings.segment.weight"
SAME_SHAPE = ("d_model", "n_heads", "head_width", "feed_forward_width", "norm", "norm_position", "activation", "bias")


@dataclass(frozen=True, slots=True)
class TaskTeacher:
    """A finished run, with its classes in the student's order."""

    assembly: Assembly
    order: Sequence[int]

    @classmethod
    def open(cls, config: DistillConfig, corpus: Corpus) -> TaskTeacher:
        """Open the run, folder or hub model that `config.teacher` names, to teach the task of `corpus`.

        Raises DataError if it is missing or damaged, or does not know the labels.
        """
        training, words = config.training, isinstance(config.task, TaggingConfig)
        folder = encoder_folder(config.teacher or "", "teacher")
        hardware = {"device": training.device, "precision": training.precision, "threads": training.threads}
        assembly = reopen(OpenRunConfig(cache_dir=config.cache_dir, run=str(folder), **hardware))
        theirs, heads = assembly.task.labels, assembly.task.heads
        line = f"encoderlab finetune task={config.task.name} init_from={config.teacher}"
        remedy = f"Use a teacher that was finetuned on it: {line}"
        if heads.vocabulary or (heads.token_classes if words else heads.sequence_classes) is None:
            wrong = f"teacher={config.teacher} was not trained on a task like {config.task.name}"
            raise DataError(wrong, remedy=remedy)
        if missing := [label for label in corpus.labels if label not in theirs]:
            wrong = f"teacher={config.teacher} does not know the label {missing[0]!r}"
            allowed = f"a teacher of all {len(corpus.labels)} labels of the task"
            raise DataError(wrong, allowed=allowed, remedy=remedy)
        check_paired(assembly, corpus.paired)
        return cls(assembly, [theirs.index(label) for label in corpus.labels])

    def logits(self, examples: Sequence[Example]) -> list[np.ndarray]:
        """Return its logits for each example, [outputs, classes]: one output, or one for each word."""
        return outputs_of(self.assembly, encoded_rows(self.assembly, examples), self._by_row)

    def _by_row(self, prediction: Prediction, batch: Batch) -> list[np.ndarray]:
        """Return each row's logits, [outputs, classes], in the student's order of classes."""
        logits, length = prediction.sequence_logits, batch.input_ids.shape[1]
        counts = np.ones(len(batch), dtype=np.int64)
        if logits is None:
            logits = prediction.token_logits
            counts = np.bincount((batch.target_positions // length).cpu().numpy(), minlength=len(batch))
        assert logits is not None
        return np.split(logits.float().cpu().numpy()[:, list(self.order)], np.cumsum(counts)[:-1])


def taught_rows(config: DistillConfig, teacher: TaskTeacher, student: Assembly, corpus: Corpus, rows: Rows) -> Rows:
    """Return the training rows with the teacher's logits, and with the texts of `config.unlabelled` that it labels.

    Raises DataError if the teacher reads less of the rows than the student, or the file cannot be read.
    """
    if not config.teacher_weight:
        return rows
    assert isinstance(rows, ExampleRows)
    logits = teacher.logits(list(corpus.split("train")))
    of_words = "target_positions" in rows.store
    n_targets = rows.store["target_positions"].lengths() if of_words else np.ones(len(rows), dtype=np.int64)
    if few := sum(len(of_row) < n for of_row, n in zip(logits, n_targets.tolist(), strict=True)):
        remedy = f"Set model.max_length to at most {teacher.assembly.config.model.max_length}, the teacher's"
        raise DataError(f"The teacher reads fewer words of {few:,} rows than the student", remedy=remedy)
    if config.unlabelled is not None:
        texts = _unlabelled(config, corpus)
        more = teacher.logits(texts)
        rows, logits = concatenated([rows, encoded_rows(student, _labelled(texts, more))]), logits + more
    return TaughtRows(rows, logits, config.temperature, config.teacher_weight)


def fingerprints(config: DistillConfig) -> dict[str, str]:
    """Return hashes of the teacher's weights and of the file of unlabelled texts, by the setting that names them."""
    weights = sorted(encoder_folder(config.teacher or "", "teacher").glob("model*.safetensors"))
    hashes = {"teacher": " ".join(map(sha256_of, weights))}
    if config.unlabelled is not None:
        hashes["unlabelled"] = sha256_of(Path(config.unlabelled).expanduser())
    return hashes


def _unlabelled(config: DistillConfig, corpus: Corpus) -> list[Example]:
    path, dataset = Path(config.unlabelled or "").expanduser(), config.dataset
    if not path.is_file():
        raise DataError(f"unlabelled={path} does not exist", allowed="a csv, tsv, jsonl, parquet or txt file")
    pair = getattr(dataset, "text_pair", None) if corpus.paired else None
    words = isinstance(config.task, TaggingConfig)
    examples = read_unlabelled(path, text=getattr(dataset, "text", "text"), text_pair=pair, words=words)
    texts = [one for one in examples if (one.words if isinstance(one, WordsExample) else one.text.strip())]
    if not texts:
        raise DataError(f"unlabelled={path} has no texts", remedy="Choose a file with some, or remove it")
    return texts


def _labelled(examples: Sequence[Example], logits: Sequence[np.ndarray]) -> list[Example]:
    """Return the examples with the teacher's best class as their label."""
    labelled = []
    for example, of_row in zip(examples, logits, strict=True):
        classes = of_row.argmax(1).tolist()
        if isinstance(example, TextExample):
            labelled.append(replace(example, label=classes[0]))
        else:
            classes += [classes[-1]] * (len(example.words) - len(classes))  # words beyond the teacher's length
            labelled.append(WordsExample(example.words, tuple(classes)))
    return labelled


def teach_vectors(task: TeacherVectors, teacher: SavedModel, compute: Compute) -> None:
    """Compute the targets of `task` by the encoder of `teacher` from now on.

    Raises SettingError for a student that reads more, or other tokens.
    """
    if difference := vocabulary_difference(task.tokenizer, teacher.tokenizer):
        wrong = f"Student and teacher have different tokenizers, but vectors of tokens need the same one: {difference}"
        remedy = "Use tokenizer=as_pretrained without init_from, which takes the teacher's, or distill on a task"
        raise SettingError(wrong, remedy=remedy)
    if task.max_length > (reach := teacher.config.model.reach):
        wrong = f"model.max_length is {task.max_length}, but the teacher reads {reach} tokens"
        raise SettingError(wrong, allowed=f"at most {reach}", remedy=f"Set model.max_length={reach}")
    encoder = teacher.model().encoder.to(compute.device).requires_grad_(False)

    def vectors(batch: Batch) -> TeacherOutputs:
        """Return the vectors of the target tokens and, as the mean of its tokens' vectors, of each text of `batch`."""
        with torch.inference_mode(), compute.autocast():
            hidden = encoder(batch.input_ids, batch.token_type_ids, batch.attention_mask)
            pooled = MeanPool()(hidden, attendable(batch.attention_mask))
            tokens = hidden.flatten(0, 1).index_select(0, batch.target_positions)
        # Autograd saves the targets for its backward pass, which is not possible with tensors made in inference mode.
        return TeacherOutputs(sequence_vectors=pooled.clone(), token_vectors=tokens.clone())

    task.teacher = vectors


def start_student(student: Assembly, teacher: SavedModel, start: StudentStart) -> None:
    """Copy the parts of the teacher that `start` names into the model of `student`.

    Raises SettingError if it cannot hold them, or reads other tokens.
    """
    if start is StudentStart.fresh:
        return
    config, model = student.config.model, student.model
    _check_fits(config, teacher.config.model, start)
    if difference := vocabulary_difference(student.tokenizer, teacher.tokenizer):
        wrong = f"start={start.name} needs the teacher's tokenizer, but the student has another: {difference}"
        raise SettingError(wrong, remedy="Use tokenizer=as_pretrained, or start=fresh")
    if not model.has_weights:  # to be sharded: the main process gives them to the others
        return
    parts = _tables(config, teacher, len(model.encoder.embeddings.token.weight))
    if start is StudentStart.layers:
        parts |= _layers(config, teacher)
    own = model.state_dict()
    fitting = {name: weight for name, weight in parts.items() if name in own and own[name].shape == weight.shape}
    model.load_state_dict(fitting, strict=False)
    n_weights = sum(map(torch.numel, fitting.values()))
    print(f"Student starts from the teacher's {start.name}: {n_weights:,} weights", file=sys.stderr)


def projection(table: Tensor, width: int) -> Tensor:
    """Return the `width` directions that keep most of a table's rows: [rows, d_teacher] -> [d_teacher, width].

    Principal components about zero, not about the mean: what all rows share is kept too.
    """
    table = table.double()
    _, directions = torch.linalg.eigh(table.T @ table)  # ascending eigenvalues
    return directions[:, -width:].flip(1).float()


def _tables(config: ModelConfig, teacher: SavedModel, pieces: int) -> dict[str, Tensor]:
    """Return the tables of the teacher's embeddings at the student's width, cut to the rows the student has."""
    token = teacher.weights[TOKEN_TABLE].float()
    same_width = token.shape[1] == config.d_model
    reduced = torch.eye(config.d_model) if same_width else projection(token, config.d_model)
    rows = {TOKEN_TABLE: pieces, SEGMENT_TABLE: config.segments}
    if config.positions is Positions.learned:
        rows[POSITION_TABLE] = config.reach
    tables = {name: teacher.weights[name][:n].float() @ reduced for name, n in rows.items() if name in teacher.weights}
    norm = [f"encoder.embeddings.norm.{name}" for name in ("weight", "bias")] if same_width else []
    return tables | {name: teacher.weights[name].float() for name in norm if name in teacher.weights}


def _layers(config: ModelConfig, teacher: SavedModel) -> dict[str, Tensor]:
    """Return evenly spaced layers of the teacher, ending with its last one."""
    layers = {}
    for layer in range(config.n_layers):
        source = (layer + 1) * teacher.config.model.n_layers // config.n_layers - 1
        prefix = f"encoder.layers.{source}."
        for name, weight in teacher.weights.items():
            if name.startswith(prefix):
                layers[f"encoder.layers.{layer}.{name.removeprefix(prefix)}"] = weight.float()
    return layers


def _check_fits(config: ModelConfig, teacher: ModelConfig, start: StudentStart) -> None:
    """Raise SettingError for a student wider than its teacher or, to take layers, of another shape or deeper."""
    for name in ("d_model", *(("n_layers", *SAME_SHAPE) if start is StudentStart.layers else ())):
        mine, theirs = (getattr(getattr(one, name), "value", getattr(one, name)) for one in (config, teacher))
        may_be_less = name == "n_layers" or start is StudentStart.embeddings
        if mine != theirs and not (may_be_less and mine < theirs):
            wrong = f"start={start.name}: model.{name} is {mine}, and the teacher's is {theirs}"
            allowed = f"at most {theirs}" if may_be_less else f"{theirs}"
            raise SettingError(wrong, allowed=allowed, remedy="Set start=fresh to copy nothing")
