"""What is typed after `python -m benchmarks suite`, and the commands that follow from it."""

import shlex
import subprocess

import pytest

from benchmarks.processes import ROOT, python
from benchmarks.suite.command import planned_runs
from benchmarks.suite.kinds import KINDS, missing_data
from benchmarks.suite.plan import Run, filled, parsed
from benchmarks.suite.sets import SETS
from encoderlab import compose
from encoderlab.errors import SettingError


def test_without_arguments_everything_is_run():
    settings = parsed([])
    assert settings.sets == tuple(SETS) and settings.kinds == tuple(KINDS)


def test_a_slow_kind_gets_one_seed_on_many_rows_unless_seeds_are_given():
    assert parsed([]).seeds_of("clinc150", "minilm") == (0,)
    assert parsed([]).seeds_of("clinc150", "box") == parsed([]).seeds_of("sms_spam", "minilm") == (0, 1, 2)
    assert parsed(["seeds=3,4"]).seeds_of("clinc150", "minilm") == (3, 4)


def test_arguments_with_a_dot_are_passed_to_every_run():
    run = Run("sms_spam", "scratch", 0, parsed(["training.precision=fp32"]))
    assert "training.precision=fp32" in run.words


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("sets=sms_spamm", "There is no set sms_spamm.*Did you mean sms_spam"),
        ("kinds=boxx", "There is no kind boxx.*Did you mean box"),
        ("seeds=a", "seeds=a is not a list of seeds"),
        ("timed=no", "timed=no is not a choice"),
        ("set=sms_spam", "There is no setting set.*Did you mean sets"),
        ("tables", "There is no setting tables"),
    ],
)
def test_an_unknown_argument_is_refused(word, message):
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


def test_hub_datasets_need_a_hub(monkeypatch, tmp_path):
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    assert "HF_ENDPOINT" in missing_data("hub", tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", "http://localhost")
    assert missing_data("hub", tmp_path) == ""


@pytest.mark.parametrize("name", SETS)
def test_every_kinds_command_accepts_the_arguments_of_every_dataset(name):
    for kind in KINDS:
        run = Run(name, kind, 1, parsed(["training.steps=5"]))
        command, *words = filled(run.words, {"suite": "data", "output": "runs", "minilm": "minilm"})
        config = compose(*words, command=command)
        assert config.seed == 1 and config.run_dir == f"runs/{name}/{kind}/1"
        assert not any("{" in word for word in words)


def test_pairs_name_their_second_column_and_tagging_its_task():
    for name in ("mnli_sample", "sick_relatedness"):
        assert {"dataset.text=text_a", "dataset.text_pair=text_b"} < set(SETS[name].words)
    assert {"task=tagging", "dataset.train={suite}/wnut17/train.conll"} < set(SETS["wnut17"].words)
    assert {"task=multilabel", "dataset.label=labels"} < set(SETS["reuters21578"].words)


def test_a_dataset_read_in_windows_has_the_same_rows_as_the_truncated_one():
    cut, whole = SETS["bbc_news"], SETS["bbc_news_windows"]
    assert set(whole.words) - set(cut.words) == {"task.windows=mean"} and whole.training_rows == cut.training_rows


def test_students_are_planned_for_tasks_with_one_label_per_text_or_word():
    planned = {name: {run.kind for run in planned_runs(name, KINDS, parsed([]))} for name in SETS}
    without = {name for name, kinds in planned.items() if "student" not in kinds}
    assert without == {"goemotions", "reuters21578", "sick_relatedness"}
    assert all({"scratch", "box", "minilm"} <= kinds for kinds in planned.values())


def test_all_students_on_a_dataset_share_one_teacher():
    settings = parsed(["seeds=4,5"])
    for seed in settings.seeds:
        assert "teacher={output}/docs/minilm/4" in Run("docs", "student", seed, settings).words


def test_finetuning_from_the_shipped_encoder_names_no_encoder():
    assert (
        shlex.join(Run("docs", "box", 0, parsed([])).words) == "finetune task=docs seed=0 'run_dir={output}/docs/box/0'"
    )
