"""Files as real programs write them, on the command line: the right table, or a question that helps.

Each row has a file, what is typed besides, and the labels with their numbers of rows, or what a refusal names.
"""

import json
import re
import shlex
from pathlib import Path

import pytest

from encoderlab.errors import DataError

TEXTS = ["The parcel came late, and nobody answers", "It works well", "Awful food, and rude", "A lovely shop"]
ROWS = [(f"{TEXTS[n % 4]} ({n})", ("good", "bad")[n % 2]) for n in range(24)]
HALVES = {"bad": 12, "good": 12}
TASK = {"multilabel": "task=multilabel dataset.label=labels", "regression": "task=regression dataset.label=score"}


def table(header, cells_of, n_rows=24):
    """Return csv whose cells are made from a text and a label."""
    lines = [header]
    for number, (text, label) in enumerate(ROWS[:n_rows]):
        lines.append(",".join('"{}"'.format(cell.replace('"', '""')) for cell in cells_of(number, text, label)))
    return "\n".join(lines) + "\n"


def labelled(*labels):
    """Return csv with these labels in turn."""
    return table("text,label", lambda n, text, _: (text, labels[n % len(labels)]))


def topics(*cells):
    """Return csv with these cells of several labels in turn."""
    return table("text,labels", lambda n, text, _: (text, cells[n % len(cells)]))


def objects(form):
    return "".join(json.dumps(form(text, label)) + "\n" for text, label in ROWS)


PAIR = table("text,label", lambda _, text, label: (text, label))
SURVEY = "StartDate,Status,ResponseId,Q1,Q2\nStart Date,Response Type,Response ID,And why?,Which fits?\n"
ANSWERS = table("", lambda n, text, label: ("2026-01-02", "0", f"R_{n}", text, label)).lstrip("\n")
MONKEY = "Respondent ID,How was it?,Why?,Which areas?,\n,Response,Open-Ended Response,Bills,Mail\n"
CHOICES = table("", lambda n, text, label: (str(n), label, text, "Bills" if n % 2 else "", "")).lstrip("\n")

READ = [
    pytest.param("a.csv", SURVEY + ANSWERS, "dataset.text=Q1 dataset.label=Q2", HALVES, id="A Qualtrics without JSON"),
    pytest.param(
        "a.csv", MONKEY + CHOICES, "dataset.text=Why? 'dataset.label=How was it?'", HALVES, id="A SurveyMonkey"
    ),
    pytest.param("a.csv", "# exported, 2026\n" + PAIR, "", HALVES, id="A a comment"),
    pytest.param("a.csv", PAIR.partition("\n")[2], "", HALVES, id="A no header"),
    pytest.param("a.csv", topics("['a', 'b']", "b", "nan"), "multilabel", {"a": 8, "b": 16}, id="B lists and names"),
    pytest.param("a.csv", topics("{'a': 1, 'b': 0}", "{'a': 1, 'b': 1}"), "multilabel", {"a": 24, "b": 12}, id="B marks"),
    pytest.param("a.csv", topics('[{"name": "a"}]', '[{"name": "b"}, {"name": "a"}]', "[]"), "multilabel", {"a": 16, "b": 8}, id="B objects"),
    pytest.param("a.csv", topics("a\nb", "b"), "multilabel", {"a": 12, "b": 24}, id="B line breaks"),
    pytest.param("a.csv", labelled("don't", "don’t", "do"), "", {"do": 8, "don't": 16}, id="C quotes"),
    pytest.param("a.csv", labelled("a-b", "a–b", "c"), "", {"a-b": 16, "c": 8}, id="C dashes"),
    pytest.param("a.csv", PAIR + " , \n" * 5 + " \n", "", HALVES, id="E blanks"),
    pytest.param(
        "a.csv",
        table("text,a,b", lambda n, text, _: (text, str(n % 2), "1")) + ",0,0\n" * 9,
        "task=multilabel dataset.label_columns=[a,b]",
        {"a": 12, "b": 24},
        id="E zeros of formulas",
    ),
    pytest.param("a.json", json.dumps({"hits": {"hits": [{"_source": {"text": t, "label": n}} for t, n in ROWS]}}), "", HALVES, id="L Elasticsearch"),
    pytest.param("a.json", json.dumps({"nlu": {"examples": [{"text": t, "intent": n, "entities": []} for t, n in ROWS]}}), "", HALVES, id="L Rasa"),
    pytest.param("a.jsonl", objects(lambda text, label: {"text": text, "cats": {label: 1.0}}), "dataset.label=cats", HALVES, id="L spaCy's cats"),
    pytest.param("a.jsonl", objects(lambda text, label: {"data": {"text": text}, "label": label}), "", HALVES, id="L nested"),
    pytest.param("a.csv", PAIR.replace('","', '", "'), "", HALVES, id="L blanks before quotes"),
    pytest.param("a.csv", labelled("no", "null", "1e3"), "", {"1e3": 8, "no": 8, "null": 8}, id="N labels like YAML"),
]  # fmt: skip

REFUSED = [
    pytest.param("a.csv", topics("1,0,1", "0,1,0"), "multilabel", "label_1,label_2,label_3", id="B vectors"),
    pytest.param("a.csv", labelled("['a', 'b']", "['a']"), "", "task=multilabel", id="B lists of several"),
    pytest.param("a.tsv", labelled("2,14", "2", "3"), "", "'2,14'.*task=multilabel", id="B GoEmotions"),
    pytest.param("a.txt", "good\tIt works\nbad\tIt broke\n", "", "dataset.format=tsv", id="L tabs in .txt"),
    pytest.param("a.csv", "<!DOCTYPE html>\n<html></html>\n", "", "HTML", id="L a page"),
    pytest.param("a.arff", "@relation x\n", "", "Weka", id="L Weka"),
    pytest.param("a.jsonl", ",\n".join(objects(lambda t, n: {"text": t, "label": n}).splitlines()), "", "comma", id="L commas"),
]  # fmt: skip

DOUBTFUL = [
    pytest.param("a.csv", topics("python pandas", "r"), "multilabel", "dataset.label_separator", id="B blanks"),
    pytest.param("a.csv", topics("bug / ui", "docs"), "multilabel", "dataset.label_separator", id="B slashes"),
    pytest.param("a.csv", labelled("1", "2", "-8", "-9"), "", "dataset.no_answer", id="D negative codes"),
    pytest.param("a.csv", labelled("good", "bad", "Not rated"), "", "dataset.no_answer", id="D words"),
    pytest.param("a.csv", labelled("3", "5", "-99").replace("label", "score", 1), "regression", "dataset.no_answer", id="D numbers"),
    pytest.param("a.csv", labelled("1.5", "1.50", "2"), "", "the same number", id="C decimals"),
]  # fmt: skip


def facts(printed, name, content, typed):
    Path(name).write_text(content, encoding="utf-8")
    words = shlex.split(TASK.get(typed, typed))
    task = [] if any(word.startswith("task=") for word in words) else ["task=classification"]
    files = ["dataset=files", f"dataset.path={name}", "dataset.validation_fraction=0"]
    return printed("data", *task, *files, *words, "format=json", "examples=0")


@pytest.mark.parametrize(("name", "content", "typed", "labels"), READ)
def test_the_labels_are_those_that_people_see(name, content, typed, labels, printed):
    assert facts(printed, name, content, typed)["splits"]["train"]["labels"] == labels


@pytest.mark.parametrize(("name", "content", "typed", "named"), REFUSED)
def test_what_cannot_be_known_is_asked_for(name, content, typed, named, printed):
    with pytest.raises(DataError, match=named):
        facts(printed, name, content, typed)


@pytest.mark.parametrize(("name", "content", "typed", "setting"), DOUBTFUL)
def test_what_may_be_meant_otherwise_is_said(name, content, typed, setting, command, capsys):
    Path(name).write_text(content, encoding="utf-8")
    words = shlex.split(TASK.get(typed, "task=classification"))
    command("data", *words, "dataset=files", f"dataset.path={name}", "dataset.validation_fraction=0", "examples=0")
    said = capsys.readouterr().err
    assert setting in said
    offered = re.search(r" set (\S.*)$", said, re.MULTILINE)
    if offered:  # what is offered works when it is pasted
        files = ["dataset=files", f"dataset.path={name}", "dataset.validation_fraction=0", "examples=0"]
        command("data", *words, *files, *shlex.split(offered[1]))
        assert setting not in capsys.readouterr().err


@pytest.mark.parametrize(
    "column",
    [
        "Likes, dislikes",
        "What's up?",
        "x=1",
        "${HOME}",
        'say "hi"',
        "[x]",
        "{x}",
        "two\nlines",
        " lead",
        "null",
        "~",
        "#1",
    ],
)
def test_lines_that_name_a_column_work_when_they_are_pasted(column, printed, command, capsys):
    quoted = column.replace('"', '""')
    Path("a.csv").write_text(table(f'id,"{quoted}",Rating,body', lambda n, t, label: (f"k{n}", t, label, t[::-1])))
    files = ("task=classification", "dataset=files", "dataset.path=a.csv", "examples=0")
    command("data", *files)
    offered = re.search(r"Set (.*) for pairs of texts, (.*) to join them", capsys.readouterr().err, re.DOTALL)
    for line, row in zip(offered.groups(), ("second text", "texts"), strict=True):
        reading = dict(printed("data", *files, *shlex.split(line), "format=json")["reading"])
        assert column in reading[row]
