"""Tables as people have them: several sheets, pairs, decimal commas, several labels, HTML, other cases, huge cells."""

import csv
from datetime import date, datetime

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from encoderlab.data.files import FilesDataset, read_unlabelled
from encoderlab.errors import DataError
from encoderlab.tables.columns import Columns
from encoderlab.tables.formats import Dialect

ROWS = 60
REVIEWS = [f"this film was {'good' if row % 2 else 'dull'} in scene {row}" for row in range(ROWS)]
STARS = ["good" if row % 2 else "bad" for row in range(ROWS)]
ANSWERS = {"id": range(ROWS), "review": REVIEWS, "verdict": STARS}
NOTES = {"about": ["answers of May", "typed by hand"]}
CODES = {"code": [1, 2], "name": ["good", "bad"]}


def workbook(path, **sheets):
    with pd.ExcelWriter(path) as writer:
        for name, columns in sheets.items():
            pd.DataFrame(columns).to_excel(writer, sheet_name=name, index=False)
    return str(path)


def table(path, **columns):
    pd.DataFrame(columns).to_csv(path, index=False)
    return str(path)


def load(path, tmp_path, target="label", **settings):
    return FilesDataset(path=path, **settings).load(tmp_path / "cache", target)


def refusal(path, tmp_path, target="label", **settings):
    with pytest.raises(DataError) as refused:
        load(path, tmp_path, target, **settings)
    return str(refused.value)


@pytest.mark.parametrize("settings", [{}, {"text": "review", "label": "verdict"}, {"sheet": "Answers"}])
def test_the_only_sheet_with_the_columns_is_read(settings, tmp_path, capsys):
    path = workbook(tmp_path / "book.xlsx", Notes=NOTES, Answers=ANSWERS, Codes=CODES)
    train = load(path, tmp_path, **settings).by_name["train"]
    assert {example.text for example in train} <= {*REVIEWS} and len(train) == 54
    assert settings == {"sheet": "Answers"} or "'Answers' is read (dataset.sheet)" in capsys.readouterr().err


def test_a_sheet_is_asked_for_if_two_have_the_columns_or_none(tmp_path):
    two = workbook(tmp_path / "two.xlsx", May=ANSWERS, June=ANSWERS)
    for settings in ({}, {"text": "review", "label": "verdict"}):
        assert "'May', 'June'. Set dataset.sheet='May'" in refusal(two, tmp_path, **settings)
    none = workbook(tmp_path / "none.xlsx", Notes=NOTES, Codes=CODES)
    message = refusal(none, tmp_path, text="review", label="verdict")
    assert "'Notes' (about)" in message and "'Codes' (code, name)" in message
    message = refusal(none, tmp_path)
    assert "'Notes': about (2 different values)" in message and "dataset.sheet" in message
    assert "Set dataset.sheet='Codes'" in refusal(none, tmp_path, sheet="codes")


def test_new_texts_are_read_from_the_only_sheet_that_has_their_column(tmp_path):
    path = workbook(tmp_path / "new.xlsx", Notes=NOTES, Answers=ANSWERS)
    texts = [example.text for example in read_unlabelled(path_of(path), text="review", text_pair=None, words=False)]
    assert texts == REVIEWS
    with pytest.raises(DataError, match="'Notes', 'Answers'"):
        read_unlabelled(path_of(path), text="review", text_pair=None, words=False, dialect=Dialect(sheet="May"))


def path_of(name):
    from pathlib import Path

    return Path(name)


def test_texts_that_are_not_read_are_named_with_the_setting_for_pairs(tmp_path, capsys):
    others = [f"that movie seemed {row} times longer" for row in range(ROWS)]
    columns = {"question": REVIEWS, "duplicate_candidate": others, "is_duplicate": [row % 2 for row in range(ROWS)]}
    path = table(tmp_path / "pairs.csv", id=range(ROWS), **columns)
    load(path, tmp_path)
    assert "'duplicate_candidate' is not read. Set dataset.text_pair=duplicate_candidate" in capsys.readouterr().err
    load(path, tmp_path, text="question", text_pair="duplicate_candidate", label="is_duplicate")
    assert "not read" not in capsys.readouterr().err


def test_a_column_of_decimal_commas_holds_numbers(tmp_path, capsys):
    prices = [f"{1000 + row // 2},{row % 10}5" if row % 3 else f"{row}" for row in range(ROWS)]
    prices[1] = "1.234,5"
    path = tmp_path / "preise.csv"
    lines = [f"{row};{row % 28 + 1:02}.01.2024;{REVIEWS[row]};{prices[row]}" for row in range(ROWS)]
    path.write_text("\n".join(["id;datum;meinung;preis", *lines]))
    splits = load(str(path), tmp_path, "number", validation_fraction=0.0)
    assert [example.label for example in splits.by_name["train"]][:3] == [0.0, 1234.5, 1001.25]
    assert "1.234,5 is read as 1234.5" in capsys.readouterr().err
    assert "task=regression" in refusal(str(path), tmp_path, text="meinung", label="preis")
    assert "task=regression dataset.label=preis" in refusal(str(path), tmp_path)
    path.write_text(path.read_text().replace("1001,25", "1001.25"))
    assert "line 3 has '1.234,5'" in refusal(str(path), tmp_path, "number", label="preis", text="meinung")


def test_a_comma_that_may_separate_thousands_is_no_decimal_comma(tmp_path):
    path = table(tmp_path / "rows.csv", text=REVIEWS, label=[f"1,{100 + row}" for row in range(ROWS)])
    assert "'1,100'" in refusal(path, tmp_path, "number")


@pytest.mark.parametrize("ending", ["csv", "parquet", "xlsx"])
def test_columns_of_0_and_1_are_offered_as_labels(ending, tmp_path):
    flags = {name: [row // size % 2 for row in range(ROWS)] for size, name in enumerate(["joy", "fear", "awe"], 1)}
    path = tmp_path / f"rows.{ending}"
    rows = pd.DataFrame({"text": REVIEWS, **flags})
    {"csv": rows.to_csv, "parquet": rows.to_parquet, "xlsx": rows.to_excel}[ending](path, index=False)
    for target in ("label", "label_set"):
        assert "task=multilabel 'dataset.label_columns=[joy,fear,awe]'" in refusal(str(path), tmp_path, target)


@pytest.mark.parametrize("cells", [["a|b", "", "b"], ["a|b", "b|c", "a|c"]])
def test_cells_with_several_labels_are_no_reason_to_drop_rows(cells, tmp_path):
    path = table(tmp_path / "rows.csv", text=REVIEWS, label=[cells[row % 3] for row in range(ROWS)])
    message = refusal(path, tmp_path)
    assert "task=multilabel" in message and "on_missing" not in message


def test_a_question_lists_candidates_with_their_values_and_no_ids_or_dates(tmp_path):
    columns = {"ticket_id": range(100, 100 + 2 * ROWS, 2), "created": ["2024-05-01 10:30"] * ROWS}
    kinds = {"team": ["x", "y", "z"] * 20, "priority": ["1", "2"] * 30}
    message = refusal(table(tmp_path / "rows.csv", text=REVIEWS, **columns, **kinds), tmp_path)
    assert "priority (2 different values)" in message and "team (3 different values)" in message
    assert "ticket_id" not in message and "created" not in message


def test_html_is_removed_on_request(tmp_path):
    path = table(
        tmp_path / "rows.csv",
        text=[f"<p>a <b>b</b>old&nbsp;film,<br/>{row} &lt; 99</p><script>x()</script>" for row in range(ROWS)],
        label=STARS,
    )
    train = load(path, tmp_path, strip_html=True, validation_fraction=0.0).by_name["train"]
    assert train[7].text == "a bold film, 7 < 99"
    assert load(path, tmp_path, validation_fraction=0.0).by_name["train"][7].text.startswith("<p>a <b>")
    plain = table(tmp_path / "plain.csv", text=[f" 1 < {row}\n> 0  & more" for row in range(ROWS)], label=STARS)
    assert (
        load(plain, tmp_path, strip_html=True, validation_fraction=0.0).by_name["train"][7].text
        == " 1 < 7\n> 0  & more"
    )


def test_dates_and_numbers_of_a_workbook_stay_dates_and_numbers(tmp_path):
    cells = {"day": [date(2024, 5, 1), date(2024, 5, 2)], "at": [datetime(2024, 5, 1, 9, 30), None], "price": [1, 2.5]}
    path = workbook(tmp_path / "rows.xlsx", rows={"text": ["a b", "c d"], **cells})
    split = read_unlabelled(path_of(path), text="text", text_pair=None, words=False)
    assert [row["day"] for row in split.carried] == cells["day"]
    assert [row["at"] for row in split.carried] == cells["at"]
    assert [row["price"] for row in split.carried] == [1, 2.5]


def test_numbers_of_another_type_further_down_are_not_cut(tmp_path):
    rows = "".join(f'{{"text": "t{row}", "n": {row if row < 2100 else 1.5}}}\n' for row in range(2102))
    (tmp_path / "rows.jsonl").write_text(rows)
    split = read_unlabelled(tmp_path / "rows.jsonl", text="text", text_pair=None, words=False)
    assert split.carried[2101]["n"] == "1.5"


def test_labels_that_differ_in_case_are_one_in_every_split(tmp_path, capsys):
    spellings = ["Good", "bad", "Good", "Bad", "good", "bad"]
    train = table(tmp_path / "train.csv", text=REVIEWS, label=[spellings[row % 6] for row in range(ROWS)])
    test = table(tmp_path / "test.csv", text=["one film", "two films"], label=["GOOD", "BAD"])
    splits = FilesDataset(train=train, test=test).load(tmp_path / "cache")
    assert splits.labels == ["Good", "bad"] and [row.label for row in splits.by_name["test"]] == [0, 1]
    printed = capsys.readouterr().err
    assert "'good' (10 times) is read as 'Good'" in printed and "'GOOD' (1 times) is read as 'Good'" in printed
    sets = load(train, tmp_path, "label_set")
    assert sets.labels == ["Good", "bad"]


def test_single_letters_and_tags_of_words_keep_their_case(tmp_path):
    letters = table(tmp_path / "letters.csv", text=REVIEWS, label=["aAbB"[row % 4] for row in range(ROWS)])
    assert load(letters, tmp_path).labels == ["A", "B", "a", "b"]
    (tmp_path / "tags.conll").write_text("".join(f"w{row} {'Per' if row % 2 else 'PER'}\n\n" for row in range(ROWS)))
    assert load(str(tmp_path / "tags.conll"), tmp_path).labels == ["PER", "Per"]


class CountedName(str):
    """A name of a column that counts how often it is compared with others."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        CountedName.compared += 1
        return str.__eq__(self, other)


def test_many_columns_are_not_compared_each_with_each():
    names = [CountedName(f"c{number}") for number in range(1000)]
    read = Columns("c1", label="c2", others=True).to_read(names, "rows.csv")
    assert read == names and CountedName.compared < 20_000


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_cell_that_no_model_could_read_is_refused(ending, tmp_path):
    path = tmp_path / f"rows.{ending}"
    texts = ["short", "x" * 10_000_001]
    if ending == "csv":
        with path.open("w") as file:
            csv.writer(file).writerows([("text", "label"), *zip(texts, "ab", strict=True)])
    else:
        rows = pd.DataFrame({"text": texts, "label": ["a", "b"]})
        {"jsonl": lambda: rows.to_json(path, orient="records", lines=True), "parquet": lambda: rows.to_parquet(path)}[
            ending
        ]()
    assert "10,000,00" in refusal(str(path), tmp_path)


@pytest.mark.parametrize(("length", "rows"), [(1_000_000, 1000), (20_000_000, 2), (1, 3_000_000)])
def test_a_parquet_file_that_would_fill_the_memory_is_refused(length, rows, tmp_path, monkeypatch):
    monkeypatch.setattr("encoderlab.tables.arrow_files._MANY_ROWS", 1_000_000)
    path = tmp_path / "bomb.parquet"
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * length]))
    table = pa.table({"text": texts, "label": ["a"] * rows})
    pq.write_table(table, path, store_schema=False, dictionary_pagesize_limit=2**30, write_statistics=False)
    assert "bomb.parquet" in refusal(str(path), tmp_path)


def test_a_column_of_conllu_goes_by_its_number(tmp_path):
    words = [f"{place}\tw{place}\t_\t{'NOUN' if place % 2 else 'VERB'}" for place in range(1, 41)]
    (tmp_path / "words.conllu").write_text("\n\n".join(words) + "\n")
    splits = load(str(tmp_path / "words.conllu"), tmp_path, text=1, label="3")
    assert splits.labels == ["NOUN", "VERB"] and splits.by_name["train"][0].words[0].startswith("w")
