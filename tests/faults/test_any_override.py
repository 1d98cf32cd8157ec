"""Any override on the command line works or is refused in one line with exit code 2, with the setting that was meant."""

import sys
from dataclasses import fields
from importlib import import_module

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from encoderlab.cli import main as cli
from encoderlab.config.schemas import COMMAND_CONFIGS, SCHEMAS
from encoderlab.errors import SettingError

REACHED = "the command began"


@pytest.fixture(autouse=True)
def only_settings(tmp_path, monkeypatch):
    """Each command ends once it has its settings, because the test covers only what comes before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["encoderlab"])
    for command in COMMAND_CONFIGS:
        monkeypatch.setattr(import_module(f"encoderlab.commands.{command}"), command, lambda *_, **__: None)


def answer(command, *arguments):
    """Return the message for the user, or REACHED if the command started."""
    try:
        cli.run([command, *arguments])
    except SettingError as refused:
        assert refused.exit_code == 2 and str(refused).isprintable()
        return str(refused)
    except SystemExit as ended:  # --version and --hydra-help
        assert not ended.code
    return REACHED


KEYS = st.sampled_from(
    ["seed", "model", "dataset", "training.epochs", "model.n_layers", "task.name", "text", "run", "split"]
)
VALUES = st.text(max_size=12) | st.text(st.sampled_from("[]{}(),:='\"\\ $\n\t~@/.-+?!01aint"), max_size=14)
SIGNS = st.sampled_from(["", "", "+", "++", "~", "-", "--", "@", "/", ".", "="])
TYPED = st.builds(
    lambda sign, key, equals, value: f"{sign}{key}{equals}{value}",
    SIGNS,
    KEYS | VALUES,
    st.sampled_from(["=", "=", ""]),
    VALUES,
)
FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.slow
@FEW
@given(command=st.sampled_from(list(COMMAND_CONFIGS)), typed=st.lists(TYPED, min_size=1, max_size=2))
@example(command="train", typed=["=1"])
@example(command="train", typed=["@=1"])
@example(command="train", typed=["~=1"])
@example(command="train", typed=["experiment=null"])
@example(command="train", typed=["seed=" + "[" * 5000])
@example(command="train", typed=["seed=${seed}"])
@example(command="train", typed=["run_dir=${oc.env:NO_SUCH_VARIABLE}"])
@example(command="train", typed=["run_dir=${run_dir}"])
@example(command="train", typed=["seed=${now:}"])
@example(command="train", typed=["dataset=files", "dataset.path=x", "dataset.label_names=[a,[b]]"])
@example(command="train", typed=["dataset=[files,hub]"])
@example(command="train", typed=["hydra.run.dir=/proc/x"])
@example(command="train", typed=["--resolve"])
@example(command="train", typed=["--cfg"])
@example(command="train", typed=["-sc"])
@example(command="train", typed=["--experimental-rerun", "x"])
@example(command="predict", typed=["text=\ud800"])
def test_anything_typed_works_or_is_refused_in_one_line(command, typed, capsys):
    answer(command, *typed)
    assert "Traceback" not in capsys.readouterr().err


def real_keys():
    """Return every setting of every command that works without choosing another config first."""
    chosen = {
        "task": "classification",
        "dataset": "docs",
        "tokenizer": "wordpiece",
        "model": "model",
        "training": "training",
    }
    for command in ("train", "predict"):
        for name in (declared.name for declared in fields(COMMAND_CONFIGS[command])):
            if name in chosen:
                yield from (f"{command} {name}.{inner.name}" for inner in fields(SCHEMAS[name, chosen[name]]))
            else:
                yield f"{command} {name}"


REAL = sorted(real_keys())


@st.composite
def misspelled(draw):
    """Draw a real key, and the same key with a letter of its last part dropped, doubled, swapped or inserted."""
    command, _, key = draw(st.sampled_from(REAL)).partition(" ")
    group, dot, name = key.rpartition(".")
    place = draw(st.integers(0, len(name) - 1))
    letter = draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz_"))
    wrong = draw(
        st.sampled_from(
            [
                name[:place] + name[place + 1 :],
                name[:place] + name[place] + name[place:],
                name[:place] + name[place + 1 : place + 2] + name[place] + name[place + 2 :],
                name[:place] + letter + name[place:],
            ]
        )
    )
    return command, key, f"{group}{dot}{wrong}"


@pytest.mark.slow
@FEW
@given(misspelled(), st.sampled_from(["", "+", "++"]))
def test_a_misspelled_setting_suggests_the_right_one(spelled, sign):
    command, key, wrong = spelled
    assume(wrong.rpartition(".")[2].isidentifier() and f"{command} {wrong}" not in REAL)
    message = answer(command, f"{sign}{wrong}=1")
    assert f"There is no setting {wrong}." in message
    assert f"Did you mean {key}?" in message or any(
        f"Did you mean {near.partition(' ')[2]}?" in message
        for near in REAL
        if within_two(near.partition(" ")[2], wrong)
    )


def within_two(real, wrong):
    """Return whether another real key is as close: one letter added, dropped or replaced in `wrong`, or two swapped."""
    import difflib

    return difflib.SequenceMatcher(None, real, wrong).ratio() > 1 - 2 / len(wrong)


@pytest.mark.parametrize("sign", ["", "+"])
def test_a_misspelled_group_is_named_too(sign):
    assert "Did you mean training.epochs?" in answer("train", f"{sign}trainig.epochs=1")
    assert "Did you mean model.n_layers?" in answer("train", f"{sign}modle.n_layer=1")


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (["+model.n_layer=2"], "There is no setting model.n_layer. Did you mean model.n_layers?"),
        (["training.epochs=-1"], "training.epochs is -1.0. Allowed: more than 0."),
        (["dataset=hub"], REACHED),
        (["hydra.callbacks.x._target_=os.getcwd"], "Hydra has no setting"),
    ],
)
def test_a_config_that_is_only_printed_is_checked_too(typed, message):
    assert answer("train", "--cfg", "job", *typed).startswith(message)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("--foo", "Unknown flag --foo. Allowed: --help, "),
        ("--multi-run", "Did you mean --multirun?"),
        ("--cfg=jobs", "argument --cfg/-c: invalid choice: 'jobs'"),
        ("--epochs=3", "Write settings as name=value, without dashes."),
        ("hydra.mode=MULTIRUN", "hydra.mode=MULTIRUN cannot be set. Use -m to start several runs."),
    ],
)
def test_an_unknown_flag_is_refused_in_one_line(typed, message, capsys):
    assert message in answer("train", typed)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["../../x", "a/b", "a\\b", "..", ".", ""])
def test_no_task_name_leads_out_of_its_folder(name):
    assert answer("train", f"task.name='{name}'").startswith("task.name is ")
