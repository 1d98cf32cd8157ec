"""Candidates for a line: commands, groups and their options, settings and their values, and paths where paths are
expected.
"""

from dataclasses import fields

import pytest

from encoderlab.cli.candidates import candidates
from encoderlab.cli.main import config_folder
from encoderlab.cli.overview import COMMANDS
from encoderlab.commands.list import LISTED, options_of
from encoderlab.config.schemas import SCHEMAS
from encoderlab.encoders.catalogue import SHIPPED
from encoderlab.training.config import Schedule


@pytest.fixture
def offered(tmp_path, tmp_path_factory, monkeypatch):
    """Return the candidates for the end of a line, typed in a folder with a table and a run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENCODERLAB_CACHE", str(tmp_path_factory.getbasetemp() / "completion_cache"))
    (tmp_path / "reviews.csv").touch()
    (tmp_path / "outputs" / "run").mkdir(parents=True)
    (tmp_path / ".hidden").mkdir()
    return lambda line: [candidate.word for candidate in candidates(line.split(" "), config_folder())]


OFFERED = {
    "tr": ["train"],
    "pre": ["pretrain", "predict"],
    "--v": ["--version"],
    "completion ": ["bash", "zsh", "fish"],
    "list enc": ["encoders"],
    "train training.lea": ["training.learning_rate="],
    "train se": ["seed="],
    "train tok": ["tokenizer=", "tokenizer."],
    "train exp": ["experiment="],
    "train task=ss": ["task=sst2"],
    "train +task=ss": ["+task=sst2"],
    "train experiment=notebook_b": [
        "experiment=notebook_bert",
        "experiment=notebook_brackets",
        "experiment=notebook_brackets_3",
    ],
    "train training.schedule=co": ["training.schedule=cosine", "training.schedule=constant"],
    "train training.batch_size=": ["training.batch_size=auto"],
    "train tokenizer.lowercase=": ["tokenizer.lowercase=true", "tokenizer.lowercase=false", "tokenizer.lowercase=null"],
    "train baselines=t": ["baselines=true"],
    "train training.device=c": ["training.device=cpu", "training.device=cuda"],
    "train task=classification dataset=files dataset.path=": ["dataset.path=outputs/", "dataset.path=reviews.csv"],
    "train resume=": ["resume=auto", "resume=outputs/"],
    "finetune init_from=": [f"init_from={SHIPPED}", "init_from=outputs/"],
    "finetune init_from=./outputs/r": ["init_from=./outputs/run/"],
    "predict run=.h": ["run=.hidden/"],
    "predict input=r": ["input=reviews.csv"],
    "predict split=v": ["split=validation"],
    "export format=on": ["format=onnx"],
    "compare out": ["output=", "outputs/"],
    "train --cfg ": ["job", "hydra", "all"],
    "train --mu": ["--multirun"],
    "list --config-dir o": ["outputs/"],
    "train --config-dir outputs/": ["outputs/run/"],
    "train training.epochs=3": [],
    "train nothing.of": [],
    "train input=nowhere/": [],
    "dance ": [],
    "predict model=": [],
    "predict training.lea": [],
}


@pytest.mark.parametrize("line", OFFERED)
def test_only_valid_continuations_are_offered(offered, line):
    assert sorted(offered(line)) == sorted(OFFERED[line])


def test_every_command_group_option_setting_and_value_is_offered(offered):
    assert offered("") == [*COMMANDS]
    assert offered("list ") == [*LISTED]
    assert offered("train model=") == [f"model={name}" for name in options_of(config_folder(), "model")]
    assert set(offered("train training.")) == {
        f"training.{one.name}=" for one in fields(SCHEMAS["training", "training"])
    }
    assert offered("train training.schedule=") == [f"training.schedule={member.name}" for member in Schedule]


def test_settings_of_a_dataset_are_those_of_the_chosen_one_or_of_the_chosen_task_or_of_all(offered):
    assert "dataset.pairs=" in offered("train task=brackets dataset.")
    assert "dataset.pairs=" not in offered("train task=sst2 dataset.")
    assert "dataset.revision=" in offered("train task=sst2 dataset.")
    assert "dataset.revision=" not in offered("train task=sst2 dataset=files dataset.")
    assert {"dataset.pairs=", "dataset.revision=", "dataset.sheet="} <= {*offered("train dataset.")}
    assert "model.segments=" in offered("train model=scratch model."), "scratch extends tiny, which extends the schema"


def test_settings_already_chosen_are_not_offered_again(offered):
    assert offered("train seed=1 see") == []
    assert offered("train task=docs task") == ["task."]


def test_sweeps_have_settings_and_lists_of_values(offered):
    assert offered("train sweep") == []
    assert offered("train -m sweep") == ["sweep=", "sweep_dir="]
    assert offered("train --multirun model=tiny,mi") == ["model=tiny,mini"]
    assert offered("train model=tiny,mi") == []
    assert offered("train -m training.schedule=linear,cosine,on") == ["training.schedule=linear,cosine,one_cycle"]
    assert "hydra/launcher=parallel" in offered("train -m hydra/launcher=")


def test_a_users_own_configs_are_offered_with_the_shipped_ones(offered, tmp_path):
    (tmp_path / "mine" / "model").mkdir(parents=True)
    (tmp_path / "mine" / "model" / "little.yaml").write_text("# A little one.\ndefaults:\n  - tiny\n  - _self_\n")
    assert offered("train --config-dir mine model=") == ["model=little", *offered("train model=")]
    assert "model.d_model=" in offered("train --config-dir mine model=little model.d")
    (tmp_path / "mine" / "model" / "tiny_loop.yaml").write_text("defaults:\n  - tiny_loop\n")
    assert "model.d_model=" in offered("train --config-dir mine model=tiny_loop model.d")


def test_candidates_carry_their_help(offered):
    found = {one.word: one.help for one in candidates(["train", "training.w"], config_folder())}
    assert found["training.warmup="] == "Share of all steps in which the learning rate rises to its peak."
    assert all(one.help for one in candidates(["train", ""], config_folder()))
