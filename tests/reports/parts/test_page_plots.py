"""Plots on a page: no more points than a reader can see, and none that misleads."""

from encoderlab.reports.parts.page_plots import thinned


def test_a_page_draws_at_most_500_points_per_line_and_averages_losses():
    lines = [{"kind": "step", "step": step, "loss": float(step), "learning_rate": 0.1} for step in range(1, 2001)]
    lines += [{"kind": "evaluation", "step": step, "split": "validation", "accuracy": 0.5} for step in range(1, 1201)]
    lines += [{"kind": "skipped", "step": 3}]
    drawn = thinned(lines)
    steps = [line for line in drawn if line["kind"] == "step"]
    assert (len(steps), steps[0]["step"], steps[0]["loss"], steps[-1]["step"]) == (500, 4, 2.5, 2000)
    assert sum(line["kind"] == "evaluation" for line in drawn) <= 500
    assert all(line["kind"] != "skipped" for line in drawn)
    assert thinned([]) == []
    assert thinned([{"kind": "step", "step": 1, "loss": None}]) == [{"kind": "step", "step": 1, "loss": None}]
