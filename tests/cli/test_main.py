"""The command line: help that is complete, Hydra's own flags in any place, and the exit codes of a real process."""

import subprocess
import sys
from dataclasses import fields

import pytest
import yaml

from encoderlab.cli.table import COMMANDS, SUMMARIES
from encoderlab.commands.list import options_of
from encoderlab.config import config_folder
from encoderlab.config.schemas import GROUPS, SCHEMAS
from encoderlab.errors import SettingError


@pytest.fixture
def shown(command, capsys):
    """Return a function that runs a command line and returns its standard output."""

    def run(line):
        capsys.readouterr()
        command(*line.split())
        return capsys.readouterr().out

    return run


def process(folder, line):
    """Run a command line in a process of its own."""
    words = [sys.executable, "-m", "encoderlab", *line.split()]
    return subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False)


@pytest.mark.parametrize("line", ["", "--help", "-h", "help"])
def test_the_overview_names_every_command(shown, line):
    assert all(f"  {name} " in shown(line) for name in SUMMARIES)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples_and_every_setting_with_a_line_of_help(shown, name):
    printed = shown(f"{name} --help")
    schema = COMMANDS[name].schema()
    assert all(f"encoderlab {name} {example}".rstrip() in printed for example, _ in schema.example_lines)
    for declared in fields(schema):
        if declared.name not in GROUPS and not declared.metadata["internal"]:
            assert f"  {declared.name}=" in printed and declared.metadata["help"] in printed


@pytest.mark.parametrize(("group", "option"), SCHEMAS)
def test_help_shows_the_settings_of_the_chosen_config_and_of_no_other(shown, group, option):
    if option in options_of(config_folder(), group):
        printed = shown(f"finetune {group}={option} --help")
        for declared in fields(SCHEMAS[group, option]):
            assert (f"  {group}.{declared.name}=" in printed) is not declared.metadata["internal"]
    assert "task.decoding" in shown("finetune task=tagging --help")
    assert "task.decoding" not in (printed := shown("finetune --help")) and printed.count("\n") < 160


def test_help_shows_the_defaults_of_the_configs_that_the_command_uses(shown):
    assert "  model.n_layers=2 " in shown("train --help")
    assert "  training.epochs=10 " in shown("pretrain --help")
    assert "  tokenizer" not in shown("baseline --help"), "it does not read any"


@pytest.mark.parametrize(
    ("line", "setting", "value"),
    [
        ("train --cfg job task=brackets", "dataset.pairs", 10),
        ("train task=brackets --cfg job seed=3", "seed", 3),
        ("finetune dataset=files dataset.path=x.csv --cfg job", "task.name", "classification"),
        ("train seed=2 --cfg=job --config-dir mine model=wee", "model.d_model", 6),
        ("train -c job model=tiny model.n_layers=5 experiment=notebook_reverse", "model.n_layers", 5),
    ],
)
def test_hydras_flags_work_in_any_place(shown, tmp_path, line, setting, value):
    (tmp_path / "mine" / "model").mkdir(parents=True)
    (tmp_path / "mine" / "model" / "wee.yaml").write_text("defaults:\n  - model_schema\n  - _self_\nd_model: 6\n")
    config = yaml.safe_load(shown(line))
    for name in setting.split("."):
        config = config[name]
    assert config == value


def test_the_prediction_comes_and_pipes_may_close(tmp_path, brackets_run):
    code = f"{sys.executable} -m encoderlab predict run={brackets_run} 'text=()' threads=1 2>&-"
    ended = subprocess.run(code, shell=True, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert ended.stdout.splitlines()[0] == "text,predicted,probability" and ended.stdout.count("\n") == 2
    code = f"{sys.executable} -m encoderlab predict run={brackets_run} threads=1 <&-"
    ended = subprocess.run(code, shell=True, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "text,predicted\n", "")
    code = f"{sys.executable} -m encoderlab train --info all task=brackets | head -1"
    ended = subprocess.run(code, shell=True, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert ended.stdout.count("\n") == 1 and ended.stderr == ""


@pytest.mark.parametrize(
    ("line", "exit_code"),
    [("train training.epochs=-1", 2), ("predict run=nowhere text=a", 3), ("--version", 0), ("trian", 2)],
)
def test_a_process_ends_with_its_exit_code_and_a_mistake_is_one_line(tmp_path, line, exit_code):
    ended = process(tmp_path, line)
    assert ended.returncode == exit_code, ended.stderr
    assert (ended.stderr.count("\n"), ended.stdout == "") == ((1, True) if exit_code else (0, False))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_command_succeeds_without_standard_output(tmp_path, brackets_run):
    """Its number must not go to a file, and what was done is no failure."""
    code = f"{sys.executable} -m encoderlab predict run={brackets_run} 'text=()' threads=1 output=out.csv >&-"
    ended = subprocess.run(code, shell=True, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
    assert (tmp_path / "out.csv").read_text(encoding="utf-8").startswith("text,predicted,probability\n")
    code = f"{sys.executable} -m encoderlab predict run={brackets_run} 'text=()' threads=1 >&-"
    ended = subprocess.run(code, shell=True, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("line", ["finetune", "finetune training.epochs=2 seed=3", "finetune -m seed=1,2"])
def test_finetune_without_data_says_what_to_type(command, tmp_path, line):
    with pytest.raises(SettingError, match=r"reviews\.csv.*task="):
        command(*line.split())
    assert list(tmp_path.iterdir()) == []


def test_list_shows_ones_own_configs_too(shown, tmp_path):
    own = tmp_path / "cfg" / "experiment"
    own.mkdir(parents=True)
    (own / "mine.yaml").write_text("# @package _global_\n# A recipe of my own\nseed: 3\n")
    for line in ("list --config-dir cfg experiment", "list experiment --config-dir=cfg"):
        assert "A recipe of my own" in shown(line) and "sst2" in shown(line)
    assert "A recipe of my own" not in shown("list experiment")
    with pytest.raises(SettingError, match="nowhere"):
        shown("list --config-dir nowhere")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("encoderlab ", {"train", "list"}),
        ("encoderlab tra", {"train"}),
        ("encoderlab train task=s", {"task=sst2", "task=stsb"}),
    ],
)
def test_tab_completes_commands_and_then_their_settings(shown, monkeypatch, typed, expected):
    monkeypatch.setenv("COMP_LINE", typed)
    completions = set(shown("-sc query=bash").split())
    assert completions >= expected
    assert all(one.startswith(typed.rpartition(" ")[2]) for one in completions)


def test_completion_is_installed_for_the_program_that_it_calls(shown):
    for line in ("-sc install=bash", "train -sc install=bash"):
        assert shown(line).split()[-1] == "encoderlab"
