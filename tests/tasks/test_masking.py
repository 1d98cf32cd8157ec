"""Masking: the right share of the right tokens, replaced as the settings say, the same wherever a row is."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.batch import Batch
from encoderlab.data.tokenizer_config import _wordpiece
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.tasks.pretraining import PretrainingConfig

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = [f"w{n}" for n in range(30)] + [f"##p{n}" for n in range(20)]
PAD, UNK, CLS, SEP, MASK = range(5)


def tokenizer():
    from tokenizers import normalizers

    from encoderlab.data.tokenizers import BERT_SPECIALS

    vocabulary = {piece: id_ for id_, piece in enumerate([*SPECIALS, *WORDS])}
    backend = _wordpiece(vocabulary, normalizers.BertNormalizer())
    backend.add_special_tokens(SPECIALS)
    return Tokenizer(backend, BERT_SPECIALS)


TOKENIZER = tokenizer()


def masking(**changed):
    """Return the masking of batches whose targets the host has counted."""
    task = PretrainingConfig(name="test", **changed).build(TOKENIZER, [], 512)

    def masked(batch, key):
        lengths = (batch.input_ids != PAD).sum(1)
        flat = batch.input_ids[batch.input_ids != PAD]
        return task.with_targets(replace(batch, n_targets=task.count_targets(flat.numpy(), lengths.numpy())), key)

    return masked


def batch_of(rows, first_row=0):
    """Return a batch of padded sequences of ids."""
    length = max(map(len, rows))
    ids = torch.tensor([[*row, *[PAD] * (length - len(row))] for row in rows])
    return Batch(
        ids,
        torch.zeros_like(ids),
        ids != PAD,
        torch.arange(first_row, first_row + len(rows)),
        torch.empty(0, dtype=torch.long),
        None,
        None,
        0,
    )


def test_a_batch_is_masked_on_its_device():
    """Without a GPU, on PyTorch's `meta` device: it has shapes and no numbers, and what is on the host does not mix."""
    task = PretrainingConfig(name="test").build(TOKENIZER, [], 512)
    batch = replace(batch_of([[CLS, 5, 6, 7, SEP]]), n_targets=1).to(torch.device("meta"))
    masked = task.with_targets(batch, 0)
    assert (masked.target_positions.shape, masked.token_labels.shape) == ((1,), (1,))
    assert {masked.input_ids.device.type, masked.token_labels.device.type} == {"meta"}


def random_rows(n, length, seed=0):
    draw = np.random.default_rng(seed)
    return [[CLS, *draw.integers(5, len(SPECIALS) + len(WORDS), length - 2).tolist(), SEP] for _ in range(n)]


ordinary = st.integers(5, len(SPECIALS) + len(WORDS) - 1)
sequences = st.lists(
    st.lists(st.one_of(ordinary, st.just(UNK)), max_size=30).map(lambda ids: [CLS, *ids, SEP]), min_size=1, max_size=6
)


@given(rows=sequences, fraction=st.floats(0.01, 0.99), key=st.integers(0, 2**64 - 1))
@settings(deadline=None)
def test_only_ordinary_tokens_become_targets_and_their_ids_are_the_labels(rows, fraction, key):
    batch = batch_of(rows)
    masked = masking(mlm_probability=fraction)(batch, key)
    assert torch.equal(batch.input_ids.flatten()[masked.target_positions], masked.token_labels)
    assert (masked.token_labels >= 5).all()
    untouched = torch.ones(batch.input_ids.numel(), dtype=torch.bool)
    untouched[masked.target_positions] = False
    assert torch.equal(masked.input_ids.flatten()[untouched], batch.input_ids.flatten()[untouched])
    seen = masked.input_ids.flatten()[masked.target_positions]
    assert ((seen >= 5) | (seen == MASK)).all()  # a random replacement is never special


@given(rows=sequences, fraction=st.floats(0.01, 0.99), key=st.integers(0, 2**64 - 1))
@settings(deadline=None)
def test_each_row_has_its_fraction_of_targets_rounded_and_at_least_one(rows, fraction, key):
    masked = masking(mlm_probability=fraction)(batch_of(rows), key)
    counts = torch.bincount(masked.target_positions // masked.input_ids.shape[1], minlength=len(rows)).tolist()
    for row, count in zip(rows, counts, strict=True):
        n = sum(id_ >= 5 for id_ in row)
        if abs(fraction * n % 1 - 0.5) > 1e-4:  # not a tie
            assert count == min(n, max(1, round(np.float32(fraction) * np.float32(n))))


@given(rows=sequences, key=st.integers(0, 2**64 - 1), parts=st.integers(1, 4))
@settings(deadline=None)
def test_a_row_is_masked_the_same_way_in_any_batch(rows, key, parts):
    masks = masking(mlm_probability=0.3)
    together = masks(batch_of(rows), key)
    for row in range(len(rows)):
        alone = masks(batch_of([rows[row]], first_row=row), key)
        n = len(rows[row])
        assert alone.input_ids[0].tolist() == together.input_ids[row, :n].tolist()
        rows_of_targets, places = np.divmod(together.target_positions.numpy(), together.input_ids.shape[1])
        assert alone.target_positions.tolist() == places[rows_of_targets == row].tolist()


def test_of_ten_target_tokens_eight_are_masked_one_is_random_and_one_stays():
    batch = batch_of(random_rows(400, 100))
    masked = masking()(batch, key=7)
    seen = masked.input_ids.flatten()[masked.target_positions]
    n = len(seen)
    assert n == 400 * round(0.15 * 98)
    assert float((seen == MASK).float().mean()) == pytest.approx(0.8, abs=0.02)
    kept = float((seen == masked.token_labels).float().mean())
    assert kept == pytest.approx(0.1 + 0.1 / len(WORDS), abs=0.015)
    replaced = seen[(seen != MASK) & (seen != masked.token_labels)]
    assert len(replaced.unique()) == len(WORDS)


def test_every_token_of_a_row_is_equally_likely_to_be_a_target():
    batch = batch_of(random_rows(4000, 42))
    masked = masking()(batch, key=3)
    often = torch.bincount(masked.target_positions % 42, minlength=42)[1:-1] / 4000
    assert often.min() > 0.12 and often.max() < 0.18


def test_target_positions_are_the_same_as_in_every_earlier_version():
    """A run resumed after an update, and the scores of an evaluation, depend on it."""
    masked = masking()(batch_of(random_rows(2, 30), first_row=7), key=2**63 + 5)
    assert masked.target_positions.tolist() == [9, 11, 13, 14, 34, 38, 43, 46]
    seen = masked.input_ids.flatten()[masked.target_positions]
    assert seen.tolist() == [MASK, MASK, 30, MASK, MASK, MASK, 25, MASK]


@pytest.mark.parametrize("fraction", [0.15, 0.5, 0.25, 0.125, 0.1, 0.9, 1 / 3])
def test_the_host_counts_the_targets_the_device_will_choose_at_every_length(fraction):
    """If a fraction ends in a half, both must round to the even number."""
    task = PretrainingConfig(name="test", mlm_probability=fraction).build(TOKENIZER, [], 512)
    rows = random_rows(1, 402)[0]
    for length in range(3, 402):
        ids = torch.tensor([rows[:length]])
        chosen = int(task.choose(ids, torch.tensor([0]), 1).sum())
        assert task.count_targets(np.array(rows[:length]), np.array([length])) == chosen


def test_a_pickled_task_has_tables_on_the_cpu_only():
    task = PretrainingConfig(name="test").build(TOKENIZER, [], 512)
    elsewhere = torch.device("meta")
    assert task._tables_on(elsewhere)[0].device == elsewhere
    tables = pickle.loads(pickle.dumps(task))._tables
    assert set(tables) == {torch.device("cpu")} and set(task._tables) == {torch.device("cpu"), elsewhere}
    assert all(map(torch.equal, tables[torch.device("cpu")], task._tables[torch.device("cpu")]))
