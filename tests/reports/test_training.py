"""The report of a run on labels: keys of report.json, the verdict, and what page, screen and files show."""

import csv
import io
import json
import re
import sys
import warnings
from dataclasses import replace
from types import ModuleType

import matplotlib.image
import numpy as np
import pytest
from datasets import Dataset

from encoderlab.baselines.supervised import Baseline
from encoderlab.metrics import scores_of_predictions
from encoderlab.metrics.calibration import calibration
from encoderlab.reports import plots
from encoderlab.reports.blocks import Table, Text, show
from encoderlab.reports.classes import single_class_warning
from encoderlab.reports.comparisons import verdict_on
from encoderlab.reports.explanation import Importance, WordImportance, marked
from encoderlab.reports.training import build_report, headline, show_report, write_report
from tests.reports.conftest import ATTACK, Example, Page, Rows, Words

LABELS = np.arange(200) % 2
NAMES = ["no", f"yes {ATTACK}"]


@pytest.fixture
def scores(scores_of):
    """Scores of 200 rows, 150 of them right."""
    return scores_of(LABELS, np.where(np.arange(200) < 150, LABELS, 1 - LABELS), names=NAMES)


@pytest.fixture
def report(run, scores):
    """The report of those rows next to two baselines."""
    majority = Baseline({"accuracy": 0.5, "f1_macro": 1 / 3, "seconds": 0.1}, np.zeros(200, int))
    return build_report(
        run, {"test": scores}, {"majority": majority, "tfidf_logreg": Baseline(skipped="too many rows")}
    )


def explain(examples, **about):
    """Explain every example by its first four characters."""
    first = WordImportance(0, 0, 4, 1.0)
    return [Importance("yes", {}, "yes", ("",), [first], False) for _ in examples]


def metrics(folder):
    lines = [{"kind": "step", "step": step, "loss": 1 / step, "learning_rate": 0.1} for step in range(1, 1200)]
    lines += [{"kind": "evaluation", "step": 900, "split": "validation", "loss": 0.4, "accuracy": 0.7}]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_report_json_has_the_promised_keys(report):
    assert {"command", "task", "seed", "model", "splits", "baselines", "throughput", "checkpoint"} <= set(report)
    assert report["model"] == {"parameters": 1_234_567, "parameters_by_part": {"encoder": 1_234_000, "head": 567}}
    test = report["splits"]["test"]
    assert {"n", "loss", "accuracy", "f1_macro", "per_class", "confusion", "accuracy_ci95", "f1_macro_ci95"} <= set(
        test
    )
    assert report["baselines"]["majority"]["accuracy"] == 0.5
    assert report["baselines"]["majority"]["model_leads_by"] == pytest.approx(test["accuracy"] - 0.5)
    assert report["verdict"]["outcome"] == "above"
    assert any("TF-IDF + logistic regression was skipped: too many rows" in note for note in report["notes"])
    assert json.loads(json.dumps(report, allow_nan=False)) == report


def test_numbers_that_are_not_finite_become_null(run, scores):
    scores.values["loss"] = float("nan")
    assert build_report(run, {"test": scores}, {})["splits"]["test"]["loss"] is None


@pytest.mark.parametrize(
    ("bounds", "outcome"), [((0.1, 0.3), "above"), ((-0.3, -0.1), "below"), ((-0.1, 0.3), "not distinguishable")]
)
def test_the_verdict_is_about_the_best_baseline_and_its_whole_interval(bounds, outcome):
    best = {"model_leads_by": sum(bounds) / 2, "model_leads_by_ci95": bounds}
    weak = {"model_leads_by": 0.9, "model_leads_by_ci95": [0.8, 1.0]}
    verdict = verdict_on({"weak": weak, "best": best, "none": {"skipped": "why"}}, "The model's accuracy")
    assert (verdict["against"], verdict["outcome"]) == ("best", outcome)


def test_calibration_is_shown_before_and_after_the_temperature(run, scores_of):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 400)
    scores = scores_of(labels, np.where(rng.random(400) < 0.7, labels, 1 - labels), np.full(400, 0.7))
    split = build_report(run, {"test": replace(scores, temperature=2.0)}, {})["splits"]["test"]["calibration"]
    assert split["temperature"] == 2.0 and split["ece"] < 0.05 < split["ece_uncalibrated"]
    assert "temperature" not in build_report(run, {"test": scores}, {})["splits"]["test"]["calibration"]


def test_the_screen_shows_the_numbers_of_report_json(report):
    screen = io.StringIO()
    show_report(report, {"page": "a [b]/report.html"}, ["encoderlab eval run='a [b]'"], screen)
    printed = screen.getvalue()
    test = report["splits"]["test"]
    low, high = test["accuracy_ci95"]
    assert f"accuracy {test['accuracy']:.3f} (95% interval {low:.3f} to {high:.3f}) on test (200 rows)" in printed
    assert report["verdict"]["sentence"] in printed and "Note: a note" in printed
    assert "  page: a [b]/report.html\n" in printed and "  encoderlab eval run='a [b]'\n" in printed
    assert "\x1b" not in printed


def test_rare_labels_come_first_and_a_model_of_one_class_is_called_so(run, tmp_path, facts, scores_of):
    labels = np.arange(100) < 5
    scores = scores_of(labels.astype(int), np.zeros(100, int))
    report, screen = build_report(run | {"data": "mails.csv"}, {"test": scores}, {}), io.StringIO()
    show_report(report, {}, [], screen)
    write_report(tmp_path, report, facts, Rows([Example("a")] * 100), scores)
    for text in (screen.getvalue(), Page(tmp_path / "report.html").text):
        assert "mails.csv, sst2" in text and "F1 of yes 0.000" in text and "expected calibration error" in text
        assert "Warning: The model predicts no for every row" in text and "task.class_weights=balanced" in text
    assert headline(report | {"main_score": "f1"}).count("F1 of yes") == 1
    for text in (screen.getvalue(), Page(tmp_path / "report.html").text, str(report["notes"])):
        assert text.count("there are no validation rows") == 1
    balanced = build_report(run, {"test": scores_of([0, 1], [0, 1])}, {})
    assert "F1 of" not in headline(balanced) and single_class_warning(balanced) == []


def test_labels_in_any_script_are_drawn_without_a_warning(run, tmp_path, facts, scores_of):
    scores = scores_of([0, 1] * 9, [0, 1, 1] * 6, names=["负面", "よい 😀"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_report(tmp_path, build_report(run, {"test": scores}, {}), facts, Rows([Example("a")] * 18), scores)
    assert "负面" in Page(tmp_path / "report.html").text


def test_a_pipe_is_not_wrapped():
    file = io.StringIO()
    show([Table(["a column"] * 30, [["a long cell of a table"] * 30]), Text("word " * 99)], file)
    assert max(map(len, file.getvalue().splitlines())) > 600 and len(file.getvalue().splitlines()) < 8


def test_a_pipe_has_no_colours_even_where_a_notebook_asks_for_them(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as Jupyter sets it for all that it starts
    file = io.StringIO()
    show([Text("words", "Title", tone="bad"), Table(("one",), [["two"]])], file)
    assert "words" in file.getvalue() and "\x1b" not in file.getvalue()


def test_a_notebook_shows_a_report_as_one_piece_of_html(monkeypatch, report):
    shown = []
    display = ModuleType("IPython.display")
    monkeypatch.setattr(display, "HTML", str, raising=False)
    monkeypatch.setattr(display, "display", shown.append, raising=False)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    out_stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setattr(sys, "stderr", out_stream)
    show_report(report, {"page": "run/report.html"}, ["encoderlab predict run=run"])
    (html,) = shown
    assert html.count("<table") >= 2 and report["verdict"]["sentence"] in html.replace("&#39;", "'")
    assert "<script" not in html and "\x1b" not in html and "encoderlab predict run=run" in html
    assert out_stream.getvalue() == ""


def test_the_files_of_a_run_are_whole_and_escaped(tmp_path, report, scores, facts):
    metrics(tmp_path)
    examples = Rows(Example(f"word {row} {ATTACK}", ATTACK) for row in range(200))
    examples.carried = Dataset.from_dict({"id": range(200), "label": [None] * 200})
    write_report(tmp_path, report, facts, examples, scores, explain)
    assert json.loads((tmp_path / "report.json").read_text()) == report
    page = Page(tmp_path / "report.html")
    assert "script" not in page.tags and page.loaded == [] and "\x1b" not in page.text
    assert page.text.count("<script>alert('x')</script>") > 20
    assert f"{report['splits']['test']['accuracy']:.3f}" in page.text and report["verdict"]["sentence"] in page.text
    assert "encoderlab train task=sst2 seed=3 'dataset.path=my rows.csv'" in page.text
    assert page.tags.count("svg") == 3  # curves, precision and recall, calibration
    with (tmp_path / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:4] == ["text", "text_pair", "label", "predicted"] and list(rows[0])[-2:] == [
        "id",
        "input_label",
    ]
    assert np.mean([row["label"] == row["predicted"] for row in rows]) == report["splits"]["test"]["accuracy"]
    for plot in ("curves", "confusion", "calibration"):
        assert np.ptp(matplotlib.image.imread(tmp_path / "plots" / f"{plot}.png")[..., :3]) > 0.5, plot


def test_the_page_shows_the_most_confident_mistakes_with_their_words_marked(tmp_path, run, scores_of, facts):
    confidences = np.linspace(0.6, 0.99, 40)
    scores = scores_of(np.zeros(40, int), np.arange(40) % 2, confidences)
    write_report(
        tmp_path,
        build_report(run, {"test": scores}, {}),
        facts,
        Rows(Example(f"w{n + 100} text") for n in range(40)),
        scores,
        explain,
    )
    marked = re.findall(r'style="--share:1.0">w(\d+)</span>', (tmp_path / "report.html").read_text())
    assert [int(row) for row in marked] == list(range(139, 109, -2))


def test_words_that_hardly_matter_are_marked_faintly():
    weak = Importance("yes", {}, "yes", ("word",), [WordImportance(0, 0, 4, 0.07)], False)
    weights = [marked(weak.texts, one.words, one.full)[0][0]["weight"] for one in (weak, replace(weak, label=None))]
    assert weights == [0.1, 1.0], "log-odds are marked on their own scale, numbers by the strongest word"


@pytest.mark.parametrize("kind", ["words", "sets", "numbers"])
def test_other_kinds_of_targets_have_a_page_a_screen_and_predictions(tmp_path, run, facts, kind):
    rng = np.random.default_rng(0)
    if kind == "words":
        labels = [rng.integers(0, 3, 4) for _ in range(20)]
        names = ["O", "B-PER", "I-PER"]
        scores = scores_of_predictions(labels, [rng.integers(0, 3, 4) for _ in labels], names, "token_accuracy")
        object.__setattr__(scores, "confidences", [np.full(4, 0.7) for _ in labels])
        examples = [Words("a", ATTACK, "c", "d") for _ in labels]
    elif kind == "sets":
        labels = rng.random((30, 3)) < 0.4
        chances = rng.random((30, 3))
        scores = scores_of_predictions(labels, chances > 0.5, ["a", "b", ATTACK], "f1_micro")
        object.__setattr__(scores, "probabilities", chances)
        examples = [Example(f"row {n}") for n in range(30)]
    else:
        labels, predicted = rng.normal(size=30), rng.normal(size=30)
        scores = scores_of_predictions(labels, predicted, [], "mae")
        examples = [Example(f"row {n}") for n in range(30)]
    report = build_report(run, {"test": scores}, {})
    write_report(tmp_path, report, facts, Rows(examples), scores)
    page = Page(tmp_path / "report.html")
    assert f"{report['splits']['test'][scores.main_score]:.3f}" in page.text and "script" not in page.tags
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == len(examples) + 1
    show_report(report, {}, [], io.StringIO())


def test_many_classes_show_the_worst_on_a_page_of_moderate_size(tmp_path, run, scores_of, facts):
    names = [f"class {n}" for n in range(100)]
    labels = np.repeat(np.arange(100), 3)
    predicted = np.where(labels == 7, 8, labels)
    report = build_report(run, {"test": scores_of(labels, predicted, names=names)}, {})
    scores = scores_of(labels, predicted, names=names)
    write_report(tmp_path, report, facts, Rows([Example("a")] * 300), scores)
    page = Page(tmp_path / "report.html")
    assert "class 7" in page.text and "class 99" not in page.text and "confusion.png" in page.text
    assert re.search(r"class 7\s*class 8\s*3\s*100\.0%", page.text), (
        "the classes that are confused, in place of a matrix"
    )
    assert (tmp_path / "report.html").stat().st_size < 300_000


def test_a_confusion_matrix_has_no_zeros_and_whole_words(tmp_path, run, scores_of, facts):
    names = ["Refund request", "Technical issue with the mobile application", *(f"class {n}" for n in range(10))]
    labels = np.repeat(np.arange(12), 3)
    scores = scores_of(labels, np.where(np.arange(36) == 0, 1, labels), names=names)
    write_report(tmp_path, build_report(run, {"test": scores}, {}), facts, Rows([Example("a")] * 36), scores)
    matrix = re.search(r'<table class="matrix.*?</table>', (tmp_path / "report.html").read_text(), re.DOTALL)
    counts = re.findall(r"<td[^>]*>(\d*)", matrix[0])
    assert len(counts) == 144 and sorted(filter(None, counts)) == ["1", "2", *["3"] * 11]
    assert "Technical issue with the mobile…" in matrix[0] and "characters" not in matrix[0]


def test_notes_about_the_rows_stand_with_the_data(tmp_path, run, scores, facts):
    notes = {
        "notes": ["a note", "3.2% of the rows of train were truncated"],
        "data_notes": ["3.2% of the rows of train were truncated"],
    }
    report = build_report(run | notes, {"test": scores}, {})
    write_report(tmp_path, report, facts, Rows([Example("a")] * 200), scores)
    page = Page(tmp_path / "report.html").text
    assert page.index("a note") < page.rindex("Scores") < page.rindex("Data") < page.index("were truncated")
    printed = io.StringIO()
    show_report(report, {}, [], printed)
    assert "were truncated" in printed.getvalue()


def test_a_single_row_is_called_so_and_has_no_interval(run, scores_of):
    report = build_report(
        run, {"test": scores_of([1], [1])}, {"majority": Baseline({"accuracy": 0.0}, np.zeros(1, int))}
    )
    assert headline(report) == "accuracy 1.000 on test (1 row)"
    assert report["verdict"]["outcome"] == "not distinguishable" and "interval" not in report["verdict"]["sentence"]
    assert any("single row" in note for note in report["notes"])
    show_report(report, {}, [], io.StringIO())


def test_every_number_of_a_table_with_many_columns_says_on_a_phone_what_it_is(tmp_path, report, scores, facts):
    write_report(tmp_path, report, facts, Rows([Example("a")] * 200), scores)
    page = (tmp_path / "report.html").read_text()
    baselines = re.search(r"on the same rows.*?</table>", page, re.DOTALL)[0]
    assert {"accuracy", "model ahead by", "seconds"} <= set(re.findall(r'data-column="([^"]+)"', baselines))


def test_bins_of_few_predictions_have_no_accuracy():
    confidences = np.repeat([0.55, 0.75, 0.95], [9, 10, 40])
    measured = calibration(confidences, np.ones(59))
    known = [one["accuracy_ci95"] for one in measured["reliability"]]
    assert known[0] is None and known[1] == pytest.approx([10 / 13.84, 1], abs=1e-3) and known[2][0] > known[1][0]
    upper = plots.reliability_plot(measured).axes[0]
    shown = [line.get_xdata()[0] for line in upper.lines if line.get_marker() == "o"]
    assert shown == pytest.approx([0.75, 0.95])


@pytest.mark.parametrize("n", [12, 150])
def test_a_confusion_plot_names_every_class_and_counts_what_is_not_zero(n):
    counts = np.eye(n, dtype=int) * 7
    counts[0, 1] = 12
    axes = plots.confusion_plot(counts.tolist(), [f"class {place}" for place in range(n)]).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"class {place}" for place in range(n)]
    assert sorted(text.get_text() for text in axes.texts) == ["12", *["7"] * n]


@pytest.mark.parametrize("width", [82, 110, 200])
def test_no_interval_is_broken_on_a_narrow_terminal(width, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm")
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    columns = ("setting", "seeds", "mean", "std. dev.", "95% interval", "difference (95% interval)", "p", "seconds")
    label = "learning_rate=0.0003, n_layers=2"
    row = (label, "2", "0.500", "0.024", "0.288 to 0.712", "-0.017 (-0.087 to +0.054)", "0.624", "1.0")
    show([Table(columns, [row])], terminal)
    printed = terminal.getvalue()
    assert "0.288 to 0.712" in printed and "(-0.087 to +0.054)" in printed
    assert all(len(re.sub("\x1b[^m]*m", "", line)) <= width for line in printed.splitlines())


def test_the_first_lines_of_a_page_name_the_score_its_interval_its_rows_and_the_best_baseline(
    tmp_path, report, scores, facts
):
    write_report(tmp_path, report, facts, Rows([Example("a")] * 200), scores)
    lead = re.search(r'<div class="lead">.*?</div><ul>.*?</ul>', (tmp_path / "report.html").read_text(), re.DOTALL)[0]
    low, high = report["splits"]["test"]["accuracy_ci95"]
    for shown in ("0.750", "accuracy", f"{low:.3f} to {high:.3f}", "200 rows of test", "0.500", "most frequent label"):
        assert shown in lead


def test_what_was_chosen_stands_below_what_changes_a_decision(tmp_path, run, scores, facts):
    notes = {"notes": ["rows are doubled", "length 32"], "choices": ["length 32"]}
    report = build_report(run | notes, {"test": scores}, {})
    printed = io.StringIO()
    show_report(report, {}, [], printed)
    assert "Note: rows are doubled" in printed.getvalue() and "Note: length 32" not in printed.getvalue()
    write_report(tmp_path, report, facts, Rows([Example("a")] * 200), scores)
    page = Page(tmp_path / "report.html").text
    assert page.index("rows are doubled") < page.index("length 32")


def test_curves_and_seconds_of_a_model_that_is_not_kept_are_called_so(tmp_path, run, scores, facts):
    checkpoint = {"step": 0, "chosen_by": "accuracy", "chosen_on": "validation"}
    majority = Baseline({"accuracy": 0.5, "seconds": 0.1}, np.zeros(200, int))
    pages = {}
    for kept in (True, False):
        folder = tmp_path / str(kept)
        folder.mkdir()
        metrics(folder)
        throughput = run["throughput"] | {"head_alone_seconds": 4321.5}
        about = run | {"checkpoint": checkpoint | {"head_alone": {"kept": kept}}, "throughput": throughput}
        report = build_report(about, {"test": scores}, {"majority": majority})
        write_report(folder, report, facts, Rows([Example("a")] * 200), scores)
        pages[kept] = Page(folder / "report.html").text
    assert "4,321.5" in pages[True] and pages[True].count("finetuned model, which is not kept") == 2
    assert "4,321.5" not in pages[False] and "not kept" not in pages[False]


def test_a_temperature_that_makes_the_error_worse_is_explained_by_the_loss(tmp_path, run, scores_of, facts):
    labels = np.arange(400) % 2
    right = np.where(np.arange(400) < 280, labels, 1 - labels)
    worse = replace(scores_of(labels, right, np.full(400, 0.9)), temperature=0.4)  # 70% are right
    built = build_report(run, {"test": worse}, {})
    measured = built["splits"]["test"]["calibration"]
    assert measured["ece"] > measured["ece_uncalibrated"] and measured["loss_uncalibrated"] > 0
    write_report(tmp_path, built, facts, Rows([Example("a")] * 400), worse)
    assert f"{measured['loss_uncalibrated']:.3f}" in Page(tmp_path / "report.html").text
