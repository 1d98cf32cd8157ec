"""The task of learning a teacher's vectors: every token is a target, and without a teacher none is."""

import pytest
import torch

from encoderlab.batch import Batch, Targets
from encoderlab.data.tokenizers import SymbolsConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.tasks.config import TeacherVectorsConfig
from encoderlab.tasks.teacher_vectors import TeacherVectors

TOKENIZER = SymbolsConfig(symbols="0123").build(list, None)
MASK = torch.tensor([[True, True, False], [True, True, True]])


def task(**settings):
    return TeacherVectors(TeacherVectorsConfig(name="vectors", teacher_width=4, **settings), TOKENIZER, [], 8)


def batch(mask):
    ids = torch.full((2, 3), 5)
    none = torch.zeros(0, dtype=torch.long)
    return Batch(ids, ids * 0, mask, torch.arange(2), none, None, None, 6 if mask is None else int(mask.sum()))


@pytest.mark.parametrize(("mask", "positions"), [(None, [0, 1, 2, 3, 4, 5]), (MASK, [0, 1, 3, 4, 5])])
def test_the_teacher_computes_every_real_token(mask, positions):
    learned = task(token_weight=0.25)
    learned.teacher = lambda given: Targets(token_vectors=torch.zeros(len(given.target_positions), 4))
    found = learned.ask(batch(mask), 0)
    assert found.target_positions.tolist() == positions
    assert found.targets.token_vectors.shape == (len(positions), 4)
    assert (found.targets.token_weight, found.targets.sequence_weight) == (0.25, 1.0)


def test_without_its_teacher_a_run_cannot_be_scored():
    with pytest.raises(DataError, match="encoderlab embed"):
        task().ask(batch(None), 0)


def test_both_weights_zero_are_refused():
    with pytest.raises(SettingError, match="token_weight.*sequence_weight"):
        task(token_weight=0, sequence_weight=0)
