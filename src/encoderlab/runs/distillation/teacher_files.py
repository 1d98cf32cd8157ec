"""The files that a distillation reads beside its dataset, and their fingerprints, by which a resumed run knows them again."""

from __future__ import annotations

import hashlib
from pathlib import Path

from encoderlab.config.command_settings import DistillConfig
from encoderlab.errors import DataError
from encoderlab.runs.models.pretrained import encoder_folder
from encoderlab.system.manifest import sha256_of


def teacher_fingerprints(config: DistillConfig) -> dict[str, str]:
    """A fingerprint of the weights of `teacher`, and of the file `unlabelled` where it is read, by the setting's name.

    Raises SettingError, DataError if one is not there.
    """
    weights = sorted(encoder_folder(config.teacher or "", "teacher").glob("model*.safetensors"))
    hashes = "".join(map(sha256_of, weights))
    found = {"teacher": hashlib.sha256(hashes.encode()).hexdigest()}
    if config.unlabelled is not None and config.teacher_weight:
        found["unlabelled"] = sha256_of(unlabelled_file(config.unlabelled))
    return found


def unlabelled_file(unlabelled: str) -> Path:
    """The file that the setting names. Raises DataError if it is not there."""
    path = Path(unlabelled).expanduser()
    if not path.is_file():
        raise DataError(f"unlabelled={path} is not there", allowed="a csv, tsv, jsonl, parquet or txt file")
    return path
