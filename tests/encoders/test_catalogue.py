"""The shipped encoders: found by name, verified when opened, and refused in one line if they have changed."""

import shutil

import pytest

from encoderlab.encoders.catalogue import describe, shipped_folder, shipped_location, shipped_names, suggestion
from encoderlab.errors import DataError
from encoderlab.runs.models.saved_model import read_model
from encoderlab.system.files import MANIFEST


def test_the_catalogue_describes_each_encoder(shipped):
    found = describe("mini-en")
    assert (found.n_layers, found.d_model, found.summary) == (1, 16, "A stand-in of drawn weights.")
    assert found.n_parameters == sum(weight.numel() for weight in read_model(shipped).weights.values())
    assert found.n_bytes == sum(path.stat().st_size for path in shipped.iterdir())


def test_an_encoder_added_to_the_folder_is_listed_after_the_default(shipped):
    shutil.copytree(shipped, shipped.with_name("a-second"))
    assert shipped_names() == ["mini-en", "a-second"]
    assert shipped_folder("a-second") == shipped.with_name("a-second")


def test_other_names_belong_to_no_encoder(shipped):
    assert shipped_folder("bert") is None
    assert shipped_folder("./mini-en") is None
    assert [suggestion(name, "run") for name in ("mini_en", "owner/mini_en", "bert")] == [
        "Did you mean run=mini-en?",
        "",
        "",
    ]


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json", MANIFEST]
)
def test_a_damaged_file_is_named(shipped, name):
    (shipped / name).write_bytes((shipped / name).read_bytes()[:-2] + b"x")
    with pytest.raises(
        DataError, match=rf"mini-en/{name} is damaged: its SHA-256 differs from the shipped file's\. Reinstall"
    ):
        shipped_folder("mini-en")
    assert shipped_location("mini-en") == shipped


def test_a_missing_file_is_named(shipped):
    (shipped / "tokenizer.json").unlink()
    with pytest.raises(DataError, match="tokenizer.json is damaged: its SHA-256 differs"):
        describe("mini-en")
