"""A teacher of vectors: an encoder whose outputs a student learns to reproduce; and the files that a distillation reads
besides its dataset, by whose fingerprints a resumed run recognises them.

A teacher is a source of targets (`batch.Targets`): a batch carries them, `training.loss` compares them with the
student's outputs, and the loop knows only the names of the losses. On documents a teacher computes its vectors again at
every step, because rows are drawn each epoch and the vector of one token takes 0.8 kB.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch

from encoderlab.batch import Batch, HeadSizes, Targets
from encoderlab.config.commands import DistillConfig
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.model.packing import attendable
from encoderlab.model.pooling import MeanPool
from encoderlab.runs.pretrained import (
    Pretrained,
    encoder_folder,
    load_into,
    load_pretrained,
    vocabulary_difference,
)
from encoderlab.system.device import Compute
from encoderlab.system.files import sha256_of
from encoderlab.tasks.teacher_vectors import TeacherVectors


@dataclass(frozen=True, slots=True)
class VectorTeacher:
    """An encoder that computes a vector for each token of a batch and, as their mean, for each text. It is never
    trained.
    """

    encoder: Pretrained
    model: EncoderWithHeads
    compute: Compute

    @classmethod
    def open(cls, name: str, compute: Compute) -> VectorTeacher:
        """Open the encoder of a run, a folder or the hub, on the device of `compute`. Raises as
        `load_pretrained` does.
        """
        encoder = load_pretrained(name, "teacher")
        tokenizer = encoder.tokenizer
        model = EncoderWithHeads(encoder.config, tokenizer.vocabulary_size, tokenizer.pad_id, HeadSizes())
        load_into(model, encoder)
        return cls(encoder, model.to(compute.device).eval().requires_grad_(False), compute)

    @property
    def width(self) -> int:
        """Return the width of the vectors."""
        return self.encoder.config.d_model

    def teach(self, task: TeacherVectors) -> None:
        """Compute the targets of `task` from now on. Raises SettingError if the student reads what the
        teacher cannot.
        """
        self._check_student(task.tokenizer, task.max_length)
        task.teacher = self

    def _check_student(self, tokenizer: Tokenizer, max_length: int) -> None:
        if difference := vocabulary_difference(tokenizer, self.encoder.tokenizer):
            raise SettingError(
                f"Student and teacher have different tokenizers, but vectors of tokens need the same one: {difference}",
                remedy="Use tokenizer=as_pretrained without init_from, which takes the teacher's, or distill on a "
                "task (task=sst2)",
            )
        reach = self.encoder.config.reach
        if max_length > reach:
            raise SettingError(
                f"model.max_length is {max_length}, but the teacher reads {reach} tokens",
                allowed=f"at most {reach}",
                remedy=f"Set model.max_length={reach}",
            )

    def __call__(self, batch: Batch) -> Targets:
        """Return the vectors of the target tokens and of the texts of `batch`."""
        with torch.inference_mode(), self.compute.autocast():
            hidden = self.model.encoder(batch.input_ids, batch.token_type_ids, batch.attention_mask)
            pooled = MeanPool()(hidden, attendable(batch.attention_mask))
            tokens = hidden.flatten(0, 1).index_select(0, batch.target_positions)
        # Autograd saves the targets for its backward pass, which is not possible with tensors made in inference mode.
        return Targets(sequence_vectors=pooled.clone(), token_vectors=tokens.clone())


def teacher_fingerprints(config: DistillConfig) -> dict[str, str]:
    """Return a fingerprint of the weights of `teacher`, and of the file `unlabelled` if it is read, by the setting's
    name.

    Raises SettingError, DataError if one is missing.
    """
    weights = sorted(encoder_folder(config.teacher or "", "teacher").glob("model*.safetensors"))
    hashes = "".join(map(sha256_of, weights))
    found = {"teacher": hashlib.sha256(hashes.encode()).hexdigest()}
    if config.unlabelled is not None and config.teacher_weight:
        found["unlabelled"] = sha256_of(unlabelled_file(config.unlabelled))
    return found


def unlabelled_file(unlabelled: str) -> Path:
    """Return the file that the setting names. Raises DataError if it is missing."""
    path = Path(unlabelled).expanduser()
    if not path.is_file():
        raise DataError(f"unlabelled={path} does not exist", allowed="a csv, tsv, jsonl, parquet or txt file")
    return path
