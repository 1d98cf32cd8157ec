"""encoderlab data: its counts and its row numbers are those of the file."""

import json

import pytest

ROWS = [f"a film number {n} that goes on,{('dull', 'fine')[n % 2]}" for n in range(60)]
ODD = {5: "a film number 1 that goes on,dull", 9: '"it was <b>great</b>",fine', 20: '" ",dull'}
FILE = (
    "task=classification",
    "dataset=files",
    "dataset.path=films.csv",
    "dataset.text=review",
    "dataset.label=verdict",
)
SMALL = ("tokenizer=wordpiece", "tokenizer.vocabulary_size=120", "dataset.validation_fraction=0.2")


@pytest.fixture
def films(tmp_path):
    """A file of which some rows are odd, by their line."""
    lines = ["review,verdict", *ROWS]
    for number, row in ODD.items():
        lines[number - 1] = row
    (tmp_path / "films.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return lines


def facts(command, capsys, *arguments):
    capsys.readouterr()
    command("data", *arguments, "format=json")
    return json.loads(capsys.readouterr().out)


def test_odd_rows_are_named_by_their_line_in_any_split(command, films, capsys):
    splits = facts(command, capsys, *FILE, *SMALL)["splits"]
    odd = [
        (kind["kind"], row["where"], row.get("like"))
        for split in splits.values()
        for kind in split["odd_rows"]
        for row in kind["first"]
    ]
    assert ("markup", "films.csv, line 9", None) in odd
    assert ("nothing but white space", "films.csv, line 20", None) in odd
    assert ("the text of an earlier row, with another label", "films.csv, line 5", "films.csv, line 3") in odd
    assert len(odd) == 3
    shown = [row for split in splits.values() for row in split["examples"]]
    assert len(shown) == 6
    for row in shown:
        assert films[int(row["where"].removeprefix("films.csv, line ")) - 1] == f"{row['text']},{row['label']}"


def test_rows_classes_and_lengths_are_counted(command, films, capsys):
    found = facts(command, capsys, *FILE, *SMALL, "model.max_length=8", "examples=0")
    splits = found["splits"]
    assert sum(split["rows"] for split in splits.values()) == 60
    assert sum(sum(split["labels"].values()) for split in splits.values()) == 60
    assert found["labels"] == ["dull", "fine"]
    for split in splits.values():
        tokens = split["tokens"]
        assert tokens["counted"] == split["rows"]
        assert tokens["min"] <= tokens["median"] <= tokens["p90"] <= tokens["max"]
        assert tokens["max"] > 8 and 0 < tokens["truncated"] <= 1
        assert split["examples"] == []
    assert 1 <= found["pieces"]["pieces_per_word"] < 5
    assert found["max_length"] == 8


def test_the_truncated_fraction_equals_the_one_a_run_reports(command, films, tmp_path, capsys):
    found = facts(command, capsys, *FILE, *SMALL, "model.max_length=9", "examples=0")
    command(
        "train",
        *FILE,
        *SMALL,
        "model.max_length=9",
        "model.n_layers=1",
        "training=smoke",
        "training.steps=1",
        "run_dir=run",
    )
    notes = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))["notes"]
    cut = found["splits"]["train"]["tokens"]["truncated"]
    assert any("task.windows=mean" in note for note in notes) == (cut > 0.1)
    assert any(note.startswith(f"{cut:.1%} of the rows of train were truncated") for note in notes) == (cut > 0)
    assert 0 < cut < 1
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert page.index(">Data</h2>") < page.index("of the rows of train were truncated"), "it stands with the data"


def test_tokens_are_those_of_the_encoder_that_finetune_starts_from(command, films, capsys):
    found = facts(command, capsys, *FILE, "examples=1")
    assert found["pieces"]["vocabulary_size"] > 10_000


def test_the_screen_shows_the_same_facts(command, films, capsys):
    command("data", *FILE, *SMALL, "model.max_length=8")
    printed = capsys.readouterr().out
    assert "tokens of a row" in printed and "truncated at 8" in printed
    assert "films.csv, line 5 (as films.csv, line 3): a film number 1 that goes on" in printed
    assert "films.csv, line 9: it was <b>great</b>" in printed
    assert "[CLS]" in printed and "[SEP]" in printed


def test_labelled_words_are_counted_as_training_tokenises_them(command, capsys):
    found = facts(command, capsys, "task=reverse", "dataset.limit=50", "examples=1")
    assert found["pieces"]["unknown_pieces"] == 0 and found["pieces"]["pieces_per_word"] == 1
    (row,) = found["splits"]["train"]["examples"]
    assert len(row["label"].split()) == len(row["text"].split()) == row["tokens"] == len(row["pieces"])
