"""The reports of encoders that learned from documents: verdict, page and screen."""

import io
import json
from types import SimpleNamespace

import pytest

from encoderlab.reports.training import pretraining_verdict, run_report, show_report, write_encoder_report
from tests.reports.conftest import Page

SCORES = {
    "n": 50, "target_tokens": 400, "mlm_accuracy": 0.3, "mlm_accuracy_ci95": [0.25, 0.35], "mlm_loss": 4.0, "mlm_perplexity": 54.6,
    "nsp_accuracy": 0.6, "nsp_accuracy_ci95": [0.5, 0.7], "nsp_loss": 0.6,
}  # fmt: skip
COUNTS = {
    "documents": 10, "paragraphs": 20, "sentences": 100, "tokens": 1000, "sentence_splitter": "rules", "pairs": 50,
    "mean_length": 20.5, "truncated": 0.1, "labels": {"next": 25, "random": 25},
}  # fmt: skip


def split_of(scores, main_score):
    split = SimpleNamespace(
        main_score=main_score, values=scores, n=scores["n"], as_dict=lambda: dict(scores), undefined=dict
    )
    split.with_intervals = lambda seed=0: split
    return split


@pytest.fixture
def report(run):
    """A pretraining report, above its baseline on tokens and level with it on pairs."""
    baselines = {"unigram": {"mlm_accuracy": 0.1}, "majority": {"nsp_accuracy": 0.55}}
    split = split_of(SCORES, "mlm_accuracy")
    report = run_report(run, {"test": split}, baselines=baselines, pairs=COUNTS, second_sentence="next")
    return report | {"verdict": pretraining_verdict(report)}


def test_each_objective_has_its_verdict(report):
    assert (report["verdict"]["masked_tokens"]["against"], report["verdict"]["masked_tokens"]["outcome"]) == (
        "unigram",
        "above",
    )
    assert report["verdict"]["pairs"]["outcome"] == "not distinguishable"
    assert {"mlm_loss", "mlm_accuracy", "mlm_perplexity", "nsp_accuracy", "nsp_loss"} <= set(report["splits"]["test"])


def test_page_and_screen_show_the_scores_the_baselines(tmp_path, report, facts):
    lines = [
        {"kind": "step", "step": n, "loss": 5.0, "loss_token": 4.0, "loss_sequence": 1.0, "learning_rate": 0.1}
        for n in (1, 2)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_encoder_report(tmp_path, report, facts)
    page, screen = Page(tmp_path / "report.html"), io.StringIO()
    show_report(report, {"page": "report.html"}, [], screen)
    for text in (page.text, screen.getvalue()):
        assert "0.300" in text and "54.6" in text and "each token as often as in training" in text
    assert (tmp_path / "plots" / "curves.png").stat().st_size > 5000
    assert json.loads((tmp_path / "report.json").read_text()) == report


def test_a_student_of_vectors_has_the_same_report(tmp_path, run, facts):
    scores = {"n": 9, "sequence_cosine": 0.8, "sequence_cosine_ci95": [0.7, 0.9], "token_cosine": 0.6, "loss": 0.2}
    counts = {name: value for name, value in COUNTS.items() if name != "labels"}
    report = run_report(run, {"test": split_of(scores, "sequence_cosine")}, teacher="org/MiniLM", pairs=counts)
    write_encoder_report(tmp_path, report, facts)
    screen = io.StringIO()
    show_report(report, {}, [], screen)
    for text in (Page(tmp_path / "report.html").text, screen.getvalue()):
        assert "org/MiniLM" in text and "0.800" in text
