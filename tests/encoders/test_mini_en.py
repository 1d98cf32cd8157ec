"""The shipped encoder: complete, small enough, with a card, and known to every command that starts from it."""

from encoderlab.encoders.catalogue import FOLDER, SHIPPED, describe
from encoderlab.runs.models.pretrained import load_pretrained
from encoderlab.system.files import sha256_of

LARGEST = 20_000_000  # bytes of the folder


def test_it_is_unchanged_and_at_most_20_megabytes():
    assert describe(SHIPPED).n_bytes <= LARGEST


def test_its_card_states_recipe_texts_licences_scores_and_hashes():
    card = (FOLDER / SHIPPED / "README.md").read_text(encoding="utf-8")
    assert sha256_of(FOLDER / SHIPPED / "model.safetensors") in card
    for heading in ("## Recipe", "## Texts", "## Scores", "## Storage"):
        assert heading in card
    for licence in ("public domain", "CC0", "CC BY 4.0", "CC BY-SA 4.0"):
        assert licence in card
    assert "-NC" not in card.partition("## Texts")[2].partition("Left out")[0]


def test_it_starts_a_run_with_mean_pooling():
    initial = load_pretrained(SHIPPED)
    assert initial.config.pooling.value == "mean"
    assert all(name.startswith("encoder.") for name in initial.weights)
