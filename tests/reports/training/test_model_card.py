"""The model card: what the model is, how good it is and on how many rows, how to use it, and metadata that the hub reads."""

from dataclasses import replace

import pytest
import torch
from huggingface_hub import ModelCard

from encoderlab.batch import Batch, Prediction
from encoderlab.metrics import ClassificationMetrics
from encoderlab.reports.cards.metadata import for_library
from encoderlab.reports.parts.run_facts import run_facts
from encoderlab.reports.parts.run_report import RunSummary
from encoderlab.reports.training.model_card import model_card
from encoderlab.reports.training.report import build_report


@pytest.fixture
def facts(folder):
    return run_facts(folder, "train")


def report_of(baselines=None, **changes):
    """Return a report on 200 rows, 150 of them predicted correctly."""
    labels = torch.arange(200) % 2
    answers = torch.where(torch.arange(200) < 150, labels, 1 - labels)
    ids, empty = torch.zeros(200, 1, dtype=torch.long), torch.empty(0, dtype=torch.long)
    metrics = ClassificationMetrics(["no", "yes"])
    metrics.add(Prediction(torch.eye(2)[answers]), Batch(ids, ids, None, torch.arange(200), empty, labels, None, 200))
    run = RunSummary(
        command="train",
        task="sst2",
        seed=3,
        parameters={"total": 1_234_567, "encoder": 1_234_000, "head": 567},
        throughput={},
        checkpoint={"step": 1_700, "chosen_by": "accuracy", "chosen_on": "validation"},
    )
    return build_report(replace(run, **changes), {"test": metrics.scores()}, baselines or {})


def test_the_card_says_what_the_model_is_and_how_it_was_trained(facts):
    card = model_card(report_of(), ["no", "yes"], facts)
    assert card.count("\n---\n\n# encoderlab: sst2\n") == 1
    assert "1,234,567 parameters" in card
    assert "task `sst2` with seed 3" in card
    assert '- Labels: "no", "yes"\n' in card
    assert "- Weights after step 1,700, chosen by accuracy\n" in card
    assert "encoderlab predict run=" in card


def test_the_score_is_given_with_its_split_interval_and_rows(facts):
    report = report_of()
    low, high = report["splits"]["test"]["accuracy_ci95"]
    assert low < 0.75 < high
    expected = f"- accuracy on test: 0.7500 (95% interval {low:.4f} to {high:.4f}, 200 rows)\n"
    assert expected in model_card(report, ["no", "yes"], facts)


def test_the_card_states_limitations(facts):
    card = model_card(
        report_of(notes=["2.0% of the rows of train were truncated to model.max_length=8 tokens"]), ["no", "yes"], facts
    )
    assert "\n- 2.0% of the rows of train were truncated to model.max_length=8 tokens.\n" in card
    report = report_of(checkpoint={"step": 5, "chosen_by": "accuracy", "chosen_on": "test"})
    assert report["notes"]
    assert all(note.rstrip(".") + ".\n" in model_card(report, ["no", "yes"], facts) for note in report["notes"])


def test_twenty_of_many_labels_are_named(facts):
    names = [f"label{number}" for number in range(31)]
    card = model_card(report_of(), names, facts)
    assert '"label0", "label1",' in card
    assert '"label19", and 11 more\n' in card
    assert "label20" not in card
    assert '"label19"\n' in model_card(report_of(), names[:20], facts)


def test_the_hub_can_read_the_metadata(facts):
    card = ModelCard(model_card(report_of() | {"init_from": "google/bert"}, ["no", "yes"], facts)).data
    assert (card.library_name, card.pipeline_tag, card.datasets) == ("encoderlab", "text-classification", ["owner/name"])
    assert card.metrics == ["accuracy", "f1", "matthews_correlation", "roc_auc"]
    assert (card.license, card.language) == (None, None)
    results = {result.metric_name: result for result in card.eval_results}
    accuracy = results["accuracy"]
    assert (accuracy.dataset_type, accuracy.dataset_config, accuracy.dataset_split) == ("owner/name", "a config", "test")
    assert (accuracy.metric_type, accuracy.metric_value) == ("accuracy", 0.75)
    assert (results["f1 macro"].metric_type, results["f1 macro"].metric_args) == ("f1", {"average": "macro"})


def test_the_metadata_contain_only_known_facts(facts, tmp_path):
    own = facts | {"data": {"origin": [("source", "files"), ("path", "mine")], "splits": {}}, "language": "de", "repeat": None}
    (tmp_path / "pretrained").mkdir()
    card = model_card(report_of() | {"init_from": str(tmp_path / "pretrained")}, ["no", "yes"], own)
    read = ModelCard(card).data
    assert (read.datasets, read.base_model, read.language) == (None, None, "de")
    assert {result.dataset_type for result in read.eval_results} == {"sst2"}


def test_the_card_names_data_training_and_machine(facts):
    card = model_card(report_of(), ["no", "yes"], facts)
    assert "- train: 200 rows, fingerprint `ff00`\n" in card
    assert "```\nencoderlab train task=sst2 seed=3 'dataset.path=my rows.csv'\n```\n" in card
    assert "- `training.learning_rate=0.005`\n" in card
    assert "- processor: a \\<processor\\>\n" in card


def test_labels_cannot_break_the_card(facts):
    card = model_card(report_of(), ["no\n---\nlicense: mit\n---", "<script>", "ok, fine"], facts)
    assert ModelCard(card).data.license is None
    assert '- Labels: "no --- license: mit ---", "\\<script\\>", "ok, fine"\n' in card


def test_a_card_can_be_rewritten_for_another_library(facts):
    ours = model_card(report_of(), ["no", "yes"], facts)
    theirs = ModelCard(for_library(ours, "transformers"))
    assert theirs.data.library_name == "transformers"
    assert len(theirs.data.eval_results) == len(ModelCard(ours).data.eval_results)
    assert theirs.text == ModelCard(ours).text.replace('Use it with `encoderlab predict run=<this folder> text="..."`.\n\n', "")
    assert ModelCard(for_library("# bare\n", "transformers")).data.library_name == "transformers"
