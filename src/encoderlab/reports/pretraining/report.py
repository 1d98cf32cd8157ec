"""A pretraining run's figures in report.json, their comparison with baselines, and the model's README.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from encoderlab.reports.cards.metadata import encoder_card
from encoderlab.reports.parts.plots import plot_pretraining_curves
from encoderlab.reports.parts.run_report import RunSummary, metric_lines, run_report, scored_split, write_last
from encoderlab.reports.pretraining.page import BASELINE_NAMES, PAIR_QUESTIONS, write_pretraining_page
from encoderlab.runs.folder import RunFolder

if TYPE_CHECKING:
    from encoderlab.metrics import PretrainingScores


def build_pretraining_report(
    run: RunSummary,
    splits: Mapping[str, PretrainingScores],
    baselines: Mapping[str, Mapping[str, Any]],
    *,
    pairs: Mapping[str, Any],
    filled_masks: Sequence[Mapping[str, Any]],
    second_sentence: str,
) -> dict[str, Any]:
    """Return the content of report.json. `baselines` are the baselines' figures on the scored split, by name in
    BASELINE_NAMES.

    `pairs` are the facts that `screen.show_pairs` prints, `filled_masks` what `filled_masks.readable` makes.
    `second_sentence` is the task that the figures nsp_* are about: next, swapped, or none. The seed also draws the
    bootstrap.
    """
    figures = {name: part.with_intervals(run.seed).as_dict() for name, part in splits.items()}
    verdict = _verdict(figures[scored_split(splits)], baselines, second_sentence)
    own = {"second_sentence": second_sentence, "pairs": pairs, "filled_masks": filled_masks}
    return run_report(run, splits, figures, baselines=baselines, verdict=verdict, **own)


def best_baseline(baselines: Mapping[str, Mapping[str, Any]], figure: str) -> tuple[str, float] | None:
    """Return name and score of the baseline that is best at `figure`; None if there is none."""
    found = {name: baseline[figure] for name, baseline in baselines.items() if baseline.get(figure) is not None}
    name = max(found, key=found.__getitem__, default=None)
    return None if name is None else (name, found[name])


def _verdict(
    scores: Mapping[str, Any], baselines: Mapping[str, Mapping[str, Any]], question: str
) -> dict[str, Any] | None:
    """Return whether the model is above, level with or below the best baseline of each task; None without baselines.

    It is above or below only if the baseline's figure is outside the 95% interval of the model's.
    """
    tokens = _stands(scores, "mlm_accuracy", "MLM", baselines)
    pairs = _stands(scores, "nsp_accuracy", PAIR_QUESTIONS.get(question, ""), baselines)
    found = {name: stands for name, stands in (("masked_tokens", tokens), ("pairs", pairs)) if stands is not None}
    if not found:
        return None
    sentences = [stands.pop("sentence") for stands in found.values()]
    if question == "next" and found.get("pairs", {}).get("outcome") == "above":
        sentences.append(
            "NSP can be solved by topic alone: a high figure does not show that the model follows an argument."
        )
    return {"sentence": " ".join(sentences), **found}


def _stands(
    scores: Mapping[str, Any], figure: str, title: str, baselines: Mapping[str, Mapping[str, Any]]
) -> dict[str, str] | None:
    best = best_baseline(baselines, figure)
    if best is None or figure not in scores:
        return None
    name, guess = best
    low, high = scores[f"{figure}_ci95"]
    outcome = "above" if low > guess else "below" if high < guess else "not distinguishable"
    stands = f"{outcome} from" if outcome == "not distinguishable" else outcome
    sentence = (
        f"The model's {title} accuracy of {scores[figure]:.3f} (95% interval {low:.3f} to {high:.3f}) is {stands} "
        f"the {guess:.3f} of the best baseline ({BASELINE_NAMES.get(name, name)})."
    )
    return {"against": name, "outcome": outcome, "sentence": sentence}


def write_pretraining_report(folder: RunFolder, report: Mapping[str, Any]) -> None:
    """Write report.html, report.json, and plots/curves.png if the run has a metrics.jsonl."""
    guesses = [best_baseline(report["baselines"], figure) for figure in ("mlm_accuracy", "nsp_accuracy")]
    token_guess, pair_guess = (None if best is None else best[1] for best in guesses)
    if lines := metric_lines(folder):
        folder.plots.mkdir(exist_ok=True)
        title = f"pretrain {report['task']}, seed {report['seed']}"
        plot_pretraining_curves(
            lines, folder.plots / "curves.png", title=title, token_guess=token_guess, pair_guess=pair_guess
        )
    write_pretraining_page(folder, report, token_guess, pair_guess)
    write_last(folder, report)


def pretraining_card(report: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Return the model's README.md, from report.json's figures and `run_facts`: what it is, how it was made, and its
    scores.
    """
    objectives = {"next": "masked tokens and next sentences", "swapped": "masked tokens and the order of sentences"}
    origin = f"from `{report['init_from']}`" if report["init_from"] else "from scratch"
    scores = report["splits"][report["scored_split"]]
    made = (
        f"pretrained {origin} by `encoderlab pretrain` on {objectives.get(report['second_sentence'], 'masked tokens')}"
    )
    lines = [
        f"Scored on {report['scored_split']}: {scores['n']:,} rows with {scores['target_tokens']:,} masked tokens",
        *_model_card_figures(scores, report["baselines"], report["second_sentence"]),
    ]
    return encoder_card(report, facts, "fill-mask", made, lines)


def _model_card_figures(
    scores: Mapping[str, Any], baselines: Mapping[str, Mapping[str, Any]], question: str
) -> list[str]:
    """Return a line for each accuracy, with its interval and the best baseline, and one for the perplexity."""
    found = []
    for figure, title in (("mlm_accuracy", "MLM"), ("nsp_accuracy", PAIR_QUESTIONS.get(question, ""))):
        if figure not in scores:
            continue
        low, high = scores[f"{figure}_ci95"]
        best = best_baseline(baselines, figure)
        beside = f"; {BASELINE_NAMES.get(best[0], best[0])}: {best[1]:.4f}" if best else ""
        found.append(f"{title} accuracy {scores[figure]:.4f} (95% interval {low:.4f} to {high:.4f}){beside}")
    if scores["mlm_perplexity"] is not None:
        found.insert(1, f"MLM perplexity {scores['mlm_perplexity']:,.1f}")
    return found
