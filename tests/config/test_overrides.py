"""Values arrive as they were typed."""

import json

import pytest
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from encoderlab.api import compose
from encoderlab.cli import main as cli
from encoderlab.config.overrides import folders_as_setting, quoted_arguments, with_task_of_own_data
from encoderlab.errors import SettingError


def arrives(argument):
    """Return the value that Hydra and OmegaConf parse from the argument."""
    (quoted,) = quoted_arguments([argument])
    override = OverridesParser.create().parse_override(quoted)
    assert not override.is_sweep_override()
    config = OmegaConf.create({"value": ""})
    config.value = override.value()
    return OmegaConf.to_container(config, resolve=True)["value"]


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\0")))
@example("Dull, dull, dull.")
@example('It\'s 100% "great"; {really} [no] (joke)=1')
@example("costs ${5} or \\${5} or \\\\${x.y}")
@example("ends with a backslash \\")
@example("\\' mixed \\\\'")
@example("null")
@example("a\nb")
@settings(deadline=None)
def test_any_text_arrives_unchanged(text):
    assert arrives(f"text={text}") == text


def test_a_path_that_hydra_cannot_parse_is_taken_literally():
    for path in ("my reviews (final), v2.csv", "a[1.csv", "it's.csv", "x{y.csv"):
        assert arrives(f"dataset.path={path}") == path


@pytest.mark.parametrize("label", ["fraud", "very good", "größer", "don't", "a: b", "{x}", "c++", "${y}", "1", "日本"])
def test_any_label_can_have_a_weight(label):
    typed = "{" + json.dumps(label, ensure_ascii=False) + ": 2.5}"
    for written in (typed, typed.replace('"', "")) if label.isalpha() else (typed,):
        config = compose(
            "task=classification", "dataset=files", "dataset.path=rows.csv", f"task.class_weights={written}"
        )
        assert config.task.known_class_weights == {label: 2.5}


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
    config = compose("task=classification", "dataset=files", "dataset.path=rows.csv", f"dataset.label_names={typed}")
    assert {str(old): str(new) for old, new in config.dataset.label_names.items()} == names


@pytest.mark.parametrize(("typed", "weight"), [("1e-05", 1e-5), ("2.", 2.0), ("3", 3.0)])
def test_a_weight_is_a_number_however_it_is_written(typed, weight):
    config = compose(
        "task=classification", "dataset=files", "dataset.path=rows.csv", f"task.class_weights={{größer: {typed}}}"
    )
    assert config.task.known_class_weights == {"größer": weight}


@pytest.mark.parametrize("value", ["{größer", "größer", "{größer: -1}", "{größer}", "[größer]"])
def test_values_that_are_not_a_mapping_of_weights_are_refused(value):
    with pytest.raises(SettingError, match="^task.class_weights"):
        compose("task=classification", "dataset=files", "dataset.path=rows.csv", f"task.class_weights={value}")


def test_everything_hydra_understands_is_left_to_hydra():
    arguments = [
        "-m",
        "--config-dir",
        "mine",
        "model.n_layers=1,2",
        "rows=[0,7]",
        "seed=range(3)",
        "~seed",
        "task=sst2",
        "run_dir='a b'",
    ]
    assert quoted_arguments(arguments) == arguments


@pytest.mark.parametrize("typed", ["training.batch_size=auto", "training.accumulate=auto"])
@pytest.mark.parametrize(("recipe", "batch_size"), [("task=intents", 32), ("training=pretraining", 64)])
def test_auto_keeps_the_recipes_batch_size_and_lets_the_machine_choose_micro_batches(
    typed, recipe, batch_size, capsys, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["encoderlab"])
    cli.run(["train", recipe, "training.accumulate=2", typed, "--cfg", "job"])
    training = yaml.safe_load(capsys.readouterr().out)["training"]
    assert (training["batch_size"], training["accumulate"]) == (batch_size, None)


def test_positional_folders_become_a_setting_and_flags_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "seed=1").mkdir()
    typed = ["a", "output=c", "seed=1", "b d"]
    made = folders_as_setting("compare", ["--config-dir", "mine", *typed], typed)
    assert made == ["--config-dir", "mine", "output=c", "runs=['a','seed=1','b d']"]
    assert folders_as_setting("train", ["a"], ["a"]) == ["a"]
    assert folders_as_setting("compare", ["runs=[a]"], ["runs=[a]"]) == ["runs=[a]"]
    long = "a=" + "b" * 5000
    assert folders_as_setting("compare", [long, "\0=a"], [long, "\0=a"]) == [long, "\0=a"]


def test_the_placeholder_for_an_uncertain_prediction_is_text_and_not_a_sweep():
    assert arrives("unsure=ask, a person") == "ask, a person"


def test_own_data_without_a_task_is_a_classification():
    assert with_task_of_own_data("train", ["dataset=files", "seed=1"]) == [
        "dataset=files",
        "seed=1",
        "task=classification",
    ]
    for line in (["dataset=files", "task=tagging"], ["dataset=sst2"], ["dataset=hub", "experiment=mine"], ["seed=1"]):
        assert with_task_of_own_data("train", line) == line
    assert with_task_of_own_data("pretrain", ["dataset=files"]) == ["dataset=files"]
