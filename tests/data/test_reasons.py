"""Why rows or documents cannot be used: each reason is its own message, with its numbers."""

import shlex
from pathlib import Path

import pytest

from encoderlab.errors import DataError

WHOLE = "The soup was warm today. We liked it a lot. The bill came late.\n\n"


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("blank.csv", "text,label\n" + " ,a\n ,b\n" * 10, "blank"),
        ("equal.csv", "text,label\n" + "soup,a\nsoup,b\n" * 10, "'soup'"),
        ("ids.csv", "text,label\n" + "".join(f"soup of day {n},id{n}\n" for n in range(20)), "20 labels"),
        ("swapped.csv", "label,text\n" + "".join(f"soup of day {n},{'ab'[n % 2]}\n" for n in range(20)), "20 labels"),
        (
            "grouped.csv",
            "text,label,shop\n" + "".join(f"soup {n},{'ab'[n % 2]},x\n" for n in range(20)),
            "dataset.group",
        ),
    ],
)
def test_why_no_rows_can_be_held_out(name, content, named, command, tmp_path):
    (tmp_path / name).write_text(content)
    group = ["dataset.group=shop"] if name == "grouped.csv" else []
    fraction = ["dataset.validation_fraction=0.1"]
    with pytest.raises(DataError, match=named):
        command("data", "task=classification", "dataset=files", f"dataset.path={name}", *fraction, *group)


def test_an_endless_sentence_is_one_row_and_the_message_says_what_ends_one(command, tmp_path):
    (tmp_path / "names.conll").write_text("Anna B-PER\nsaw O\n" * 210)
    with pytest.raises(DataError, match="one sentence.*blank line"):
        command("data", "task=tagging", "dataset=files", "dataset.path=names.conll")


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("".join(f"The soup number {n} is here.\n\n" for n in range(30)), "a document.*is one sentence"),
        (
            "".join(f"the soup number {n} is here and it was warm and we liked it\n\n" for n in range(30)),
            "one sentence",
        ),
        ("A cat sat. It slept.\n\nA dog ran. It barked.\n\nThe end came. All left.\n", "2 documents.*4 sentences"),
        (" \n\n \n", "no rows"),
        ("word\n", "one row"),
    ],
)
def test_why_documents_have_no_pairs_and_settings_that_work_when_they_are_pasted(content, named, command, tmp_path):
    Path("corpus.txt").write_text(content)
    line = ["dataset=files", "dataset.path=corpus.txt", "model=tiny", "dry_run=true"]
    with pytest.raises(DataError, match=named) as refused:
        command("pretrain", *line)
    if "or set task." in str(refused.value):
        offered = str(refused.value).partition(" or set ")[2].rstrip(".")
        command("pretrain", *line, *shlex.split(offered))


def test_equal_documents_are_one(command, capsys):
    Path("twice.txt").write_text(WHOLE * 20 + WHOLE.replace("soup", "bread") * 20)
    with pytest.raises(DataError, match="only document of train|1 document"):
        command("pretrain", "dataset=files", "dataset.path=twice.txt", "model=tiny", "dry_run=true")
    assert "19 of 20 documents of train" in capsys.readouterr().err
