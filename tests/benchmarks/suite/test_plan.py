"""What is typed behind `python -m benchmarks suite`, and the commands that follow from it."""

import shlex
import subprocess

import pytest

from benchmarks.processes import ROOT, python
from benchmarks.suite.kinds import KINDS, missing_data
from benchmarks.suite.plan import Run, filled, parsed
from benchmarks.suite.sets import SETS
from encoderlab import compose
from encoderlab.errors import SettingError


def test_without_words_everything_is_run():
    settings = parsed([])
    assert settings.sets == tuple(SETS) and settings.kinds == tuple(KINDS)


def test_a_slow_kind_gets_one_seed_where_there_are_many_rows_unless_seeds_are_given():
    assert parsed([]).seeds_of("clinc150", "minilm") == (0,)
    assert parsed([]).seeds_of("clinc150", "box") == parsed([]).seeds_of("sms_spam", "minilm") == (0, 1, 2)
    assert parsed(["seeds=3,4"]).seeds_of("clinc150", "minilm") == (3, 4)


def test_words_with_a_dot_go_to_every_run():
    run = Run("sms_spam", "scratch", 0, parsed(["training.precision=fp32"]))
    assert "training.precision=fp32" in run.words


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("sets=sms_spamm", "There is no set sms_spamm.*Did you mean sms_spam"),
        ("kinds=boxx", "There is no kind boxx.*Did you mean box"),
        ("seeds=a", "seeds=a is not a list of seeds"),
        ("set=sms_spam", "There is no setting set.*Did you mean sets"),
        ("tables", "There is no setting tables"),
    ],
)
def test_a_wrong_word_is_refused(word, message):
    with pytest.raises(SettingError, match=message):
        parsed([word])


def test_the_folder_of_the_data_may_come_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("ENCODERLAB_SUITE", str(tmp_path / "here"))
    assert parsed([]).suite == tmp_path / "here"
    assert parsed([f"suite={tmp_path}"]).suite == tmp_path


def test_a_missing_folder_is_one_clear_line(tmp_path):
    found = subprocess.run(
        python("-m", "benchmarks", "suite", "sets=sms_spam", f"suite={tmp_path / 'none'}"),
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.returncode == 3 and found.stderr.count("\n") == 1
    assert "is not a folder: set suite=FOLDER or ENCODERLAB_SUITE" in found.stderr


def test_sets_of_the_hub_need_a_hub(monkeypatch, tmp_path):
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert "HF_ENDPOINT" in missing_data("hub", tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", "http://localhost")
    assert missing_data("hub", tmp_path) == ""


@pytest.mark.parametrize("name", SETS)
def test_every_set_is_chosen_by_words_that_train_understands(name):
    run = Run(name, "scratch", 1, parsed(["training.steps=5"]))
    command, *words = filled(run.words, {"suite": "data", "output": "runs"})
    config = compose(*words, command=command)
    assert config.seed == 1 and config.run_dir == f"runs/{name}/scratch/1"
    assert not any("{" in word for word in words)


def test_pairs_name_their_second_column_and_tagging_its_task():
    assert {"dataset.text=text_a", "dataset.text_pair=text_b"} < set(SETS["mnli_sample"].words)
    assert SETS["wnut17"].is_tagging and "dataset.train={suite}/wnut17/train.conll" in SETS["wnut17"].words


def test_all_students_of_a_set_learn_from_one_teacher():
    settings = parsed(["seeds=4,5"])
    for seed in settings.seeds:
        assert "teacher={output}/docs/minilm/4" in Run("docs", "student", seed, settings).words


def test_finetuning_from_the_box_names_no_encoder():
    assert shlex.join(Run("docs", "box", 0, parsed([])).words) == "finetune task=docs seed=0 'run_dir={output}/docs/box/0'"
