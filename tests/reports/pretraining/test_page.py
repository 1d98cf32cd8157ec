"""The page of a pretraining run: every figure of every split, and the model above its baselines on the same rows."""

import pytest

from encoderlab.reports.pretraining.page import BASELINE_NAMES, _comparison, _figures, _filled, write_pretraining_page
from tests.reports.pretraining.test_report import report_of, scores

SINGLE = {"splits": {"validation": scores(pairs_right=None)}, "second_sentence": "none"}


def test_every_split_has_a_column_with_counts_and_figures():
    rows = _figures(report_of(splits={"validation": scores(), "test": scores(tokens_right=5, n=100)}))
    assert rows[""] == ["validation", "test"] and rows["rows"] == ["200", "100"]
    assert rows["masked tokens"] == ["2,000", "1,000"] and rows["MLM perplexity"] == ["20.1"] * 2
    assert {len(cells) for cells in rows.values()} == {2}
    assert [cell.split(" ")[0] for cell in rows["MLM accuracy"]] == ["0.300", "0.500"]


@pytest.mark.parametrize(("second", "name"), [("next", "NSP accuracy"), ("swapped", "sentence order accuracy")])
def test_figures_of_pairs_are_named_after_their_objective(second, name):
    assert name in _figures(report_of(second_sentence=second))


def test_each_baseline_is_shown_below_the_model_with_its_figures():
    report = report_of()
    heading, model, *baselines = _comparison(report, report["splits"]["validation"])
    assert len(model) == len(heading) and model[0] == "this model"
    found = {line[0]: line[1:] for line in baselines}
    assert found[BASELINE_NAMES["unigram"]] == ["", "992.3", ""] and found[BASELINE_NAMES["majority"]] == [
        "",
        "",
        "0.500",
    ]


def test_without_pairs_there_is_no_column_for_them():
    report = report_of(**SINGLE, baselines={})
    heading, _ = _comparison(report, report["splits"]["validation"])
    assert heading == ["on the same rows", "MLM accuracy", "MLM perplexity"]


def test_a_predicted_token_cannot_break_the_page():
    found = _filled({"text": "a [MASK]\n b", "answer": "x" * 99, "guesses": [{"token": "\u202e", "probability": 0.5}]})
    assert "\n" not in found["text"] and len(found["answer"]) < 60 and found["guesses"][0]["token"] != "\u202e"


def test_a_run_without_steps_has_a_page_without_curves(tmp_path, records):
    folder = records(
        tmp_path,
        "pretrain",
        dataset={"origin": {"source": "test"}, "splits": {"train": {"documents": 4, "fingerprint": "ff"}}},
    )
    write_pretraining_page(folder, report_of(**SINGLE), None, None)
    page = folder.page.read_text(encoding="utf-8")
    assert "MLM accuracy" in page and "NSP" not in page
