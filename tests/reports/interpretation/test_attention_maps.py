"""Attention maps: every head, every token by name, one scale."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from encoderlab.reports.interpretation.attention_maps import plot_attention


@pytest.fixture
def drawn(monkeypatch):
    figures = []
    monkeypatch.setattr(
        FigureCanvasAgg, "print_png", lambda canvas, path: (figures.append(canvas.figure), path.touch())
    )
    return figures


def maps(heads, length):
    return np.random.default_rng(0).dirichlet(np.ones(length), size=(heads, length))


@pytest.mark.parametrize(("heads", "length"), [(1, 1), (1, 8), (3, 12), (5, 12), (5, 64)])
def test_every_head_is_drawn_with_its_tokens_on_one_scale(tmp_path, drawn, heads, length):
    weights, tokens = maps(heads, length), [f"w{i}" for i in range(length)]
    plot_attention(weights, tokens, "docs, layer 1 of 2", tmp_path / "layer-1.png")
    shown = [axes for axes in drawn[0].axes if axes.get_visible() and axes.get_title()]
    assert [axes.get_title() for axes in shown] == [f"head {i}" for i in range(heads)]
    for head, axes in enumerate(shown):
        assert [text.get_text() for text in axes.get_yticklabels()] == tokens
        assert [text.get_text() for text in axes.get_xticklabels()] == tokens
        np.testing.assert_allclose(axes.images[0].get_array(), weights[head])
        assert axes.images[0].get_clim() == (0, weights.max())
    assert drawn[0].get_suptitle() == "docs, layer 1 of 2"


def test_the_figure_of_a_long_text_stays_small_enough_to_open(tmp_path, drawn):
    plot_attention(maps(12, 300), ["word"] * 300, "long", tmp_path / "layer-1.png")
    assert max(drawn[0].get_size_inches()) <= 50
    assert len(drawn[0].axes[0].get_yticklabels()) <= 80


def test_tokens_are_not_read_as_formulas_and_long_ones_are_shortened(tmp_path):
    tokens = ["$", "\\frac{", "$x^", "[CLS]", "a" * 40]
    plot_attention(maps(2, 5), tokens, "$ of \\frac", tmp_path / "layer-1.png")
    assert (tmp_path / "layer-1.png").stat().st_size > 0
