"""What every report says of its run: the scored split, portable JSON, and what to know before trusting the scores."""

from dataclasses import replace

import numpy as np
import pytest

from encoderlab.metrics.teacher_vectors import TeacherVectorsScores
from encoderlab.reports.parts.run_report import RunSummary, run_report, scored_split

RUN = RunSummary(
    "train", "sst2", 1, {"total": 3}, {}, {"step": 7, "chosen_by": "accuracy", "chosen_on": "validation"}, ["a note"]
)


class Accuracies(TeacherVectorsScores):
    """The scores of 200 rows, of which a report knows only the accuracy."""

    main = "accuracy"

    def __init__(self, accuracy):
        super().__init__(200, {"accuracy": accuracy}, *[np.arange(200)] * 3)


def report_of(*splits, accuracy=0.8, **changes):
    scores = {name: Accuracies(accuracy) for name in splits}
    return run_report(replace(RUN, **changes), scores, {name: part.as_dict() for name, part in scores.items()})


@pytest.mark.parametrize(
    ("splits", "scored"),
    [(["validation"], "validation"), (["validation", "test"], "test"), (["train"], "train"), (["all"], "all")],
)
def test_the_test_split_is_scored_if_there_is_one(splits, scored):
    assert scored_split(dict.fromkeys(splits)) == report_of(*splits)["scored_split"] == scored


def test_a_score_on_the_split_that_chose_the_checkpoint_is_called_optimistic():
    assert any("chosen on validation, the split it is scored on" in note for note in report_of("validation")["notes"])
    assert report_of("validation", "test")["notes"] == ["a note"]


def test_scores_on_the_training_rows_are_labelled_as_such():
    assert any("The model was trained on these rows" in note for note in report_of("train")["notes"])


def test_a_perfect_score_comes_with_a_note_on_what_it_does_not_show():
    notes = report_of("test", accuracy=1.0)["notes"]
    assert any("200 rows, an error rate of up to 0.015 is still possible" in note for note in notes)


def test_figures_that_are_not_finite_become_null():
    report = report_of("test", throughput={"tokens_per_second": float("nan"), "examples_per_second": np.float32("inf")})
    assert report["throughput"] == {"tokens_per_second": None, "examples_per_second": None}
