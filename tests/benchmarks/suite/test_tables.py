"""The suite's tables and chart, from results that are made up."""

import pytest

from benchmarks.suite import pages
from benchmarks.suite.chart import draw
from benchmarks.suite.sets import ENGLISH, SETS
from benchmarks.suite.tables import commands, origins, set_table, standing, summary
from benchmarks.suite.targets import targets_table

MADE = {
    "date": "2026-01-02",
    "machine": {"processor": "a processor", "cores": 2, "system": "Linux"},
    "versions": {"python": "3.11"},
    "git": {"commit": "abc", "dirty": False},
}


def kind_of_runs(ahead, *, date="2026-01-02", error=None):
    run = {"seed": 0, "score": 0.8, "made": {**MADE, "date": date}}
    interval = [ahead - 0.01, ahead + 0.01]
    of_scores = {
        "score": 0.8 + ahead,
        "interval": [0.7, 0.9],
        "f1_macro": 0.75,
        "ahead": {"value": ahead, "interval": interval},
    }
    costs = {"train_seconds": 90.0, "wall_seconds": None, "megabytes": 20.0, "parameters": 9.8e6, "peak_memory": 2**30}
    failed = [{"seed": 1, "error": error}] if error else []
    return {"command": ["train", "dataset.train={suite}/x.csv"], "failed": failed, "runs": [run]} | of_scores | costs


def result_of(name, figure="accuracy", **kinds):
    tfidf = {"score": 0.8, "interval": [0.78, 0.82], "f1_macro": 0.7, "seconds": 3.0}
    facts = {
        "figure": figure,
        "split": "test",
        "rows": {"train": 1234, "scored": 500},
        "n_labels": 2,
        "best_baseline": "tfidf_logreg",
    }
    return {"name": name, **facts, "baselines": {"majority": tfidf, "tfidf_logreg": tfidf}, "kinds": kinds}


def row_of(table, title):
    return next(
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith(f"| {title}")
    )


@pytest.mark.parametrize(("ahead", "expected"), [(0.02, "above"), (0.005, "not distinguishable"), (-0.02, "below")])
def test_only_an_interval_wholly_above_zero_counts(ahead, expected):
    assert standing(kind_of_runs(ahead)) == expected


def test_the_summary_counts_only_the_english_sets_of_the_suite():
    names = [name for name, one in SETS.items() if one.group == ENGLISH]
    assert len(names) == 8
    results = {name: result_of(name, box=kind_of_runs(0.02 if place < 5 else 0.0)) for place, name in enumerate(names)}
    results["gnad_sample"] = result_of("gnad_sample", box=kind_of_runs(-0.3))
    found = summary(results)
    assert "On all 8 English classification sets" in found
    assert row_of(found, "from mini-en")[1:5] == ["5 of 8", "3", "0", "+1.2"]
    assert "0.500 ▼" in found and "**0.820** ▲" in found
    assert row_of(found, "[gnad_sample]")[5] == "–"  # never run from scratch


def test_a_dataset_without_a_linear_model_is_still_shown():
    result = result_of("docs", box=kind_of_runs(0.1)) | {"best_baseline": None}
    result["baselines"]["tfidf_logreg"] = {"skipped": "too many rows"}
    del result["kinds"]["box"]["ahead"]
    assert "skipped: too many rows" in set_table(result)
    assert row_of(summary({"docs": result}), "[docs]")[4] == "–"


def test_a_dataset_shows_scores_costs_and_failures():
    found = set_table(result_of("sms_spam", scratch=kind_of_runs(0.02, error="out of memory | twice")))
    row = row_of(found, "from scratch")
    assert row[1] == "0.820 (0.700 to 0.900)" and row[4] == "**+0.020 (+0.010 to +0.030)** ▲"
    assert row[5:] == ["1.5", "", "20.0", "9.8 M", "1,024 MiB"]
    assert "| from scratch, seed 1 | failed: out of memory \\| twice |" in found


def numbers():
    """The result of a regression dataset."""
    scores = {"score": 0.4, "interval": [0.3, 0.5], "spearman": 0.3, "seconds": 3.0}
    result = result_of("sick_relatedness", "pearson", box=kind_of_runs(0.02) | {"spearman": 0.75})
    return result | {
        "n_labels": 0,
        "baselines": {"mean": scores | {"score": 0.0}, "tfidf_ridge": scores},
        "best_baseline": "tfidf_ridge",
    }


def test_a_regression_shows_its_correlation_and_is_compared_with_the_training_mean():
    assert row_of(summary({"sick_relatedness": numbers()}), "[sick_relatedness]")[2:5] == ["Pearson", "0.000", "0.400"]
    found = set_table(numbers())
    assert "1,234 training rows, scored on 500 rows of test." in found
    assert row_of(found, " |")[1:4] == ["Pearson (95% interval)", "seeds (lowest to highest)", "Spearman"]
    assert row_of(found, "TF-IDF + ridge regression")[1] == "0.400 (0.300 to 0.500)"
    assert row_of(found, "from mini-en")[3] == "0.750"


def test_targets_are_met_missed_or_not_measured():
    found = targets_table(
        {"sick_relatedness": numbers(), "wnut17": result_of("wnut17", "entity_f1", box=kind_of_runs(0.05))}
    )
    assert row_of(found, "sick_relatedness")[1:] == ["Pearson", "at least 0.80", "0.820", "met"]
    assert row_of(found, "wnut17")[1:] == ["entity F1", "+0.10 over the linear model", "+0.050", "missed"]
    assert row_of(found, "goemotions")[1:] == ["", "at least 0.40", "", "not measured"]


def test_reading_in_windows_is_compared_with_truncation():
    cut, whole = result_of("bbc_news", box=kind_of_runs(0.17)), result_of("bbc_news_windows", box=kind_of_runs(0.16))
    found = targets_table({"bbc_news": cut, "bbc_news_windows": whole})
    assert row_of(found, "bbc_news_windows")[2:] == ["at least bbc_news (0.970)", "0.960", "missed"]


def test_machines_are_named_once_with_their_dates():
    results = {
        name: result_of(name, box=kind_of_runs(0.1, date=date))
        for name, date in (("docs", "2026-01-02"), ("sst2", "2026-01-04"))
    }
    assert origins(results) == "* 2026-01-02 to 2026-01-04, a processor, 2 cores, commit abc; python 3.11: sst2, docs."


def test_commands_name_the_default_folders():
    assert "encoderlab train dataset.train=../shared/suite/x.csv" in commands(
        {"docs": result_of("docs", box=kind_of_runs(0.1))}
    )


def test_the_shipped_page_has_a_place_for_every_table():
    results = {"docs": result_of("docs", box=kind_of_runs(0.1))}
    text = pages.SHIPPED.read_text(encoding="utf-8")
    for name, table in pages.tables(results).items():
        assert table in pages.with_tables(text, {name: table}, pages.NAME)


def test_a_chart_is_drawn_from_whatever_figures_exist(tmp_path):
    failed = {"command": ["train"], "failed": [{"seed": 0, "error": "no"}], "runs": []}
    results = {"docs": result_of("docs", box=kind_of_runs(0.1), scratch=failed), "wnut17": result_of("wnut17")}
    draw(results, tmp_path / "suite.png")
    assert (tmp_path / "suite.png").stat().st_size > 10_000
