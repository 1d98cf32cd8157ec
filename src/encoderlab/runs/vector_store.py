"""An encoder's vectors of a file's texts, kept in the cache: the next round of labels needs the same ones.

They are a mapped file, so memory does not grow with the texts. Its hash is checked; a damaged file is made again.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import cast

import numpy as np
from numpy.lib.format import open_memmap

from encoderlab.data.examples import Split, TextExample
from encoderlab.data.survey import hashed
from encoderlab.errors import DataError
from encoderlab.runs import inputs
from encoderlab.runs.frozen import vectors_of_texts
from encoderlab.runs.model import Model
from encoderlab.system.files import atomic_write, differing_files, write_manifest

VECTORS = "vectors.npy"


def vectors_of(model: Model, split: Split, cache: Path) -> np.ndarray:
    """Return a vector of length 1 for each text (or pair) of a split that has some: float32 [rows, features].

    Raises DataError if the folder `cache` cannot hold them.
    """
    folder = cache / "vectors" / _key(model, split)
    try:
        if differing_files(folder, [VECTORS]):
            shutil.rmtree(folder, ignore_errors=True)
            with atomic_write(folder) as temporary:
                temporary.mkdir(parents=True)
                _write(temporary / VECTORS, model, split)
                write_manifest(temporary, [VECTORS])
        return np.load(folder / VECTORS, mmap_mode="r")
    except OSError as error:
        problem = f"The cache folder {cache} cannot hold the vectors of the texts: {error.strerror or error}"
        raise DataError(problem, remedy="Free some space there, or set cache_dir to another folder") from error


def _key(model: Model, split: Split) -> str:
    """Return a name for the vectors that this model gives these texts."""
    digest = hashlib.sha256(hashed(split).texts.tobytes())
    digest.update(f"{model.tokenizer.fingerprint} {model.shape} {model.compute.precision}".encode())
    for name, weight in model.network.encoder.state_dict().items():
        digest.update(name.encode())
        digest.update(weight.float().cpu().numpy().tobytes())
    return digest.hexdigest()[:24]


def _write(path: Path, model: Model, split: Split) -> None:
    """Write the vectors as a NumPy array."""
    vectors: np.memmap | None = None
    n_done = 0
    for some in inputs.in_chunks(split.of_texts(), len(split), "embedding"):
        of_some = vectors_of_texts(model, cast("list[TextExample]", some))
        if vectors is None:
            vectors = open_memmap(path, "w+", np.float32, (len(split), of_some.shape[1]))
        vectors[n_done : n_done + len(some)] = of_some
        n_done += len(some)
    assert vectors is not None, "the split has texts"
    vectors.flush()
