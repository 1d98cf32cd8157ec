"""What a resumed run needs: a state that is read back continues with the same steps, and one of another run is refused."""

import io
from itertools import islice

import pytest
import torch

from encoderlab.config.commands import RunConfig
from encoderlab.data.built_in import ReverseDataset
from encoderlab.data.tokenizer_config import SymbolsConfig
from encoderlab.network.config import ModelConfig
from encoderlab.runs.build_model import build_model
from encoderlab.runs.fit import TrainState
from encoderlab.runs.training import Training
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.tasks.tagging import TaggingConfig
from encoderlab.training.batches import MicroBatchCount
from encoderlab.training.config import TrainingConfig
from tests.runs.small_model import CPU

STEPS = 6


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """Return a function that builds the state of a run before its first step."""
    cache = tmp_path_factory.mktemp("cache")
    dataset = ReverseDataset(train_rows=40, validation_rows=1, test_rows=1)
    data = dataset.load(cache, "label")
    tokenizer = SymbolsConfig().build(data.training_texts, cache)

    def begun(**training):
        config = RunConfig(
            cache_dir=str(cache),
            task=TaggingConfig(name="reverse", special_tokens=False),
            dataset=dataset,
            tokenizer=SymbolsConfig(),
            model=ModelConfig(n_layers=1, d_model=16, n_heads=1, max_length=64, dropout=0.2),
            training=TrainingConfig(
                **{"steps": STEPS, "batch_size": 8, "learning_rate": 1e-2, "accumulate": 2, **training}
            ),
        )
        model, _ = build_model(config, data, tokenizer, None, CPU, SINGLE_PROCESS)
        rows = model.task.rows(data.tokenize("train", tokenizer, cache), data.split("train").targets())
        count = MicroBatchCount.from_settings(config.training.accumulate, config.training, SINGLE_PROCESS)
        return TrainState(Training(model, rows, micro_batches=count))

    return begun


def take(state, steps):
    """Take the next `steps` steps and return their losses."""
    losses = []
    for step in islice(state.steps.take(state.learner, state.horizon, state.progress.step), steps):
        state.progress.step = step.number
        losses.append(step.numbers()["loss"])
    return losses


def as_read_back(plain):
    """Return the state as read from a checkpoint: nothing but numbers, strings and tensors."""
    buffer = io.BytesIO()
    torch.save(plain, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def test_a_restored_state_continues_with_the_same_steps_bit_for_bit(begun):
    never_stopped = begun()
    take(never_stopped, 3)
    kept, weights = (
        as_read_back(never_stopped.state_dict()),
        {n: w.clone() for n, w in never_stopped.distributed.weights().items()},
    )
    expected = take(never_stopped, 3)
    resumed = begun()
    torch.rand(5)  # another process has drawn other numbers by now
    resumed.load_state_dict(kept, weights)
    assert resumed.progress.step == 3
    assert take(resumed, 3) == expected
    assert all(
        torch.equal(weight, resumed.distributed.weights()[name])
        for name, weight in never_stopped.distributed.weights().items()
    )


def test_the_number_of_micro_batches_is_kept_unless_the_settings_change_it(begun):
    grown = begun()
    grown.steps.micro_batches = MicroBatchCount(4, "memory ran out in step 1")
    kept, weights = as_read_back(grown.state_dict()), grown.distributed.weights()
    same, other = begun(), begun(accumulate=1)
    for state in (same, other):
        state.load_state_dict(kept, weights)
    assert same.steps.micro_batches == grown.steps.micro_batches
    assert other.steps.micro_batches.number == 1


def test_a_resumed_run_has_the_rest_of_its_budget(begun):
    state = begun(steps=None, budget="1h")
    state.load_state_dict(as_read_back(state.state_dict()) | {"budget_spent": 3600.0}, state.distributed.weights())
    assert len(take(state, 9)) == 1  # one step at least


@pytest.mark.parametrize("piece", ["optimizer", "progress", "random_states", "micro_batches", "tokenizer"])
def test_an_incomplete_state_or_one_of_another_tokenizer_is_refused(piece, begun):
    state = begun()
    kept = as_read_back(state.state_dict())
    lacking = {name: value for name, value in kept.items() if name != piece}
    with pytest.raises(KeyError, match=piece):
        state.load_state_dict(lacking, state.distributed.weights())
    with pytest.raises(ValueError, match="belongs to another tokenizer"):
        state.load_state_dict(kept | {"tokenizer": "of another run"}, state.distributed.weights())
