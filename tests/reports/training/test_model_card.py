"""The model card: what the model is, how good it is and on how many rows, and how to use it."""

from encoderlab.reports.training.model_card import model_card
from tests.reports.reported import report_of


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


def test_the_card_names_data_training_and_machine(facts):
    card = model_card(report_of(), ["no", "yes"], facts)
    assert "- train: 200 rows, fingerprint `ff00`\n" in card
    assert "```\nencoderlab train task=sst2 seed=3 'dataset.path=my rows.csv'\n```\n" in card
    assert "- `training.learning_rate=0.005`\n" in card
    assert "- processor: a \\<processor\\>\n" in card
