"""The shipped configs are tests: each composes, every experiment runs, and no setting goes unread."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from encoderlab.cli.main import config_folder
from encoderlab.cli.table import COMMANDS
from encoderlab.commands.list import GROUPS, options_of
from encoderlab.config.commands import RunConfig
from encoderlab.config.composing import composed as settings_of_line
from encoderlab.config.composing import parse_command_line
from encoderlab.config.schemas import SCHEMAS, register_schemas, settings_from_dict, settings_to_dict
from encoderlab.errors import SettingError

OPTIONS = [(group, name) for group in GROUPS for name in options_of(config_folder(), group)]
EXPERIMENTS = [name for group, name in OPTIONS if group == "experiment"]
NEEDED = {  # what an option cannot do without
    ("task", "classification"): ["dataset=files", "dataset.path=x.csv"],
    ("task", "multilabel"): ["dataset=files", "dataset.path=x.csv"],
    ("task", "regression"): ["dataset=files", "dataset.path=x.csv"],
    ("task", "tagging"): ["dataset=files", "dataset.path=x.conll"],
    ("dataset", "files"): ["dataset.path=x.csv"],
    ("dataset", "hub"): ["dataset.path=owner/name"],
    ("tokenizer", "pretrained"): ["tokenizer.name=owner/name"],
    ("task", "pretraining"): ["dataset=articles"],
    ("experiment", "mini_en_1"): ["dataset.path=x.jsonl"],
    ("experiment", "mini_en_2"): ["dataset.path=x.jsonl"],
    ("experiment", "mini_en_3"): ["dataset.path=x.csv"],
}
ASKED = {  # what a command cannot do without
    "pretrain": [],
    "data": [],
    "baseline": [],
    "distill": ["teacher=somewhere"],
    "finetune": ["init_from=somewhere"],
    "embed": ["run=somewhere", "output=vectors.npy"],
    "export": ["run=somewhere", "path=exported"],
    "select": ["input=texts.txt"],
    "label": ["input=texts.txt"],
    "compare": ["runs=[one,other]"],
}


def composed(*overrides, command="train"):
    """Return the settings of a command line."""
    return settings_of_line(parse_command_line(COMMANDS[command].schema(), overrides))


@cache
def with_option(group, name):
    """Return the settings of `train` with an option of a group, and with what that option needs."""
    return composed(f"{group}={name}", *NEEDED.get((group, name), []), *(["-m"] if group == "sweep" else []))


@pytest.mark.parametrize(("group", "name"), OPTIONS)
def test_every_config_composes_and_survives_being_written_and_read_back(group, name):
    made = with_option(group, name)
    assert settings_from_dict(settings_to_dict(made), RunConfig) == made


@pytest.mark.parametrize("command", [name for name in COMMANDS if name != "train"])
def test_every_other_command_composes(command):
    assert isinstance(composed(*ASKED.get(command, ["run=somewhere"]), command=command), COMMANDS[command].schema())


def test_a_task_brings_its_dataset_and_tokenizer_and_both_can_be_overridden():
    assert type(composed("task=sst2").dataset).__name__ == "HubDataset"
    assert type(composed("task=brackets").tokenizer).__name__ == "SymbolsConfig"
    for line in ("task=brackets", "experiment=notebook_sst2", "experiment=sst2"):
        assert composed(line).task.linear_weight == 0, "what an encoder learns is the point"
    assert type(composed("task=brackets", "tokenizer=wordpiece").tokenizer).__name__ == "WordPieceConfig"
    assert type(composed("task=sst2", "dataset=files", "dataset.path=x.csv").dataset).__name__ == "FilesDataset"
    assert type(composed("experiment=notebook_reverse").tokenizer).__name__ == "SymbolsConfig"


def test_the_command_line_overrides_an_experiment():
    assert composed("experiment=notebook_reverse").training.epochs != 7
    assert composed("experiment=notebook_reverse", "training.epochs=7").training.epochs == 7
    assert composed("experiment=notebook_reverse", "model.n_layers=3").model.n_layers == 3
    assert composed("experiment=sst2", "model=mini").model.d_model == 256
    tiny = composed("model=tiny").model
    assert composed("experiment=notebook_reverse", "model=tiny").model == tiny and tiny.name == "tiny"
    assert composed("experiment=notebook_reverse", "model=tiny", "model.n_layers=5").model == replace(tiny, n_layers=5)
    assert composed("experiment=notebook_reverse", "training=smoke").training == composed("training=smoke").training
    assert (
        composed("experiment=notebook_reverse", "training=smoke").model == composed("experiment=notebook_reverse").model
    )
    others = composed("experiment=mini_en_1", "dataset.path=x.jsonl", "training=smoke", "training.steps=3")
    assert (Path(others.dataset.path).name, others.training.steps) == ("x.jsonl", 3)
    assert type(composed("experiment=notebook_reverse", "tokenizer=wordpiece").tokenizer).__name__ == "WordPieceConfig"


def head_of(name):
    return (config_folder() / "experiment" / f"{name}.yaml").read_text().split("defaults:")[0]


def command_of(name):
    """Return the command of an experiment, which its head names."""
    return re.search(rf"encoderlab (\w+) experiment={name}\b", head_of(name))[1]


NOT_MEASURED = {  # their heads say so
    "pretrain_base_gpu",  # needs a GPU for a day
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_head_of_every_experiment_gives_its_command_time_score_date_and_commit(name):
    head = head_of(name)
    assert command_of(name) in COMMANDS
    assert "accuracy" in head
    opening = "Not measured as of" if name in NOT_MEASURED else "Measured on"
    assert re.search(rf"^# {opening} \d{{4}}-\d\d-\d\d at commit [0-9a-f]{{7,}}\.$", head, re.MULTILINE)
    if name not in NOT_MEASURED:
        assert "seed" in head
        assert " s of training" in head


WITHOUT_HUB = {"brackets", "notebook_reverse", "notebook_brackets", "notebook_brackets_3"}
TEXTS = "texts.jsonl"
LABELLED = "labelled.csv"
SMALL = [
    "baselines=false",
    "dataset.limit=64",
    "training.steps=2",
    "training.budget=null",
    "training.threads=1",
    "training.batch_size=8",
]


def first_of(name):
    """Return the experiment whose run this one starts from, as its head says; None if it starts from scratch."""
    found = re.search(r"init_from=<the run of (\w+)>", head_of(name))
    return None if found is None else first_of(found[1]) or found[1]


def command_line(name):
    """Return an experiment's command line for a few steps, in a folder named after it, starting from the run it builds
    on.
    """
    first = [] if first_of(name) is None else [f"init_from={first_of(name)}"]
    shallow = (
        ["training.accumulate=1", "model.n_layers=1"]
        if command_of(name) in ("pretrain", "distill") and not first
        else []
    )
    if command_of(name) == "distill":
        first += ["teacher=pretrain_mini", f"dataset.path={TEXTS}", "model.n_layers=1", "model.max_length=64"]
    if name == "mini_en_3":
        first += [f"dataset.path={LABELLED}", "dataset.validation_fraction=0.2"]
    return [command_of(name), f"experiment={name}", *SMALL, *shallow, *first, f"run_dir={name}"]


def taken(names, folder, **environment):
    """Run all experiments in one process with one cache; return by name what went wrong, or None."""
    names = sorted(
        names, key=lambda name: (command_of(first_of(name) or name) == "distill", first_of(name) is not None)
    )
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("command_lines.py"))],
        input="\n".join(json.dumps(command_line(name)) for name in names),
        cwd=folder,
        env={**os.environ, "HF_HOME": str(folder / "hf"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(zip(names, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder of the experiments' runs, with the texts of those that read files."""
    made = tmp_path_factory.mktemp("experiments")
    texts = [
        {"text": f"Document {n} is about one thing. It says so twice. It ends here, in number {n}."} for n in range(64)
    ]
    (made / TEXTS).write_text("".join(f"{json.dumps(one)}\n" for one in texts), encoding="utf-8")
    labelled = [f"Sentence {n} of its kind,{'ab'[n % 2]},{'xy'[n % 4 // 2]}\n" for n in range(64)]
    (made / LABELLED).write_text(f"text,label,set\n{''.join(labelled)}", encoding="utf-8")
    yield made
    shutil.rmtree(made)  # gigabytes of runs


@pytest.fixture(scope="module")
def without_hub(folder, cache):
    return taken(WITHOUT_HUB, folder, ENCODERLAB_CACHE=str(cache))


@pytest.fixture(scope="module")
def from_hub(folder, hub):
    """Run the experiments that need the hub; HF_ENDPOINT is read once, at import."""
    return taken({*EXPERIMENTS} - WITHOUT_HUB, folder, ENCODERLAB_CACHE=str(folder / "cache"), HF_ENDPOINT=hub)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_assembles_and_takes_a_few_steps(name, folder, request):
    outcomes = request.getfixturevalue("without_hub" if name in WITHOUT_HUB else "from_hub")
    assert outcomes[name] is None, outcomes[name]
    assert (folder / name / "report.json").is_file()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": {"schema": "os.system"}}, "model has no schema os.system"),
        ({"surprise": 1}, "There is no setting surprise"),
        ({"model": {"schema": "model", "n_layers": 0}}, "model.n_layers is 0"),
        ({"model": {"schema": "model", "_target_": "os.system"}}, "_target_"),
    ],
)
def test_settings_that_were_tampered_with_are_refused(change, message):
    from omegaconf.errors import OmegaConfBaseException

    with pytest.raises((SettingError, OmegaConfBaseException), match=message):
        settings_from_dict(settings_to_dict(composed()) | change, RunConfig)


def test_no_setting_goes_unread():
    source = Path(sys.modules["encoderlab"].__file__).parent
    read = {
        node.attr
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    schemas = [*SCHEMAS.values(), *(command.schema() for command in COMMANDS.values())]
    unread = {
        f"{schema.__name__}.{declared.name}"
        for schema in schemas
        for declared in fields(schema)
        if declared.name not in read
    }
    assert unread <= {
        # read by name: the rows of a split, which columns, and which file a split comes from
        *(f"{schema.__name__}.{split}_rows" for schema in schemas for split in ("train", "validation", "test")),
        *(f"{schema.__name__}.{split}_split" for schema in schemas for split in ("train", "validation", "test")),
        *(f"FilesDataset.{split}" for split in ("train", "validation", "test")),
    }


@pytest.mark.parametrize(
    ("launcher", "plugin"), [("parallel", "joblib"), ("slurm", "submitit"), ("local_jobs", "submitit")]
)
def test_a_launcher_composes_if_its_plugin_is_installed(launcher, plugin):
    pytest.importorskip(f"hydra_plugins.hydra_{plugin}_launcher", reason=f"no Hydra launcher for {plugin}")
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        config = compose("train", overrides=[f"hydra/launcher={launcher}"], return_hydra_config=True)
    assert plugin in config.hydra.launcher._target_


@pytest.mark.parametrize("name", [name for group, name in OPTIONS if group == "sweep"])
def test_a_named_sweep_has_several_values_of_an_existing_setting(name):
    register_schemas(RunConfig)
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        swept = compose("train", overrides=[f"sweep={name}"], return_hydra_config=True).hydra.sweeper.params
    for setting, values in swept.items():
        assert len(values.split(",")) > 1
        for value in values.split(","):
            composed(f"{setting}={value}")
