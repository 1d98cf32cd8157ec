"""The head of a model card: what the hub reads, only what is known, and what another library needs."""

from huggingface_hub import ModelCard

from encoderlab.reports.cards.metadata import for_library
from encoderlab.reports.training.model_card import model_card
from tests.reports.reported import report_of


def test_the_hub_can_read_the_metadata(facts):
    card = ModelCard(model_card(report_of() | {"init_from": "google/bert"}, ["no", "yes"], facts)).data
    assert (card.library_name, card.pipeline_tag, card.datasets) == (
        "encoderlab",
        "text-classification",
        ["owner/name"],
    )
    assert card.metrics == ["accuracy", "f1", "matthews_correlation", "roc_auc"]
    assert (card.license, card.language) == (None, None)
    results = {result.metric_name: result for result in card.eval_results}
    accuracy = results["accuracy"]
    assert (accuracy.dataset_type, accuracy.dataset_config, accuracy.dataset_split) == (
        "owner/name",
        "a config",
        "test",
    )
    assert (accuracy.metric_type, accuracy.metric_value) == ("accuracy", 0.75)
    assert (results["f1 macro"].metric_type, results["f1 macro"].metric_args) == ("f1", {"average": "macro"})


def test_the_metadata_contain_only_known_facts(facts, tmp_path):
    own = facts | {
        "data": {"origin": [("source", "files"), ("path", "mine")], "splits": {}},
        "language": "de",
        "repeat": None,
    }
    (tmp_path / "pretrained").mkdir()
    card = model_card(report_of() | {"init_from": str(tmp_path / "pretrained")}, ["no", "yes"], own)
    read = ModelCard(card).data
    assert (read.datasets, read.base_model, read.language) == (None, None, "de")
    assert {result.dataset_type for result in read.eval_results} == {"sst2"}


def test_labels_cannot_break_the_card(facts):
    card = model_card(report_of(), ["no\n---\nlicense: mit\n---", "<script>", "ok, fine"], facts)
    assert ModelCard(card).data.license is None
    assert '- Labels: "no --- license: mit ---", "\\<script\\>", "ok, fine"\n' in card


def test_a_card_can_be_rewritten_for_another_library(facts):
    ours = model_card(report_of(), ["no", "yes"], facts)
    theirs = ModelCard(for_library(ours, "transformers"))
    assert theirs.data.library_name == "transformers"
    assert len(theirs.data.eval_results) == len(ModelCard(ours).data.eval_results)
    assert theirs.text == ModelCard(ours).text.replace(
        'Use it with `encoderlab predict run=<this folder> text="..."`.\n\n', ""
    )
    assert ModelCard(for_library("# bare\n", "transformers")).data.library_name == "transformers"
