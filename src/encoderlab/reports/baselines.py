"""Scores without an encoder next to the model's, the verdict on both, and the report of `encoderlab baseline`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from encoderlab.metrics import scores_of_predictions
from encoderlab.reports.blocks import (
    Bar,
    Block,
    Cell,
    Items,
    Table,
    Text,
    interval,
    json_safe,
    lead,
    named_score,
    number,
    score,
    show,
    shown,
    single_spaced,
    with_interval,
    words_of,
)

BASELINE_NAMES = {
    "majority": "always the most frequent label",
    "tfidf_logreg": "TF-IDF + logistic regression",
    "word_majority": "each word's most frequent label",
    "mean": "always the mean",
    "tfidf_ridge": "TF-IDF + ridge regression",
    "frozen_encoder_logreg": "frozen mini-en + logistic regression",
    "frozen_encoder_ridge": "frozen mini-en + ridge regression",
    "most_frequent_token": "always the most frequent token",
    "unigram": "each token as often as in training",
}
# The first of these is shown next to the main score.
SECOND = ("token_accuracy", "f1_macro", "f1_micro", "spearman", "pearson", "accuracy")
REFERENCES = ("majority", "mean")  # the baselines that the others are compared with
PRETRAINING_SCORES = ("mlm_accuracy", "mlm_perplexity", "nsp_accuracy")  # shown next to the baselines
MOST_CLASSES = 12  # whose strongest words are printed
TONES = {"above": "good", "below": "bad"}  # of a verdict's outcome

# Of `encoderlab.baselines`, which this package may not import: `scores`, `predicted`, `skipped`, `top_features`.
Baseline = Any


def verdict_on(baselines: Mapping[str, Mapping[str, Any]], subject: str, *, where: str = "") -> dict[str, str] | None:
    """Return whether the model is above, below or not distinguishable from its best baseline; None if there is none.

    It is above or below only if the 95% interval of its lead excludes zero. The sentence begins with the `subject`,
    such as "The model's accuracy", and ends with `where` this holds.
    """
    scored = {name: baseline for name, baseline in baselines.items() if "skipped" not in baseline}
    if not scored:
        return None
    name = min(scored, key=lambda name: scored[name]["model_leads_by"])
    ahead, (low, high) = scored[name]["model_leads_by"], scored[name]["model_leads_by_ci95"]
    outcome = "above" if low > 0 else "below" if high < 0 else "not distinguishable"
    stands = "is not distinguishable from" if outcome == "not distinguishable" else f"is {outcome}"
    sentence = (
        f"{subject} {stands} that of its best baseline, {BASELINE_NAMES.get(name, name)}: "
        f"{ahead:+.3f}, 95% interval {low:+.3f} to {high:+.3f}{where}."
    )
    return {"against": name, "outcome": outcome, "sentence": sentence}


def baseline_blocks(report: Mapping[str, Any]) -> list[Block]:
    """Return the model next to its baselines, and the verdict; nothing if there are none."""
    baselines, main = report["baselines"], report["main_figure"]
    if not baselines:
        return []
    scored = report["splits"][report["scored_split"]]
    fitted = [baseline for baseline in baselines.values() if "skipped" not in baseline]
    others = (name for name in SECOND if name != main and name in scored)
    columns = [main, *[name for name in others if all(name in baseline for baseline in fitted)][:1]]
    if "mlm_accuracy" in scored:
        columns = [name for name in PRETRAINING_SCORES if name in scored]
    is_paired = any("model_leads_by" in baseline for baseline in fitted)
    rows: list[list[Cell]] = []
    for name, one in {"this model": scored, **baselines}.items():
        token = f" ({shown(one['token'], 40)})" if "token" in one else ""
        cells = [with_interval({key: one[key]}, key) if one.get(key) is not None else "" for key in columns]
        cells[0] = "skipped" if "skipped" in one else cells[0]
        row: list[Cell] = [f"{BASELINE_NAMES.get(name, name)}{token}", cells[0], Bar(_share(one.get(main))), *cells[1:]]
        if is_paired:
            seconds = report["throughput"].get("train_seconds") if one is scored else one.get("seconds")
            ahead = lead(one, "model_leads_by") if "model_leads_by" in one else ""
            row += [ahead, "" if "skipped" in one else number(seconds)]
        rows.append(row)
    names = [named_score(name, scored) for name in columns]
    compared = ["model ahead by (95% interval)", "seconds"] if is_paired else []
    return [Table(["on the same rows", names[0], "", *names[1:], *compared], rows, marked=0), *verdict_line(report)]


def verdict_line(report: Mapping[str, Any]) -> list[Text]:
    """Return the verdict, if there is one."""
    verdict = report["verdict"]
    return [Text(verdict["sentence"], tone=TONES.get(verdict.get("outcome"), "bold"))] if verdict else []


def _share(value: float | None) -> float:
    return min(max(value or 0.0, 0.0), 1.0)


def build_baseline_report(
    *,
    task: str,
    seed: int,
    split: str,
    labels: Any,
    names: Sequence[str],
    fitted: Mapping[str, Baseline],
    words: int,
    main: str,
    positive: int = 1,
) -> dict[str, Any]:
    """Return what `encoderlab baseline` prints and writes: JSON-safe.

    `labels` are the targets of the rows of `split`, in the form of a baseline's predictions; `names` are the classes'.
    `main` names the score that comes first; for two classes, `positive` is the one that F1 is about. Each baseline has
    its scores with 95% intervals, scores by class, the confusion, how far it is ahead of `majority` (or `mean`) on the
    same rows, and of a linear model the top `words` for each class. The seed draws the bootstrap.
    """
    reference = next(name for name in REFERENCES if name in fitted)
    reports: dict[str, dict[str, Any]] = {}
    for name, one in fitted.items():
        if one.predicted is None:
            reports[name] = {"skipped": one.skipped}
            continue
        scores = scores_of_predictions(labels, one.predicted, names, main, positive)
        ahead, bounds = scores.lead_over(fitted[reference].predicted, seed)
        reports[name] = {
            **one.scores,
            **scores.with_intervals(seed).as_dict(),
            f"ahead_of_{reference}_by": ahead,
            f"ahead_of_{reference}_by_ci95": bounds,
            "top_features": {names[id_]: top[:words] for id_, top in one.top_features.items()} if words else {},
        }
    report = {"command": "baseline", "task": task, "seed": seed, "scored_split": split, "n": len(labels)}
    return json_safe({**report, "main_figure": main, "labels": list(names), "baselines": reports})


def show_baselines(report: Mapping[str, Any], file: TextIO) -> None:
    """Print a report from `build_baseline_report`."""
    main, baselines = report["main_figure"], report["baselines"]
    reference = next(name for name in REFERENCES if name in baselines)
    second = next(name for name in SECOND if name in baselines[reference] and name != main)
    named = named_score(main, baselines[reference])
    rows = []
    for name, one in baselines.items():
        if "skipped" in one:
            rows.append([BASELINE_NAMES[name], "skipped", "", "", ""])
            continue
        ahead = "" if name == reference else lead(one, f"ahead_of_{reference}_by")
        value = f"{score(one[main])} ({interval(one[f'{main}_ci95'])})"
        rows.append([BASELINE_NAMES[name], value, score(one[second]), ahead, number(one["seconds"])])
    columns = ("baseline", f"{named} (95% interval)", words_of(second), "ahead by", "seconds")
    where = f"scored on {report['scored_split']} ({number(report['n'])} rows)"
    blocks: list[Block] = [Text(where, f"baseline {report['task']}"), Table(columns, rows)]
    for name, one in baselines.items():
        blocks.append(Text(one.get("skipped", ""), f"{BASELINE_NAMES[name]} was skipped"))
        top = list(one.get("top_features", {}).items())[:MOST_CLASSES]
        lines = [f"{single_spaced(label)}: {', '.join(words)}" for label, words in top]
        blocks.append(Items("The strongest words for each class", lines))
    show(blocks, file)
