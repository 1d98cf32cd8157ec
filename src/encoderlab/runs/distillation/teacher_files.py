"""The files that a distillation reads besides its dataset, and their fingerprints, by which a resumed run recognises
them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from encoderlab.config.commands import DistillConfig
from encoderlab.errors import DataError
from encoderlab.runs.models.pretrained import encoder_folder
from encoderlab.system.files import sha256_of


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
