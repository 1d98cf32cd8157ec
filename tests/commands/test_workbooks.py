"""A run on one sheet of a workbook: predict, embed and eval read that sheet of another, and copy its dates as dates."""

from datetime import date, datetime

import numpy as np
import openpyxl
import pandas as pd
import pytest

from encoderlab.errors import DataError
from tests.run_files import report_of

pytestmark = pytest.mark.slow

SIZE = ("model=tiny", "model.n_layers=1", "model.d_model=32", "model.n_heads=2", "tokenizer.vocabulary_size=100")
ROWS = 60
ANSWERS = {
    "given": [date(2024, 5, 1)] * ROWS,
    "at": [datetime(2024, 5, 1, 9, 30)] * ROWS,
    "review": [f"<b>{'good' if row % 2 else 'dull'}</b> film &amp; story {row}" for row in range(ROWS)],
    "price": [row / 2 for row in range(ROWS)],
    "verdict": ["yes" if row % 2 else "no" for row in range(ROWS)],
}
NOTES = {"review": ["a remark on the answers", "another one"]}


def workbook(path, **sheets):
    with pd.ExcelWriter(path) as writer:
        for name, columns in sheets.items():
            pd.DataFrame(columns).to_excel(writer, sheet_name=name, index=False)


@pytest.fixture(scope="module")
def answers_run(tmp_path_factory, cache, run_in):
    folder = tmp_path_factory.mktemp("workbook")
    workbook(folder / "book.xlsx", Notes=NOTES, Answers=ANSWERS)
    where = ("dataset=files", f"dataset.path={folder / 'book.xlsx'}", "dataset.strip_html=true")
    settings = ("training=smoke", "baselines=false", f"run_dir={folder / 'run'}")
    run_in(cache, "train", "task=classification", *where, *SIZE, *settings)
    return folder / "run"


def test_another_workbook_is_read_as_in_training(command, answers_run, tmp_path):
    workbook(tmp_path / "new.xlsx", Notes=NOTES, Answers={name: cells[:7] for name, cells in ANSWERS.items()})
    command("predict", f"run={answers_run}", "input=new.xlsx", "output=out.xlsx")
    header, first, *others = openpyxl.load_workbook(tmp_path / "out.xlsx").active.values
    row = dict(zip(header, first, strict=True))
    assert len(others) == 6 and row["review"] == ANSWERS["review"][0] and row["price"] == 0
    assert row["given"] == datetime(2024, 5, 1) and row["at"] == ANSWERS["at"][0]
    command("embed", f"run={answers_run}", "input=new.xlsx", "output=vectors.npy")
    assert np.load(tmp_path / "vectors.npy").shape == (7, 32)
    named = ("dataset=files", "dataset.path=new.xlsx", "dataset.text=review", "dataset.label=verdict")
    command("eval", f"run={answers_run}", *named, "run_dir=scored")
    assert report_of(tmp_path / "scored")["splits"]["all"]["n"] == 7


def test_csv_has_dates_without_a_time(command, answers_run, tmp_path):
    workbook(tmp_path / "new.xlsx", Answers=ANSWERS)
    command("predict", f"run={answers_run}", "input=new.xlsx", "output=out.csv")
    row = pd.read_csv(tmp_path / "out.csv").iloc[0]
    assert (row["given"], row["at"]) == ("2024-05-01", "2024-05-01T09:30:00")


def test_a_workbook_without_the_sheet_is_refused_with_its_sheets(command, answers_run, tmp_path):
    workbook(tmp_path / "new.xlsx", Notes=NOTES, Antworten=ANSWERS)
    for words in (("predict",), ("embed", "output=vectors.npy")):
        with pytest.raises(DataError, match=r"no sheet 'Answers'. Allowed: 'Notes', 'Antworten'"):
            command(words[0], f"run={answers_run}", "input=new.xlsx", *words[1:])
    command("predict", f"run={answers_run}", "input=new.xlsx", "sheet=Antworten", "output=out.csv")
    assert len(pd.read_csv(tmp_path / "out.csv")) == ROWS


def test_html_is_removed_from_new_texts_as_in_training(command, answers_run, printed):
    marked = printed("predict", f"run={answers_run}", "text=<p>good<br>film &amp; story</p>", "format=jsonl")
    plain = printed("predict", f"run={answers_run}", "text=good film & story", "format=jsonl")
    assert marked["probability"] == plain["probability"] and marked["text"].startswith("<p>")
