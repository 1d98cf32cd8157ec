"""The command line: help that is complete, one line for each mistake, the right exit code, and nothing left behind."""

import os
import signal
import subprocess
import sys
from dataclasses import fields

import pytest

from encoderlab.cli import main as cli
from encoderlab.config.schemas import COMMAND_CONFIGS, SCHEMAS
from encoderlab.errors import DataError, SettingError, TrainingError, UserError
from encoderlab.system.processes import SINGLE_PROCESS, FailedElsewhereError
from encoderlab.system.signals import Interrupted


@pytest.fixture
def command(tmp_path, tmp_path_factory, monkeypatch):
    """Run a command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENCODERLAB_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setattr(sys, "argv", ["encoderlab"])
    return lambda line: cli.run(line.split())


MISTAKES = {
    "train model.n_layer=2": "There is no setting model.n_layer. Did you mean model.n_layers?",
    "train +model.n_layer=2": "There is no setting model.n_layer. Did you mean model.n_layers?",
    "train ++model.n_layer=2": "There is no setting model.n_layer. Did you mean model.n_layers?",
    "train +training.epoch=2": "There is no setting training.epoch. Did you mean training.epochs?",
    "train ~model.n_layer": "There is no setting model.n_layer. Did you mean model.n_layers?",
    "train sed=1": "There is no setting sed. Did you mean seed?",
    "train +xyzzy=1": "There is no setting xyzzy. Allowed: cache_dir, task, dataset,",
    "train modell=tiny": "There is no setting modell. Did you mean model?",
    "train dataset.path=reviews.csv": "dataset.path is not a setting of the chosen dataset. It belongs to dataset=files or hub.",
    "train training.epochs=-1": "training.epochs is -1.0. Allowed: more than 0. Remove training.epochs to use its default.",
    "train training.learning_rate=nan": "training.learning_rate is nan. Allowed: more than 0.",
    "train training.weight_decay=inf": "training.weight_decay is inf. Allowed: at least 0.",
    "train training.epochs=many": "training.epochs=many has the wrong type. Allowed: a number or null, more than 0.",
    "train training.batch_size=1.5": "training.batch_size=1.5 has the wrong type. Allowed: a whole number, at least 1.",
    "train training.steps=x": "training.steps=x has the wrong type. Allowed: a whole number or null, at least 1.",
    "train baselines=perhaps": "baselines=perhaps has the wrong type. Allowed: true or false.",
    "train training.schedule=zigzag": "training.schedule=zigzag is not a valid choice. Allowed: one_cycle, linear, cosine, constant.",
    "train training.accumulate=64": "training.accumulate=64 is more than training.batch_size=32.",
    "train model.d_model=100 model.n_heads=3": "model.d_head cannot be derived: model.d_model=100 is not a multiple of model.n_heads=3.",
    "train task=sst_2": "There is no config named sst_2 in the group task. Allowed: amazon_polarity, brackets, classification, cola, intents, mnli, mrpc, "
    "multilabel, pretraining, qnli, qqp, regression, reverse, rte, sst2, stsb, tagging, teacher_vectors, wikipedia, wnli. "
    "Did you mean task=sst2?",
    "train model=huge": "There is no config named huge in the group model. Allowed: as_pretrained, base, medium, mini, modern,",
    "train experiment=notebook_sst": "There is no config named notebook_sst in the group experiment. Allowed: ",
    "train task=classification": "task=classification has no dataset yet.",
    "train task=tagging": "task=tagging has no dataset yet.",
    "train task=classification dataset=files": "dataset=files has no rows to train on",
    "train dataset=hub": "dataset.path is not set. Set dataset.path=...",
    "train model=null": "model=null names no config. Use a name from encoderlab list model.",
    "train model={n_layer:2}": "model must be the name of a config. Use a name from encoderlab list model.",
    "train seed=1,2": "seed=1,2 has several values. Add -m to run each of them",
    "train seed=-1": "seed is -1. Allowed: at least 0, at most 4294967295.",
    "train hydra.nonsense=1": "Hydra has no setting hydra.nonsense.",
    "train model.n_layers": "model.n_layers cannot be read. Allowed: name=value.",
    "train --config-dir nowhere": "Additional config directory",
    "train training.device=abacus": "training.device=abacus is not a device. Allowed: auto, cpu",
    "train run_dir=.": "run_dir=. already holds files",
    "trian": f"Unknown command trian. Allowed: {', '.join(cli.COMMANDS)}. Did you mean encoderlab train?",
    "dance": "Unknown command dance.",
    "list modle": "Nothing called modle can be listed. Allowed: task, dataset, tokenizer, model, training, experiment, sweep, "
    "encoders. Did you mean encoderlab list model?",
    "list encoder": "Nothing called encoder can be listed.",
    "finetune init_from=null": "init_from=null has the wrong type. Allowed: a text. The pretrained encoder: ",
    "predict text=a": "run is not set. Set run=...",
    "eval splt=test": "There is no setting splt. Did you mean split?",
    "attention rows=first run=x": "rows=first has the wrong type. Allowed: a list such as [a,b] or null.",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_wrong_setting_is_refused_in_one_line_with_the_remedy(command, tmp_path, line):
    if line == "train run_dir=.":
        (tmp_path / "precious").write_text("")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(SettingError) as refused:
        command(line)
    assert str(refused.value).startswith(MISTAKES[line])
    assert "\n" not in str(refused.value)
    assert sorted(tmp_path.iterdir()) == before


MISSING = {
    "train task=classification dataset=files dataset.path=nowhere.csv": "nowhere.csv does not exist",
    "predict run=nowhere text=a": "run=nowhere does not exist. Set run=... to the folder that training printed at its end.",
    "eval run=.": "run=. has no finished model. Allowed: a run folder, or a folder with model.safetensors, config.json, tokenizer.json.",
}


@pytest.mark.parametrize("line", MISSING)
def test_missing_data_is_named_in_one_line(command, tmp_path, line):
    with pytest.raises(DataError) as refused:
        command(line)
    assert str(refused.value).startswith(MISSING[line])
    assert list(tmp_path.iterdir()) == []


def test_a_missing_column_is_named_with_those_that_exist(command, tmp_path):
    (tmp_path / "reviews.csv").write_text("review,stars\ngood,5\nbad,1\n")
    with pytest.raises(DataError, match=r"no column 'revew'.*review, stars.*dataset.text=review"):
        command(
            "train task=classification dataset=files dataset.path=reviews.csv dataset.text=revew dataset.label=stars"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["reviews.csv"]


@pytest.mark.skipif(sys.platform != "linux", reason="PyTorch has segments that grow on Linux alone")
@pytest.mark.parametrize(
    ("theirs", "expected"), [({}, "expandable_segments:True"), ({"PYTORCH_CUDA_ALLOC_CONF": "x:1"}, None)]
)
def test_gpu_memory_uses_expandable_segments_unless_the_user_sets_otherwise(theirs, expected, monkeypatch, capsys):
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    for name in names:
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    for name, value in theirs.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["encoderlab", "--version"])
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    cli.main()
    assert os.environ.get("PYTORCH_ALLOC_CONF") == expected
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"  # before any job of a sweep computes its first product


@pytest.mark.parametrize(("error", "code"), [(SettingError, 2), (DataError, 3), (TrainingError, 4), (UserError, 1)])
def test_every_kind_of_mistake_has_its_exit_code_and_one_line_on_standard_error(monkeypatch, capsys, error, code):
    def refuse(arguments, processes):
        raise error("It is wrong", allowed="this", remedy="Set that")

    monkeypatch.setattr(cli, "run", refuse)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == code
    assert capsys.readouterr().err == "encoderlab: It is wrong. Allowed: this. Set that.\n"


@pytest.mark.parametrize(
    "error", [Interrupted(signal.SIGINT), FailedElsewhereError(130)], ids=["to it", "to another process"]
)
def test_ctrl_c_ends_with_130_and_no_traceback(monkeypatch, capsys, error):
    def interrupt(arguments, processes):
        raise error

    monkeypatch.setattr(cli, "run", interrupt)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "encoderlab: stopped by SIGINT\n"


@pytest.mark.parametrize(("rank", "errors"), [("0", "encoderlab: stopped by SIGTERM\n"), ("1", "")])
def test_if_processes_are_stopped_before_they_have_joined_only_the_main_one_reports_it(
    monkeypatch, capsys, rank, errors
):
    def interrupt(place):
        raise Interrupted(signal.SIGTERM)

    def leave(code):
        raise SystemExit(code)

    places = {"WORLD_SIZE": "2", "RANK": rank, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": "2", "MASTER_PORT": "29500"}
    for name, value in places.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(cli, "join", interrupt)
    monkeypatch.setattr("os._exit", leave)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code, capsys.readouterr().err) == (143, errors)


def test_a_signal_while_processes_join_waits_until_all_have_joined(monkeypatch, capfd):
    met = []

    def join(place):
        signal.raise_signal(signal.SIGTERM)
        met.append(place)
        return place

    monkeypatch.setattr(cli, "join", join)
    monkeypatch.setattr(cli, "run", lambda arguments, processes: met.append("begun"))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert (ended.value.code, met) == (143, [SINGLE_PROCESS])
    assert capfd.readouterr().err.splitlines()[1:] == [
        "encoderlab: SIGTERM: stopping once all processes have started; send it again to stop at once",
        "encoderlab: stopped by SIGTERM",
    ]


def encoderlab(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "encoderlab", *arguments], capture_output=True, text=True, cwd=cwd, check=False
    )


def test_the_last_garbage_collections_of_a_process_have_nothing_to_visit():
    code = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count() > 10_000, gc.collect()))
sys.argv = ["encoderlab", "--version"]
from encoderlab.cli.main import main
main()
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines()[1:] == ["True 0"]


def test_a_mistake_prints_one_line_and_no_traceback_in_a_real_process(tmp_path):
    ended = encoderlab("train", "training.epochs=-1", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_failed_job_of_a_sweep_is_named_and_sets_the_exit_code(tmp_path):
    ended = encoderlab("train", "-m", "training.epochs=-1,-2", cwd=tmp_path)
    assert ended.returncode == 2
    assert "training.epochs=-1" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("line", ["", "--help", "-h", "help"])
def test_the_overview_names_every_command(command, capsys, line):
    command(line)
    printed = capsys.readouterr().out
    assert all(f"  {name} " in printed for name in cli.COMMANDS)


@pytest.mark.parametrize("name", COMMAND_CONFIGS)
def test_help_names_every_setting_with_a_line_of_help(command, capsys, name):
    command(f"{name} --help")
    printed = capsys.readouterr().out
    schema = COMMAND_CONFIGS[name]
    typed = [declared for declared in fields(schema) if not declared.metadata["brought"]]
    groups = {declared.name for declared in typed} & {group for group, _ in SCHEMAS}
    members = [(f"{group}.", member) for (group, _), member in SCHEMAS.items() if group in groups]
    for prefix, declared_of in [("", typed), *((prefix, fields(member)) for prefix, member in members)]:
        for declared in declared_of:
            if (declared.name not in groups or prefix) and not declared.metadata["brought"]:
                assert f"  {prefix}{declared.name}=" in printed
                assert declared.metadata["help"] in printed


def test_help_lists_no_setting_that_a_command_does_not_read(command, capsys):
    command("baseline --help")
    assert "  tokenizer" not in capsys.readouterr().out


def test_list_describes_every_config(command, capsys):
    command("list")
    shipped = [
        path
        for group in ("task", "dataset", "model", "experiment")
        for path in (cli.config_folder() / group).glob("*.yaml")
    ]
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    described = {name: line for name, *line in lines}
    assert all(len(described[path.stem][0]) > 10 for path in shipped)


def test_list_shows_a_single_group(command, capsys):
    command("list tokenizer")
    printed = capsys.readouterr().out
    assert "wordpiece" in printed
    assert "sst2" not in printed


def test_list_shows_configs_of_the_users_folder_and_which_of_them_are_shadowed(command, capsys, tmp_path):
    (tmp_path / "mine" / "model").mkdir(parents=True)
    for name in ("wide", "tiny"):
        (tmp_path / "mine" / "model" / f"{name}.yaml").write_text("# A model of my own.\n", encoding="utf-8")
    command("list model --config-dir mine")
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["wide", "A", "model", "of", "my", "own."]
    assert [line.split()[0] for line in lines if "hides your config of the same name" in line] == ["tiny"]
    with pytest.raises(SettingError, match="--config-dir=nowhere does not exist"):
        command("list --config-dir nowhere")


def test_the_version_is_printed(command, capsys):
    command("--version")
    assert capsys.readouterr().out.count(".") == 2


def test_hydras_own_flags_work(command, capsys, tmp_path):
    command("train --cfg job task=brackets")
    printed = capsys.readouterr().out
    assert "pairs: 10" in printed
    assert "symbols:" in printed
    (tmp_path / "mine" / "model").mkdir(parents=True)
    (tmp_path / "mine" / "model" / "wee.yaml").write_text("defaults: [model_schema, _self_]\nd_model: 6\n")
    command(f"train --config-dir {tmp_path / 'mine'} model=wee --cfg job")
    assert "d_model: 6" in capsys.readouterr().out
