"""config=RUN: a new run begins from the settings of an earlier one, and what the line says wins over them."""

import json
import shlex
import shutil
from pathlib import Path

import pytest
import yaml

from encoderlab.api import compose
from encoderlab.cli import main as cli
from encoderlab.config.schemas import settings_to_dict
from encoderlab.errors import DataError, SettingError
from encoderlab.reports.facts import repeat_line
from encoderlab.runs.run import Run
from encoderlab.runs.summary import run_facts
from encoderlab.settings import flat_settings


@pytest.fixture
def copied(brackets_run, tmp_path, monkeypatch):
    """A copy of a colleague's run, in the folder where the command line runs."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(brackets_run, "copied", ignore=shutil.ignore_patterns("checkpoints", "model")))


def recorded(run):
    return json.loads((Path(run) / "environment.json").read_text(encoding="utf-8"))


def test_the_settings_of_a_run_are_taken_over_but_for_what_belongs_to_it_alone(copied):
    begun = compose(f"config={copied}", "training.steps=3")
    before = recorded(copied)["composed"]
    assert begun.dataset.limit == before["dataset"]["limit"] == 300
    assert begun.model.n_layers == before["model"]["n_layers"]
    assert (begun.training.steps, begun.training.batch_size) == (3, before["training"]["batch_size"])
    assert (begun.run_dir, begun.resume) == (None, None)


def test_open_settings_stay_open(copied):
    settled = dict(flat_settings(yaml.safe_load((copied / "config.yaml").read_text(encoding="utf-8"))))
    before = dict(flat_settings(recorded(copied)["composed"]))
    decided = [name for name, value in before.items() if value is None and settled[name] is not None]
    begun = dict(flat_settings(settings_to_dict(compose(f"config={copied}"))))
    assert decided and {begun[name] for name in decided if name != "run_dir"} == {None}


def test_a_group_of_the_line_replaces_that_of_the_run_and_a_task_brings_its_data(copied):
    begun = compose(f"config={copied}", "model=mini")
    assert (begun.model.n_layers, begun.model.d_model) == (compose("model=mini").model.n_layers, 256)
    begun = compose(f"config={copied}", "task=intents")
    assert (type(begun.dataset).__name__, begun.task.name) == ("IntentsDataset", "intents")
    assert type(begun.tokenizer).__name__ == "WordPieceConfig", "brackets chose one for symbols"
    Path("reviews.csv").write_text("text,label\na,b\n", encoding="utf-8")
    assert Path(compose(f"config={copied}", "reviews.csv").dataset.path).name == "reviews.csv"


def test_a_file_beside_a_run_on_files_is_read_as_that_run_reads_its_own(pairs_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("more.csv").write_text("title,body,way\na,b,up\n", encoding="utf-8")
    dataset = compose(f"config={pairs_run}", "more.csv").dataset
    assert (Path(dataset.path).name, dataset.text, dataset.label) == ("more.csv", "title", "way")


def test_files_that_a_colleague_had_elsewhere_are_found_here_or_asked_for(pairs_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(pairs_run, "copied", ignore=shutil.ignore_patterns("checkpoints", "model"))
    path = Path("copied/environment.json")
    had = str(pairs_run.parent / "rows.csv")
    path.write_text(path.read_text(encoding="utf-8").replace(had, "/home/jo/rows.csv"), encoding="utf-8")
    with pytest.raises(DataError, match=r"/home/jo/rows\.csv.*Set dataset\.path="):
        compose("config=copied")
    assert compose("config=copied", "dataset.path=other.csv").dataset.text == "title"
    Path("rows.csv").write_text("title,body,way\na,b,up\n", encoding="utf-8")
    assert compose("config=copied").dataset.path == str(tmp_path / "rows.csv")


@pytest.fixture
def begun(command, copied):
    """A run that begins from the copy."""
    command("train", f"config={copied}", "training.steps=3", "seed=7", "run_dir=begun")
    return Run("begun")


def test_what_was_typed_for_a_run_counts_as_typed_and_the_line_repeats_it(begun, copied, command):
    facts = run_facts(begun)
    assert facts["settings"]["training.steps"] == 3 and facts["settings"]["dataset.limit"] == 300
    line = repeat_line(facts)
    assert line is not None and shlex.split(line)[:2] == ["encoderlab", "train"]
    assert {"config=copied", "training.steps=3", "seed=7"} <= {*shlex.split(line)}
    command(*shlex.split(line)[1:], "run_dir=again")
    weights = [Path(folder, "model", "model.safetensors").read_bytes() for folder in ("begun", "again")]
    assert weights[0] == weights[1]
    command("train", "config=begun", "seed=7", "baselines=false", "run_dir=grandchild")
    assert recorded("grandchild")["composed"]["training"]["steps"] == 3
    assert "training.steps=3" in recorded("grandchild")["inherited"]


def test_a_stopped_run_resumes_by_the_line_that_began_it(stopped, command, copied):
    line = ("train", f"config={copied}", "training.steps=9", "training.checkpoint_every=2", "run_dir=begun")
    stopped(*line[1:], step=4)
    command(*line, "resume=auto")
    assert Run("begun").finished


def test_a_run_of_another_command_is_refused_with_the_line_that_works(copied, monkeypatch):
    with pytest.raises(SettingError) as refused:
        cli.run(["finetune", f"config={copied}", "seed=2"])
    assert f"encoderlab train config={copied} seed=2" in str(refused.value)
    with pytest.raises(SettingError) as refused:
        cli.run(["train", "--config-dir", str(copied), "--config-name", "config", "seed=2"])
    assert f"encoderlab train config={copied} seed=2" in str(refused.value)


@pytest.mark.parametrize(
    "record",
    [None, "[", "[1]", '{"command": "train"}', '{"command": "train", "composed": 3, "settled": {}}'],
)
def test_a_folder_without_a_readable_run_is_refused(copied, record):
    path = copied / "environment.json"
    path.unlink()
    if record is not None:
        path.write_text(record, encoding="utf-8")
    with pytest.raises(DataError, match="copied"):
        compose(f"config={copied}")


def test_settings_of_another_version_are_refused(copied):
    record = recorded(copied)
    record["composed"]["model"]["d_modell"] = 7
    (copied / "environment.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(DataError, match="d_modell"):
        compose(f"config={copied}")


def test_a_repetition_keeps_the_folder_of_ones_own_configs(command, tmp_path):
    (tmp_path / "mine" / "model").mkdir(parents=True)
    (tmp_path / "mine" / "model" / "wee.yaml").write_text(
        "defaults: [model_schema, _self_]\nd_model: 8\nn_layers: 1\n", encoding="utf-8"
    )
    own = ("task=brackets", "model=wee", "training=smoke", "training.steps=2", "dataset.limit=60", "baselines=false")
    command("train", "--config-dir", "mine", *own, "run_dir=run")
    line = repeat_line(run_facts(Run("run")))
    assert line is not None and "--config-dir=mine" in shlex.split(line)
    command(*shlex.split(line)[1:], "run_dir=again")
    # A colleague has the run, and not the configs.
    shutil.rmtree("mine")
    assert compose("config=run").model.d_model == 8


def test_a_mistake_in_a_file_of_ones_own_names_file_line_and_setting(command, tmp_path):
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    (tmp_path / "mine" / "experiment" / "long.yaml").write_text(
        "# @package _global_\nseed: 3\ntraining:\n  epoch: 8\n", encoding="utf-8"
    )
    for more in ((), ("model=tiny",)):
        with pytest.raises(SettingError) as refused:
            command("train", "--config-dir", "mine", "experiment=long", *more)
        words = str(refused.value)
        assert "experiment/long.yaml, line 4" in words and "training.epochs" in words
        assert refused.value.exit_code == 2 and "\n" not in words
