"""The folder of an exported graph: what config.json says of each task, a tokenizer that truncates and pads, and the
program.
"""

import json
from dataclasses import replace

import pytest
import tokenizers

from encoderlab.data.sources.generated import BracketsDataset
from encoderlab.exchange.onnx_graph import TOLERANCE
from encoderlab.runs.folder import GRAPH, GRAPH_FILES, is_graph
from encoderlab.runs.models import graph_folder
from encoderlab.runs.models.graph_folder import gives_answers, thresholds_json, write_checked_graph, write_graph_folder
from encoderlab.runs.models.saved_model import Origin
from encoderlab.system.files import differing_files
from encoderlab.tasks.config import (
    ClassificationConfig,
    MultilabelConfig,
    PretrainingConfig,
    RegressionConfig,
    TaggingConfig,
)
from encoderlab.tasks.texts import EncodingConfig
from tests.runs.small_assembly import LABELS, assembly_of

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
TASKS = {
    "label": ClassificationConfig(name="t"),
    "label_set": MultilabelConfig(name="t", thresholds={"up": 0.3}),
    "number": RegressionConfig(name="t", mean=0.0, deviation=1.0),
    "words": TaggingConfig(name="t", special_tokens=False),
    "pretraining": PretrainingConfig(name="t"),
    "nothing": EncodingConfig(name="t"),
}


def finished(kind, paired=False):
    labels = LABELS if kind in ("label", "label_set", "words") else []
    assembly = assembly_of(TASKS[kind], labels)
    config = replace(assembly.config, dataset=None if kind == "nothing" else BracketsDataset())
    return replace(assembly, config=config, origin=Origin({"step": 7}, paired, {}))


@pytest.fixture
def fields_of(monkeypatch, tmp_path):
    """Return the fields of config.json; the graph itself is tested in tests/exchange."""
    monkeypatch.setattr(graph_folder, "write_graph", lambda whole, path: path.write_bytes(b"graph"))
    monkeypatch.setattr(graph_folder, "largest_difference", lambda *given: 1e-7)
    return lambda assembly: write_checked_graph(tmp_path, assembly)


@pytest.mark.parametrize(
    ("kind", "answers_for", "problem", "answer"),
    [
        ("label", "texts", "single_label_classification", "logits"),
        ("label_set", "texts", "multi_label_classification", "logits"),
        ("number", "texts", "regression", "logits"),
        ("words", "words", None, "logits"),
        ("nothing", "nothing", None, "last_hidden_state"),
    ],
)
def test_config_json_says_what_the_program_needs(fields_of, kind, answers_for, problem, answer):
    found = fields_of(finished(kind, paired=kind == "label"))
    assert (found["answers_for"], found["problem_type"], found["answer"]) == (answers_for, problem, answer)
    assert answer in found["outputs"] and "input_ids" in found["inputs"]
    assert (found["paired"], found["special_tokens"], found["max_length"]) == (kind == "label", kind != "words", 12)
    assert list(found["id2label"].values()) == list(found["label2id"]) == finished(kind).task.labels
    assert found["largest_difference"] <= found["tolerance"] == TOLERANCE
    assert found.get("thresholds") == ({"up": 0.3} if kind == "label_set" else None)


@pytest.mark.parametrize("kind", TASKS)
def test_only_a_model_with_predictions_can_be_reopened(kind, tmp_path):
    assembly = finished(kind)
    assert gives_answers(assembly) == (kind not in ("pretraining", "nothing"))
    (tmp_path / GRAPH).write_bytes(b"graph")
    write_graph_folder(tmp_path, assembly, {"precision": "fp32", "id2label": {}}, "# a card\n")
    assert is_graph(tmp_path) == gives_answers(assembly)
    assert differing_files(tmp_path, GRAPH_FILES) == []
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == "# a card\n"
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["precision"] == "fp32"


def test_its_tokenizer_truncates_and_pads_for_the_model_and_the_program_is_a_copy(tmp_path):
    (tmp_path / GRAPH).write_bytes(b"graph")
    assembly = finished("label")
    write_graph_folder(tmp_path, assembly, {}, "")
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    long, short = tokenizer.encode_batch(["0123456789" * 5, "0"])
    assert len(long.ids) == len(short.ids) == 12
    assert short.ids[3:] == [assembly.tokenizer.pad_id] * 9 and sum(short.attention_mask) == 3
    assert (tmp_path / "predict.py").read_bytes() == graph_folder.PREDICT.read_bytes()


@pytest.mark.parametrize(
    ("task", "found"),
    [
        (ClassificationConfig(name="t"), {}),
        (ClassificationConfig(name="t", positive_label="up"), {"positive_label": "up"}),
        (
            ClassificationConfig(name="t", positive_label="up", threshold=0.2),
            {"positive_label": "up", "thresholds": {"up": 0.2}},
        ),
        (MultilabelConfig(name="t", thresholds={"up": 0.3}), {"thresholds": {"up": 0.3}}),
        (RegressionConfig(name="t"), {}),
    ],
)
def test_thresholds_are_by_label(task, found):
    assert thresholds_json(task) == found
