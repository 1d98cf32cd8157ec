"""The files of a comparison: one line for each run, a page, and plots, rewritten each time."""

import csv
import json

import pytest

from encoderlab.errors import DataError
from encoderlab.reports.comparison import files
from encoderlab.reports.comparison.files import write_comparison


@pytest.fixture(autouse=True)
def no_pictures(monkeypatch):
    monkeypatch.setattr(files, "pictures_of", lambda comparison, journals: {})


def test_every_kind_of_file_is_written_and_replaces_an_earlier_one(tmp_path, comparison):
    folder = tmp_path / "deep" / "compared"
    for rows in (1200, 7):
        paths = write_comparison(folder, comparison | {"rows": rows}, [])
    assert set(paths) == {"html", "md", "csv", "json", "plots"}
    assert {path.name for path in folder.iterdir()} == {
        "compare.html",
        "compare.md",
        "compare.csv",
        "compare.json",
        "plots",
    }
    assert json.loads((folder / "compare.json").read_text(encoding="utf-8"))["rows"] == 7
    assert "(7 rows)" in (folder / "compare.html").read_text(encoding="utf-8")


def test_the_table_has_a_line_for_each_run_with_its_own_score(tmp_path, comparison):
    write_comparison(tmp_path, comparison, [])
    with (tmp_path / "compare.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["folder"], row["seed"], row["accuracy"]) for row in rows] == [
        ("outputs/a", "0", "0.81"),
        ("outputs/b", "1", "0.83"),
        ("outputs/c", "0", "0.75"),
    ]
    assert [row["model.name"] for row in rows] == ["tiny", "tiny", "mini|small"]
    assert (rows[0]["difference"], rows[2]["difference_low"], rows[2]["p_corrected"]) == ("", "-0.1", "0.0004")
    assert all(None not in row for row in rows), "no cell without a heading"


def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path, comparison):
    (tmp_path / "file").write_text("")
    with pytest.raises(
        DataError, match=r"file.* cannot be written to: .*Set output=\.\.\. to a folder you can write to"
    ):
        write_comparison(tmp_path / "file" / "compared", comparison, [])
