"""resume: a run that was stopped continues as if it never had been; what does not belong to it is refused by name."""

import json
import shutil
from pathlib import Path

import pytest
import safetensors.torch
import torch
import yaml

from encoderlab.errors import DataError, SettingError
from encoderlab.runs.run import Run
from encoderlab.system.processes import Interrupted
from encoderlab.training.checkpoint import checkpoints
from tests.experiment_models import BRACKETS_MODEL, REVERSE_MODEL
from tests.run_files import journal_of, report_of

pytestmark = pytest.mark.usefixtures("same_threads")
SMALL = ("task=reverse", *REVERSE_MODEL, "model.dropout=0.2", "training=smoke", "dataset.limit=60", "baselines=false")
SHORT = (*SMALL, "training.steps=9", "training.batch_size=16", "training.evaluate_every=4", "training.log_every=2")


def weights(folder):
    return safetensors.torch.load_file(f"{folder}/model/model.safetensors")


def report(folder):
    return {key: value for key, value in report_of(folder).items() if key not in ("throughput", "run")}


def assert_same_run(folder, other):
    assert all(torch.equal(weight, weights(other)[name]) for name, weight in weights(folder).items())
    assert journal_of(folder) == journal_of(other)
    assert report(folder) == report(other)


@pytest.fixture(scope="module")
def whole(run_in, cache, tmp_path_factory):
    """A run that was never stopped."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    run_in(cache, "train", *SHORT, f"run_dir={folder}")
    return folder


# At an evaluation, and not; `scripts/faults run resumed_equals` tries many more.
@pytest.mark.parametrize("step", [4, 5])
def test_a_run_resumes_at_any_step_as_if_it_had_never_stopped(command, stopped, whole, step, capsys):
    stopped(*SHORT, "run_dir=run", step=step)
    assert "Resume with: encoderlab train resume=run" in capsys.readouterr().err
    command("train", "resume=run")
    assert_same_run("run", whole)


@pytest.mark.slow
def test_a_run_that_compares_the_rows_of_a_batch_resumes_as_if_it_had_never_stopped(command, stopped):
    brackets = ("task=brackets", *BRACKETS_MODEL, "dataset.limit=60", "training=smoke", "training.steps=8")
    line = (*brackets, "training.batch_size=16", "training.contrast_weight=0.5", "baselines=false")
    command("train", *line, "run_dir=whole")
    stopped(*line, "run_dir=run", step=4)
    command("train", "resume=run")
    assert_same_run("run", "whole")
    command("train", *line, "training.contrast_weight=0", "run_dir=without")
    assert any(not torch.equal(weight, weights("without")[name]) for name, weight in weights("run").items())


@pytest.mark.slow
def test_a_run_with_muon_resumes_as_if_it_had_never_stopped(command, stopped):
    command("train", *SHORT, "training.optimizer=muon", "run_dir=whole")
    stopped(*SHORT, "training.optimizer=muon", "run_dir=run", step=5)
    command("train", "resume=run")
    assert_same_run("run", "whole")


@pytest.mark.slow
def test_a_resumed_run_keeps_its_threads_whatever_else_the_machine_does(command, stopped, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    stopped(*SHORT, "run_dir=run")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    command("train", "resume=run")
    environment = json.loads(Path("run/environment.json").read_text(encoding="utf-8"))
    assert environment["resumed"][0]["hardware"]["threads"] == 1
    settings = yaml.safe_load(Path("run/config.yaml").read_text(encoding="utf-8"))
    assert settings["training"]["threads"] is None, "on other cores it is decided anew"
    stopped(*SHORT, "run_dir=other")
    command("train", "resume=other", "training.threads=2")
    environment = json.loads(Path("other/environment.json").read_text(encoding="utf-8"))
    assert environment["resumed"][0]["hardware"]["threads"] == 2


def test_settings_that_do_not_belong_to_the_run_are_named_with_both_values(command, stopped):
    stopped(*SHORT, "run_dir=run")
    expected = r"model.n_layers=3 \(the run: 1\), seed=7 \(the run: 0\). Remove them"
    with pytest.raises(SettingError, match=expected):
        command("train", "resume=run", "seed=7", "model.n_layers=3")
    with pytest.raises(SettingError, match=r"task.name=brackets \(the run: reverse\)"):
        command("train", "resume=run", "task=brackets")
    with pytest.raises(SettingError, match="run_dir=other is not resume=run"):
        command("train", "resume=run", "run_dir=other")


@pytest.mark.slow
def test_an_encoder_that_has_changed_since_is_refused(command, stop_after, tmp_path):
    command("train", *SHORT, "run_dir=start")
    settings = [setting for setting in SHORT if not setting.startswith("model")]
    stop_after(5)
    with pytest.raises(Interrupted):
        command("finetune", *settings, "run_dir=run", "init_from=start")
    stop_after(-1)
    shutil.rmtree(tmp_path / "start")
    command("train", *SHORT, "run_dir=start", "seed=1")
    with pytest.raises(DataError, match="init_from"):
        command("finetune", "resume=run")


@pytest.mark.slow
def test_a_length_that_has_passed_ends_the_run(command, stopped):
    stopped(*SHORT, "run_dir=run", step=5)
    command("train", "resume=run", "training.steps=4")
    assert [line["step"] for line in journal_of("run")][-1] == 5
    assert report("run")["checkpoint"]["step"] in (4, 5)
    assert any("training.steps=4 (before: 9)" in note for note in report("run")["notes"])


@pytest.mark.slow
def test_the_same_overrides_may_be_repeated_and_logging_may_change(command, stopped):
    stopped(*SHORT, "run_dir=run")
    command("train", *SHORT, "training.log_every=1", "training.checkpoint_every=1", "resume=run")
    assert yaml.safe_load(Path("run/config.yaml").read_text())["training"]["log_every"] == 1
    assert len(json.loads(Path("run/environment.json").read_text())["resumed"]) == 1
    assert [line["step"] for line in journal_of("run") if line["kind"] == "step"][-4:] == [6, 7, 8, 9]
    assert "or resumed with other settings" in Path("run/report.html").read_text()  # no command line repeats it


@pytest.mark.slow
def test_other_rows_are_refused_by_the_names_of_their_splits(command, stopped, tmp_path):
    def write(rows):
        lines = [f"text {n},{'ab'[n % 2]}" for n in range(rows)]
        (tmp_path / "rows.csv").write_text("\n".join(["review,stars", *lines]) + "\n")

    write(60)
    own = (
        "task=classification",
        "dataset=files",
        "dataset.path=rows.csv",
        "tokenizer.vocabulary_size=100",
        *BRACKETS_MODEL,
    )
    stopped(*own, "training=smoke", "training.steps=6", "baselines=false", "run_dir=run", step=3)
    write(61)
    with pytest.raises(DataError, match="The data of train.* have changed since the run in run was started"):
        command("train", "resume=run")
    assert checkpoints(Run(tmp_path / "run").checkpoints_folder)
    write(60)
    command("train", "resume=run")


@pytest.mark.slow
def test_auto_with_a_folder_resumes_its_run_or_starts_one(command, stopped, whole):
    stopped(*SHORT, "run_dir=run", "resume=auto", step=2)
    command("train", *SHORT, "run_dir=run", "resume=auto")
    assert_same_run("run", whole)
    with pytest.raises(SettingError, match="finished"):
        command("train", *SHORT, "run_dir=run", "resume=auto")


@pytest.mark.slow
def test_a_damaged_checkpoint_is_set_aside_and_the_one_before_it_is_used(command, stopped, whole, tmp_path, capsys):
    stopped(*SHORT, "run_dir=run", step=5)
    newest = checkpoints(tmp_path / "run" / "checkpoints")[-1]
    (newest / "state.pt").write_bytes(b"")
    command("train", "resume=run")
    assert f"{newest.relative_to(tmp_path)} is damaged and has been set aside" in capsys.readouterr().err
    assert (newest.parent / "corrupt-step-5").is_dir()
    assert_same_run("run", whole)


@pytest.mark.slow
def test_a_run_killed_before_its_first_checkpoint_starts_over(command, stopped, whole, tmp_path):
    stopped(*SHORT, "run_dir=run", step=1)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    command("train", "resume=run")
    assert_same_run("run", whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "rows"),
    [
        ("classification", [f"word {n % 5},{('down', 'up')[n % 3 == 0]}" for n in range(60)]),
        ("regression", [f"word {n},{n % 5}" for n in range(60)]),
        ("tagging", [f"word{n % 5}\t{('X', 'Y')[n % 2]}\n" for n in range(60)]),
    ],
)
def test_the_same_command_line_resumes_whatever_the_rows_decided(command, stop_after, tmp_path, task, rows):
    """Such as the positive label, the scale of numbers, or whether the vocabulary keeps capitals."""
    header = [] if task == "tagging" else ["text,label"]
    path = tmp_path / ("rows.conll" if task == "tagging" else "rows.csv")
    path.write_text("\n".join([*header, *rows]) + "\n", encoding="utf-8")
    shape = (
        "model.n_layers=1",
        "model.d_model=16",
        "model.n_heads=2",
        "tokenizer.vocabulary_size=100",
        "baselines=false",
    )
    length = ("training=smoke", "training.steps=8", "training.checkpoint_every=2", "training.threads=1")
    line = (
        "train",
        f"task={task}",
        "dataset=files",
        f"dataset.path={path.name}",
        *shape,
        *length,
        "resume=auto",
        "run_dir=run",
    )
    stop_after(4)
    with pytest.raises(Interrupted):
        command(*line)
    stop_after(-1)
    command(*line)
    assert (tmp_path / "run" / "report.json").is_file()
    settings = yaml.safe_load((tmp_path / "run" / "config.yaml").read_text())
    assert settings["tokenizer"]["lowercase"] is (task != "tagging")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("seed", 7),
        ("training.learning_rate", 0.5),
        ("training.batch_size", 4),
        ("training.steps", 12),
        ("training.accumulate", 2),
        ("model.dropout", 0.0),
        ("dataset.limit", 50),
        ("task.name", "another"),
    ],
)
def test_settings_edited_in_the_config_of_a_run_are_refused_by_name(setting, value, command, stopped):
    stopped(*SHORT, "run_dir=run", step=5)
    file = Path("run/config.yaml")
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    group, _, name = setting.rpartition(".")
    (settings[group] if group else settings)[name] = value
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    with pytest.raises(SettingError, match=rf"edited .*{setting}={value} \(the run: "):
        command("train", "resume=run")


def test_what_the_refusal_of_an_edit_offers_can_be_pasted(command, stopped):
    stopped(*SHORT, "run_dir=run", "training.checkpoint_every=3", step=5)
    file = Path("run/config.yaml")
    before = file.read_text(encoding="utf-8")
    settings = yaml.safe_load(before)
    settings["training"] |= {"threads": None, "checkpoint_every": None, "keep_state": True}
    file.write_text(yaml.safe_dump(settings), encoding="utf-8")
    with pytest.raises(SettingError) as refused:
        command("train", "resume=run")
    offered = [word for word in refused.value.remedy.rstrip(".").split() if "=" in word]
    assert len(offered) >= 2
    file.write_text(before, encoding="utf-8")
    command("train", "resume=run", *offered)


def test_a_kill_between_the_records_of_a_resumed_run_does_not_count_as_an_edit(command, stopped):
    stopped(*SHORT, "run_dir=run", step=5)
    file = Path("run/environment.json")
    record = json.loads(file.read_text(encoding="utf-8"))
    training = record["settled"]["training"] | {"log_every": 1}
    again = {"overrides": [], "settled": record["settled"] | {"training": training}}
    file.write_text(json.dumps(record | {"resumed": [again]}), encoding="utf-8")
    command("train", "resume=run")


@pytest.mark.parametrize("harm", ["deleted", "emptied", "cut"])
def test_a_journal_that_lacks_steps_is_named_and_its_gap_is_in_the_report(harm, command, stopped, whole, capsys):
    stopped(*SHORT, "run_dir=run", step=5)
    file = Path("run/metrics.jsonl")
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:2]) if harm == "cut" else "", encoding="utf-8")
    if harm == "deleted":
        file.unlink()
    command("train", "resume=run")
    gap = [[3, 5]] if harm == "cut" else [[1, 5]]
    written = report_of("run")
    assert written["not_logged"] == gap and "not_logged" not in report_of(whole)
    assert f"steps {gap[0][0]} to 5" in capsys.readouterr().err
    assert any(f"steps {gap[0][0]} to 5" in note for note in written["notes"])


def test_an_evaluation_that_the_journal_lacks_is_named(command, stopped, capsys):
    stopped(*SHORT, "training.log_every=1", "run_dir=run", step=5)
    file = Path("run/metrics.jsonl")
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if '"evaluation"' not in line]
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    command("train", "resume=run")
    assert report_of("run")["not_logged"] == [[4, 4]] and "lacks lines of step 4" in capsys.readouterr().err


@pytest.mark.slow
def test_fewer_lines_of_a_resumed_run_are_no_gap(command, stopped):
    stopped(*SHORT, "run_dir=run", step=5)
    command("train", "resume=run", "training.log_every=4")
    assert "not_logged" not in report_of("run")
