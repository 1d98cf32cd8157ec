"""A search: trials are drawn from ranges, resume where the search ended, and are shown with the best first."""

import csv
import json
from pathlib import Path

import pytest

from encoderlab.apps.comparing.search import score_of
from encoderlab.errors import SettingError
from encoderlab.runs.run import Run
from encoderlab.system.processes import Interrupted

SPACE = ("training.learning_rate=log(1e-5,1e-1)", "model.n_heads=1,2", "training.warmup=interval(0,0.5)")


@pytest.fixture(autouse=True)
def _optuna():
    pytest.importorskip("optuna", reason="pip install 'encoderlab[optuna]'")


def trials():
    """Return the lines of the search's table."""
    return list(csv.DictReader(Path("sweep/search.csv").open(encoding="utf-8", newline="")))


@pytest.mark.slow
def test_a_search_draws_from_its_ranges_and_continues_where_it_ended(sweep, capfd):
    sweep("trials=1", *SPACE)
    first = trials()
    sweep("trials=2", *SPACE)
    ended = trials()
    assert len(ended) == 2 and all(trial in ended for trial in first)
    assert all(1e-5 <= float(trial["training.learning_rate"]) <= 1e-1 for trial in ended)
    assert {trial["model.n_heads"] for trial in ended} <= {"1", "2"}
    scores = [float(trial["validation"]) for trial in ended]
    assert scores == sorted(scores, reverse=True)
    assert f"training.learning_rate={ended[0]['training.learning_rate']}" in capfd.readouterr().err.replace("\n", " ")


@pytest.mark.slow
def test_a_search_resumes_its_unfinished_trial_and_refuses_other_values(sweep, stop_after):
    stop_after(2)
    with pytest.raises(Interrupted):
        sweep("trials=1", "model.n_heads=1,2")
    stop_after(-1)
    sweep("trials=1", "model.n_heads=1,2")
    assert len(trials()) == 1
    with pytest.raises(SettingError, match="another sweep_dir"):
        sweep("trials=2", "model.n_heads=1,2,4")


@pytest.mark.parametrize(("name", "score"), [("pearson", 0.4), ("mae", -0.4)])
def test_a_search_prefers_the_smaller_error(tmp_path, name, score):
    report = {"main_score": name, "splits": {"validation": {name: 0.4}}}
    (tmp_path / "report.json").write_text(json.dumps(report), encoding="utf-8")
    assert score_of(Run(tmp_path)) == score
