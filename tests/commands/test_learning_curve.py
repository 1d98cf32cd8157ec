"""sweep=learning_curve: runs on nested shares of the training rows, and what they predict about more labels."""

import json

import pytest

from tests.commands.test_folds import QUICK, files, write_rows


@pytest.mark.slow
def test_the_sweeps_comparison_has_a_curve_a_table_and_a_plot(command, tmp_path, capsys):
    write_rows(tmp_path / "rows.csv", 120)
    line = ("train", "-m", "sweep=learning_curve", "dataset.train_share=0.25,0.5,1", "task=classification", *QUICK)
    command(*line, *files("verdict", "dataset.test_fraction=0.2"), "sweep_dir=curve")
    curve = json.loads((tmp_path / "curve" / "compare.json").read_text(encoding="utf-8"))["learning_curve"]
    assert [point["rows"] for point in curve["points"]] == [21, 42, 84] and curve["baseline"]["name"].startswith(
        "TF-IDF"
    )
    assert curve["verdict"].startswith("More labels") and curve["verdict"] in capsys.readouterr().err
    assert "Learning curve" in (tmp_path / "curve" / "compare.html").read_text(encoding="utf-8")
    assert "### Learning curve" in (tmp_path / "curve" / "compare.md").read_text(encoding="utf-8")
    assert (tmp_path / "curve" / "plots" / "learning_curve.png").stat().st_size > 10_000
