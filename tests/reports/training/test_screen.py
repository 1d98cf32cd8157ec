"""The screen: all a reader needs, plain text unless on a terminal, and nothing cut off."""

import copy
import io

import pytest

from encoderlab.reports.training.screen import show_report, show_survey

FIGURES = {"precision": 0.8, "recall": 0.7, "f1": 0.75, "support": 436}
REPORT = {
    "command": "train",
    "task": "sst2",
    "init_from": None,
    "seed": 1,
    "model": {"parameters": 1_234_567, "parameters_by_part": {}},
    "scored_split": "validation",
    "main_figure": "accuracy",
    "splits": {
        "validation": {
            "n": 872,
            "loss": 0.41,
            "accuracy": 0.8211,
            "f1_macro": 0.82,
            "f1": 0.8246,
            "accuracy_ci95": [0.795, 0.846],
            "f1_macro_ci95": [0.79, 0.85],
            "per_class": {"[bold]negative": FIGURES, ":smile:": FIGURES},
        }
    },
    "baselines": {
        "majority": {
            "accuracy": 0.509,
            "f1_macro": 0.337,
            "seconds": 0.01,
            "model_leads_by": 0.312,
            "model_leads_by_ci95": [0.28, 0.34],
        },
        "tfidf_logreg": {"accuracy": None, "skipped": "too many rows"},
    },
    "verdict": {
        "against": "majority",
        "outcome": "above",
        "sentence": "The model's accuracy is above that of its best baseline.",
    },
    "throughput": {
        "tokens_per_second": 12345.6,
        "examples_per_second": 888.0,
        "padding_fraction": 0.0123,
        "train_seconds": 65.2,
    },
    "checkpoint": {"step": 4000, "chosen_by": "f1_macro", "chosen_on": "validation"},
    "notes": ["1.2% of the rows were truncated"],
}
LONG = "outputs/train/sst2/" + "x" * 120 + "/[report].json"


def shown(report, paths=None, commands=()):
    file = io.StringIO()
    show_report(report, paths or {}, commands, file=file)
    return file.getvalue()


def changed(**changes):
    return copy.deepcopy(REPORT) | changes


def test_another_split_has_its_own_line():
    mismatched = REPORT["splits"]["validation"] | {"n": 9832, "accuracy": 0.71, "accuracy_ci95": [0.7, 0.72]}
    text = shown(changed(splits=REPORT["splits"] | {"validation_mismatched": mismatched}))
    assert "On validation_mismatched: accuracy 0.710 (95% interval 0.700 to 0.720), 9,832 rows" in text


@pytest.mark.parametrize(
    "words",
    [
        "train sst2, seed 1: accuracy 0.821 (95% interval 0.795 to 0.846) on validation (872 rows)",
        "f1 macro 0.820 (95% interval 0.790 to 0.850), f1 0.825, loss 0.410",
        "step 4,000, chosen by f1 macro on validation",
        "1,234,567",
        "always the most frequent label",
        "+0.312 (+0.280 to +0.340)",
        "skipped",
        "The model's accuracy is above that of its best baseline.",
        "[bold]negative",
        ":smile:",
        "12,346 tokens/s, 888 examples/s, 1.2% padding, 65.2 s of training",
        "1.2% of the rows were truncated",
    ],
)
def test_the_report_says(words):
    assert words in shown(REPORT)


def test_paths_and_commands_are_unbroken_and_can_be_copied():
    lines = shown(REPORT, {"report": LONG}, ["encoderlab predict run=" + "y" * 150]).splitlines()
    assert f"  report: {LONG}" in lines
    assert "  encoderlab predict run=" + "y" * 150 in lines


def test_without_a_terminal_there_are_no_colours_and_lines_fit():
    assert "\x1b" not in shown(REPORT)
    tables = [line for line in shown(REPORT).splitlines() if "always the most" in line or "negative" in line]
    assert all(len(line) <= 100 for line in tables)


def test_a_run_without_baselines_or_choice_of_checkpoint_is_shown_too():
    checkpoint = {"step": 10, "chosen_by": "last step", "chosen_on": None}
    throughput = {"evaluation_seconds": 2.0, "tokens_per_second": None}
    text = shown(changed(baselines={}, verdict=None, checkpoint=checkpoint, throughput=throughput))
    assert "Checkpoint: step 10, the last step" in text
    assert "Speed: 2.0 s of evaluation" in text
    assert "on the same rows" not in text


def test_it_goes_to_standard_error(capsys):
    show_report(REPORT, {}, [])
    out, err = capsys.readouterr()
    assert out == ""
    assert "sst2" in err


def counts(labels, **changes):
    return {
        "rows": 67349,
        "labels": labels,
        "unlabelled": 5,
        "words_min": 1,
        "words_median": 9.0,
        "words_p95": 30.0,
        "words_max": 1055,
        "empty": 2,
        "duplicates": 12,
        "shared_with_train": 3,
        "shared_with_other_label": 4,
        "fingerprint": "x",
    } | changes


def survey_shown(survey):
    file = io.StringIO()
    show_survey(survey, file=file)
    return file.getvalue()


def test_the_survey_counts_rows_lengths_duplicates_and_overlap():
    survey = {"train": counts({"no": 1, "yes": 3}), "test": counts({"no": 0, "yes": 0}, rows=0)}
    lines = survey_shown(survey).splitlines()
    train = next(line for line in lines if line.startswith("train"))
    assert train.split() == ["train", "67,349", "5", "2", "12", "-", "-", "1", "9", "30", "1,055"]
    assert next(line for line in lines if line.startswith("test")).split()[5:7] == ["3", "4"]
    assert next(line for line in lines if line.startswith("yes")).split() == ["yes", "3", "(75.0%)", "-"]


def test_many_labels_are_summarised():
    text = survey_shown({"train": counts({f"label {i}": i + 1 for i in range(40)})})
    assert "Labels: 40; in train from 1 (label 0) to 40 (label 39)" in text


SPLIT = {"rows": 9, "unlabelled": 0, "empty": 0, "duplicates": 0, "shared_with_train": 0, "shared_with_other_label": 0}
SPLIT |= {"words_min": 1, "words_median": 2.0, "words_p95": 3.0, "words_max": 4}


def test_a_column_of_ids_is_recognised_by_its_many_labels_of_one_row():
    labels = {f"id{n}": 1 + (n < 10) for n in range(300)}
    warning = "Warning: 290 of the 300 labels occur once in training; check that dataset.label names the right column"
    assert warning in survey_shown({"train": SPLIT | {"labels": labels}})


@pytest.mark.parametrize(
    ("labels", "warning"),
    [
        ({"a": 5, "b": 4}, None),
        (
            {"a": 8, "[b]": 1},
            "Warning: the label '[b]' occurs once in training, too little to learn from; add more rows, or merge it",
        ),
        ({"a": 7, "b": 1, "c": 1}, "Warning: the labels 'b', 'c' occur once in training"),
        (
            {"a": 9} | {f"l{n}": 1 for n in range(20)},
            "Warning: the labels 'l0', 'l1', 'l2', 'l3', 'l4' and 15 more occur once",
        ),
    ],
)
def test_labels_with_one_training_row_are_named(labels, warning):
    file = io.StringIO()
    show_survey({"train": SPLIT | {"labels": labels}, "test": SPLIT | {"labels": dict.fromkeys(labels, 10)}}, file=file)
    assert ("Warning" in file.getvalue()) == (warning is not None)
    assert warning is None or warning in file.getvalue()


@pytest.mark.parametrize(
    ("labels", "warning"),
    [
        ({"no": 4, "No way": 5}, None),
        (
            {"Positive": 4, "negative": 9, "positive": 5},
            "'positive' and 'Positive'. If they mean the same, write them the same way in the data, or merge them with "
            "dataset.label_names='{negative: negative, positive: positive, Positive: positive}'.",
        ),
        (
            {"TRUE": 4, "True": 3, "no": 3},
            "'TRUE' and 'True'. If they mean the same, write them the same way in the data.",
        ),
        (
            {"yes ": 4, "Yes": 5, "no": 2, "NO": 2},
            "'Yes' and 'yes '; 'no' and 'NO'. If they mean the same, write them the same way",
        ),
        ({"caf\u00e9": 4, "cafe\u0301": 3, "tea": 3}, "'caf\u00e9' and 'cafe\u0301'. If they mean the same"),
    ],
)
def test_labels_that_look_alike_are_named_before_training(labels, warning):
    text = survey_shown({"train": SPLIT | {"labels": labels}})
    assert ("separate classes" in text) == (warning is not None)
    assert (
        warning is None or f"Warning: Labels that differ only in case or spaces are separate classes: {warning}" in text
    )


@pytest.mark.parametrize(("shared", "warned"), [(0, False), (1, False), (2, True), (60, True)])
def test_rows_that_are_also_in_training_give_a_warning(shared, warned):
    file = io.StringIO()
    test = SPLIT | {"rows": 100, "labels": {"a": 100}, "shared_with_train": shared}
    show_survey({"train": SPLIT | {"labels": {"a": 9}, "shared_with_train": 9}, "test": test}, file=file)
    assert (
        f"Warning: {shared} of the 100 rows of test ({shared}%) have a text that is also in train" in file.getvalue()
    ) == warned
    assert file.getvalue().count("Warning") == warned


def test_a_split_with_too_few_rows_of_a_class_gives_a_warning_before_training():
    file = io.StringIO()
    splits = {
        "train": {"ham": 500, "fraud": 20},
        "validation": {"ham": 83, "fraud": 1},
        "test": {"ham": 80, "fraud": 10},
    }
    show_survey({name: SPLIT | {"labels": labels} for name, labels in splits.items()}, file=file)
    assert "Warning: Too few rows of validation to score 'fraud' (1): with fewer than 10" in file.getvalue()
    assert "of test" not in file.getvalue()


def test_a_split_with_hidden_labels_gives_no_warning_and_keeps_its_full_name():
    file = io.StringIO()
    splits = {"train": {"a": 50, "b": 50}, "test": {"a": 0, "b": 0}, "validation_mismatched": {"a": 20, "b": 20}}
    show_survey({name: SPLIT | {"labels": labels} for name, labels in splits.items()}, file=file)
    assert "Warning" not in file.getvalue()
    assert any(line.startswith("validation_mismatched ") for line in file.getvalue().splitlines())


def test_the_weakest_of_many_classes_are_shown():
    many = {f"class {n}": FIGURES | {"f1": n / 100, "support": 5 if n else 0} for n in range(20)}
    report = changed()
    report["splits"]["validation"]["per_class"] = many
    text = shown(report)
    assert "class 1 " in text and "class 12 " in text and "class 13 " not in text and "class 0 " not in text
    assert "the 12 with the lowest F1 of 20" in text
