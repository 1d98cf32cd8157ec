"""The screen of pretraining: what rows consist of, how the encoder compares with guessing, and what it predicts."""

import copy
import io

import pytest

from encoderlab.reports.pretraining.screen import show_pairs, show_pretraining_report

FACTS = {
    "documents": 12_000,
    "paragraphs": 55_123,
    "sentences": 243_210,
    "tokens": 5_123_456,
    "pairs": 2_000,
    "mean_length": 60.25,
    "truncated": 0.0312,
    "sentence_splitter": "punkt_tab (english)",
    "labels": {"follows": 999, "random": 1_001},
}
PAIR_GUESSERS = {
    "majority": {"nsp_accuracy": 0.5},
    "word_overlap": {"nsp_accuracy": 0.671},
    "length": {"nsp_accuracy": 0.53},
}
REPORT = {
    "command": "pretrain",
    "task": "wikipedia",
    "seed": 1,
    "init_from": None,
    "second_sentence": "next",
    "model": {"parameters": 11_234_567, "parameters_by_part": {}},
    "scored_split": "validation",
    "main_figure": "mlm_accuracy",
    "splits": {
        "validation": {
            "n": 1335,
            "loss": 4.9,
            "mlm_loss": 4.5,
            "mlm_accuracy": 0.304,
            "mlm_perplexity": 90.017,
            "target_tokens": 10_784,
            "mlm_accuracy_ci95": [0.295, 0.313],
            "nsp_loss": 0.41,
            "nsp_accuracy": 0.843,
            "nsp_accuracy_ci95": [0.824, 0.862],
        }
    },
    "baselines": {
        "most_frequent_token": {"mlm_accuracy": 0.052, "token_id": 5, "token": "the"},
        "unigram": {"mlm_loss": 6.9, "mlm_perplexity": 992.3},
        **PAIR_GUESSERS,
    },
    "verdict": {"sentence": "The model's MLM accuracy is above that of guessing."},
    "throughput": {
        "tokens_per_second": 14_000.4,
        "examples_per_second": 300.0,
        "padding_fraction": 0.021,
        "train_seconds": 1800.0,
    },
    "checkpoint": {"step": 3000, "chosen_by": "last step", "chosen_on": None},
    "pairs": FACTS,
    "filled_masks": [
        {
            "text": "recorded in [MASK], and released [bold]",
            "answer": "london",
            "guesses": [{"token": "london", "probability": 0.312}, {"token": "##s", "probability": 0.05}],
        }
    ],
    "notes": ["Punkt was trained on this corpus"],
}


def shown(paths=None, commands=(), **changes):
    file = io.StringIO()
    show_pretraining_report(copy.deepcopy(REPORT) | changes, paths or {}, commands, file=file)
    return file.getvalue()


def line_of(text, start):
    return next(line for line in text.splitlines() if line.startswith(start)).removeprefix(start).split()


@pytest.mark.parametrize(
    "words",
    [
        "pretrain wikipedia, seed 1: MLM accuracy 0.304 (95% interval 0.295 to 0.313) on validation (1,335 rows)",
        "Also: MLM perplexity 90.0, MLM loss 4.500, NSP accuracy 0.843 (95% interval 0.824 to 0.862), NSP loss 0.410, "
        "10,784 masked tokens",
        "Checkpoint: step 3,000, the last step",
        "Parameters: 11,234,567",
        "The model's MLM accuracy is above that of guessing.",
        "Training text: 12,000 documents, 55,123 paragraphs, 243,210 sentences, 5,123,456 tokens; "
        "sentences found by punkt_tab (english)\n",
        "An epoch: 2,000 pairs, 60.2 tokens long on average, 3.1% truncated, 999 follows (50.0%), 1,001 random (50.0%)\n",
        "Speed: 14,000 tokens/s, 300 examples/s, 2.1% padding, 1,800.0 s of training",
        "  recorded in [MASK], and released [bold]\n      true: london; predicted: london 31.2%, ##s 5.0%\n",
        "Note: Punkt was trained on this corpus",
    ],
)
def test_the_report_says(words):
    assert words in shown()


def test_the_model_is_shown_above_the_baselines_each_with_its_guess():
    text = shown()
    assert line_of(text, "this model") == ["0.304", "90.0", "0.843"]
    assert line_of(text, "always the most frequent token (the)") == ["0.052"]
    assert line_of(text, "each token as often as in training") == ["992.3"]
    assert line_of(text, "words that both texts share") == ["0.671"]


def test_the_order_of_sentences_is_not_called_nsp():
    text = shown(second_sentence="swapped")
    assert "sentence order accuracy 0.843 (95% interval" in text
    assert "NSP" not in text


def test_masked_tokens_alone_say_nothing_of_pairs():
    scores = {name: value for name, value in REPORT["splits"]["validation"].items() if not name.startswith("nsp")}
    facts = {name: value for name, value in FACTS.items() if name != "labels"}
    text = shown(
        second_sentence="none", splits={"validation": scores}, pairs=facts, baselines={}, verdict=None, filled_masks=[]
    )
    assert "NSP" not in text and "pairs" not in text and "Masks" not in text
    assert "An epoch: 2,000 texts, 60.2 tokens long on average, 3.1% truncated\n" in text


def test_infinite_figures_are_shown_as_a_dash():
    scores = REPORT["splits"]["validation"] | {"mlm_perplexity": None}
    assert "MLM perplexity -" in shown(splits={"validation": scores})


def test_the_screen_says_what_the_run_started_from():
    assert "Started from" not in shown()
    assert "Started from: outputs/pretrain/a [b]" in shown(init_from="outputs/pretrain/a [b]")


def test_paths_and_commands_are_unbroken_and_can_be_copied():
    long = "outputs/pretrain/" + "x" * 150 + "/[report].json"
    lines = shown({"report": long}, ["encoderlab finetune init_from=" + "y" * 150]).splitlines()
    assert f"  report: {long}" in lines
    assert "  encoderlab finetune init_from=" + "y" * 150 in lines


def test_without_a_terminal_there_are_no_colours_and_tables_fit():
    assert "\x1b" not in shown()
    tables = [line for line in shown().splitlines() if line.startswith(("this model", "on the same rows"))]
    assert len(tables) == 2
    assert all(len(line) <= 100 for line in tables)


def test_it_goes_to_standard_error(capsys):
    show_pretraining_report(REPORT, {}, [])
    show_pairs(FACTS, PAIR_GUESSERS)
    out, err = capsys.readouterr()
    assert out == ""
    assert "wikipedia" in err and "punkt_tab" in err


def pairs_shown(facts, baselines):
    file = io.StringIO()
    show_pairs(facts, baselines, file=file)
    return file.getvalue()


def test_before_training_pairs_are_counted_and_baselines_shown():
    text = pairs_shown(FACTS, PAIR_GUESSERS)
    assert "Training text: 12,000 documents" in text
    assert "An epoch: 2,000 pairs" in text
    assert (
        "Baselines on pairs (no encoder): always the most frequent label 0.500, words that both texts share 0.671, "
        "lengths of both texts 0.530\n"
    ) in text


def test_without_pairs_there_are_no_baselines():
    facts = {name: value for name, value in FACTS.items() if name != "labels"}
    assert "without an encoder" not in pairs_shown(facts, {})
