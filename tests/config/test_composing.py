"""Settings arrive as they were typed, and the command line wins over experiments and configs."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from encoderlab.api import compose
from encoderlab.cli.table import COMMANDS
from encoderlab.config.composing import composed, parse_command_line
from encoderlab.errors import SettingError

OWN = ("task=classification", "dataset=files", "dataset.path=rows.csv")


def settings_of(command, *arguments):
    """Return the settings of a command line."""
    return composed(parse_command_line(COMMANDS[command].schema(), arguments))


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\0")))
@example("Dull, dull, dull.")
@example('It\'s 100% "great"; {really} [no] (joke)=1')
@example("costs ${5} or \\${5} or \\\\${x.y}")
@example("ends with a backslash \\")
@example("\\' mixed \\\\'")
@example("null")
@example("a\nb")
@settings(deadline=None, max_examples=10)
def test_any_text_arrives_unchanged(text):
    assert settings_of("predict", "run=x", f"text={text}").text == text


@pytest.mark.parametrize("path", ["my reviews (final), v2.csv", "a[1.csv", "it's.csv", "x{y.csv", "log(1).csv"])
def test_a_path_that_hydra_cannot_parse_is_taken_literally(path):
    assert Path(compose(*OWN, f"dataset.path={path}").dataset.path).name == path


def test_a_setting_that_is_set_twice_is_said_and_the_last_counts(capsys):
    assert settings_of("train", "seed=1", "model=mini", "seed=2", "task=brackets", "model=tiny").seed == 2
    said = capsys.readouterr().err
    assert "seed=1 and seed=2" in said and "model=mini and model=tiny" in said and "task" not in said
    settings_of("train", "seed=1", "seed=1")
    assert not capsys.readouterr().err


def test_folders_of_compare_need_no_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seed=1").mkdir()
    made = settings_of("compare", "a", "output=c", "seed=1", "b d")
    assert (made.runs, made.output) == (["a", "seed=1", "b d"], "c")


def test_a_path_alone_is_the_data_the_input_or_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my rows.csv").touch()
    finetune = settings_of("finetune", "my rows.csv", "dataset.label=stars")
    assert (type(finetune.task).__name__, Path(finetune.dataset.path).name) == ("ClassificationConfig", "my rows.csv")
    assert settings_of("predict", "run=x", "my rows.csv").input == "my rows.csv"
    assert settings_of("eval", ".").run == "."
    scored = settings_of("eval", ".", "my rows.csv")
    assert (scored.run, Path(scored.dataset.path).name) == (".", "my rows.csv")
    for command in ("explain", "attention", "export", "finetune"):
        with pytest.raises(SettingError, match="are both "):
            settings_of(command, ".", str(tmp_path))
    assert compose("+experiment=notebook_reverse") == compose("experiment=notebook_reverse")


@pytest.mark.parametrize("label", ["fraud", "very good", "größer", "don't", "a: b", "{x}", "c++", "${y}", "1", "日本"])
def test_any_label_can_have_a_weight(label):
    typed = "{" + json.dumps(label, ensure_ascii=False) + ": 2.5}"
    for written in (typed, typed.replace('"', "")) if label.isalpha() else (typed,):
        assert compose(*OWN, f"task.class_weights={written}").task.known_class_weights == {label: 2.5}


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ('{"1": no, "2": yes}', {"1": "no", "2": "yes"}),
        ('{"a, b": x, no: on}', {"a, b": "x", "no": "on"}),
        ("{Négatif:bad,négatif:bad,positif:good}", {"Négatif": "bad", "négatif": "bad", "positif": "good"}),
        ("{größer: '08', kleiner: 8}", {"größer": "08", "kleiner": "8"}),
    ],
)
def test_a_mapping_of_labels_is_read_as_it_is_typed(typed, names):
    label_names = compose(*OWN, f"dataset.label_names={typed}").dataset.label_names
    assert {str(old): str(new) for old, new in label_names.items()} == names


@pytest.mark.parametrize("value", ["{größer", "größer", "{größer: -1}", "{größer}", "[größer]"])
def test_values_that_are_not_a_mapping_of_weights_are_refused(value):
    with pytest.raises(SettingError, match="^task.class_weights"):
        compose(*OWN, f"task.class_weights={value}")


def test_own_data_without_a_task_is_a_classification():
    own = ("dataset=files", "dataset.path=rows.csv")
    assert compose(*own).task.name == compose(*OWN).task.name
    assert type(compose(*own, "task=tagging").task).__name__ == "TaggingConfig"
    assert type(compose(*own, command="pretrain").task).__name__ == "PretrainingConfig"


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("hydra.sweep.subdir=x -m seed=1,2", "sweep_dir"),
        ("hydra.mode=MULTIRUN", "Add -m"),
        ("--config-path=conf/my_x", "--config-dir"),
        ("overrides=[a]", "no setting overrides"),
    ],
)
def test_what_would_have_no_effect_is_refused(line, remedy):
    with pytest.raises(SettingError, match=remedy):
        settings_of("train", *line.split())


def test_a_blank_config_is_named():
    with pytest.raises(SettingError, match="--config-name"):
        settings_of("train", "--config-name=")
