"""Model cards: metadata that the hub reads, only what is known, and programs that are valid."""

import ast
import builtins
import re
from types import SimpleNamespace

import pytest
import transformers
from huggingface_hub import ModelCard

from encoderlab.apps.exporting.card import OPENED_BY, export_card
from encoderlab.reports.cards import model_card, stated_metadata
from encoderlab.reports.training import build_report
from tests.reports.conftest import ATTACK

WINDOWS = SimpleNamespace(pooling="mean", most=8, overlap=0.25)
ONNX = {
    "file": "onnx/model_quantized.onnx",
    "opset": 18,
    "answers_for": "texts",
    "problem_type": "single_label_classification",
    "special_tokens": True,
    "max_length": 32,
    "precision": "int8",
    "paired": True,
    "largest_difference": 1e-6,
    "tolerance": 1e-4,
}
TRANSFORMERS = [{"architectures": [f"Bert{end}"]} for end in OPENED_BY]
TRANSFORMERS += [
    {"architectures": ["DistilBertForSequenceClassification"], "problem_type": kind}
    for kind in ("multi_label_classification", "regression")
]
TRANSFORMERS += [{"architectures": ["BertForSequenceClassification"], "thresholds": {"yes": 0.3}}]
EXPORTS = [("transformers", fields, {}) for fields in TRANSFORMERS]
EXPORTS += [("transformers", fields, {"paired": True}) for fields in TRANSFORMERS]
EXPORTS += [("onnx", ONNX, {"opened": True, "change": "2.0 MB less", "windows": WINDOWS, "max_length": 32})]


@pytest.fixture
def report(run, scores_of):
    return build_report(run, {"test": scores_of([0, 1] * 50, [0, 1] * 40 + [0, 0] * 10)}, {})


def test_the_hub_reads_the_metadata_and_nothing_is_invented(report, facts):
    data = ModelCard(model_card(report | {"init_from": "google/bert"}, facts, ["no", "yes"])).data
    assert (data.library_name, data.pipeline_tag, data.datasets) == (
        "encoderlab",
        "text-classification",
        ["owner/name"],
    )
    assert (data.base_model, data.language, data.license) == ("google/bert", "de", None)
    facts["environment"]["dataset"]["origin"] = {"source": "files", "path": "mine"}
    facts["language"] = None
    data = ModelCard(model_card(report | {"init_from": "mine"}, facts, ["no", "yes"])).data
    assert (data.base_model, data.language, data.datasets) == (None, None, None)


def test_the_metadata_has_what_the_encoder_before_states_and_the_scores(report, facts):
    facts["start"] = {"license": "mit", "language": "fr", "base_model": "mini-en"}
    facts["language"] = None
    data = ModelCard(model_card(report | {"init_from": "mini-en"}, facts, ["no", "yes"])).data
    assert (data.license, data.language, data.base_model) == ("mit", None, "mini-en")
    for shares, language in (
        ({"de": 0.9, "en": 0.03, "und": 0.07}, "de"),
        ({"en": 0.5, "de": 0.48, "und": 0.02}, ["en", "de"]),
        ({"und": 0.6, "en": 0.4}, None),
    ):
        measured = report | {"init_from": "mini-en", "languages": {"languages": shares, "of_encoder": "fr"}}
        assert ModelCard(model_card(measured, facts, ["no", "yes"])).data.language == language
    accuracy = next(result for result in data.eval_results if result.metric_type == "accuracy")
    assert (accuracy.metric_value, accuracy.dataset_split, accuracy.dataset_type) == (0.9, "test", "owner/name")
    assert accuracy.task_type == "text-classification"
    exported = export_card(model_card(report, facts, []), "onnx", ONNX, license_name="cc-by-4.0")
    assert ModelCard(exported).data.license == "cc-by-4.0"


@pytest.mark.parametrize(
    ("card", "stated"),
    [
        ("---\nlicense: mit\nlanguage:\n- en\n---\n# a", {"license": "mit", "language": "en"}),
        ("---\nlicense: [1\n---\n", {}),
        ("---\nlanguage: [en, de]\nbase_model: a/b\nlicense: <b>\n---\n", {"base_model": "a/b"}),
        ("# no metadata", {}),
    ],
)
def test_metadata_of_a_card_is_taken_over_as_far_as_it_is_valid(card, stated):
    assert stated_metadata(card) == stated


def test_a_card_has_scores_settings_data_and_the_command_line_and_escapes_names(report, facts):
    card = model_card(report, facts, ["no", ATTACK])
    assert "| accuracy | 0.900 |" in card and "accuracy on test (100 rows): 0.900" in card
    assert "encoderlab train task=sst2 seed=3 'dataset.path=my rows.csv'" in card and "run_dir" not in card
    assert "- `training.epochs=3.0`" in card and "fingerprint `ff00`" in card
    assert "<script>" not in card and "\x1b" not in card


def test_the_name_of_a_task_is_escaped_wherever_it_stands(report, facts):
    _, _, card = model_card(report | {"task": f"a\n# b{ATTACK}"}, facts).partition("\n---\n")
    assert "<script>" not in card and "\n# b" not in card


@pytest.mark.parametrize(("library", "fields", "about"), EXPORTS)
def test_an_export_says_how_to_use_it_in_a_valid_program(library, fields, about, report, facts):
    card = export_card(model_card(report, facts, ["no", "yes"]), library, fields, **about)
    assert ModelCard(card).data.library_name == library and "encoderlab predict run=<this folder> text" not in card
    programs = [ast.parse(code) for code in re.findall(r"```python\n(.*?)```", card, re.DOTALL)]
    assert programs
    for program in programs:
        names = [node for node in ast.walk(program) if isinstance(node, ast.Name)]
        known = {node.id for node in names if not isinstance(node.ctx, ast.Load)} | set(dir(builtins))
        imports = (node.names for node in ast.walk(program) if isinstance(node, ast.Import | ast.ImportFrom))
        known |= {alias.asname or alias.name for aliases in imports for alias in aliases}
        assert {node.id for node in names} <= known
    if library == "transformers":
        assert hasattr(transformers, re.search(r"transformers import (\w+)", card)[1])
    assert ("8 bits" in card) == ("change" in about) and ("8 windows" in card) == ("windows" in about)
