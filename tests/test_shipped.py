"""The shipped encoders: complete, found by name, verified when opened, and refused in one line if they have changed."""

import pytest

from encoderlab.errors import DataError
from encoderlab.models.pretrained import load_pretrained
from encoderlab.shipped import FOLDER, SHIPPED, card_summary, shipped_folder, suggestion
from encoderlab.system.files import MANIFEST, sha256_of

LARGEST = 20_000_000  # bytes of the folder


def test_the_encoder_in_the_box_is_unchanged_and_small_and_pools_by_its_first_token():
    assert sum(path.stat().st_size for path in (FOLDER / SHIPPED).iterdir()) <= LARGEST
    initial = load_pretrained(SHIPPED)
    assert initial.shape.pooling.value == "cls"
    assert all(name.startswith("encoder.") for name in initial.weights)


def test_its_card_states_recipe_texts_licences_scores_and_hashes():
    card = (FOLDER / SHIPPED / "README.md").read_text(encoding="utf-8")
    assert sha256_of(FOLDER / SHIPPED / "model.safetensors") in card
    for part in (
        "## Recipe",
        "## Texts",
        "## Scores",
        "## Storage",
        "public domain",
        "CC0",
        "CC BY 4.0",
        "CC BY-SA 4.0",
    ):
        assert part in card
    assert "-NC" not in card.partition("## Texts")[2].partition("Left out")[0]


def test_other_names_belong_to_no_encoder(shipped):
    assert shipped_folder("bert") is None
    assert shipped_folder("./mini-en") is None
    assert "run=mini-en" in suggestion("mini_en", "run")
    assert [suggestion(name, "run") for name in ("owner/mini_en", "bert")] == ["", ""]


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json", MANIFEST])
def test_a_damaged_or_missing_file_is_named(shipped, name):
    (shipped / name).write_bytes((shipped / name).read_bytes()[:-2] + b"x")
    with pytest.raises(DataError, match=f"mini-en/{name} is damaged"):
        shipped_folder("mini-en")
    (shipped / name).unlink()
    with pytest.raises(DataError, match=f"mini-en/{name} is damaged"):
        card_summary("mini-en")
