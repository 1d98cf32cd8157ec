"""The learning curve of a comparison: only from runs on nested fractions, with a sentence that claims no more than they
show.
"""

from types import SimpleNamespace

import pytest

from encoderlab.reports.comparison.learning_curve import (
    SHARE,
    curve_figure,
    curve_table,
    learning_curve_of,
    why_no_curve,
)

SIZES = (100, 200, 400, 800, 1600)


def runs_with(scores, reach=0.004, figure="accuracy"):
    """Return a run for each size, its score known to within `reach`, and a slightly lower baseline."""
    return [
        [
            SimpleNamespace(
                seed=0,
                dataset={"splits": {"train": {"rows": rows}}},
                scores={"n": 1000, figure: score, f"{figure}_ci95": [score - reach, score + reach]},
                report={"baselines": {"majority": {figure: 0.9}, "tfidf_logreg": {figure: score - 0.05}}},
            )
        ]
        for rows, score in zip(SIZES, scores, strict=True)
    ]


def curve_of(scores, figure="accuracy", **more):
    return learning_curve_of(runs_with(scores, figure=figure, **more), [SHARE], figure)


@pytest.mark.parametrize(
    ("scores", "reach", "figure", "words"),
    [
        (
            (0.50, 0.60, 0.68, 0.74, 0.79),
            0.004,
            "accuracy",
            r"More labels would help: twice the rows \(1,600 more\).* \+0\.0[34].*next \+0.01 takes about \d",
        ),
        ((0.80, 0.82, 0.825, 0.826, 0.826), 0.004, "accuracy", "More labels would hardly help: .*0.00"),
        (
            (0.70, 0.80, 0.75, 0.78, 0.80),
            0.04,
            "accuracy",
            r"may help, but these runs do not settle it: .*More seeds \(seed=0,1,2\)",
        ),
        ((9.0, 7.0, 5.5, 4.5, 3.7), 0.05, "mae", r"More labels would help: twice .* mae by -0\.\d"),
    ],
)
def test_the_sentence_says_whether_and_how_much_more_labels_would_help(scores, reach, figure, words):
    import re

    verdict = curve_of(scores, figure=figure, reach=reach)["verdict"]
    assert re.match(words if words.startswith("More") else f"More labels {words}", verdict), verdict


def test_the_table_extends_to_four_times_the_rows_and_the_plot_to_twice():
    curve = curve_of((0.50, 0.60, 0.68, 0.74, 0.79))
    heading, *lines = curve_table(curve)
    assert [line[0] for line in lines] == ["100", "200", "400", "800", "1,600", "3,200", "6,400"] and len(heading) == 4
    assert [line[1] for line in lines] == ["0.500", "0.600", "0.680", "0.740", "0.790", "-", "-"]
    assert curve["baseline"]["name"] == "TF-IDF + logistic regression" and curve["baseline"]["points"][-1] == [
        1600,
        pytest.approx(0.74),
    ]
    (axes,) = curve_figure({"learning_curve": curve, "figure": "accuracy"}).axes
    assert axes.get_xscale() == "log" and axes.get_xlim()[1] >= 3200
    assert "extrapolated" in [text.get_text() for text in axes.get_legend().get_texts()]


def test_there_is_no_curve_if_other_settings_differ_or_sizes_are_few():
    groups = runs_with((0.5, 0.6, 0.7, 0.8, 0.9))
    assert learning_curve_of(groups, [SHARE, "model.name"], "accuracy") is None
    assert learning_curve_of(groups[:2], [SHARE], "accuracy") is None


@pytest.mark.parametrize(
    ("varied", "n_sizes", "words"),
    [
        (
            [SHARE],
            2,
            "at least 3 different numbers of training rows, and these have 100 and 200. Add a share, such as dataset.train_share=",
        ),
        ([SHARE, "model.n_layers"], 5, "the runs also differ in model.n_layers"),
        ([SHARE], 3, None),
        (["model.n_layers"], 2, None),
    ],
)
def test_runs_on_shares_that_give_no_curve_say_why(varied, n_sizes, words):
    groups = runs_with((0.5, 0.6, 0.68, 0.74, 0.79))[:n_sizes]
    notes = why_no_curve(groups, varied)
    assert len(notes) == (words is not None) and all(
        note.startswith("No learning curve is fitted") and words in note for note in notes
    )
    assert (learning_curve_of(groups, varied, "accuracy") is None) == bool(notes) or SHARE not in varied
