"""The report of an encoder that learned from masked tokens and sentence pairs, or from a teacher's vectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from encoderlab.reports import plots, training, wording
from encoderlab.reports.baselines import BASELINE_NAMES, verdict_on
from encoderlab.reports.blocks import Heading, Plot, Table, Text, show, write_html_json
from encoderlab.reports.facts import Facts, pair_lines, settings_section, split_facts

if TYPE_CHECKING:
    from encoderlab.metrics.pretraining import PretrainingScores


def build_pretraining_report(
    run: Mapping[str, Any],
    splits: Mapping[str, PretrainingScores],
    baselines: Mapping[str, Mapping[str, Any]],
    *,
    pairs: Mapping[str, Any],
    second_sentence: str,
) -> dict[str, Any]:
    """Return the content of report.json. `baselines` are the baselines' scores on the scored split, by name.

    `pairs` are the facts that `pair_lines` shows, `second_sentence` the setting.
    """
    report = training.run_report(run, splits, baselines=baselines, second_sentence=second_sentence, pairs=pairs)
    return report | {"verdict": _verdict(report["splits"][report["scored_split"]], baselines)}


def _verdict(scores: Mapping[str, Any], baselines: Mapping[str, Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return whether the model is above, below or not distinguishable from the best baseline of each objective.

    Baselines have no interval of their own: the lead's is that of the model's score.
    """
    verdict: dict[str, Any] = {}
    for key, metric in (("masked_tokens", "mlm_accuracy"), ("pairs", "nsp_accuracy")):
        if metric not in scores:
            continue
        own, (low, high) = scores[metric], scores[f"{metric}_ci95"]
        known = {name: one[metric] for name, one in baselines.items() if one.get(metric) is not None}
        leads = {
            name: {"model_leads_by": own - other, "model_leads_by_ci95": [low - other, high - other]}
            for name, other in known.items()
        }
        if (one := verdict_on(leads, f"The model's {metric[:3].upper()} accuracy")) is not None:
            verdict[key] = one
    return {"sentence": " ".join(one["sentence"] for one in verdict.values()), **verdict} if verdict else None


def write_pretraining_report(folder: Path, report: Mapping[str, Any], facts: Facts) -> None:
    """Write the curves, report.html, and last report.json, with which the run is finished."""
    drawn = _curves(folder, report)
    training.write_pngs(folder, drawn)
    documents = [
        [name, wording.number(part["documents"])] for name, part in split_facts(facts).items() if "documents" in part
    ]
    write_html_json(folder / "report.html", training.title_of(report), [
        *training.page_head(report),
        *training.page_scores(report, drawn),
        Heading("Data"),
        *pair_lines(report["pairs"]),
        Table(("split", "documents"), documents),
        *settings_section(facts),
    ], report)  # fmt: skip


def _curves(folder: Path, report: Mapping[str, Any]) -> dict[str, Plot]:
    lines = training.metric_lines(folder)
    if not lines:
        return {}
    columns = [("loss", "loss", report["main_figure"], "")]
    if "teacher" not in report:
        paired = any("loss_sequence" in line or "nsp_loss" in line for line in lines)
        columns = [("loss_token" if paired else "loss", "mlm_loss", "mlm_accuracy", "masked tokens: ")]
        columns += [("loss_sequence", "nsp_loss", "nsp_accuracy", "pairs: ")] * paired
    what = "Losses, scores on validation and learning rate over the optimizer's steps."
    return {"curves": Plot(plots.curves(lines, columns), what)}


def show_pairs(
    pairs: Mapping[str, Any], baselines: Mapping[str, Mapping[str, float]], file: TextIO | None = None
) -> None:
    """Print what training reads and the baselines' scores on pairs, which may be none."""
    scores = {BASELINE_NAMES.get(name, name): wording.score(one.get("nsp_accuracy")) for name, one in baselines.items()}
    each = ", ".join(f"{name} {value}" for name, value in scores.items())
    show([*pair_lines(pairs), Text(each, "Baselines on pairs (no encoder)")], file)
