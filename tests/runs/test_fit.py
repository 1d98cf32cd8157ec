"""Fitting a model: the result is the best checkpoint, and a report says how its threshold was fitted."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from encoderlab.errors import DataError
from encoderlab.metrics.texts import classification_scores
from encoderlab.runs.fit import fit, has_learned
from encoderlab.runs.journal import Progress
from encoderlab.runs.run import Run
from encoderlab.runs.training import Training
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.tasks.regression import RegressionConfig
from encoderlab.training.config import Keep, TrainingConfig
from tests.run_files import journal_of
from tests.runs.small_model import TOKENIZER, labelled_rows, model_of

pytestmark = pytest.mark.usefixtures("one_thread")


def fitted(run, validation=True, **settings):
    training = TrainingConfig(
        **{"steps": 8, "batch_size": 6, "evaluate_every": 4, "log_every": 1, "learning_rate": 0.01} | settings
    )
    model = model_of(training=training, dropout=0.1, initializer_range=0.02)
    run.folder.mkdir(exist_ok=True)
    ended = fit(Training(model, labelled_rows(18), labelled_rows(9) if validation else None), run)
    return ended, model.network.state_dict()


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path / "run")


def test_the_final_weights_are_those_of_the_best_evaluation(run):
    ended, weights = fitted(run, learning_rate=1e-9)  # nothing is learned: the first evaluation stays the best
    assert ended.checkpoint == {"step": 4, "chosen_by": "accuracy", "chosen_on": "validation"}
    last, _ = fitted(Run(run.folder.parent / "last"), learning_rate=1e-9, keep=Keep.last)
    assert last.checkpoint == {"step": 8, "chosen_by": "last step", "chosen_on": None}
    best = load_file(run.checkpoints_folder / "step-4" / "model.safetensors")
    assert all(torch.equal(weights[name], weight) for name, weight in best.items())


def test_a_damaged_best_checkpoint_gives_way_to_the_last_with_a_note(run):
    fitted(run, learning_rate=1e-9)
    (run.checkpoints_folder / "step-4" / "model.safetensors").write_bytes(b"")
    ended, _ = fitted(run, learning_rate=1e-9)  # resumes after its last step
    assert ended.checkpoint == {"step": 8, "chosen_by": "last step", "chosen_on": None}
    assert any("step 4, was damaged" in note for note in ended.notes)


def test_patience_ends_a_fit_that_stops_improving_with_a_note(run):
    ended, _ = fitted(run, steps=400, evaluate_every=20, patience=2)
    last = journal_of(run.folder)[-1]["step"]
    assert last < 400
    assert any(f"step {last} of 400" in note for note in ended.notes)


def test_patience_does_not_end_a_fit_that_has_not_learned_anything(run):
    fitted(run, learning_rate=1e-9, evaluate_every=2, patience=1)
    assert journal_of(run.folder)[-1]["step"] == 8


FAIR = np.array([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("loss", "weights", "step", "learned"),
    [
        (0.69, None, 50, False),  # that of a fair coin is 0.693
        (0.60, None, 50, True),
        (0.60, None, 10, False),  # in the warmup
        (0.90, [1.0, 4.0], 50, False),  # weighted labels: predicting 0.8 for one of them has a loss of 0.916
        (0.80, [1.0, 4.0], 50, True),
    ],
)
def test_something_is_learned_once_the_loss_is_below_that_of_the_frequencies(loss, weights, step, learned):
    scores = classification_scores(FAIR, FAIR, ["ham", "fraud"], "accuracy", 1)
    scores = replace(scores, values={"loss": loss})
    label_weights = None if weights is None else torch.tensor(weights)
    assert has_learned(scores, label_weights, Progress(step=step, total=100), 0.1) == learned


def test_a_checkpoint_of_another_model_is_refused(run):
    fitted(run)
    other = model_of(training=TrainingConfig(steps=9, batch_size=6), d_model=16)
    with pytest.raises(DataError, match="checkpoint"):
        fit(Training(other, labelled_rows(18)), run)


def scored(precision):
    """Return validation scores of 10 rows, 5 of them predicted as fraud, that share of those correctly."""
    right = round(5 * precision)
    labels = np.array([1] * right + [0] * (10 - right))
    scores = classification_scores(labels, np.array([1] * 5 + [0] * 5), ["ham", "fraud"], "accuracy", 1)
    return {"validation": replace(scores, thresholds={"fraud": 0.75})}


FITTED = "The threshold of 'fraud', 0.750, was fitted on validation (task.threshold={})"
MISSED = "No threshold gives 'fraud' a precision of 0.9 on validation: the best has 0.600"
NO_ROWS = "There is no validation split to fit task.threshold=f1 on, so it is 0.5"


@pytest.mark.parametrize(
    ("threshold", "scores", "notes"),
    [
        ("f1", scored(0.6), [FITTED.format("f1")]),
        ("precision:0.8", scored(0.8), [FITTED.format("precision:0.8")]),
        ("precision:0.9", scored(0.6), [FITTED.format("precision:0.9"), MISSED]),
        ("f1", {}, [NO_ROWS]),
        (0.3, scored(0.6), []),
        (None, scored(0.6), []),
    ],
)
def test_a_report_says_how_a_threshold_was_fitted_and_which_precision_it_missed(threshold, scores, notes):
    task = ClassificationConfig(name="t", threshold=threshold).build(TOKENIZER, ["ham", "fraud"], 12)
    assert task.threshold_notes(scores) == notes
    numbers = RegressionConfig(name="t", mean=0.0, deviation=1.0).build(TOKENIZER, [], 12)
    assert numbers.threshold_notes(scores) == []
