"""What each attention head does: known figures for known maps."""

import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.reports.interpretation.attention_heads import FIGURES, HeadSummary, show_heads

N = 6
KNOWN = {
    "alike": np.full((N, N), 1 / N),
    "itself": np.eye(N),
    "first": np.eye(N)[[0] * N],
    "last": np.eye(N)[[N - 1] * N],
    "next": np.eye(N)[[*range(1, N), N - 1]],
    "previous": np.eye(N)[[0, *range(N - 1)]],
}
ENDS = np.array([False] * (N - 1) + [True])


def means_of(*maps, separators=ENDS):
    summary = HeadSummary()
    summary.add("text", np.stack(maps)[None], separators)
    return {figure: values[0].tolist() for figure, values in summary.means().items()}


def test_known_heads_have_their_known_figures():
    found = means_of(*KNOWN.values())
    by_head = {name: {figure: found[figure][head] for figure in FIGURES} for head, name in enumerate(KNOWN)}
    assert by_head["alike"]["entropy"] == pytest.approx(math.log(N))
    assert [by_head[name]["entropy"] for name in list(KNOWN)[1:]] == [0] * 5
    assert by_head["itself"]["itself"] == 1
    assert by_head["itself"]["distance"] == 0
    assert (by_head["first"]["first"], by_head["first"]["separator"]) == (1, 0)
    assert (by_head["last"]["first"], by_head["last"]["separator"]) == (0, 1)
    assert (by_head["next"]["next"], by_head["next"]["previous"]) == (1, 0)
    assert (by_head["previous"]["previous"], by_head["previous"]["next"]) == (1, 0)
    assert by_head["next"]["distance"] == by_head["previous"]["distance"] == pytest.approx((N - 1) / N)
    assert by_head["first"]["distance"] == pytest.approx((N - 1) / 2)
    assert by_head["alike"]["separator"] == by_head["alike"]["first"] == pytest.approx(1 / N)


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_texts_are_weighted_by_their_tokens_whatever_their_order(lengths, seed):
    draw = np.random.default_rng(seed)
    texts = [(draw.dirichlet(np.ones(n), size=(2, 3, n)), draw.random(n) < 0.3) for n in lengths]

    def means(some):
        summary = HeadSummary()
        for weights, separators in some:
            summary.add("text", weights, separators)
        return summary.means()

    forward, backward = means(texts), means(texts[::-1])
    for figure in FIGURES:
        assert forward[figure].shape == (2, 3)
        np.testing.assert_allclose(forward[figure], backward[figure])
    assert (forward["entropy"] <= math.log(max(lengths)) + 1e-9).all()
    for share in ("first", "separator", "itself", "previous", "next"):
        values = forward[share][~np.isnan(forward[share])]
        assert ((values >= 0) & (values <= 1 + 1e-9)).all()
    weighed = sum(n * means([text])["entropy"] for n, text in zip(lengths, texts, strict=True)) / sum(lengths)
    np.testing.assert_allclose(forward["entropy"], weighed)


def test_a_single_token_is_reported_to_have_no_neighbour():
    summary = HeadSummary()
    summary.add("text", np.ones((1, 1, 1, 1)), np.array([False]))
    (head,) = json.loads(json.dumps(summary.as_dict(), allow_nan=False))["heads"]
    assert (head["layer"], head["head"], head["itself"], head["previous"], head["next"]) == (1, 0, 1.0, None, None)
    file = io.StringIO()
    show_heads(summary, file)
    assert file.getvalue().splitlines()[3].split() == ["1", "0", "0.00", "0.00", "100%", "0%", "100%", "-", "-"]


def test_for_many_heads_the_screen_shows_the_mean_of_each_layer():
    summary, file = HeadSummary(), io.StringIO()
    weights = np.stack([np.stack([KNOWN["itself"], KNOWN["alike"]] * 6)] * 5)
    summary.add("text", weights, ENDS)
    show_heads(summary, file)
    printed = file.getvalue()
    assert "each layer, a mean of its 12 heads" in printed
    assert (
        sum(
            line.split()[:2] == [str(layer), f"{math.log(N) / 2:.2f}"]
            for layer, line in enumerate(printed.splitlines()[3:8], 1)
        )
        == 5
    )
    assert len(summary.as_dict()["heads"]) == 60
