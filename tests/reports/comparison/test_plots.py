"""Plots of a comparison: every swept setting is an axis."""

from encoderlab.reports.comparison.plots import pictures_of


def compared(values, varied, parameters=10):
    rows = [
        {
            "label": str(number),
            "values": value,
            "value": 0.5 + number / 100,
            "interval": [0.4, 0.6] if number else None,
            "parameters": parameters * (number + 1),
            "runs": [{"folder": f"run{number}", "seed": 0, "score": 0.5}],
        }
        for number, value in enumerate(values)
    ]
    differing = {name: [str(value[name]) for value in values] for name in values[0]}
    shared = {"figure": "f1_macro", "reference": "0", "learning_curve": None}
    return shared | {"settings": rows, "differing": differing, "varied": varied}


def test_a_swept_number_has_a_plot_and_a_wide_range_a_logarithmic_axis():
    values = [
        {"training.learning_rate": rate, "model.norm": norm} for norm in ("a", "b") for rate in (1e-5, 1e-4, 1e-2)
    ]
    drawn = pictures_of(compared(values, ["training.learning_rate", "model.norm"]), {})
    assert list(drawn) == ["scores", "f1_macro_against_learning_rate"]
    (axes,) = drawn["f1_macro_against_learning_rate"][0].axes
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["norm=a", "norm=b"]


def test_named_models_are_plotted_by_their_number_of_parameters():
    values = [{"model.name": name, "model.n_layers": number} for number, name in enumerate(["tiny", "mini", "small"])]
    assert list(pictures_of(compared(values, ["model.name"]), {})) == ["scores", "f1_macro_against_parameters"]


def test_curves_are_overlaid_if_runs_have_logged_any():
    lines = [{"kind": "step", "step": step, "loss": loss} for step, loss in ((1, 2.0), (2, None), (3, 1.0))]
    comparison = compared([{"model.norm": "a"}, {"model.norm": "b"}], ["model.norm"])
    assert list(pictures_of(comparison, {"run0": lines, "run1": lines})) == ["scores", "curves"]
    assert list(pictures_of(comparison, {"run0": [], "run1": []})) == ["scores"]
