"""report.html of a pretraining run: its scores next to baselines, masks filled in, its text, and how to repeat it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from encoderlab.reports.parts.console import figure, number, with_interval, words_of
from encoderlab.reports.parts.run_facts import run_facts
from encoderlab.reports.parts.run_report import headline, metric_lines
from encoderlab.reports.parts.shown_texts import shown
from encoderlab.runs.folder import RunFolder

PANEL = 4.6  # inches
BASELINE_NAMES = {
    "most_frequent_token": "always the most frequent token",
    "unigram": "each token as often as in training",
    "majority": "always the most frequent label",
    "word_overlap": "words that both texts share",
    "length": "lengths of both texts",
}
PAIR_QUESTIONS = {"next": "NSP", "swapped": "sentence order"}  # the name of the figures nsp_* for each task


def write_pretraining_page(
    folder: RunFolder, report: Mapping[str, Any], token_guess: float | None, pair_guess: float | None
) -> None:
    """Write the page of `report`, as `build_pretraining_report` makes it; the best baselines are drawn into the curves."""
    from encoderlab.reports.parts.page import picture, write_page
    from encoderlab.reports.parts.page_plots import thinned
    from encoderlab.reports.parts.plots import pretraining_curves

    scored = report["splits"][report["scored_split"]]
    drawn = None
    if lines := metric_lines(folder):
        description = "Curves over the optimizer's steps: losses, accuracies on validation, learning rate"
        drawn = picture(pretraining_curves(thinned(lines), token_guess, pair_guess, PANEL), description)
    write_page(
        folder.page,
        "pretraining.html",
        **run_facts(folder, report["command"]),
        **headline(report, "mlm_accuracy"),
        target_tokens=scored["target_tokens"],
        curves=drawn,
        figures=_figures(report),
        comparison=_comparison(report, scored),
        pairs=report["pairs"],
        filled_masks=[_filled(filled) for filled in report["filled_masks"]],
        words_of=words_of,
        number=number,
        score=figure,
    )


def _called(name: str, report: Mapping[str, Any]) -> str:
    """Return a figure's name in words; nsp_* are named after the task on pairs."""
    question = PAIR_QUESTIONS.get(report["second_sentence"], "")
    return words_of(name).replace("mlm", "MLM").replace("nsp", question)


def _figures(report: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return every figure of every split in words, by the figure's name."""
    splits = report["splits"]
    names = [
        name
        for name in next(iter(splits.values()))
        if not name.endswith("_ci95") and name not in ("n", "target_tokens")
    ]
    forms = {"mlm_perplexity": lambda part, name: number(part[name])}
    rows = {
        _called(name, report): [forms.get(name, with_interval)(part, name) for part in splits.values()]
        for name in names
    }
    counts = {
        name: [number(part[key]) for part in splits.values()]
        for name, key in (("rows", "n"), ("masked tokens", "target_tokens"))
    }
    return {"": list(splits), **counts, **rows}


def _comparison(report: Mapping[str, Any], scored: Mapping[str, Any]) -> list[list[str]]:
    """Return a line of headings, then the model and the baselines, each with its figures."""
    forms = {"mlm_accuracy": figure, "mlm_perplexity": number, "nsp_accuracy": figure}
    columns = [name for name in forms if name in scored]

    def line(name: str, figures: Mapping[str, Any]) -> list[str]:
        return [name, *(forms[column](figures[column]) if column in figures else "" for column in columns)]

    baselines = [
        line(
            BASELINE_NAMES.get(str(name), str(name)) + (f" ({shown(found['token'], 40)})" if "token" in found else ""),
            found,
        )
        for name, found in report["baselines"].items()
    ]
    return [["on the same rows", *(_called(name, report) for name in columns)], line("this model", scored), *baselines]


def _filled(filled: Mapping[str, Any]) -> dict[str, Any]:
    guesses = [{"token": shown(one["token"], 40), "probability": one["probability"]} for one in filled["guesses"]]
    return {"text": shown(filled["text"]), "answer": shown(filled["answer"], 40), "guesses": guesses}
