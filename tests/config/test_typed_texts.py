"""Labels and columns that mean something to YAML or to Hydra's grammar are what was typed."""

import shlex
from pathlib import Path

import pytest

from encoderlab.cli.table import COMMANDS
from encoderlab.config.commands import FinetuneConfig, RunConfig
from encoderlab.config.composing import composed, parse_command_line
from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError, SettingError

FILES = ("task=classification", "dataset=files", "dataset.path=rows.csv")


def settings(*arguments, command="finetune"):
    return composed(parse_command_line(COMMANDS[command].schema(), [*FILES, *arguments]))


@pytest.mark.parametrize(
    "label",
    ["1.10", "1e3", "007", "no", "on", "true", "NaN", "~", "-", "0x1F", "1_000", "a,b", "[x]", "{a: 1}", "it's"],
)
def test_a_label_is_what_was_typed(label):
    assert settings(f"task.positive_label={label}").task.positive_label == label
    assert settings(f"dataset.label={label}").dataset.label == label


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("[1.10,1.20]", ["1.10", "1.20"]),
        ("[no,null,~]", ["no", "null", "~"]),
        ("[007,042,7]", ["007", "042", "7"]),
        ("['a,b',1e3]", ["a,b", "1e3"]),
        ("{0:neg,1.0:neg,1:pos}", {"0": "neg", "1.0": "neg", "1": "pos"}),
        ("{1: 1.10, 2: on}", {"1": "1.10", "2": "on"}),
        ("{a: b, c: d}", {"a": "b", "c": "d"}),
    ],
)
def test_names_of_labels_are_what_was_typed(typed, names):
    assert settings(f"dataset.label_names={typed}").dataset.label_names == names


def test_weights_go_by_the_labels_that_were_typed():
    weights = settings("task.class_weights={1e3: 2, null: 3, no: 0.5}").task.class_weights
    assert weights == {"1e3": 2, "null": 3, "no": 0.5}
    assert settings("task.class_weights={no: 5}").task.class_weights == {"no": 5}


def test_null_leaves_a_text_open_and_several_values_are_a_sweep():
    assert settings("dataset.text_pair=null").dataset.text_pair is None
    line = parse_command_line(RunConfig, ["-m", *FILES, "task.positive_label=1.10,no,null"])
    swept = next(override for override in line.parsed() if override.key_or_group == "task.positive_label")
    first, *others = swept.value().list
    assert first.text == "1.10" and others == ["no", None]


@pytest.fixture
def own_configs(tmp_path):
    (tmp_path / "mine/experiment").mkdir(parents=True)
    (tmp_path / "mine/dataset").mkdir()
    return tmp_path / "mine"


def test_labels_in_a_yaml_file_are_as_they_are_written(own_configs):
    head = "defaults: [files_schema, _self_]\npath: rows.csv\n"
    (own_configs / "dataset/yn.yaml").write_text(head + "label_names: [no, yes]\n")
    (own_configs / "dataset/mapped.yaml").write_text(head + "label_names: {0: off, 1.0: on}\n")
    (own_configs / "experiment/e.yaml").write_text(
        "# @package _global_\ntask:\n  positive_label: 1.10\n  class_weights: {yes: 2, 1.10: 3}\n"
    )

    def read(*arguments):
        return composed(parse_command_line(FinetuneConfig, ["--config-dir", str(own_configs), *arguments]))

    assert read("task=classification", "dataset=yn").dataset.label_names == ["no", "yes"]
    assert read("task=classification", "dataset=mapped").dataset.label_names == {"0": "off", "1.0": "on"}
    task = read("dataset=yn", "experiment=e").task
    assert task.positive_label == "1.10" and task.class_weights == {"yes": 2, "1.10": 3}
    assert read("dataset=yn", "experiment=e", "task.positive_label=1.1").task.positive_label == "1.1"


def test_a_label_that_no_yaml_file_can_have_unquoted_is_refused_with_the_way_out(own_configs):
    (own_configs / "experiment/e.yaml").write_text("# @package _global_\ntask:\n  class_weights: {null: 3}\n")
    with pytest.raises(SettingError, match="in quotes"):
        composed(parse_command_line(FinetuneConfig, [*FILES, "--config-dir", str(own_configs), "experiment=e"]))


@pytest.mark.parametrize("column", ["a,b", "it's", "a: b", "[z]", "1.10", "no"])
def test_what_a_message_offers_works_when_it_is_pasted(column, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f'"the soup was {["fine", "cold"][n % 2]} on day {n}",{n % 2},{n // 2 % 2}\n' for n in range(12))
    Path("rows.csv").write_text(f'text,"{column}",other\n{rows}')
    with pytest.raises(DataError) as refused:
        FilesDataset(path="rows.csv").load(tmp_path)
    offered = str(refused.value).partition(" Set ")[2].rstrip(".").partition(". ")[0]
    dataset = settings(*shlex.split(offered)).dataset
    assert dataset.label == column and dataset.load(tmp_path).labels == ["0", "1"]
