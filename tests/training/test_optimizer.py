"""AdamW's groups, frozen layers, and the learning rates of a run."""

import copy
from itertools import repeat

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.batch import Batch
from encoderlab.errors import SettingError
from encoderlab.network.config import HeadSizes, ModelConfig, NormPosition
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.system.device import Compute
from encoderlab.training.config import Optimizer, Schedule, TrainingConfig
from encoderlab.training.loop import Horizon, Learner, optimize
from encoderlab.training.loss import losses
from encoderlab.training.optimizer import build_optimizer, freeze, learning_rate_at, orthogonalized

pytestmark = pytest.mark.usefixtures("one_thread")

CPU = Compute(torch.device("cpu"), torch.float32, 1, "test")
LAYERS = 3


def small(heads=None, **settings):
    torch.manual_seed(0)
    config = ModelConfig(
        **{"n_layers": LAYERS, "d_model": 16, "n_heads": 2, "max_length": 8, "dropout": 0.0, **settings}
    )
    return EncoderWithHeads(config, 20, 0, heads or HeadSizes(sequence_classes=3))


def batch(targets=0):
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(1, 20, (6, 8), generator=draw)
    places = torch.arange(targets)
    labels = torch.randint(3, (6,), generator=draw)
    return Batch(ids, torch.zeros_like(ids), None, torch.arange(6), places, labels, ids.flatten()[places], ids.numel())


def after_steps(model, given, n=3, **settings):
    """Return the model after n steps on one batch."""
    config = TrainingConfig(**{"steps": n, "learning_rate": 0.01, **settings})
    freeze(model, config)
    optimizer = build_optimizer(model, config)
    for _ in optimize(Learner(model, optimizer, config, CPU), repeat([given]), Horizon(n)):
        pass
    return model


def same(model, other, prefix):
    pairs = zip(model.named_parameters(), other.parameters(), strict=True)
    found = [torch.equal(mine, theirs) for (name, mine), theirs in pairs if name.startswith(prefix)]
    assert found
    return all(found)


def test_the_defaults_are_two_groups_and_the_weights_of_plain_adamw():
    model, plain = small(), small()
    config = TrainingConfig(steps=4, learning_rate=0.01, weight_decay=0.1, warmup=0.0, clip_norm=None)
    optimizer = build_optimizer(model, config)
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]
    assert sum(len(group["params"]) for group in optimizer.param_groups) == len(list(model.parameters()))
    groups = [
        {"params": [weight for weight in plain.parameters() if weight.ndim >= 2], "weight_decay": 0.1},
        {"params": [weight for weight in plain.parameters() if weight.ndim < 2], "weight_decay": 0.0},
    ]
    by_hand = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, config.beta2), eps=config.epsilon, fused=True)
    for step in optimize(Learner(model, optimizer, config, CPU), repeat([batch()]), Horizon(4)):
        for group in by_hand.param_groups:
            group["lr"] = step.learning_rate
        sum(loss / 6 for loss in losses(plain(batch()), batch()).values()).backward()
        by_hand.step()
        by_hand.zero_grad()
    assert same(model, plain, "")


@pytest.mark.parametrize("norm_position", NormPosition)
def test_learning_rates_decay_by_layer_below_the_heads(norm_position):
    model = small(norm_position=norm_position)
    optimizer = build_optimizer(model, TrainingConfig(layer_decay=0.5))
    scales = {id(weight): group["scale"] for group in optimizer.param_groups for weight in group["params"]}
    for name, weight in model.named_parameters():
        depth = {"encoder.embeddings": 4, "encoder.layers.0": 3, "encoder.layers.1": 2, "encoder.layers.2": 1}
        below = next((far for prefix, far in depth.items() if name.startswith(prefix)), 0)
        assert scales[id(weight)] == 0.5**below, name
    decays = {weight.ndim >= 2: group["weight_decay"] for group in optimizer.param_groups for weight in group["params"]}
    assert decays == {True: 0.01, False: 0.0}


def test_the_schedule_moves_every_group_by_its_own_scale():
    before = small()
    settings = {"layer_decay": 0.1, "learning_rate": 1e-2, "weight_decay": 0.0, "warmup": 0.0, "clip_norm": None}
    model = after_steps(small(), batch(), n=1, **settings)
    # AdamW's first step moves every weight that has a gradient by the learning rate
    moved = {
        name: (mine - theirs).abs().max().item()
        for (name, mine), theirs in zip(model.named_parameters(), before.parameters(), strict=True)
    }
    for name, rate in (
        ("sequence_head.weight", 1e-2),
        ("encoder.layers.2.feed_forward.outer.weight", 1e-3),
        ("encoder.layers.0.feed_forward.outer.weight", 1e-5),
        ("encoder.embeddings.token.weight", 1e-6),
    ):
        assert moved[name] == pytest.approx(rate, rel=0.1), name


@pytest.mark.parametrize("frozen", range(LAYERS + 1))
def test_frozen_layers_stay_bit_identical_and_have_no_gradient(frozen):
    before = small()
    model = after_steps(small(), batch(), freeze_layers=frozen)
    lowest = [f"encoder.layers.{layer}" for layer in range(frozen)]
    assert same(model, before, "encoder.embeddings") == (frozen > 0)
    for layer in range(LAYERS):
        assert same(model, before, f"encoder.layers.{layer}") == (layer < frozen)
    assert not same(model, before, "sequence_head")
    optimizer = build_optimizer(model, TrainingConfig())
    losses(model(batch()), batch())["sequence"].backward()
    in_groups = {id(weight) for group in optimizer.param_groups for weight in group["params"]}
    for name, weight in model.named_parameters():
        still = frozen > 0 and name.startswith(("encoder.embeddings", *lowest))
        assert (weight.grad is None) == still, name
        assert (id(weight) in in_groups) == (not still), name


def test_a_decoder_tied_to_frozen_embeddings_stays_with_them_and_the_rest_learns():
    heads = HeadSizes(vocabulary=True)
    before, given = small(heads), batch(targets=10)
    model = after_steps(copy.deepcopy(before), given, n=20, freeze_layers=1)
    assert same(model, before, "encoder.embeddings")
    assert not same(model, before, "masked_token_head.dense")
    first, last = (losses(one(given), given)["token"] for one in (before, model))
    assert last < first


def in_layers(model):
    return {name for name, weight in model.named_parameters() if ".layers." in name and weight.ndim == 2}


@pytest.mark.parametrize("layer_decay", [1.0, 0.5])
def test_muon_updates_the_matrices_of_layers_and_adamw_everything_else(layer_decay):
    before = small()
    settings = {"layer_decay": layer_decay, "weight_decay": 0.0, "warmup": 0.0, "clip_norm": None, "n": 1}
    by_muon = after_steps(small(), batch(), optimizer=Optimizer.muon, **settings)
    by_adamw = after_steps(small(), batch(), **settings)
    matrices = in_layers(before)
    assert len(matrices) == 6 * LAYERS
    weights = zip(*(model.named_parameters() for model in (before, by_muon, by_adamw)), strict=True)
    for (name, old), (_, muon), (_, adamw) in weights:
        assert torch.equal(muon, adamw) == (name not in matrices), name
        if name in matrices:
            depth = LAYERS - int(name.split(".")[2])
            rate = 0.01 * layer_decay**depth
            size = (muon - old).square().mean().sqrt().item()
            assert 0.02 * rate < size < 0.25 * rate, name  # 0.2 if the gradient has full rank


def test_muon_without_a_matrix_to_train_is_refused():
    model = small()
    config = TrainingConfig(optimizer=Optimizer.muon, freeze_layers=LAYERS)
    freeze(model, config)
    with pytest.raises(SettingError, match="optimizer"):
        build_optimizer(model, config)


@pytest.mark.parametrize("shape", [(32, 32), (16, 64), (64, 16)])
def test_an_orthogonalized_matrix_keeps_its_directions_and_has_singular_values_near_one(shape):
    matrices = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0))
    orthogonal = orthogonalized(matrices)
    u, values, v = torch.linalg.svd(matrices, full_matrices=False)
    turned = u.mT @ orthogonal @ v.mT  # diagonal, if its directions are those of the matrix
    diagonal = turned.diagonal(dim1=1, dim2=2)
    torch.testing.assert_close(turned, torch.diag_embed(diagonal), atol=1e-3, rtol=0)
    large = values > 0.05 * values[:, :1]
    assert ((diagonal > 0.6) & (diagonal < 1.3))[large].all()


def test_muon_takes_the_steps_of_pytorchs_own():
    model = small()
    before = copy.deepcopy(model)
    theirs = copy.deepcopy(model)
    config = TrainingConfig(optimizer=Optimizer.muon, learning_rate=0.02, weight_decay=0.1)
    mine = build_optimizer(model, config)
    matrices = [weight for name, weight in theirs.named_parameters() if name in in_layers(theirs)]
    other = torch.optim.Muon(matrices, lr=0.02, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        for weight, same_weight in zip(model.parameters(), theirs.parameters(), strict=True):
            weight.grad = torch.randn(weight.shape)
            same_weight.grad = weight.grad.clone()
        mine.step()
        other.step()
    for name in in_layers(model):
        moved, expected, old = (one.get_parameter(name) for one in (model, theirs, before))
        assert (moved - expected).norm() < 0.02 * (expected - old).norm(), name  # theirs computes in bfloat16


def test_a_resumed_muon_takes_the_same_steps():
    config = TrainingConfig(optimizer=Optimizer.muon, learning_rate=0.01)

    def trained(model, optimizer, steps):
        for _ in range(steps):
            losses(model(batch()), batch())["sequence"].backward()
            optimizer.step()
            optimizer.zero_grad()

    model = small()
    optimizer = build_optimizer(model, config)
    trained(model, optimizer, 3)
    resumed = copy.deepcopy(model)
    restored = build_optimizer(resumed, config)
    restored.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    trained(model, optimizer, 3)
    trained(resumed, restored, 3)
    assert same(model, resumed, "")


def test_a_step_that_is_not_finite_leaves_weights_and_momentum_of_muon_as_they_are():
    config = TrainingConfig(optimizer=Optimizer.muon, learning_rate=0.01)
    model = small()
    optimizer = build_optimizer(model, config)
    losses(model(batch()), batch())["sequence"].backward()
    optimizer.step()
    before = copy.deepcopy(model)
    momenta = [state["momentum"].clone() for state in optimizer.state.values() if "momentum" in state]
    (losses(model(batch()), batch())["sequence"] * float("nan")).backward()
    optimizer.found_inf = torch.ones(())  # as the guard sets it on a GPU
    optimizer.step()
    assert same(model, before, "encoder.layers")
    after = [state["momentum"] for state in optimizer.state.values() if "momentum" in state]
    assert momenta
    assert all(map(torch.equal, momenta, after))


def rates(steps, **settings):
    return [learning_rate_at(step, steps, TrainingConfig(**settings)) for step in range(steps + 1)]


@pytest.mark.slow
@given(
    schedule=st.sampled_from(Schedule),
    steps=st.integers(1, 300),
    warmup=st.floats(0, 0.99, allow_subnormal=False),
    peak=st.floats(1e-6, 1),
)
def test_every_schedule_stays_between_zero_and_its_peak_and_trains_in_every_step(schedule, steps, warmup, peak):
    found = rates(steps, schedule=schedule, warmup=warmup, learning_rate=peak)
    assert all(0 < rate <= peak * (1 + 1e-9) for rate in found[:-1])
    assert schedule is Schedule.constant or found[-1] == 0


def test_warm_up_rises_in_a_straight_line_to_the_peak():
    found = rates(100, schedule=Schedule.linear, warmup=0.1, learning_rate=1.0)
    assert found[:10] == pytest.approx([0.1 * n for n in range(1, 11)])
    assert found[10:] == pytest.approx([1 - n / 90 for n in range(91)])


def test_one_cycle_moves_as_pytorchs_own_but_for_half_a_step():
    config = TrainingConfig(schedule=Schedule.one_cycle, warmup=0.3, learning_rate=1e-3)
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-3, total_steps=400, pct_start=0.3)
    for step in range(399):
        assert learning_rate_at(step, 400, config) == pytest.approx(optimizer.param_groups[0]["lr"], abs=1e-5)
        optimizer.step()
        theirs.step()
