"""Users' files: what other libraries wrote is read equal, whatever it is; labels of every kind; what is refused."""

import csv
import io
import json
from functools import partial

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.files import FilesDataset, read_unlabelled
from encoderlab.errors import DataError, SettingError
from encoderlab.tables import batches
from encoderlab.tables.formats import Dialect, Format, OnMissing, Quoting

ANY = st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\r")  # pandas does not quote a cell with "\r"
TEXTS = st.text(ANY, max_size=12) | st.sampled_from(
    ["", "NA", "None", "null", "1.0", "-", '"', '""', "a\nb", "a,b", "x\r\ny"]
)
TABLES = st.lists(st.tuples(TEXTS, st.sampled_from(["good", "bad"]), TEXTS), min_size=1, max_size=8)
STRICT = {"on_missing": OnMissing.error}
DOUBLE = Dialect(quoting=Quoting.double)


def read(path, **given):
    split = read_unlabelled(path, text="text", text_pair=None, words=False, **given)
    return [(example.text, row["label"], row["note"]) for example, row in zip(split, split.carried, strict=True)]


@settings(max_examples=80, deadline=None)
@given(rows=TABLES, delimiter=st.sampled_from(",;\t|"), line_end=st.sampled_from(["\n", "\r\n"]))
def test_what_the_csv_module_writes_is_read_equal(tmp_path_factory, rows, delimiter, line_end):
    path = tmp_path_factory.mktemp("csv") / ("rows.tsv" if delimiter == "\t" else "rows.csv")
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, delimiter=delimiter, lineterminator=line_end)
        table.writerows([("text", "label", "note"), *rows])
    assert read(path, dialect=DOUBLE) == rows


@settings(max_examples=40, deadline=None)
@given(rows=TABLES, kind=st.sampled_from(["csv", "csv.gz", "tsv", "jsonl", "json", "parquet"]))
def test_what_pandas_writes_is_read_equal(tmp_path_factory, rows, kind):
    path = tmp_path_factory.mktemp("pandas") / f"rows.{kind}"
    table = pd.DataFrame(rows, columns=["text", "label", "note"])
    if kind == "parquet":
        table.to_parquet(path)
    elif kind.startswith("json"):
        table.to_json(path, orient="records", lines=kind == "jsonl")
    else:
        table.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    assert read(path, dialect=DOUBLE) == rows


@settings(max_examples=20, deadline=None)
@given(
    rows=st.lists(st.tuples(st.text("abc 1.NA", min_size=1, max_size=5), st.integers(0, 99)), min_size=1, max_size=5)
)
def test_what_pandas_writes_to_excel_is_read_equal(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("excel") / "rows.xlsx"
    pd.DataFrame([(*row, "note") for row in rows], columns=["text", "label", "note"]).to_excel(path, index=False)
    assert read(path) == [(text, number, "note") for text, number in rows]


@settings(max_examples=40, deadline=None)
@given(lines=st.lists(st.text(ANY.filter(lambda letter: letter != "\n"), max_size=8), min_size=1, max_size=8))
def test_every_line_of_a_text_file_is_a_text(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("txt") / "rows.txt"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    texts = read_unlabelled(path, text="text", text_pair=None, words=False)
    assert [example.text.removeprefix("\ufeff") for example in texts] == [line.removeprefix("\ufeff") for line in lines]


def test_many_rows_are_mapped_from_the_cache_and_read_the_same(tmp_path, monkeypatch):
    path, rows = tmp_path / "rows.csv", [(f"text {n}", "ab"[n % 2], f"note {n}") for n in range(5000)]
    pd.DataFrame(rows, columns=["text", "label", "note"]).to_csv(path, index=False)
    monkeypatch.setattr(batches, "IN_MEMORY", 1000)
    assert read(path, cache_dir=tmp_path / "cache") == rows and not list((tmp_path / "cache").iterdir())


def dataset(tmp_path, name, content, **given):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return FilesDataset(**({"path": str(path), "validation_fraction": 0.0} | given))


def rows_of(splits, name="train"):
    return [(row.text, row.label) for row in splits.by_name[name]]


LABELS = {
    "sorted": ("text,label\nx,b\ny,a\n", {}, "label", ["a", "b"], [1, 0]),
    "numbers as numbers": ("text,label\nx,10\ny,9\n", {}, "label", ["9", "10"], [1, 0]),
    "in the given order": ("text,label\nx,b\ny,a\n", {"label_names": ["b", "a"]}, "label", ["b", "a"], [0, 1]),
    "names of numbers": ("text,label\nx,1\ny,0\n", {"label_names": ["no", "yes"]}, "label", ["no", "yes"], [1, 0]),
    "mapped": (
        "text,label\nx,1\ny,2\nz,5\n",
        {"label_names": {"1": "bad", "2": "bad", "5": "good"}},
        "label",
        ["bad", "good"],
        [0, 0, 1],
    ),
    "numbers": ("text,label\nx,1.5\ny,-2\n", {}, "number", [], [1.5, -2.0]),
    "several": ("text,label\nx,a|b\ny,\nz,b\n", {}, "label_set", ["a", "b"], [(0, 1), (), (1,)]),
    "several, other separator": (
        "text,label\nx,a/b\ny,b\n",
        {"label_separator": "/"},
        "label_set",
        ["a", "b"],
        [(0, 1), (1,)],
    ),
    "columns of 0 and 1": (
        "text,joy,fear\nx,1,0\ny,0,0\n",
        {"label_columns": ["joy", "fear"]},
        "label_set",
        ["joy", "fear"],
        [(0,), ()],
    ),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_have_names_and_ids(name, tmp_path):
    content, given, target, names, ids = LABELS[name]
    splits = dataset(tmp_path, "rows.csv", content, **given).load(tmp_path, target)
    assert splits.labels == names and [label for _, label in rows_of(splits)] == ids


def test_jsonl_has_labels_of_any_type_lists_of_words_and_lists_of_labels(tmp_path):
    def lines(*rows):
        return "".join(json.dumps(row) + "\n" for row in rows)

    typed = lines({"text": "x", "label": True, "n": 7}, {"text": "y", "label": False, "n": None})
    splits = dataset(tmp_path, "a.jsonl", typed).load(tmp_path)
    assert splits.labels == ["false", "true"] and [*splits.by_name["train"].carried] == [{"n": 7}, {"n": None}]
    sets = lines({"text": "x", "label": ["a", "b"]}, {"text": "y", "label": []})
    assert [label for _, label in rows_of(dataset(tmp_path, "b.jsonl", sets).load(tmp_path, "label_set"))] == [
        (0, 1),
        (),
    ]
    words = lines({"text": ["EU", "rejects"], "label": ["B", "O"]}, {"text": ["x"], "label": ["O"]})
    assert [row.words for row in dataset(tmp_path, "c.jsonl", words).load(tmp_path).by_name["train"]] == [
        ("EU", "rejects"),
        ("x",),
    ]


CONLL = "-DOCSTART-\t-X-\tO\n\n# a comment\nEU\tNNP\tB-ORG\nrejects\tVB\tO\n\n# O O\ncall\tNN\tO\n"
CONLLU = "# sent_id = 1\n1-2\tcannot\t_\t_\t_\t_\t_\t_\t_\t_\n1\tcan\tcan\tAUX\t_\t_\t0\t_\t_\t_\n2\tnot\tnot\tPART\t_\t_\t1\t_\t_\t_\n"
NUMBERS = {"text": "1", "label": "3", "format": Format.conll}


@pytest.mark.parametrize(
    ("name", "content", "given", "sentences"),
    [
        ("a.conll", CONLL, {}, [(("EU", "rejects"), ("B-ORG", "O")), (("call",), ("O",))]),
        ("b.conll", CONLL, {"label": "1"}, [(("EU", "rejects"), ("NNP", "VB")), (("call",), ("NN",))]),
        ("a.conllu", CONLLU, NUMBERS, [(("can", "not"), ("AUX", "PART"))]),
        # A line that begins with # is a comment unless it is as wide as the words.
        ("c.conll", "# a comment\n#tag B\nx O\n", {}, [(("#tag", "x"), ("B", "O"))]),
    ],
)
def test_sentences_are_read_from_columns(name, content, given, sentences, tmp_path):
    splits = dataset(tmp_path, name, content, **given).load(tmp_path)
    names = splits.labels
    read = [(row.words, tuple(names[label] for label in row.labels)) for row in splits.by_name["train"]]
    assert read == sentences


def test_invalid_entities_are_read_as_conlleval_does_and_named(tmp_path, capsys):
    splits = dataset(tmp_path, "a.conll", "x O\nEU I-ORG\n").load(tmp_path)
    assert [splits.labels[label] for label in splits.by_name["train"][0].labels] == ["O", "B-ORG"]
    assert "'I-ORG' at" in capsys.readouterr().err


def test_labels_are_read_without_the_spaces_around_them_and_a_note_says_so(tmp_path, capsys):
    splits = dataset(tmp_path, "rows.csv", "text,label\nx,a\ny,a \nz,b\n").load(tmp_path)
    assert splits.labels == ["a", "b"] and rows_of(splits) == [("x", 0), ("y", 0), ("z", 1)]
    assert "line 3: " in capsys.readouterr().err


def test_a_folder_per_label_with_or_without_splits(tmp_path):
    for place in (
        "flat/pos/1.txt",
        "flat/neg/2.txt",
        "whole/train/pos/1.txt",
        "whole/train/neg/2.txt",
        "whole/test/pos/3.txt",
    ):
        dataset(tmp_path, place, f"from {place}")
    flat = FilesDataset(path=str(tmp_path / "flat"), validation_fraction=0.0).load(tmp_path)
    assert flat.labels == ["neg", "pos"] and rows_of(flat) == [("from flat/neg/2.txt", 0), ("from flat/pos/1.txt", 1)]
    dataset(tmp_path, "flat/lost.txt", "of no label")
    with pytest.raises(DataError, match="lost.txt is not a .txt file in a label folder"):
        FilesDataset(path=str(tmp_path / "flat")).load(tmp_path)
    whole = FilesDataset(path=str(tmp_path / "whole"), validation_fraction=0.0).load(tmp_path)
    assert rows_of(whole, "test") == [("from whole/test/pos/3.txt", 1)]


def test_several_files_are_one_split_and_name_their_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dataset(tmp_path, "a.csv", "text,label,n\nx,a,1\n")
    dataset(tmp_path, "b.csv", 'text,label\n"y\nz",b\nw,a\n')
    train = FilesDataset(path="*.csv", validation_fraction=0.0).load(tmp_path).by_name["train"]
    assert [row.text for row in train] == ["x", "y\nz", "w"] and train.where(2) == "b.csv, line 4"
    assert [row["n"] for row in train.carried] == ["1", None, None]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "xlsx"])
def test_training_rows_without_a_label_are_left_out_and_counted(ending, tmp_path, capsys):
    labels = ["a", None, "b", None, "a", "b"]
    rows = pd.DataFrame({"n": range(6), "text": list("uvwxyz"), "label": labels})
    path = tmp_path / f"pool.{ending}"
    lines = partial(rows.to_json, orient="records", lines=True)
    writers = {"csv": rows.to_csv, "parquet": rows.to_parquet, "xlsx": rows.to_excel, "jsonl": lines}
    writers[ending](path, **({} if ending == "jsonl" else {"index": False}))
    data = FilesDataset(path=str(path), validation_fraction=0.0).load(tmp_path)
    train = data.by_name["train"]
    assert rows_of(data) == [("u", 0), ("w", 1), ("y", 0), ("z", 1)]
    assert list(map(int, train.carried["n"])) == [0, 2, 4, 5]
    assert [train.where(row).split()[-1] for row in (0, 1)] == {"csv": ["2", "4"], "xlsx": ["2", "4"]}.get(
        ending, ["1", "3"]
    )
    assert data.origin["rows_without_label"] == 2 and "2 of 6 rows" in capsys.readouterr().err


def test_rows_of_validation_and_test_need_a_label(tmp_path):
    dataset(tmp_path, "train.csv", "text,label\nx,a\ny,\nz,b\n")
    dataset(tmp_path, "test.csv", "text,label\nx,a\ny,\nz,b\n")
    with pytest.raises(DataError, match=r"test.csv, line 3"):
        FilesDataset(train=str(tmp_path / "train.csv"), test=str(tmp_path / "test.csv")).load(tmp_path)


def test_a_file_without_a_single_label_is_refused(tmp_path):
    with pytest.raises(DataError, match="line 2"):
        dataset(tmp_path, "rows.csv", "text,label\nx,\ny,\n").load(tmp_path)


def test_incomplete_rows_are_refused_or_dropped_on_request(tmp_path, capsys):
    content = "text,label\nx,a\ny,\n,b\nz,b\n"
    with pytest.raises(DataError, match="line 3"):
        dataset(tmp_path, "rows.csv", content, on_missing=OnMissing.error).load(tmp_path)
    splits = dataset(tmp_path, "rows.csv", content, on_missing=OnMissing.drop).load(tmp_path)
    assert rows_of(splits) == [("x", 0), ("z", 1)] and "2 of 4 rows" in capsys.readouterr().err


def test_further_columns_of_mixed_types_are_texts(tmp_path):
    content = "\n".join(json.dumps({"text": f"t{n}", "label": "ab"[n % 2], "id": n}) for n in range(2100))
    content += "".join(f'\n{{"text": "x", "label": "a", "id": {one}}}' for one in ('"x1"', "1.5", "null", "[2]"))
    train = dataset(tmp_path, "rows.jsonl", content).load(tmp_path).by_name["train"]
    assert len(train) == 2104 and train.where(2100).endswith("line 2101")
    assert [train.carried[row]["id"] for row in (0, 2099, 2100, 2101, 2102, 2103)] == [
        "0",
        "2099",
        "x1",
        "1.5",
        None,
        "[2]",
    ]
    with pytest.raises(DataError, match="line 2104"):
        dataset(tmp_path, "rows.jsonl", content.replace('"x", "label": "a", "id": [2]', '[2], "label": "a"')).load(
            tmp_path
        )


def test_further_columns_of_other_types_in_other_files_are_texts(tmp_path):
    for name, one in (("a", 1), ("b", '"x1"')):
        rows = "".join(f'{{"text": "{name}{n}", "label": "{n}", "id": {one}}}\n' for n in range(2))
        (tmp_path / f"{name}.jsonl").write_text(rows)
    train = FilesDataset(path=f"{tmp_path}/*.jsonl", validation_fraction=0.0).load(tmp_path).by_name["train"]
    assert [row["id"] for row in train.carried] == ["1", "1", "x1", "x1"]
    times = pa.array([1, 2], pa.timestamp("s", "no/zone"))  # which cannot be written as texts
    pq.write_table(pa.table({"text": ["a0", "a1"], "label": ["0", "1"], "id": times}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="Give a column the same type in every file"):
        FilesDataset(path=[f"{tmp_path}/a.parquet", f"{tmp_path}/b.jsonl"]).load(tmp_path)


def test_a_name_of_a_column_may_be_long(tmp_path):
    content = f"text,label,{'n' * 140_000}\nx,a,1\ny,b,2\n"
    assert rows_of(dataset(tmp_path, "rows.csv", content).load(tmp_path)) == [("x", 0), ("y", 1)]


# content, settings, what the error names: the file with the line, or the setting
REFUSED = {
    "a short row": ("text,label\nx,a\ny\n", {}, "rows.csv, line 3"),
    "a long row after a cell of two lines": ('text,label\n"x\nz",a\ny,b,c\n', {}, "rows.csv, line 4"),
    "merged rows": ('text,label\n"x,a\ny,b\nz",a\nw,b\n', {}, "dataset.quoting"),
    "merged rows of which none is another": ('text,label\n"x,p\ny",a\nw,b\n', {}, "rows.csv, lines 2 to 3"),
    "text behind a quoted cell": ('text,label\n"x"y,a\nz,b\n', {}, "rows.csv, line 2"),
    "a carriage return alone": ("text,label\nx\ry,a\nz,b\n", {}, "rows.csv, line 2"),
    "carriage returns only": (b"text,label\rx,a\ry,b\r", {}, "rows.csv has a carriage return"),
    "a blank line among empty texts": ("text\nx\n\ny\n", {"label": None}, "rows.csv, line 3"),
    "measurements as classes": ("text,label\n" + "".join(f"t{n},{n}.5\n" for n in range(30)), {}, "task=regression"),
    "several labels as classes": ("text,label\nx,a\ny,b\nz,a|b\n", {}, "task=multilabel"),
    "a label that is not named": ("text,label\nx,a\ny,b\nz,c\n", {"label_names": ["a", "b"]}, "rows.csv, line 4"),
    "a label that is not mapped": ("text,label\nx,a\ny,c\n", {"label_names": {"a": "A", "b": "B"}}, "rows.csv, line 3"),
    "a column twice": ("text,text,label\nx,y,a\n", {}, "'text'"),
    "an unknown group": ("text,label\nx,a\ny,b\n", {"group": "author"}, "'author'"),
    "missing labels": ("text,label\nx,a\ny,\nz,\nw,b\n", STRICT, "and so do 1 more"),
    "a label in a line of .json": (
        '{"text":"x","label":"a"}\n{"text":"y","label":null}\n',
        STRICT,
        "rows.json, line 2",
    ),
    "a label in an array of .json": (
        '[{"text":"x","label":"a"},\n{"text":"y","label":null}]',
        STRICT,
        "rows.json, row 2",
    ),
    "a wrong encoding": (b"text,label\n\xff,a\ny,b\n", {"encoding": "utf-8"}, "dataset.encoding"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_files_are_refused_with_the_line_or_the_setting(name, tmp_path, monkeypatch):
    content, given, named = REFUSED[name]
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError) as refused:
        dataset(tmp_path, "rows.json" if ".json" in name else "rows.csv", content, **given).load(tmp_path)
    assert named in str(refused.value) and str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("target", "content", "named"),
    [
        ("number", "text,label\nx,1\ny,two\n", "line 3"),
        ("number", "text,label\nx,1\ny,inf\n", "line 3"),
        ("label_set", "text,a,b\nx,1,0\ny,2,0\n", "line 3"),
    ],
)
def test_targets_of_other_kinds_are_refused_with_their_line(target, content, named, tmp_path):
    given = {"label_columns": ["a", "b"]} if target == "label_set" else {}
    with pytest.raises(DataError, match=named):
        dataset(tmp_path, "rows.csv", content, **given).load(tmp_path, target)


REVIEWS = "id;written;review;stars\n" + "".join(
    f"{n};2024-01-{n % 28 + 1:02};{'a fine film' if n % 2 else 'dull and far too long'} {n};{n % 5 + 1}\n"
    for n in range(40)
)
MAILS = "id,date,message,kind\n" + "".join(
    f"{n},2024-01-{n % 2 + 1:02},a mail of {n} words,{'spam' if n % 3 else 'ham'}\n" for n in range(40)
)


@pytest.mark.parametrize(
    ("content", "given", "text", "label"),
    [
        (REVIEWS, {}, "review", "stars"),
        (REVIEWS, {"label": "written"}, "review", "written"),
        (REVIEWS.replace("stars", "n").replace("review", "said"), {}, "said", "n"),
        (MAILS, {}, "message", "kind"),
        (MAILS.replace("2024-01-0", "n"), {}, "message", None),
        ("premise;hypothesis;label\na b c;d e f;x\ng h i;j k l;y\n", {}, None, "label"),
        ("utterance,intent\nplay music,music\nring me at six,alarm\nplay jazz,music\n", {}, "utterance", "intent"),
    ],
)
def test_columns_are_guessed_or_asked_for(content, given, text, label, tmp_path, capsys):
    source = dataset(tmp_path, "rows.csv", content, **given)
    if text is None or label is None:
        with pytest.raises(DataError, match=r"Set dataset\.(text=premise|label=\w+)"):
            source.load(tmp_path)
    else:
        guessed = source.load(tmp_path).decided
        assert (source.text, source.label) == ("text", given.get("label", "label")), "settings are left as they are"
        assert {"text": source.text, "label": source.label} | guessed == {"text": text, "label": label}
        assert "dataset.text" in capsys.readouterr().err


def test_a_column_that_only_another_split_lacks_is_named(tmp_path, capsys):
    dataset(tmp_path, "train.csv", "text,label\nx y,a\nz w,b\n")
    dataset(tmp_path, "test.csv", "words,label\nx y,a\n")
    split = FilesDataset(train=str(tmp_path / "train.csv"), test=str(tmp_path / "test.csv"), validation_fraction=0.0)
    with pytest.raises(DataError, match=r"test\.csv has no column 'text'"):
        split.load(tmp_path)
    assert capsys.readouterr().err == ""


def test_columns_of_texts_are_joined(tmp_path):
    content = "subject,body,label\nHello,I write,a\n,Bye,b\n"
    rows = dataset(tmp_path, "rows.csv", content, text=["subject", "body"]).load(tmp_path)
    assert rows_of(rows) == [("Hello | I write", 0), (" | Bye", 1)]
    split = read_unlabelled(tmp_path / "rows.csv", text=["body", "subject"], text_pair=None, words=False)
    assert split[0].text == "I write | Hello"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"path": "a.csv", "train": "b.csv"}, "dataset.train"),
        ({"test": "a.csv"}, "dataset.train"),
        ({"path": "a.csv", "validation_fraction": 0.6, "test_fraction": 0.4}, "validation_fraction"),
        ({"path": "a.csv", "text": "x", "label": "x"}, "dataset.text"),
        ({"path": "a.csv", "encoding": "utf-9"}, "dataset.encoding"),
        ({"path": "a.csv", "label_names": ["a"]}, "dataset.label_names"),
    ],
)
def test_settings_are_refused_by_name(given, named):
    with pytest.raises(SettingError, match=named):
        FilesDataset(**given)


def test_the_test_rows_do_not_depend_on_the_validation_rows(tmp_path):
    content = "text,label\n" + "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(100))
    settings = ({}, {"validation_fraction": 0.3}, {"validation_fraction": 0.0})
    tests = [
        rows_of(dataset(tmp_path, "a.csv", content, test_fraction=0.2, **one).load(tmp_path), "test")
        for one in settings
    ]
    assert tests[0] == tests[1] == tests[2] and len(tests[0]) == 20


def test_documents_are_separated_by_blank_lines_and_paragraphs_by_line_ends(tmp_path):
    splits = dataset(tmp_path, "a.txt", "one\ntwo\n\n\nthree\n\nfour").documents(tmp_path)
    assert [*splits.by_name["train"].documents()] == [["one", "two"], ["three"], ["four"]]


def test_the_lines_of_a_lone_document_are_documents(tmp_path, capsys):
    splits = dataset(tmp_path, "a.txt", "one\ntwo\nthree\n\n").documents(tmp_path)
    assert [*splits.by_name["train"].documents()] == [["one"], ["two"], ["three"]]
    noted = capsys.readouterr().err
    assert "task.second_sentence=none" in noted and "1 of 4 rows lack a text and were dropped" in noted


def test_the_windows_of_excel_and_semicolons_are_read(tmp_path, capsys):
    file = io.BytesIO()
    pd.DataFrame({"text": ["x", "y"], "label": ["a", "b"]}).to_excel(file, sheet_name="rows", index=False)
    assert rows_of(dataset(tmp_path, "a.xlsx", file.getvalue()).load(tmp_path)) == [("x", 0), ("y", 1)]
    content = "text;label\ncaf\xe9, noir;a\ny;b\n".encode("cp1252")
    assert rows_of(dataset(tmp_path, "b.csv", content).load(tmp_path)) == [("caf\xe9, noir", 0), ("y", 1)]
    assert rows_of(dataset(tmp_path, "b.csv", content).load(tmp_path)) == [("caf\xe9, noir", 0), ("y", 1)]
    assert capsys.readouterr().err.count("Windows-1252") == 1, "however often the file is read"


def test_columns_typed_without_brackets_are_offered_with_them(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("subject,body,label\nlate,a parcel,a\ndear,a bill,b\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"'dataset\.text=\[subject,body\]'"):
        FilesDataset(path=str(path), text="subject,body").load(tmp_path / "cache", "label")
