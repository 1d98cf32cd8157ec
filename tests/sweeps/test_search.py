"""A search: trials are drawn from ranges, learn from the scores before them, and resume where the search ended."""

import json
import math
import os
import signal
from pathlib import Path

import pytest

from encoderlab.errors import DataError, SettingError
from encoderlab.runs.folder import RunFolder
from encoderlab.sweeps.search import _written, score_of, search_space
from encoderlab.system.signals import Interrupted


@pytest.fixture
def scored(commands, monkeypatch):
    """A search whose best learning rate is near 1e-3."""
    pytest.importorskip("optuna", reason="pip install 'encoderlab[optuna]'")
    called, raised = commands
    by_folder = {}

    def train(config, **_):
        called.append(config)
        if config.seed in raised:
            raise raised[config.seed]
        by_folder[Path(config.run_dir)] = -abs(math.log10(config.training.learning_rate) + 3)
        return RunFolder(Path(config.run_dir))

    monkeypatch.setattr("encoderlab.commands.train.train", train)
    monkeypatch.setattr("encoderlab.sweeps.search.score_of", lambda folder: by_folder[folder.root])
    return called, raised


SPACE = "training.learning_rate=log(1e-5,1e-1) model.n_heads=1,2 training.warmup=interval(0,0.5)"


@pytest.mark.slow
def test_a_search_samples_the_ranges_learns_and_resumes_where_it_ended(sweep, scored, capsys):
    called, _ = scored
    sweep(f"trials=4 {SPACE}")
    assert len(called) == 4
    sweep(f"trials=12 {SPACE}")
    assert len(called) == 12
    rates = [config.training.learning_rate for config in called]
    assert all(1e-5 <= rate <= 1e-1 for rate in rates)
    assert {config.model.n_heads for config in called} == {1, 2}
    best = min(rates, key=lambda rate: abs(rate - 1e-3))
    assert f"training.learning_rate={best!r}" in capsys.readouterr().err
    lines = Path("sweep/search.csv").read_text().splitlines()
    assert lines[0] == "trial,validation,training.learning_rate,model.n_heads,training.warmup"
    assert len(lines) == 13
    sweep(f"trials=12 {SPACE}")
    assert len(called) == 12


def test_a_search_resumes_its_unfinished_trial(sweep, scored):
    called, raised = scored
    raised[0] = Interrupted(signal.SIGINT)
    with pytest.raises(Interrupted):
        sweep(f"trials=2 {SPACE}")
    raised.clear()
    sweep(f"trials=2 {SPACE}")
    assert [config.training.learning_rate for config in called[:1]] == [
        config.training.learning_rate for config in called[1:2]
    ]
    assert len(called) == 3


@pytest.mark.slow
@pytest.mark.parametrize("values", ["1,2,4", "interval(1,2)"])
def test_a_search_cannot_resume_with_other_values_and_names_its_own(sweep, scored, values):
    sweep("trials=1 model.n_heads=1,2")
    with pytest.raises(SettingError) as refused:
        sweep(f"trials=2 model.n_heads={values}")
    begun = "This search was started with model.n_heads=1,2, and cannot continue with model.n_heads="
    assert str(refused.value) == f"{begun}{values}. Set model.n_heads=1,2, or another sweep_dir."
    sweep("trials=2 model.n_heads=1,2")
    assert len(Path("sweep/search.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    "values", ["1,2", "range(1,8,2)", "range(1,4)", "interval(0.5,3)", "log(1e-05,8)", "tag(log,int(interval(1,8)))"]
)
def test_the_values_of_a_search_are_printed_as_they_are_typed(values):
    pytest.importorskip("optuna", reason="pip install 'encoderlab[optuna]'")
    space, _ = search_space([f"training.warmup={values}"])
    assert _written("training.warmup", space["training.warmup"]) == f"training.warmup={values}"


@pytest.mark.slow
def test_a_search_lists_failed_trials_and_ends_when_the_first_three_all_fail(sweep, scored):
    called, raised = scored
    raised[0] = DataError("There are no rows")
    with pytest.raises(SettingError, match="The first 3 trials have all failed"):
        sweep(f"trials=9 {SPACE}")
    assert len(called) == 3


NOT_SEARCHED = {
    "seed=1": "trials=... has nothing to search",
    "sweep=seeds seed=1,2": "sweep=seeds does not work with trials",
    "training.learning_rate=log(0,1)": "cannot be searched",
}


@pytest.mark.parametrize("line", NOT_SEARCHED)
def test_an_impossible_search_is_refused_in_one_line(sweep, line):
    pytest.importorskip("optuna", reason="pip install 'encoderlab[optuna]'")
    with pytest.raises(SettingError, match=NOT_SEARCHED[line]) as refused:
        sweep(f"trials=2 {line}")
    assert "\n" not in str(refused.value)
    assert not os.path.lexists("sweep")


@pytest.mark.parametrize(("figure", "score"), [("pearson", 0.4), ("mae", -0.4)])
def test_a_search_prefers_the_smaller_error(tmp_path, figure, score):
    report = {"main_figure": figure, "splits": {"validation": {figure: 0.4}}}
    (tmp_path / "report.json").write_text(json.dumps(report), encoding="utf-8")
    assert score_of(RunFolder(tmp_path)) == score
