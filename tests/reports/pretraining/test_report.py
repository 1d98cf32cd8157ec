"""A pretraining report: the contract's keys, and a verdict against trivial baselines."""

import html
import json
from dataclasses import replace

import numpy as np
import pytest
from huggingface_hub import ModelCard

from encoderlab.metrics import PretrainingScores
from encoderlab.reports.parts.run_report import RunSummary
from encoderlab.reports.pretraining.report import (
    best_baseline,
    build_pretraining_report,
    pretraining_card,
    write_pretraining_report,
)

GUESSERS = {
    "most_frequent_token": {"mlm_accuracy": 0.05, "token_id": 7},
    "unigram": {"mlm_loss": 6.9, "mlm_perplexity": 992.3},
    "majority": {"nsp_accuracy": 0.5},
    "word_overlap": {"nsp_accuracy": 0.65},
    "length": {"nsp_accuracy": 0.52},
}
FACTS = {
    "documents": 4, "paragraphs": 30, "sentences": 200, "tokens": 3000, "pairs": 90, "mean_length": 20.5, "truncated": 0.25,
    "labels": {"follows": 45, "random": 45}, "sentence_splitter": "punkt_tab",
}  # fmt: skip
CARD_FACTS = {
    "repeat": "encoderlab pretrain dataset=wikipedia", "changed": [("training.steps", "30", "null")], "machine": [("cores", "2")],
    "language": "simple", "data": {"splits": {"train": {"documents": 1234, "fingerprint": "ff"}}},
}  # fmt: skip
FILLED = [{"text": "a [MASK]", "answer": "cat", "guesses": [{"token": "cat", "probability": 0.5}]}]


def scores(tokens_right=3, pairs_right=160, *, n=200):
    """Score `n` rows of ten target tokens, `tokens_right` of them correct in every row; no pairs if None."""
    hits, targets = np.full(n, tokens_right), np.full(n, 10)
    figures = {
        "loss": 3.0,
        "mlm_loss": 3.0,
        "mlm_accuracy": tokens_right / 10,
        "mlm_perplexity": 20.09,
        "target_tokens": 10 * n,
    }
    right = None
    if pairs_right is not None:
        right = np.arange(n) < pairs_right
        figures |= {"loss": 3.4, "nsp_loss": 0.4, "nsp_accuracy": pairs_right / n}
    return PretrainingScores(n, figures, np.arange(n), targets, hits, np.zeros(10 * n, dtype=np.int64), right)


RUN = RunSummary(
    command="pretrain",
    task="wikipedia",
    seed=1,
    parameters={"total": 30, "encoder": 20, "head": 10},
    throughput={"tokens_per_second": 1.0, "examples_per_second": 2.0, "padding_fraction": 0.0, "train_seconds": 3.0},
    checkpoint={"step": 1700, "chosen_by": "last step", "chosen_on": None},
    notes=["a note"],
)


def report_of(*, splits=None, baselines=GUESSERS, pairs=FACTS, filled_masks=FILLED, second_sentence="next", **changes):
    own = {"pairs": pairs, "filled_masks": filled_masks, "second_sentence": second_sentence}
    return build_pretraining_report(replace(RUN, **changes), splits or {"validation": scores()}, baselines, **own)


def test_the_keys_are_those_of_the_contract():
    report = report_of()
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert (report["command"], report["task"], report["seed"]) == ("pretrain", "wikipedia", 1)
    assert report["model"] == {"parameters": 30, "parameters_by_part": {"encoder": 20, "head": 10}}
    keys = {"n", "loss", "mlm_loss", "mlm_accuracy", "mlm_perplexity", "nsp_accuracy", "nsp_loss"}
    assert keys | {"target_tokens", "mlm_accuracy_ci95", "nsp_accuracy_ci95"} == set(report["splits"]["validation"])
    assert report["baselines"] == GUESSERS
    assert (report["pairs"], report["filled_masks"]) == (FACTS, FILLED)
    assert (report["second_sentence"], report["init_from"], report["main_figure"]) == ("next", None, "mlm_accuracy")
    assert set(report["throughput"]) == {
        "tokens_per_second",
        "examples_per_second",
        "padding_fraction",
        "train_seconds",
    }
    assert report["checkpoint"] == {"step": 1700, "chosen_by": "last step", "chosen_on": None}
    assert report["notes"] == ["a note"]


def test_infinite_figures_and_numpy_numbers_become_json():
    infinite = scores()
    infinite.figures["mlm_perplexity"] = float("inf")
    report = report_of(splits={"test": infinite}, baselines={"unigram": {"mlm_loss": np.float64(3.5)}})
    assert report["splits"]["test"]["mlm_perplexity"] is None
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert "perplexity" not in pretraining_card(report, CARD_FACTS)


@pytest.mark.parametrize(
    ("right", "outcome", "words"),
    [
        (160, "above", "NSP accuracy of 0.800"),
        (
            135,
            "not distinguishable",
            "is not distinguishable from the 0.650 of the best baseline (words that both texts share)",
        ),
        (80, "below", "is below the 0.650 of the best baseline"),
    ],
)
def test_pairs_are_judged_against_the_best_baseline(right, outcome, words):
    verdict = report_of(splits={"validation": scores(pairs_right=right)})["verdict"]
    assert verdict["pairs"] == {"against": "word_overlap", "outcome": outcome}
    assert words in verdict["sentence"]


@pytest.mark.parametrize(("right", "outcome"), [(3, "above"), (0, "below")])
def test_tokens_are_judged_against_the_most_frequent_one(right, outcome):
    verdict = report_of(splits={"validation": scores(tokens_right=right)})["verdict"]
    assert verdict["masked_tokens"] == {"against": "most_frequent_token", "outcome": outcome}
    assert f"is {outcome} the 0.050 of the best baseline (always the most frequent token)" in verdict["sentence"]


def test_only_success_on_next_sentences_is_said_to_be_possible_by_topic_alone():
    assert "NSP can be solved by topic alone" in report_of()["verdict"]["sentence"]
    below = report_of(splits={"validation": scores(pairs_right=80)})["verdict"]["sentence"]
    assert "topic alone" not in below
    swapped = report_of(second_sentence="swapped")["verdict"]["sentence"]
    assert "sentence order accuracy of 0.800" in swapped
    assert "NSP" not in swapped


def test_masked_tokens_alone_have_their_own_verdict():
    tokens = {name: GUESSERS[name] for name in ("most_frequent_token", "unigram")}
    report = report_of(splits={"validation": scores(pairs_right=None)}, baselines=tokens, second_sentence="none")
    assert set(report["verdict"]) == {"sentence", "masked_tokens"}
    assert not any(key.startswith("nsp") for key in report["splits"]["validation"])


def test_without_baselines_there_is_no_verdict():
    assert report_of(baselines={})["verdict"] is None
    assert best_baseline({}, "mlm_accuracy") is None
    assert best_baseline(GUESSERS, "nsp_accuracy") == ("word_overlap", 0.65)


def test_report_page_and_curves_are_written(tmp_path, records):
    folder = records(tmp_path, command="pretrain", dataset={"origin": {}, "splits": {"train": {"documents": 4}}})
    step = {"kind": "step", "step": 1, "loss": 3.0, "loss_token": 2.0, "loss_sequence": 1.0, "learning_rate": 0.1}
    evaluation = {"kind": "evaluation", "step": 1, "split": "validation", **scores().figures}
    folder.metrics.write_text(json.dumps(step) + "\n" + json.dumps(evaluation) + "\n", encoding="utf-8")
    report = report_of(task="wikipédia")
    write_pretraining_report(folder, report)
    assert json.loads(folder.report.read_text(encoding="utf-8")) == report
    assert "wikipédia" in folder.report.read_text(encoding="utf-8")
    page = folder.page.read_text(encoding="utf-8")
    assert report["verdict"]["sentence"] in html.unescape(page)
    assert "Masks filled in" in page
    assert "Curves over the optimizer" in page
    assert "90 pairs, 20.5 tokens long on average, 25.0% truncated, 45 follows, 45 random." in " ".join(page.split())
    assert (folder.plots / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_report_without_training_has_no_curves(tmp_path, records):
    facts = {name: value for name, value in FACTS.items() if name != "labels"} | {"truncated": None}
    tokens = {
        "splits": {"test": scores(pairs_right=None)},
        "second_sentence": "none",
        "filled_masks": [],
        "pairs": facts,
    }
    folder = records(tmp_path, command="eval", config="seed: 1", dataset={"splits": {"train": {"documents": 4}}})
    write_pretraining_report(folder, report_of(baselines={}, **tokens))
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.yaml",
        "environment.json",
        "report.html",
        "report.json",
    }
    page = folder.page.read_text(encoding="utf-8")
    assert not any(
        words in page for words in ("Curves over", "Masks filled in", "truncated", "NSP", "on the same rows")
    )


def test_the_card_says_what_the_model_is_how_good_it_is_and_what_it_is_for():
    report = report_of()
    low, high = report["splits"]["validation"]["nsp_accuracy_ci95"]
    card = pretraining_card(report, CARD_FACTS)
    assert card.count("\n---\n\n# encoderlab: wikipedia\n") == 1
    read = ModelCard(card).data
    assert (read.pipeline_tag, read.language, read.base_model) == ("fill-mask", None, None)
    found = [(result.metric_type, result.metric_name, result.metric_value) for result in read.eval_results]
    assert found == [
        ("accuracy", "mlm accuracy", 0.3),
        ("perplexity", "mlm perplexity", 20.09),
        ("accuracy", "nsp accuracy", 0.8),
    ]
    assert "- train: 1,234 documents, fingerprint `ff`\n" in card
    assert "```\nencoderlab pretrain dataset=wikipedia\n```\n" in card
    assert "- `training.steps=30`\n" in card
    assert (
        "30 parameters, pretrained from scratch by `encoderlab pretrain` on masked tokens and next sentences, with seed 1"
        in card
    )
    assert "- Scored on validation: 200 rows with 2,000 masked tokens.\n" in card
    assert "- MLM accuracy 0.3000 (95% interval 0.3000 to 0.3000); always the most frequent token: 0.0500.\n" in card
    assert "- MLM perplexity 20.1.\n" in card
    expected = f"- NSP accuracy 0.8000 (95% interval {low:.4f} to {high:.4f}); words that both texts share: 0.6500.\n"
    assert expected in card
    assert "- Weights after step 1,700, chosen by last step.\n- a note.\n" in card
    assert "encoderlab finetune task=... init_from=<this folder>" in card


def test_the_card_names_the_run_that_pretraining_started_from():
    card = pretraining_card(report_of(init_from="google/bert", second_sentence="swapped"), CARD_FACTS)
    assert ModelCard(card).data.base_model == "google/bert"
    assert "pretrained from `google/bert` by `encoderlab pretrain` on masked tokens and the order of sentences" in card
    assert "- sentence order accuracy 0.8000" in card
    tokens = report_of(splits={"test": scores(pairs_right=None)}, second_sentence="none", baselines={})
    assert "on masked tokens, with seed" in pretraining_card(tokens, CARD_FACTS)
