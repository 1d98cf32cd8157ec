"""Unknown settings: the error names the one that was probably meant, among those of the chosen options."""

import pytest

from encoderlab.cli import main as cli
from encoderlab.errors import SettingError


@pytest.mark.parametrize(("typed", "meant"), [("training.lr=1", "learning_rate"), ("training.wd=1", "weight_decay")])
def test_a_setting_known_by_its_initials_is_named(typed, meant):
    with pytest.raises(SettingError, match=f"Did you mean training.{meant}"):
        cli.run(["train", typed])


def test_only_the_settings_of_the_chosen_option_are_listed():
    with pytest.raises(SettingError) as refused:
        cli.run(["train", "task=classification", "dataset=files", "dataset.path=x.csv", "task.qqq=1"])
    assert "task.score" in str(refused.value)
    assert "task.mlm_probability" not in str(refused.value) and "task.special_tokens" not in str(refused.value)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("path=rows.csv", "dataset.path"),
        ("epochs=3", "training.epochs"),
        ("lr=1", "training.learning_rate"),
        ("n_layers=2", "model.n_layers"),
        ("training.max_length=64", "model.max_length"),
    ],
)
def test_a_setting_of_another_group_is_named(typed, meant):
    with pytest.raises(SettingError, match=f"There is no setting {typed.partition('=')[0]}. Did you mean {meant}"):
        cli.run(["train", typed])


@pytest.mark.parametrize("typed", ["rows.csv", "dataset=rows.csv", "dataset=data/rows.csv"])
def test_a_file_in_place_of_a_setting_is_refused_with_the_setting_to_use(typed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("text,label\n")
    with pytest.raises(SettingError, match="For a file of your own, set dataset=files dataset.path=(data/)?rows.csv"):
        cli.run(["finetune", typed])


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("predict rows.csv", "rows.csv cannot be read. Allowed: name=value. Set input=rows.csv."),
        ("predict run", "run cannot be read. Allowed: name=value. Set run=run."),
        (
            f"predict {'long' * 100}",
            f"{'long' * 100} cannot be read. Allowed: name=value. See encoderlab predict --help.",
        ),
        ("predict run=x dataset.encoding=utf-8", "encoderlab predict has no dataset settings. Did you mean encoding?"),
        ("predict run=x dataset.path=rows.csv", "encoderlab predict has no dataset settings. Remove dataset.path."),
    ],
)
def test_a_command_without_a_dataset_names_its_own_settings(line, remedy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("text\n")
    (tmp_path / "run").mkdir()
    with pytest.raises(SettingError) as refused:
        cli.run(line.split())
    assert str(refused.value) == remedy
