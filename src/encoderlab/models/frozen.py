"""Vectors of texts by an encoder that is not trained, and linear models on them: a baseline of reports, and the head of
a model.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from filelock import FileLock
from numpy.lib.format import open_memmap
from torch import nn

from encoderlab.batch import Batch, Prediction
from encoderlab.config.commands import VectorPooling
from encoderlab.data.examples import Split, TextExample
from encoderlab.data.survey import hashed
from encoderlab.data.tokenizer_config import TokenizerConfig
from encoderlab.errors import DataError
from encoderlab.linear.vectors import NEVER, head_of_classes
from encoderlab.models import inputs
from encoderlab.models.folder import read_model
from encoderlab.models.model import Model
from encoderlab.network.heads import WIDTH, pair_features
from encoderlab.shipped import SHIPPED, shipped_folder
from encoderlab.system.device import Compute
from encoderlab.system.files import atomic_write, differing_files, write_manifest
from encoderlab.system.messages import rows_done
from encoderlab.tasks.rows import ExampleRows
from encoderlab.training.loss import LabelWeights

PROBED = 200  # training rows
MOST_UNKNOWN = 0.2  # share of their tokens that the shipped encoder may not know
VECTORS = "vectors.npy"


def frozen_vectors(
    train: Split, tokenizer: TokenizerConfig | None, compute: Compute
) -> Callable[[Split], np.ndarray] | str:
    """Return a function from the texts of a split to the vectors of the shipped encoder, [rows, features].

    They have length 1, as `embed` writes them with normalize=true; of a pair, the comparison of both texts' vectors. If
    the training rows are no texts that this encoder can read, return why instead.
    """
    if train.holds_words or (tokenizer is not None and tokenizer.of_symbols):
        return f"{SHIPPED} reads texts, and these rows are words or symbols"
    box = read_model(shipped_folder(SHIPPED) or Path(SHIPPED))
    unknown = share_unknown(box, train)
    if unknown > MOST_UNKNOWN:
        return f"{SHIPPED} does not know {unknown:.0%} of the tokens: it reads English"
    encoder = box.on(compute)
    return lambda split: vectors_of_texts(encoder, list(split.of_texts()))


def share_unknown(encoder: Model, split: Split) -> float:
    """Return the share of the tokens of some rows' texts that an encoder does not know."""
    ids, _ = encoder.tokenizer.encode_flat([text[:1000] for text in split.evenly(PROBED).texts()])
    return float((ids == encoder.tokenizer.unk_id).sum() / max(len(ids), 1))


def vectors_of_texts(
    encoder: Model,
    examples: Sequence[TextExample],
    done: Callable[[int], None] = lambda _: None,
    *,
    pooling: VectorPooling | None = None,
    layer: int | None = None,
) -> np.ndarray:
    """Return a vector of length 1 for each text; for a pair, the comparison of both texts' vectors.

    `pooling` and `layer` are those of `Model.vectors`. `done` is told how many texts each batch had, pairs twice.
    """
    texts = [TextExample(example.text) for example in examples]
    first = encoder.vectors(encoder.rows(texts), pooling, normalize=True, layer=layer, done=done)
    if not examples or examples[0].text_pair is None:
        return first
    seconds = [TextExample(example.text_pair or "") for example in examples]
    second = encoder.vectors(encoder.rows(seconds), pooling, normalize=True, layer=layer, done=done)
    both = torch.from_numpy(np.concatenate([first, second]))
    return pair_features(both).numpy() / first.shape[1] ** 0.5


def vectors_by_layer(encoder: Model) -> dict[int, Callable[[Split], np.ndarray]]:
    """Return for each layer, counted from 1 (0: the embeddings), a function from the texts of a split to their vectors
    after it: the means of their tokens' vectors, of length 1.
    """

    def after(layer: int) -> Callable[[Split], np.ndarray]:
        def vectors(split: Split) -> np.ndarray:
            return vectors_of_texts(encoder, list(split.of_texts()), pooling=VectorPooling.mean, layer=layer)

        return vectors

    return {layer: after(layer) for layer in range(encoder.shape.n_layers + 1)}


def cached_vectors(model: Model, split: Split, cache: Path) -> np.ndarray:
    """Return a vector of length 1 for each text (or pair) of a split that has some: float32 [rows, features].

    They are kept in the cache, where the next round of labels finds them, as a mapped file, so that memory does not
    grow with the texts. Its hash is checked; a damaged file is made again. Of runs that start together, one makes it.
    Raises DataError if the folder `cache` cannot hold them.
    """
    folder = cache / "vectors" / _cache_key(model, split)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            if differing_files(folder, [VECTORS]):
                shutil.rmtree(folder, ignore_errors=True)
                with atomic_write(folder) as temporary:
                    temporary.mkdir(parents=True)
                    _write_vectors(temporary / VECTORS, model, split)
                    write_manifest(temporary, [VECTORS])
        return np.load(folder / VECTORS, mmap_mode="r")
    except OSError as error:
        problem = f"The cache folder {cache} cannot hold the vectors of the texts: {error.strerror or error}"
        raise DataError(problem, remedy="Free some space there, or set cache_dir to another folder") from error


def _cache_key(model: Model, split: Split) -> str:
    """Return a name for the vectors that this model gives these texts."""
    digest = hashlib.sha256(hashed(split).texts.tobytes())
    digest.update(f"{model.tokenizer.fingerprint} {model.shape} {model.compute.precision}".encode())
    for name, weight in model.network.encoder.state_dict().items():
        digest.update(name.encode())
        digest.update(weight.float().cpu().contiguous().numpy())
    return digest.hexdigest()[:24]


def _write_vectors(path: Path, model: Model, split: Split) -> None:
    """Write the vectors as a NumPy array."""
    vectors: np.memmap | None = None
    n_done = 0
    with rows_done("embedding", len(split) * (2 if split.paired else 1)) as done:
        for some in inputs.chunks_of(split.of_texts()):
            some_vectors = vectors_of_texts(model, some, done.update)
            if vectors is None:
                vectors = open_memmap(path, "w+", np.float32, (len(split), some_vectors.shape[1]))
            vectors[n_done : n_done + len(some)] = some_vectors
            n_done += len(some)
    assert vectors is not None, "the split has texts"
    vectors.flush()


def set_linear_head(
    model: Model, rows: ExampleRows, label_weights: LabelWeights | None, *, tuned: bool = False
) -> None:
    """Put the weights of logistic regression on what the head reads into the head (Kumar et al. 2022).

    Classes weigh as `label_weights` say. If it is `tuned`, its strength is chosen by cross-validation.
    """
    head = model.network.sequence_head
    assert head is not None and rows.targets is not None and rows.targets.of_rows is not None
    classes = rows.targets.of_rows
    class_weights = None
    if label_weights is not None:
        class_weights = {int(id_): float(label_weights[id_]) for id_ in np.unique(classes)}

    weight, bias, known = head_of_classes(
        _head_inputs(model, rows).astype(np.float64),
        classes,
        len(model.labels),
        strength=WIDTH if model.network.separates_pairs else 1,
        class_weights=class_weights,
        row_weights=rows.weights,
        tuned=tuned,
    )
    with torch.no_grad():
        if tuned:  # a class without training rows is never predicted
            head.weight.zero_()
            head.bias.fill_(float(bias.min()) - NEVER)
        head.weight[known] = torch.from_numpy(weight).to(head.weight)
        head.bias[known] = torch.from_numpy(bias).to(head.bias)


def _head_inputs(model: Model, rows: ExampleRows) -> np.ndarray:
    """Return what the head reads of each row: [rows, features]."""
    network = model.network
    network.eval()

    def read(prediction: Prediction, batch: Batch) -> np.ndarray:  # noqa: ARG001
        assert prediction.sequence_logits is not None
        return prediction.sequence_logits.float().cpu().numpy()

    head = network.sequence_head
    network.sequence_head = cast("nn.Linear", nn.Identity())
    try:
        return np.stack(model.outputs(rows, read))
    finally:
        network.sequence_head = head
