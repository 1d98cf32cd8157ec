"""Batches: encoded examples go into a token store once, and come out side by side, as a vectorised gather.

Which rows make up which step is a function of the seed, the epoch and the place in the epoch, and of nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from pathlib import Path

import numpy as np
import torch

from encoderlab.batch import Batch, Encoded
from encoderlab.data.token_store import TokenStore, memory_store, write_store
from encoderlab.training.config import Batching, TrainingConfig

UNKNOWN = -1  # how the store writes an answer that is not known
EVALUATION_TOKENS = 8192  # in one batch: enough to keep the matrix products busy, little enough to stay in the cache
Prepare = Callable[[Batch, torch.Generator], Batch]


def store_encoded(folder: Path, encoded: Iterable[Encoded], vocabulary_size: int, *, tokens_asked: bool) -> TokenStore:
    """Write encoded examples to a token store at `folder`."""
    return write_store(folder, _column_types(vocabulary_size, tokens_asked), map(_columns, encoded))


def hold_encoded(encoded: Iterable[Encoded], vocabulary_size: int, *, tokens_asked: bool) -> TokenStore:
    """A token store of a few encoded examples, in memory."""
    return memory_store(_column_types(vocabulary_size, tokens_asked), [_columns(example) for example in encoded])


def _column_types(vocabulary_size: int, tokens_asked: bool) -> dict[str, str]:
    columns = {"input_ids": "uint16" if vocabulary_size <= 2**16 else "uint32", "first_length": "uint32", "truncated": "uint8"}
    return columns | ({"asked": "uint32", "token_labels": "int32"} if tokens_asked else {"label": "int32"})


def _columns(example: Encoded) -> Mapping[str, Sequence[int]]:
    columns: dict[str, Sequence[int]] = {
        "input_ids": example.input_ids,
        "first_length": (example.token_type_ids.count(0),),
        "truncated": (example.truncated,),
        "label": (UNKNOWN if example.label is None else example.label,),
    }
    if example.token_labels is not None:
        columns["asked"] = list(example.token_labels)
        columns["token_labels"] = [UNKNOWN if answer is None else answer for answer in example.token_labels.values()]
    return columns


def gather(store: TokenStore, rows: np.ndarray, pad_id: int) -> Batch:
    """The batch of the given rows of the store. Where all are of one length, there is no padding and no mask."""
    flat, lengths = store["input_ids"].gather(rows)
    length = max(int(lengths.max()), 1)
    real = np.arange(length) < lengths[:, None]
    padded = bool((lengths < length).any())
    input_ids = np.full(real.shape, pad_id, dtype=np.int64)
    input_ids[real] = flat
    first_length, _ = store["first_length"].gather(rows)
    segments = (np.arange(length) >= first_length[:, None]) & real
    asked, token_labels = _asked(store, rows, length)
    labels = store["label"].gather(rows)[0] if "label" in store else None
    return Batch(
        input_ids=torch.from_numpy(input_ids),
        token_type_ids=torch.from_numpy(segments.astype(np.int64)),
        attention_mask=torch.from_numpy(real) if padded else None,
        rows=torch.from_numpy(np.asarray(rows, dtype=np.int64)),
        asked=torch.from_numpy(asked),
        labels=_known(labels),
        token_labels=_known(token_labels),
        n_tokens=int(lengths.sum()),
    )


def _asked(store: TokenStore, rows: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The asked places of the rows as indices into their flattened tokens, and the answers."""
    if "asked" not in store:
        return np.empty(0, dtype=np.int64), None
    places, counts = store["asked"].gather(rows)
    return places + np.repeat(np.arange(len(rows)) * length, counts), store["token_labels"].gather(rows)[0]


def _known(answers: np.ndarray | None) -> torch.Tensor | None:
    """The answers, or None if any is unknown: a batch is answered as a whole or not at all."""
    return None if answers is None or (answers == UNKNOWN).any() else torch.from_numpy(answers)


def epoch_order(lengths: np.ndarray, config: TrainingConfig, seed: int, epoch: int) -> list[np.ndarray]:
    """The rows of each step of one epoch; every row once.

    `random` draws them in any order. `length` sorts them by length, rows of one length in random order, cuts that into batches and
    shuffles the batches: on SST-2 that computes 3.4 times fewer tokens than random batches of 64.
    """
    draw = np.random.default_rng([seed, epoch])
    order = draw.permutation(len(lengths))
    if config.batching is Batching.length:
        order = order[np.argsort(lengths[order], kind="stable")]
    batches = [order[start : start + config.batch_size] for start in range(0, len(order), config.batch_size)]
    if config.batching is Batching.length:
        draw.shuffle(places := np.arange(len(batches)))
        batches = [batches[place] for place in places]
    return batches


def training_batches(
    store: TokenStore, config: TrainingConfig, seed: int, pad_id: int, device: torch.device, prepare: Prepare, *, after: int = 0
) -> Iterator[list[Batch]]:
    """The batches of step `after` + 1, + 2, and so on without end, each cut into `config.accumulate` parts."""
    lengths = store["input_ids"].lengths()
    per_epoch = -(-len(store) // config.batch_size)
    for epoch in count(after // per_epoch):
        done = max(after - epoch * per_epoch, 0)
        for place, rows in islice(enumerate(epoch_order(lengths, config, seed, epoch)), done, None):
            generator = torch.Generator(device).manual_seed(_seed_of(seed, epoch, place))
            parts = [part for part in np.array_split(rows, config.accumulate) if len(part)]
            yield [prepare(gather(store, part, pad_id).to(device), generator) for part in parts]


def scoring_batches(store: TokenStore, pad_id: int, device: torch.device) -> Iterator[Batch]:
    """Every row of the store once, shortest first, in batches of about as many tokens each."""
    lengths = store["input_ids"].lengths()
    order = np.argsort(lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(EVALUATION_TOKENS // max(int(lengths[order[start]]), 1), 1)
        size = max(EVALUATION_TOKENS // max(int(lengths[order[min(start + size, len(order)) - 1]]), 1), 1)
        yield gather(store, order[start : start + size], pad_id).to(device)
        start += size


def truncated_share(store: TokenStore) -> float:
    """Share of the store's rows that were longer than the model reads."""
    return float(store["truncated"].gather(np.arange(len(store)))[0].mean()) if len(store) else 0.0


def _seed_of(seed: int, epoch: int, place: int) -> int:
    return int(np.random.SeedSequence([seed, epoch, place]).generate_state(1, np.uint64)[0] >> np.uint64(1))
