"""Plots: they show what they should, for the smallest and the largest run, and any name is safe."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from encoderlab.reports.parts.plots import (
    curves,
    plot_confusion,
    plot_curves,
    plot_pretraining_curves,
    smoothed,
    write_png,
)


@pytest.fixture
def drawn(monkeypatch):
    """Collect the saved figures, so that their content can be read."""
    figures, write = [], FigureCanvasAgg.print_png

    def written(canvas, path):
        figures.append(canvas.figure)
        write(canvas, path)

    monkeypatch.setattr(FigureCanvasAgg, "print_png", written)
    return figures


def steps(n):
    return [{"kind": "step", "step": s, "loss": 1 / s, "learning_rate": 1e-3} for s in range(1, n + 1)]


def evaluation(step, split="validation", **figures):
    return {"kind": "evaluation", "step": step, "split": split, **figures}


def test_a_figure_is_drawn_once_and_equals_what_matplotlib_saves(tmp_path, monkeypatch):
    lines = [*steps(50), evaluation(25, loss=0.5, accuracy=0.7), evaluation(50, loss=0.6, accuracy=0.65)]
    curves(lines, "accuracy", 7.5).savefig(tmp_path / "saved.png", dpi=150)
    draw, drawings = Figure.draw, []
    monkeypatch.setattr(Figure, "draw", lambda figure, renderer: (drawings.append(figure), draw(figure, renderer)))
    write_png(curves(lines, "accuracy", 7.5), tmp_path / "written.png")
    assert len(drawings) == 1
    assert (tmp_path / "written.png").read_bytes() == (tmp_path / "saved.png").read_bytes()


def test_curves_show_loss_score_and_learning_rate(tmp_path, drawn):
    lines = [*steps(50), evaluation(25, loss=0.5, accuracy=0.7), evaluation(50, loss=0.6, accuracy=0.65)]
    plot_curves(lines, tmp_path / "curves.png", title="train sst2, seed 1")
    loss, score, rate = drawn[0].axes
    assert [axes.get_ylabel() for axes in drawn[0].axes] == ["loss (nats)", "accuracy", "learning rate"]
    assert rate.get_xlabel() == "optimizer step"
    assert drawn[0].get_suptitle() == "train sst2, seed 1"
    legends = [text.get_text() for axes in (loss, score) for text in axes.get_legend().get_texts()]
    assert "validation: best 0.500 at step 25" in legends
    assert "validation: best 0.700 at step 25" in legends


def test_a_chosen_figure_is_drawn(tmp_path, drawn):
    lines = [
        *steps(3),
        evaluation(3, loss=0.5, token_accuracy=0.9),
        evaluation(3, "test", loss=0.5, token_accuracy=0.8),
    ]
    plot_curves(lines, tmp_path / "curves.png", title="reverse", figure="token_accuracy")
    assert drawn[0].axes[1].get_ylabel() == "token accuracy"
    assert len(drawn[0].axes[1].lines) == 2


@pytest.mark.parametrize(
    "lines", [[], steps(1), [evaluation(1, loss=None, accuracy=0.5)], [*steps(2), {"kind": "other"}]]
)
def test_the_shortest_runs_have_curves_too(tmp_path, lines):
    plot_curves(lines, tmp_path / "curves.png", title="$ smoke _")
    assert (tmp_path / "curves.png").stat().st_size > 0


def test_without_evaluations_there_is_no_empty_panel(tmp_path, drawn):
    plot_curves(steps(5), tmp_path / "curves.png", title="smoke")
    assert len(drawn[0].axes) == 2


def pretraining_steps(n):
    return [line | {"loss_token": 2 * line["loss"], "loss_sequence": 3 * line["loss"]} for line in steps(n)]


def scored(step):
    return evaluation(step, loss=2.0, mlm_loss=1.0 + 1 / step, mlm_accuracy=0.3, nsp_loss=0.5, nsp_accuracy=0.8)


def test_pretraining_shows_its_two_objectives_side_by_side_over_the_same_steps(tmp_path, drawn):
    lines = [*pretraining_steps(50), scored(25), scored(50)]
    plot_pretraining_curves(lines, tmp_path / "curves.png", title="pretrain docs", token_guess=0.05, pair_guess=0.62)
    axes = {one.get_ylabel(): one for one in drawn[0].axes}
    names = {
        "masked tokens: loss (nats)",
        "masked tokens: accuracy",
        "pairs: loss (nats)",
        "pairs: accuracy",
        "learning rate",
    }
    assert set(axes) == names
    assert axes["masked tokens: loss (nats)"].lines[0].get_ydata()[0] == 2.0
    assert axes["pairs: loss (nats)"].lines[0].get_ydata()[0] == 3.0
    legends = {
        name: [text.get_text() for text in one.get_legend().get_texts()]
        for name, one in axes.items()
        if one.get_legend()
    }
    assert "validation: best 1.020 at step 50" in legends["masked tokens: loss (nats)"]
    assert "best baseline: 0.050" in legends["masked tokens: accuracy"]
    assert "best baseline: 0.620" in legends["pairs: accuracy"]
    assert len({one.get_xlim() for one in drawn[0].axes}) == 1


def test_without_pairs_there_is_one_column_with_the_loss_of_the_tokens(tmp_path, drawn):
    lines = [*steps(5), evaluation(5, loss=1.0, mlm_loss=1.0, mlm_accuracy=0.3)]
    plot_pretraining_curves(lines, tmp_path / "curves.png", title="pretrain", token_guess=None, pair_guess=None)
    labels = [axes.get_ylabel() for axes in drawn[0].axes]
    assert labels == ["masked tokens: loss (nats)", "masked tokens: accuracy", "learning rate"]
    assert drawn[0].axes[0].lines[0].get_ydata()[0] == 1.0


@pytest.mark.parametrize(
    "lines", [[], pretraining_steps(1), [evaluation(1, mlm_loss=None, mlm_accuracy=None)], [scored(3)]]
)
def test_the_shortest_pretraining_has_curves_too(tmp_path, lines):
    plot_pretraining_curves(lines, tmp_path / "curves.png", title="$ smoke _", token_guess=0.1, pair_guess=None)
    assert (tmp_path / "curves.png").stat().st_size > 0


def test_smoothing_keeps_length_and_level():
    values = np.random.default_rng(0).normal(size=100)
    assert len(smoothed(values)) == 100
    assert smoothed(values).std() < values.std() / 2
    np.testing.assert_allclose(smoothed(np.full(40, 3.0)), 3.0)
    np.testing.assert_allclose(smoothed(np.array([1.0, 5.0])), [1.0, 5.0])


def test_confusion_shows_counts_and_the_fraction_of_each_row(tmp_path, drawn):
    plot_confusion(
        [[995, 4], [0, 0]], ["$no$", "yes_"], tmp_path / "confusion.png", title="train sst2, seed 1: validation"
    )
    axes = drawn[0].axes[0]
    assert [text.get_text() for text in axes.texts] == ["995\n>99%", "4\n<1%", "0", "0"]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["$no$", "yes_"]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("predicted", "true")
    assert "999 predictions" in drawn[0].get_suptitle()


def test_many_classes_are_shaded_without_numbers(tmp_path, drawn):
    plot_confusion(np.eye(200, dtype=int), [f"class {i}" for i in range(200)], tmp_path / "confusion.png", title="many")
    assert len(drawn[0].axes[0].texts) == 0
    assert len(drawn[0].axes[0].get_xticklabels()) <= 110
    assert max(drawn[0].get_size_inches()) <= 26


def test_long_names_are_shortened(tmp_path, drawn):
    plot_confusion(
        np.eye(6, dtype=int), ["a very long name of a class indeed"] * 6, tmp_path / "confusion.png", title="six"
    )
    assert drawn[0].axes[0].get_xticklabels()[0].get_text() == "a very long name of a c…"
