"""Rows of contrastive learning: which meet in a micro-batch, what each batch asks for, and how texts are cut."""

from itertools import islice

import numpy as np
import pytest
import torch

from encoderlab.data.examples import TextExample
from encoderlab.data.token_store import tokenize_examples
from encoderlab.tasks.contrastive import ContrastiveConfig
from encoderlab.tasks.contrastive_rows import ContrastiveRows
from encoderlab.tasks.sequences import SequenceFormat
from tests.runs.small_model import TOKENIZER

N_LABELS = 30
LABELS = np.array([row % N_LABELS for row in range(600)] + [row % 3 for row in range(90)] + [-1] * 50)
SETS = ["many"] * 600 + ["few"] * 90 + [""] * 50


def rows_of(labels=LABELS, sets=SETS, lengths=None, **settings):
    config = ContrastiveConfig(**{"name": "contrastive", "compared_rows": 32, "compared_labels": 8} | settings)
    format = SequenceFormat.of(TOKENIZER, 40)
    texts = ["7" * (2 if lengths is None else lengths[row]) for row in range(len(labels))]
    store = tokenize_examples([TextExample(text) for text in texts], TOKENIZER)
    return ContrastiveRows(store, format, labels, sets, N_LABELS, config, lambda batch: batch)


def first_steps(rows, number, micro_batches=4, seed=0, after=0):
    return list(islice(rows.steps(micro_batches, seed, after), number))


def test_a_micro_batch_is_of_one_set_and_has_equally_many_rows_of_its_labels():
    rows = rows_of()
    seen = set()
    for step in first_steps(rows, 20):
        *compared, unlabelled = step
        assert len(compared) == 4
        assert (LABELS[unlabelled] == -1).all()
        for micro_batch in compared:
            assert len(set(micro_batch.tolist())) == len(micro_batch) == 32
            (of_set,) = {SETS[row] for row in micro_batch}
            seen.add(of_set)
            counts = np.bincount(LABELS[micro_batch])
            each, n_labels = (4, 8) if of_set == "many" else (10, 3)  # of three labels, two rows more
            assert (counts[counts > 0] >= each).all() and (counts > 0).sum() == n_labels
    assert seen == {"many", "few"}


def test_larger_sets_are_drawn_more_often_by_the_square_root_of_their_rows():
    sets = [SETS[micro_batch[0]] for step in first_steps(rows_of(), 400) for micro_batch in step[:-1]]
    expected = 600**0.5 / (600**0.5 + 90**0.5)
    assert np.mean([name == "many" for name in sets]) == pytest.approx(expected, abs=0.05)


def test_a_step_depends_on_the_seed_and_its_number_alone():
    rows = rows_of()
    steps = first_steps(rows, 6)
    later = first_steps(rows, 3, after=3)
    assert all(np.array_equal(a, b) for step, same in zip(steps[3:], later, strict=True) for a, b in zip(step, same, strict=True))  # fmt: skip
    assert not np.array_equal(steps[0][0], steps[1][0])
    assert not np.array_equal(steps[0][0], first_steps(rows, 1, seed=1)[0][0])


def test_labels_that_lie_near_each_other_meet_in_their_share_of_the_micro_batches():
    rows = rows_of(related_share=1.0, lengths=[2 + row % 5 for row in range(len(LABELS))])
    angle = torch.tensor(np.where(LABELS < 0, 0, LABELS) * np.pi / N_LABELS)
    vectors = torch.stack([angle.cos(), angle.sin()], dim=1)
    rows.relate(lambda batch: vectors[batch.rows], TOKENIZER.pad_id, torch.device("cpu"))
    for step in first_steps(rows, 20):
        for micro_batch in step[:-1]:
            if SETS[micro_batch[0]] == "many":
                assert (
                    np.ptp(LABELS[micro_batch]) <= 14
                )  # the nearest seven, at the end of the row of labels on one side


def test_labels_with_few_rows_and_small_sets_are_read_whole():
    pairs = rows_of(np.repeat(np.arange(20), 2), ["pairs"] * 40)
    (micro_batch,) = first_steps(pairs, 1, micro_batches=1)[0]
    assert len(micro_batch) == 32 and (np.bincount(pairs.classes[micro_batch])[:20] <= 2).all()
    small = rows_of(np.array([0, 0, 1]), ["small"] * 3)
    (micro_batch,) = first_steps(small, 1, micro_batches=1)[0]
    assert sorted(micro_batch) == [0, 1, 2]


def test_tokens_are_kept_of_texts_without_a_label_or_of_all_if_there_are_none():
    rows = rows_of()
    assert not len(rows.gather(np.array([0, 1]), TOKENIZER.pad_id).target_positions)
    batch = rows.gather(np.array([690, 691]), TOKENIZER.pad_id)
    assert batch.target_positions.tolist() == [1, 2, 3, 5, 6, 7] and batch.contrast is None
    only_labelled = rows_of(LABELS[:690], SETS[:690]).gather(np.array([0, 30, 1]), TOKENIZER.pad_id)
    assert len(only_labelled.target_positions) == 9
    assert only_labelled.contrast.n_anchors == 2  # 0 and 30 have one label


def test_texts_with_a_label_are_cut_shorter_than_others():
    rows = rows_of(np.array([0, 1, -1]), ["a", "a", ""], lengths=[30, 5, 30], labelled_length=12)
    assert rows.lengths.tolist() == [12, 7, 32]
    assert rows.truncated().tolist() == [True, False, False]
    assert rows.gather(np.array([0]), TOKENIZER.pad_id).input_ids[0, -1] == TOKENIZER.sep_id


def test_texts_without_a_label_share_a_micro_batch_with_others_of_similar_length():
    lengths = [2] * 690 + [4] * 25 + [38] * 25
    rows = rows_of(lengths=lengths, unlabelled_tokens=120)
    drawn = [step[-1] for step in first_steps(rows, 30)]
    assert {(len(micro_batch), len(set(rows.lengths[micro_batch]))) for micro_batch in drawn} == {(20, 1), (3, 1)}
