"""The settings given once for all runs of a sweep: separated from those of the runs, and refused if they have no
meaning.
"""

import pytest

from encoderlab.config.commands import SweepConfig
from encoderlab.errors import SettingError
from encoderlab.sweeps.settings import as_arguments, folder_for, sweep_settings


def test_settings_of_the_sweep_are_separated_from_those_of_its_runs():
    options, rest = sweep_settings(
        ["seed=1,2", "trials=5", "sweep_dir=found", "training.learning_rate=log(1e-5,1e-2)"], True
    )
    assert options == SweepConfig(trials=5, sweep_dir="found")
    assert rest == ["seed=1,2", "training.learning_rate=log(1e-5,1e-2)"]


def test_hydras_own_name_for_the_folder_works_too():
    assert sweep_settings(["hydra.sweep.dir=found", "seed=1,2"], True) == (SweepConfig(sweep_dir="found"), ["seed=1,2"])
    assert sweep_settings(["sweep_dir=ours", "hydra.sweep.dir=hydras"], True)[0].sweep_dir == "ours"


@pytest.mark.parametrize(
    ("arguments", "multirun", "refusal"),
    [
        (["trials=5"], False, "trials needs several runs. Add -m to start them."),
        (["sweep=seeds"], False, "sweep needs several runs. Add -m to start them."),
        (["sweep_dir=x"], False, "sweep_dir needs several runs. Add -m to start them."),
        *(
            (
                [f"trials={value}"],
                True,
                f"trials={value} has the wrong type. Allowed: a whole number, at least 1. Set trials=20.",
            )
            for value in ("few", "²")
        ),
        (["seed=log(1,9)"], True, "seed=log(1,9) is a range, not a value. Add trials=20 to search it."),
        (["seed=interval(1,9)"], False, "seed=interval(1,9) is a range, not a value. Add -m trials=20 to search it."),
        (["seed=interval(1,9)"], True, "seed=interval(1,9) is a range, not a value. Add trials=20 to search it."),
    ],
)
def test_a_setting_without_meaning_is_refused_with_a_remedy(arguments, multirun, refusal):
    with pytest.raises(SettingError) as refused:
        sweep_settings(arguments, multirun)
    assert str(refused.value) == refusal


@pytest.mark.parametrize("value", ["0", ""])
def test_a_search_needs_at_least_one_trial(value):
    with pytest.raises(SettingError, match="trials"):
        sweep_settings([f"trials={value}"], True)


def test_a_text_may_look_like_a_range():
    assert sweep_settings(["text=log(1,2)"], False) == (SweepConfig(), ["text=log(1,2)"])


def test_a_resume_command_repeats_only_settings_that_differ_from_the_defaults():
    assert as_arguments(SweepConfig(sweep_dir="found")) == []
    assert as_arguments(SweepConfig(trials=7)) == ["trials=7"]


def test_a_dry_sweep_leaves_no_folder_and_cannot_search():
    with folder_for(SweepConfig(), dry=True) as folder:
        path = folder.root
        assert path.is_dir()
    assert not path.exists()
    with pytest.raises(SettingError, match="dry_run=true gives no score"), folder_for(SweepConfig(trials=3), dry=True):
        pass
