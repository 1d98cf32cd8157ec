"""Labelled words in other files than CoNLL's: by their columns, their cells, or named with the export that works."""

import json

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, Features, Sequence, Value

from encoderlab.data.files import FilesDataset
from encoderlab.errors import DataError

WORDS, TAGS = ["Anna", "saw", "Rome"], ["B-PER", "O", "B-LOC"]
LONGER = [["Bob", "ran"], ["B-PER", "O"]]
ROWS = [(WORDS, TAGS), tuple(LONGER)]


def read(tmp_path, name, **given):
    data = FilesDataset(path=str(tmp_path / name), validation_fraction=0.0, **given).load(tmp_path, "words")
    return [([*row.words], [data.labels[label] for label in row.labels]) for row in data.by_name["train"]]


def write(tmp_path, name, words="tokens", tags="ner_tags", cell=lambda values: values):
    table = pd.DataFrame(
        {"id": ["a", "b"], words: [cell(row[0]) for row in ROWS], tags: [cell(row[1]) for row in ROWS]}
    )
    if name.endswith("jsonl"):
        table.to_json(tmp_path / name, orient="records", lines=True)
    elif name.endswith("json"):
        table.to_json(tmp_path / name, orient="records")
    else:
        table.to_csv(tmp_path / name, index=False, sep="\t" if name.endswith("tsv") else ",")
    return name


@pytest.mark.parametrize("name", ["a.jsonl", "a.json", "a.csv", "a.tsv"])
@pytest.mark.parametrize("cell", [list, " ".join, json.dumps, str], ids=["list", "blanks", "JSON", "Python"])
def test_words_and_tags_are_lists_or_texts_of_as_many_words(name, cell, tmp_path):
    assert read(tmp_path, write(tmp_path, name, cell=cell)) == ROWS
    assert read(tmp_path, write(tmp_path, name, "text", "label", cell)) == ROWS


def test_several_columns_of_tags_are_asked_for(tmp_path):
    rows = [{"tokens": words, "pos_tags": ["X"] * len(words), "ner_tags": tags} for words, tags in ROWS]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(DataError, match="pos_tags holds X; ner_tags holds") as refused:
        read(tmp_path, "a.jsonl")
    assert "dataset.text=tokens dataset.label=pos_tags" in str(refused.value)
    assert read(tmp_path, "a.jsonl", text="tokens", label="ner_tags") == ROWS


@pytest.mark.parametrize("name", ["a.tsv", "a.txt", "a.tab"])
def test_a_file_with_a_word_per_line_is_conll_by_any_name(name, tmp_path, capsys):
    (tmp_path / name).write_text("# source\nAnna\tB-PER\nsaw\tO\nRome\tB-LOC\n\nBob\tB-PER\nran\tO\n")
    assert read(tmp_path, name) == ROWS and "dataset.format=conll" in capsys.readouterr().err


def test_texts_with_one_label_each_are_no_tagged_words(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\nthe soup was warm,a\nthe bill was late,b\n")
    with pytest.raises(DataError, match="task=classification"):
        read(tmp_path, "a.csv")


@pytest.mark.parametrize("given", [{}, {"text": "tokens", "label": "ner_tags"}])
def test_class_ids_of_words_have_the_names_that_datasets_wrote(given, tmp_path):
    names = Sequence(ClassLabel(names=["O", "B-PER", "B-LOC"]))
    features = Features({"tokens": Sequence(Value("string")), "ner_tags": names})
    Dataset.from_list([{"tokens": words, "ner_tags": tags} for words, tags in ROWS], features).to_parquet(
        tmp_path / "a.parquet"
    )
    assert read(tmp_path, "a.parquet", **given) == ROWS


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        (
            "a.tsv",
            "#FORMAT=WebAnno TSV 3.3\n#T_SP=x|value\n\n\n#Text=Anna saw\n1-1\t0-4\tAnna\tPER\t\n",
            "WebAnno TSV.*CoNLL 2002",
        ),
        ("a.ann", "T1\tPER 0 4\tAnna\n", "brat.*anntoconll.py"),
        ("a.xmi", '<?xml version="1.0"?><xmi:XMI xmlns:xmi="http://www.omg.org/XMI"></xmi:XMI>', "UIMA.*CoNLL 2002"),
        ("a.json", '{"%TYPES" : { }, "%FEATURE_STRUCTURES" : [ ]}', "UIMA.*CoNLL 2002"),
        ("a.spacy", "\x00", "DocBin"),
    ],
)
def test_what_annotation_tools_write_is_named_with_the_export_that_works(name, content, named, tmp_path):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=named):
        read(tmp_path, name)


def test_texts_of_brat_are_named_by_the_annotations_beside_them(tmp_path):
    (tmp_path / "doc").mkdir()
    (tmp_path / "doc/a.txt").write_text("Anna saw Rome.")
    (tmp_path / "doc/a.ann").write_text("T1\tPER 0 4\tAnna\n")
    for path in ("doc/a.txt", "doc"):
        with pytest.raises(DataError, match="brat"):
            read(tmp_path, path)
