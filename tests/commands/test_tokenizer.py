"""encoderlab tokenizer: trains, shows, compares, and writes a folder that training can use."""

import json

import pytest
from transformers import AutoTokenizer

from encoderlab.errors import DataError, SettingError

TEXT = "the quick brown fox jumps over a lazy dog while unbelievable foxes believe in quicker dogs"


@pytest.fixture
def rows(tmp_path):
    """A file of texts without labels."""
    lines = [" ".join(TEXT.split()[n % 7 :: n % 3 + 1]) + f" {n}." for n in range(60)]
    (tmp_path / "rows.txt").write_text("\n".join(lines) + "\n")
    return ("dataset=files", "dataset.path=rows.txt")


def figures(command, capsys, *arguments):
    command("tokenizer", *arguments, "format=json")
    return json.loads(capsys.readouterr().out)


def test_a_larger_vocabulary_splits_held_out_texts_into_fewer_pieces(command, rows, capsys):
    small, large = (figures(command, capsys, *rows, f"tokenizer.vocabulary_size={size}") for size in (100, 150))
    assert (small["split"], small["texts"]) == ("validation", 6)
    assert small["words"] == large["words"] > 0
    small, large = (found["tokenizers"]["wordpiece"] for found in (small, large))
    assert small["vocabulary_size"] == 100 < large["vocabulary_size"] <= 150
    assert small["pieces_per_word"] > large["pieces_per_word"] >= 1
    assert small["whole_words"] < large["whole_words"] <= 1


def test_a_text_is_shown_as_its_pieces_with_their_ids(command, rows, capsys):
    text = 'The "unbelievable" fox [SEP], {quick}'
    found = figures(command, capsys, *rows, "tokenizer.vocabulary_size=150", f"text={text}")
    assert found["text"] == text
    pieces = found["pieces"]["wordpiece"]
    command("tokenizer", *rows, "tokenizer.vocabulary_size=150", f"text={text}")
    *_, title, above, below = capsys.readouterr().out.splitlines()
    assert title == f"wordpiece: {len(pieces)} tokens"
    assert above.split() == [piece["piece"] for piece in pieces]
    assert below.split() == [str(piece["id"]) for piece in pieces]


def test_the_tokenizer_opens_in_transformers_and_training_and_is_compared(command, rows, tmp_path, capsys):
    command("tokenizer", *rows, "tokenizer.vocabulary_size=150", "output=my tokenizer")
    assert "To use it: tokenizer=pretrained 'tokenizer.name=my tokenizer'" in capsys.readouterr().err
    assert {path.name for path in (tmp_path / "my tokenizer").iterdir()} == {"tokenizer.json", "tokenizer_config.json"}
    theirs = AutoTokenizer.from_pretrained(tmp_path / "my tokenizer")
    again = ("tokenizer=pretrained", "tokenizer.name=my tokenizer", "text=the unbelievable fox")
    found = figures(command, capsys, *rows, *again)
    assert [piece["id"] for piece in found["pieces"]["my tokenizer"]] == theirs("the unbelievable fox")["input_ids"][
        1:-1
    ]
    training = (
        "task=classification",
        "dataset=files",
        "dataset.path=labelled.csv",
        "training=smoke",
        "training.threads=1",
    )
    (tmp_path / "labelled.csv").write_text("text,label\n" + "".join(f"the fox {n},{'ab'[n % 2]}\n" for n in range(40)))
    command("train", *training, *again[:2], "model.n_layers=1", "run_dir=run", "baselines=false")
    kept = AutoTokenizer.from_pretrained(tmp_path / "run" / "model")
    assert kept.get_vocab() == theirs.get_vocab()
    capsys.readouterr()
    compared = figures(command, capsys, *rows, "tokenizer.vocabulary_size=150", "compare=[run,run/model,my tokenizer]")
    mine, *others = compared["tokenizers"].values()
    assert len(others) == 3 and all(other == mine for other in others)


def test_a_dataset_of_words_and_one_of_symbols_can_be_counted(command, capsys):
    found = figures(command, capsys, "dataset=reverse", "dataset.limit=50", "tokenizer=symbols")
    assert found["tokenizers"]["symbols"]["whole_words"] == 1


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (["output="], SettingError, "output is empty. Allowed: a new folder"),
        (["output=taken"], SettingError, "output=taken already exists. Allowed: a new folder. Choose another name"),
        (["compare=[taken]"], DataError, "compare=taken has no tokenizer that can be read"),
        (["output=/dev/null/x"], DataError, "output=/dev/null/x cannot be written: Not a directory"),
        (["tokenizer=as_pretrained"], SettingError, "tokenizer=as_pretrained needs init_from"),
    ],
)
def test_invalid_requests_are_refused_and_write_nothing(command, rows, tmp_path, arguments, error, message):
    (tmp_path / "taken").mkdir()
    with pytest.raises(error, match=message):
        command("tokenizer", *rows, *arguments)
    assert {path.name for path in tmp_path.iterdir()} == {"rows.txt", "taken"}
    assert not any((tmp_path / "taken").iterdir())
