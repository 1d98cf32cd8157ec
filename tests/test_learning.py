"""All parts together learn: digits are reversed without a mistake, and batching does not change scores."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from sklearn.metrics import average_precision_score

from encoderlab.config.commands import RunConfig
from encoderlab.data.built_in import BracketsDataset, ReverseDataset
from encoderlab.data.examples import Split, TextExample
from encoderlab.data.token_store import tokenize_examples
from encoderlab.data.tokenizer_config import SymbolsConfig
from encoderlab.network.config import Activation, ModelConfig, Pooling, Positions
from encoderlab.runs.recipe import Recipe
from encoderlab.runs.requested import requested_run
from encoderlab.runs.train import prepare
from encoderlab.system.processes import SINGLE_PROCESS
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.tasks.tagging import TaggingConfig
from encoderlab.training.batches import TrainingBatches
from encoderlab.training.config import Batching, Compile, Precision, Schedule, TrainingConfig
from encoderlab.training.evaluation import evaluate
from encoderlab.training.loop import Horizon, Learner, optimize
from encoderlab.training.optimizer import build_optimizer

pytestmark = pytest.mark.usefixtures("same_threads")

REVERSE = ReverseDataset(train_rows=10_000, validation_rows=1, test_rows=1000)
BRACKETS = BracketsDataset(train_rows=2000, validation_rows=2, test_rows=200, pairs=8)
DIGITS_TASK = TaggingConfig(name="reverse", special_tokens=False)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def learnt(cache, task, dataset, *, seed, steps, **model):
    """Return a model of the notebook's size after `steps` steps, with its data and rows."""
    config = RunConfig(
        cache_dir=str(cache),
        task=task,
        dataset=dataset,
        tokenizer=SymbolsConfig(),
        model=ModelConfig(
            n_layers=1,
            d_model=32,
            n_heads=1,
            d_ff=64,
            max_length=64,
            segments=0,
            embedding_norm=False,
            activation=Activation.relu,
            dropout=0.0,
            **model,
        ),
        training=TrainingConfig(
            steps=max(steps, 1),
            batch_size=128,
            batching=Batching.random,
            learning_rate=1e-2,
            schedule=Schedule.one_cycle,
            warmup=0.3,
            precision=Precision.fp32,
            compile=Compile.never,
        ),
        seed=seed,
    )
    prepared = prepare(requested_run(config, SINGLE_PROCESS), SINGLE_PROCESS, Recipe())
    model = prepared.model
    pad_id = model.tokenizer.pad_id
    batches = TrainingBatches(prepared.rows["train"], config.training, seed, pad_id, model.compute.device)
    optimizer = build_optimizer(model.network, config.training)
    learner = Learner(model.network, optimizer, config.training, model.compute)
    for _ in optimize(learner, batches.steps(), Horizon(steps)):
        pass
    return prepared


@pytest.fixture(scope="module")
def digits(cache):
    return learnt(cache, DIGITS_TASK, REVERSE, seed=0, steps=250, positions=Positions.sinusoidal)


@pytest.fixture(scope="module")
def digits_again(cache):
    """Return the same with another seed."""
    return learnt(cache, DIGITS_TASK, REVERSE, seed=1, steps=250, positions=Positions.sinusoidal)


@pytest.mark.slow
@pytest.mark.parametrize("run", ["digits", "digits_again"])
def test_a_small_encoder_learns_to_reverse_digits_without_a_mistake(run, request):
    prepared = request.getfixturevalue(run)
    figures = prepared.model.evaluate(prepared.rows["test"]).values
    assert figures["token_accuracy"] == 1.0
    assert figures["accuracy"] == 1.0
    assert figures["loss"] < 0.01


@pytest.mark.parametrize("steps", [0, 3])
def test_only_the_seed_decides_the_initial_weights_and_what_is_learned(cache, steps):
    def weights(seed):
        prepared = learnt(cache, DIGITS_TASK, REVERSE, seed=seed, steps=steps, positions=Positions.rotary)
        return torch.cat([weight.flatten() for weight in prepared.model.network.state_dict().values()])

    assert torch.equal(weights(0), weights(0))
    assert not torch.equal(weights(0), weights(1))


def cut_to_any_length(split):
    """Return the rows of a split, each cut at a different length; texts that become equal are one row.

    (A text that occurs twice, with both labels, is a tie in the area under the curve, which rounding would decide: see
    `area_from`.)
    """
    draw = np.random.default_rng(0)
    if isinstance(split[0], TextExample):
        rows = {example.text[: draw.integers(1, len(example.text) + 1)]: example.label for example in split}
        return Split(pa.table({"text": list(rows), "label": list(rows.values())}))
    kept = [(example, draw.integers(1, len(example.words) + 1)) for example in split]
    columns = {
        "words": [example.words[:n] for example, n in kept],
        "labels": [example.labels[:n] for example, n in kept],
    }
    return Split(pa.table(columns))


def scores_by_grouping(model, rows):
    """Score the same rows in batches of many compositions, from each alone to all at once."""
    n = len(rows)
    shuffled = np.random.default_rng(1).permutation(n)
    groupings = {"alone": np.arange(n)[:, None], "all": [np.arange(n)], "some": np.array_split(shuffled, 9)}
    scores = {
        name: evaluate(
            model.network,
            (rows.gather(np.asarray(group), model.tokenizer.pad_id) for group in groups),
            model.task.metrics(),
            model.compute,
        )
        for name, groups in groupings.items()
    }
    return scores | {"as shipped": model.evaluate(rows)}


def pair_gaps(scores):
    """Return by how much each row of the second class scores above each of the first: [second, first]."""
    of_second = scores.probabilities[:, 1]
    return of_second[scores.labels == 1][:, None] - of_second[scores.labels == 0][None, :]


def area_from(alone, other):
    """Return the area under the curve that `other` must have, where `alone` has the same rows in other batches.

    The area is the fraction of pairs of a positive and a negative row that are in order, with ties counting one half
    (Hanley and McNeil 1982), so it is not a continuous function of the scores: a matrix product with another number of
    rows sums in another order, and two scores that differ only in their last digits change places. But if no score
    moves by more than d, a pair further apart than 2 d keeps its order, so the area differs at most by the fraction of
    closer pairs. Such pairs occur only where a model cannot distinguish texts, such as "(" and "((" without positions.
    """
    for scores in (alone, other):
        gaps = pair_gaps(scores)
        assert scores.values["roc_auc"] == pytest.approx((gaps > 0).mean() + (gaps == 0).mean() / 2, abs=1e-12)
    moved = np.abs(other.probabilities - alone.probabilities).max()
    near = (np.abs(pair_gaps(alone)) <= 2 * moved).mean() if moved else 0.0
    return pytest.approx(alone.values["roc_auc"], abs=near + 1e-12)


def precision_from(alone, other):
    """Return the average precision that `other` must have: between those of the two extreme orders of near ties.

    As for the area above, scores that differ only in their last digits change places. With every positive row moved
    down by as much as any has moved, the average precision is the lowest that is possible, and up, the highest.
    """
    positive = (alone.labels == alone.positive).astype(float)
    chances = alone.probabilities[:, alone.positive]
    moved = 2 * np.abs(other.probabilities - alone.probabilities).max()
    lowest, highest = (average_precision_score(positive, chances + sign * moved * positive) for sign in (-1, 1))
    middle = (lowest + highest) / 2
    return pytest.approx(middle, abs=(highest - lowest) / 2 + 1e-5)


def check_batching_changes_nothing(prepared):
    model = prepared.model
    split = cut_to_any_length(prepared.data.split("test").take(range(200)))
    rows = model.task.rows(tokenize_examples(list(split), model.tokenizer), split.targets())
    assert len(set(rows.lengths.tolist())) > 5
    scores = scores_by_grouping(model, rows)
    alone = scores["alone"]
    assert len(set(np.hstack(alone.predicted).tolist())) == len(alone.label_names)  # the model tells its labels apart
    for other in scores.values():
        assert np.hstack(other.predicted).tolist() == np.hstack(alone.predicted).tolist()
        if hasattr(alone, "probabilities"):
            assert other.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
        ranked = {}
        if "roc_auc" in alone.values:
            ranked = {"roc_auc": area_from(alone, other), "average_precision": precision_from(alone, other)}
        assert other.values == {name: pytest.approx(value, abs=1e-5) for name, value in alone.values.items()} | ranked


@pytest.mark.slow
def test_padding_and_batching_do_not_change_scores_of_words(digits):
    check_batching_changes_nothing(digits)


@pytest.mark.slow
@pytest.mark.parametrize("pooling", Pooling)
@pytest.mark.parametrize("positions", Positions)
def test_padding_and_batching_do_not_change_scores_of_texts(cache, pooling, positions):
    task = ClassificationConfig(name="brackets")
    trained = learnt(cache, task, BRACKETS, seed=0, steps=60, pooling=pooling, positions=positions)
    check_batching_changes_nothing(trained)
