"""Files of SPSS, Stata and SAS: classes by the names of their codes, user-missing values as missing."""

import sys

import pandas as pd
import pytest

from encoderlab.cli import main as cli
from encoderlab.data.files import FilesDataset, read_unlabelled
from encoderlab.errors import DataError
from encoderlab.tables.formats import Format

pyreadstat = pytest.importorskip("pyreadstat", reason="pip install 'encoderlab[statistics]'")
ROWS = 24
CODES = [-9.0, 1.0, 2.0]
NAMES = {-9: "No reply", 1: "Yes, gladly", 2: "No"}
FRAME = pd.DataFrame(
    {
        "answer": [f"the parcel of case {row}" for row in range(ROWS)],
        "again": [CODES[row % 3] for row in range(ROWS)],
        "age": [20.0 + row for row in range(ROWS)],
    }
)
MISSING = {"again": [{"lo": -9, "hi": -1}]}
UPPER = {"text": "ANSWER", "label": "AGAIN"}
USUAL = {"text": "answer", "label": "again"}


def labels_of(path, tmp_path, **settings):
    data = FilesDataset(path=str(path), validation_fraction=0.0, **settings).load(tmp_path / "cache")
    return [data.labels[row.label] for row in data.by_name["train"]]


@pytest.mark.parametrize("name", ["rows.sav", "rows.zsav"])
def test_spss_names_classes_and_misses_what_the_user_declared(name, tmp_path, capsys):
    labels = {"again": NAMES, "age": {99: "refused"}}
    pyreadstat.write_sav(
        FRAME, tmp_path / name, variable_value_labels=labels, missing_ranges=MISSING, compress=name == "rows.zsav"
    )
    assert labels_of(tmp_path / name, tmp_path, **USUAL) == ["Yes, gladly", "No"] * (ROWS // 3)
    told = capsys.readouterr().err
    assert "'Yes, gladly'" in told and f"{ROWS // 3} of {ROWS} rows have no label" in told


@pytest.mark.parametrize("program", ["pandas", "pyreadstat"])
def test_stata_names_classes_and_misses_its_own_missing_values(program, tmp_path):
    path = tmp_path / "rows.dta"
    if program == "pandas":
        named = FRAME["again"].map(NAMES).where(FRAME["again"] > 0)
        FRAME.assign(again=named.astype("category")).to_stata(path, write_index=False)
    else:
        letters = FRAME.assign(again=[code if code > 0 else "a" for code in FRAME["again"]])
        labels = {"again": NAMES | {"a": "No reply"}}
        pyreadstat.write_dta(letters, path, variable_value_labels=labels, missing_user_values={"again": ["a"]})
    assert labels_of(path, tmp_path, **USUAL) == ["Yes, gladly", "No"] * (ROWS // 3)


@pytest.mark.parametrize(("name", "write"), [("rows.por", "write_por"), ("rows.xpt", "write_xport")])
def test_files_without_names_have_their_codes_as_classes(name, write, tmp_path):
    getattr(pyreadstat, write)(FRAME, tmp_path / name)
    named = UPPER if name == "rows.por" else USUAL
    assert labels_of(tmp_path / name, tmp_path, **named) == ["-9", "1", "2"] * (ROWS // 3)


def test_numbers_that_are_predicted_stay_numbers(tmp_path):
    labels = {"again": {1: "strongly disagree", 2: "strongly agree"}}
    pyreadstat.write_sav(FRAME, tmp_path / "rows.sav", variable_value_labels=labels)
    dataset = FilesDataset(path=str(tmp_path / "rows.sav"), validation_fraction=0.0, **USUAL)
    rows = dataset.load(tmp_path / "cache", target="number").by_name["train"]
    assert [row.label for row in rows][:3] == CODES


def test_new_texts_keep_numbers_names_and_dates(tmp_path):
    dated = FRAME.assign(day=pd.to_datetime("2026-03-01").date())
    pyreadstat.write_sav(dated, tmp_path / "new.sav", variable_value_labels={"again": NAMES})
    split = read_unlabelled(tmp_path / "new.sav", text="answer", text_pair=None, words=False)
    first = split.carried[0]
    assert first["age"] == 20 and first["again"] == "No reply" and str(first["day"]) == "2026-03-01"


def test_rows_beyond_the_first_part_are_read(tmp_path):
    many = pd.DataFrame({"text": [f"case {row}" for row in range(20_001)]})
    pyreadstat.write_xport(many, tmp_path / "new.xpt")
    split = read_unlabelled(tmp_path / "new.xpt", text="text", text_pair=None, words=False)
    assert len(split) == len(many) and list(split)[-1].text == "case 20000"


@pytest.mark.parametrize("name", ["rows.sav", "rows.dta"])
def test_data_shows_the_names_and_who_reads_the_file(name, tmp_path, capsys):
    write = pyreadstat.write_sav if name == "rows.sav" else pyreadstat.write_dta
    write(FRAME, tmp_path / name, variable_value_labels={"again": NAMES})
    columns = ("dataset.text=answer", "dataset.label=again")
    cli.run(["data", "task=classification", "dataset=files", f"dataset.path={tmp_path / name}", *columns])
    shown = capsys.readouterr().out
    assert all(label in shown for label in NAMES.values()) and "pyreadstat" in shown


def test_without_the_extra_one_line_says_how_to_install_it(tmp_path, monkeypatch):
    pyreadstat.write_sav(FRAME, tmp_path / "rows.sav")
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    with pytest.raises(DataError, match=r"pip install 'encoderlab\[statistics\]'"):
        cli.run(["data", "task=classification", "dataset=files", f"dataset.path={tmp_path / 'rows.sav'}"])


def test_a_file_with_another_ending_is_refused(tmp_path):
    (tmp_path / "rows.csv").write_text("text,label\na,b\n")
    with pytest.raises(DataError, match=r"SPSS.*\.sav"):
        FilesDataset(path=str(tmp_path / "rows.csv"), format=Format.statistics).load(tmp_path / "cache")
