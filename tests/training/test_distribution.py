"""A model that several processes train, whole or sharded, and an encoder that is compiled: their outputs are those of one
process, and of the encoder as it is written.
"""

import copy
import pickle
from functools import wraps

import pytest
import torch

from encoderlab.network.config import HeadSizes, ModelConfig, Pairs
from encoderlab.network.encoder import Encoder
from encoderlab.network.heads import EncoderWithHeads
from encoderlab.network.layers import Compilable
from encoderlab.network.transformers_encoder import TransformersEncoder
from encoderlab.system.device import Compute
from encoderlab.training.compilation import compile_encoder
from encoderlab.training.config import Compile
from tests.torchrun import torchrun

BEGIN = """
import copy
import torch
from encoderlab.batch import Batch
from encoderlab.network.config import HeadSizes
from encoderlab.system.device import Compute
from encoderlab.metrics.texts import ClassificationMetrics
from encoderlab.network.config import ModelConfig, Positions
from encoderlab.network.heads import EncoderWithHeads, without_weights
from encoderlab.training.distribution import ShardedNetwork, distribute
from encoderlab.training.config import Sharding, TrainingConfig
from encoderlab.training.evaluation import evaluate
from encoderlab.training.loop import Horizon
from encoderlab.training.loop import Learner, optimize
from encoderlab.training.optimizer import build_optimizer
from encoderlab.system.processes import connect, processes_of_torchrun

processes, compute = connect(processes_of_torchrun()), Compute(torch.device("cpu"), torch.float32, 1, "")
"""

SCRIPT = """
settings = TrainingConfig(steps=2, batch_size=2, layer_decay=0.9)

def model(seed):
    torch.manual_seed(seed)
    build = EncoderWithHeads if processes.is_main else without_weights
    return build(ModelConfig(n_layers=2, d_model=16, n_heads=2, max_length=8, dropout=0.0, attention_dropout=0.0, positions=Positions.rotary), 50, 0, HeadSizes(sequence_classes=3))

def batch(rank):
    ids = torch.arange(1, 7)[None] + rank
    return Batch(ids, ids * 0, None, torch.tensor([rank]), ids[0, :0], torch.tensor([rank]), None, 6)

original = model(0)
pieces = ShardedNetwork(original, processes, torch.device("cpu"))
assert original.has_weights == processes.is_main, "the others never hold the whole model"
initial = pieces.weights()
assert all(torch.equal(weight, initial[name]) for name, weight in original.state_dict().items() if processes.is_main)
scores = evaluate(pieces.network, [batch(processes.rank)], ClassificationMetrics(["a", "b", "c"]), compute, processes)
assert scores.n == 2
optimizer = build_optimizer(pieces.network, settings)
learner = Learner(pieces.for_forward, optimizer, settings, compute, processes=processes)
steps = list(optimize(learner, [[batch(processes.rank)]] * 2, Horizon(2)))
assert steps[-1].totals.examples == 2
weights, gathered = pieces.weights(), pieces.optimizer_state(optimizer)
state = processes.broadcast_from_main(lambda: gathered)
assert weights.keys() == (original.state_dict().keys() if processes.is_main else set())
assert len(state["state"]) == len(list(original.parameters()))
assert all(kept["exp_avg"].shape == weight.shape for kept, weight in zip(
    state["state"].values(), [weight for group in build_optimizer(original, settings).param_groups for weight in group["params"]]))
again = ShardedNetwork(model(1), processes, torch.device("cpu"))
other = build_optimizer(again.network, settings)
again.load(weights)
again.load_optimizer_state(other, copy.deepcopy(state))  # the counts of steps are handed on as they are
for run, its in ((pieces, optimizer), (again, other)):
    list(optimize(Learner(run.for_forward, its, settings, compute, processes=processes), [[batch(processes.rank)]], Horizon(3), after=2))
    run.finish()
scores = evaluate(original, [batch(processes.rank)], ClassificationMetrics(["a", "b", "c"]), compute, processes)
assert scores.n == 2 and original.has_weights, "each process can use the finished model"
for name, weight in original.state_dict().items():
    assert torch.equal(weight, again.original.state_dict()[name]), name
processes.leave()
processes.end(0)
"""


MODES = """
ids = torch.arange(1, 7)[None] + processes.rank
batch = Batch(ids, ids * 0, None, torch.tensor([processes.rank]), ids[0, :0], torch.tensor([processes.rank]), None, 6)
for sharding in Sharding:
    settings = TrainingConfig(steps=3, batch_size=2, sharding=sharding)
    model = EncoderWithHeads(ModelConfig(n_layers=1, d_model=16, n_heads=2, max_length=8), 50, 0, HeadSizes(sequence_classes=3))
    run = distribute(model, settings, processes, torch.device("cpu"))
    optimizer, modes = build_optimizer(run.network, settings), []
    learner = Learner(run.for_forward, optimizer, settings, compute, processes=processes)
    for step in optimize(learner, [[batch]] * 3, Horizon(3)):
        modes.append({module.training for module in run.network.modules()})
        evaluate(run.network, [batch], ClassificationMetrics(["a", "b", "c"]), compute, processes)
    assert modes == [{True}] * 3, (sharding, modes)
    run.finish()
    assert {module.training for module in model.modules()} == {False}, sharding
processes.leave()
processes.end(0)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [SCRIPT, MODES],
    ids=["scored before a step, put back together and cut again", "dropping again behind an evaluation"],
)
def test_a_sharded_model_equals_the_whole_one(tmp_path, script):
    (tmp_path / "script.py").write_text(BEGIN + script)
    code, _, errors = torchrun(2, "script.py", folder=tmp_path)
    assert code == 0, "\n".join(errors)


CPU = Compute(torch.device("cpu"), torch.float32, 1, "as set")


@pytest.fixture
def stand_in_compiler(monkeypatch):
    """Let the compiler return a function that does the same and, like a compiled one, cannot be pickled."""

    def compiled(encode, **_):
        return lambda *arguments: encode(*arguments)

    monkeypatch.setattr(torch, "compile", wraps(torch.compile)(compiled))


def small_network():
    """Return a network that draws numbers in training, as dropout does."""
    torch.manual_seed(0)
    config = ModelConfig(n_layers=1, d_model=16, n_heads=2, max_length=8, dropout=0.1)
    return EncoderWithHeads(config, 20, 0, HeadSizes(sequence_classes=3))


def encoded(network):
    ids = torch.tensor([[3, 1, 2]])
    return network.eval().encoder.encode(ids, torch.zeros_like(ids), None)


def test_without_a_working_compiler_the_encoder_is_kept_and_the_reason_given(monkeypatch):
    def broken(*arguments):
        raise RuntimeError("No C++\n compiler found")

    monkeypatch.setattr(torch, "compile", wraps(torch.compile)(lambda encode, **options: broken))
    network = small_network()
    before = torch.get_rng_state()
    assert compile_encoder(network, Compile.always, CPU) == "not compiled (no working compiler: No C++ compiler found)"
    assert encoded(network).shape == (1, 3, 16)
    assert all(weight.grad is None for weight in network.parameters()) and torch.equal(torch.get_rng_state(), before)


@pytest.mark.usefixtures("stand_in_compiler")
def test_trying_the_compiler_leaves_random_state_gradients_and_mode_as_they_were():
    network = small_network().eval()
    before = torch.get_rng_state()
    assert compile_encoder(network, Compile.always, CPU) == "compiled"
    assert all(weight.grad is None for weight in network.parameters()) and torch.equal(torch.get_rng_state(), before)
    assert not any(module.training for module in network.modules())


@pytest.mark.usefixtures("stand_in_compiler")
def test_copies_and_pickles_of_a_compiled_encoder_compute_with_their_own_weights():
    network = small_network()
    assert compile_encoder(network, Compile.always, CPU) == "compiled" and "encode" in vars(network.encoder)
    for other in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        assert "encode" not in vars(other.encoder)
        with torch.no_grad():
            other.encoder.layers[-1].feed_forward_norm.bias += 1
        torch.testing.assert_close(encoded(other), encoded(network) + 1)
    assert "encode" in vars(network.encoder)
    assert issubclass(Encoder, Compilable) and issubclass(TransformersEncoder, Compilable)


@pytest.mark.usefixtures("stand_in_compiler")
@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("pairs", Pairs)
@pytest.mark.parametrize(
    "heads",
    [
        HeadSizes(sequence_classes=3),
        HeadSizes(sequence_classes=2, vocabulary=True),
        HeadSizes(token_classes=3),
        HeadSizes(teacher_width=5),
        HeadSizes(own_vectors=True),
    ],
)
def test_networks_with_heads_of_any_kind_are_compiled(heads, pairs, trains):
    config = ModelConfig(n_layers=1, d_model=16, n_heads=2, max_length=8, pairs=pairs)
    network = EncoderWithHeads(config, 20, 0, heads).requires_grad_(trains)
    assert compile_encoder(network, Compile.always, CPU) == "compiled"


@pytest.mark.usefixtures("stand_in_compiler")
def test_texts_too_short_to_try_the_compiler_with_are_computed_without_it():
    config = ModelConfig(n_layers=1, d_model=16, n_heads=2, max_length=3)
    network = EncoderWithHeads(config, 20, 0, HeadSizes(sequence_classes=3))
    assert "at most 3 tokens" in compile_encoder(network, Compile.always, CPU)
