"""Steps that read copies of weights are those that read the weights, bit for bit."""

from itertools import repeat

import pytest
import torch

from encoderlab.batch import Batch
from encoderlab.network.config import HeadSizes, ModelConfig
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.system.device import Compute
from encoderlab.training import weight_copies
from encoderlab.training.config import TrainingConfig
from encoderlab.training.loop import Horizon, Learner, optimize
from encoderlab.training.optimizer import build_optimizer, freeze
from encoderlab.training.weight_copies import WeightCopies

pytestmark = pytest.mark.usefixtures("one_thread")
STEPS = 4


def trained(micro_batches, precision, *, reads_copies, heads, **settings):
    """Return the losses, the norms of the gradients and the weights of some steps with dropout."""
    torch.manual_seed(0)
    shape = ModelConfig(n_layers=2, d_model=16, n_heads=2, max_length=8, dropout=0.1)
    network = EncoderWithHeads(shape, 20, 0, heads)
    config = TrainingConfig(steps=STEPS, learning_rate=0.01, clip_norm=0.1, **settings)
    freeze(network, config)
    learner = Learner(network, build_optimizer(network, config), config, Compute(torch.device("cpu"), precision, 1, ""))
    if not reads_copies:
        learner.copies = WeightCopies(None)
    steps = list(optimize(learner, repeat(micro_batches), Horizon(STEPS)))
    return [step.numbers() for step in steps], network.state_dict()


def batch():
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 20, (6, 8), generator=draw)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[0, 5:] = False
    targets = torch.tensor([1, 9, 17])
    labels = torch.randint(3, (6,), generator=draw)
    return Batch(ids * mask, torch.zeros_like(ids), mask, torch.arange(6), targets, labels, ids.flatten()[targets], 45)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("heads", [HeadSizes(sequence_classes=3), HeadSizes(vocabulary=True)], ids=["classes", "mlm"])
@pytest.mark.parametrize(
    ("cuts", "most_kept", "settings"),
    [((0, 6), 2**20, {}), ((0, 2, 6), 2**20, {}), ((0, 2, 6), 0, {}), ((0, 6), 2**20, {"freeze_layers": 1})],
    ids=["whole", "micro-batches", "gradients freed", "frozen"],
)
def test_steps_are_those_that_read_the_weights(precision, heads, cuts, most_kept, settings, monkeypatch):
    monkeypatch.setattr(weight_copies, "MOST_KEPT", most_kept)
    micro_batches = [batch().between(start, end) for start, end in zip(cuts[:-1], cuts[1:], strict=True)]
    both = [
        trained(micro_batches, precision, reads_copies=reads_copies, heads=heads, **settings)
        for reads_copies in (True, False)
    ]
    (figures, weights), (expected_figures, expected) = both
    assert figures == expected_figures
    assert all(weight.dtype == torch.float32 for weight in weights.values())
    assert [name for name, weight in weights.items() if not torch.equal(weight, expected[name])] == []
