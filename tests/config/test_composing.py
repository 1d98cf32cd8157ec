"""Composing checks a command line: Hydra's flags, the number of runs, and what a command line selects in addition to an
experiment.
"""

import pickle

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode

from encoderlab.cli.main import config_folder
from encoderlab.config.composing import check_combinations, checked_configs, checked_flags
from encoderlab.config.schemas import register_schemas
from encoderlab.errors import SettingError


def test_flags_are_separated_from_settings():
    flags = checked_flags("train", ["seed=1", "model=tiny", "--cfg", "job", "-m"])
    assert (flags.cfg, flags.multirun, flags.overrides) == ("job", True, ["seed=1", "model=tiny"])


@pytest.mark.parametrize(
    ("flag", "remedy"),
    [
        ("--config-dri=mine", "Did you mean --config-dir?"),
        ("--seed=1", "Write settings without dashes: seed=1."),
        ("--model.n_layers=2", "Write settings without dashes: model.n_layers=2."),
        ("--task", "Write settings without dashes: task=VALUE."),
        ("--xyzzy=1", "Write settings as name=value, without dashes."),
        ("--cfg", "See encoderlab train --help."),
    ],
)
def test_an_unknown_or_misused_flag_is_refused_with_a_remedy(flag, remedy):
    with pytest.raises(SettingError) as refused:
        checked_flags("train", [flag])
    assert str(refused.value).endswith(remedy) and flag.partition("=")[0] in str(refused.value)


def test_a_config_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.yaml").write_bytes(b"\xff")
    with pytest.raises(SettingError, match=r"mine\.yaml cannot be read"):
        checked_flags("train", ["--config-dir", str(tmp_path)])


def test_a_sweep_may_have_ten_thousand_runs():
    check_combinations(
        ["seed=range(0,100)", "model.n_layers=range(1,101)", "task=glob(*)", "not=[read", "training.epochs=3"]
    )


def test_a_worker_of_a_launcher_composes_as_the_main_process_does():
    line = ["experiment=notebook_reverse", "model=tiny"]
    register_schemas("train", line)
    with checked_configs(lambda _: None), initialize_config_dir(str(config_folder()), version_base="1.3"):
        loader = pickle.dumps(GlobalHydra.instance().config_loader())
        wanted = compose("train", line)
    in_worker = pickle.loads(loader).load_configuration("train", line, RunMode.RUN)
    assert in_worker.model == wanted.model


def test_hydra_is_left_as_it_was():
    from hydra._internal import hydra as internal

    before = internal.ConfigLoaderImpl, internal.ConfigLoaderImpl.load_configuration, internal.Hydra.get_mode
    with pytest.raises(KeyError), checked_configs(lambda _: None):
        assert internal.ConfigLoaderImpl is not before[0]
        raise KeyError
    assert (internal.ConfigLoaderImpl, internal.ConfigLoaderImpl.load_configuration, internal.Hydra.get_mode) == before
