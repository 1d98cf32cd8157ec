"""A run's figures in report.json, and their comparison with the baselines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np

from encoderlab.metrics import TaggingScores
from encoderlab.metrics.calibration import at_temperature, calibration, fit_temperature, of_confidences
from encoderlab.metrics.scores import AnswerScores, Scores
from encoderlab.reports.parts.console import named_figure
from encoderlab.reports.parts.run_report import RunSummary, run_report, scored_split

if TYPE_CHECKING:
    from encoderlab.baselines.supervised import Baseline

BASELINE_NAMES = {
    "majority": "always the most frequent label",
    "tfidf_logreg": "TF-IDF + logistic regression",
    "word_majority": "each word's most frequent label",
    "mean": "always the mean",
    "tfidf_ridge": "TF-IDF + ridge regression",
}


# the first of these is shown next to the main figure
SECOND = ("token_accuracy", "f1_macro", "f1_micro", "spearman", "pearson", "accuracy")
LEAST_ROWS = 10  # of a class, below which its figures are mostly chance
MOST_NAMED = 5  # classes in a note
MOST_MAPPED = 8  # labels in a suggested mapping
LEAST_SHARED = 0.02  # of a split's rows: fewer that are also in training hardly change its score
_PLAIN = re.compile(
    r"(?!(?:true|false|null|nan|inf)$)[^\W\d]\w*(?:[- ]\w+)*", re.IGNORECASE
)  # texts for Hydra without quotes


def build_report(
    run: RunSummary, splits: Mapping[str, AnswerScores], baselines: Mapping[str, Baseline]
) -> dict[str, Any]:
    """Return the content of report.json; `splits` are the labelled ones, `baselines` were scored on the verdict's
    split.

    The seed also draws the bootstrap.
    """
    scored = scored_split(splits)
    compared = {name: _baseline(baseline, splits[scored], run.seed) for name, baseline in baselines.items()}
    figures = {
        name: {**scores.with_intervals(run.seed).as_dict(), **_calibrated(name, scored, splits)}
        for name, scores in splits.items()
    }
    main = named_figure(splits[scored].main, {"positive_label": getattr(splits[scored], "positive_label", None)})
    verdict = verdict_on(compared, f"The model's {main}", where=", on the same rows")
    report = run_report(run, splits, figures, baselines=compared, verdict=verdict)
    report["notes"] += [*_scarce_notes(scored, splits[scored]), *_skipped(baselines)]
    return report


def _calibrated(name: str, scored: str, splits: Mapping[str, AnswerScores]) -> dict[str, Any]:
    """Return the `calibration` of a split with class predictions; nothing for others."""
    classes = {name: scores for name, scores in splits.items() if isinstance(scores, Scores | TaggingScores)}
    return {"calibration": _calibration(name, scored, classes)} if name in classes else {}


def _calibration(name: str, scored: str, splits: Mapping[str, Scores | TaggingScores]) -> dict[str, Any]:
    """Return how well confidence matches accuracy on a split; for the scored one, also after temperature scaling.

    The temperature is fitted on validation, never on the rows scored: if these are one split, there is none; nor if
    validation determines none.
    """
    scores, held_out = splits[name], splits.get("validation")
    if isinstance(scores, TaggingScores):
        assert scores.confidences is not None
        right = np.concatenate([a == b for a, b in zip(scores.labels, scores.predicted, strict=True)])
        return of_confidences(np.concatenate(scores.confidences), right)
    assert scores.probabilities is not None
    found = calibration(scores.probabilities, scores.labels)
    if name != scored or scored == "validation" or held_out is None:
        return found
    assert isinstance(held_out, Scores) and held_out.probabilities is not None
    temperature = fit_temperature(held_out.probabilities, held_out.labels)
    if temperature is None:
        return found
    after = calibration(at_temperature(scores.probabilities, temperature), scores.labels)
    return {**found, "after_temperature": {"temperature": temperature, "fitted_on": "validation", **after}}


def _baseline(baseline: Baseline, scores: AnswerScores, seed: int) -> dict[str, Any]:
    """Return the baseline's figures, and the paired lead of the model's main figure on the same rows."""
    if baseline.skipped:
        return {
            **({"accuracy": None} if isinstance(scores, Scores) else {}),
            scores.main: None,
            "skipped": baseline.skipped,
        }
    lead, bounds = scores.lead_over(baseline.predicted, seed)
    own = {} if scores.main in baseline.figures else {scores.main: scores.figures[scores.main] - lead}
    return {**baseline.figures, **own, "model_leads_by": lead, "model_leads_by_ci95": bounds}


def verdict_on(baselines: Mapping[str, Mapping[str, Any]], subject: str, *, where: str = "") -> dict[str, str] | None:
    """Return whether the model is above, below or not distinguishable from its best baseline; None if there is none.

    It is above or below only if the 95% interval of its lead excludes zero. The sentence begins with the `subject`,
    such as "The model's accuracy", and ends with `where` this holds.
    """
    found = {name: baseline for name, baseline in baselines.items() if "skipped" not in baseline}
    if not found:
        return None
    name = min(found, key=lambda name: found[name]["model_leads_by"])
    lead, (low, high) = found[name]["model_leads_by"], found[name]["model_leads_by_ci95"]
    outcome = "above" if low > 0 else "below" if high < 0 else "not distinguishable"
    stands = "is not distinguishable from" if outcome == "not distinguishable" else f"is {outcome}"
    sentence = (
        f"{subject} {stands} that of its best baseline, {BASELINE_NAMES.get(name, name)}: "
        f"{lead:+.3f}, 95% interval {low:+.3f} to {high:+.3f}{where}."
    )
    return {"against": name, "outcome": outcome, "sentence": sentence}


def scarce_classes(split: str, counts: Mapping[str, int]) -> str:
    """Return a warning about classes with few rows in a split, given the `counts` of all; "" if each has enough."""
    few = [name for name, count in counts.items() if count < LEAST_ROWS]
    if not few:
        return ""
    named = ", ".join(f"{name!r} ({counts[name]})" for name in few[:MOST_NAMED])
    more = f" and {len(few) - MOST_NAMED:,} more" if few[MOST_NAMED:] else ""
    return f"Too few rows of {split} to score {named}{more}: with fewer than {LEAST_ROWS}, precision, recall and F1 are mostly chance."


def shared_rows(split: str, counts: Mapping[str, Any]) -> str:
    """Return a warning about rows of a split whose text is also in training, given its survey; "" if they are few."""
    shared, rows = counts["shared_with_train"], counts["rows"]
    if split == "train" or not rows or shared / rows < LEAST_SHARED:
        return ""
    return (
        f"{shared:,} of the {rows:,} rows of {split} ({shared / rows:.0%}) have a text that is also in train, so the score says "
        "less about new texts than it seems to: remove them from train."
    )


def labels_alike(counts: Mapping[str, int]) -> str:
    """Return a warning about labels that differ only in case or white space, given the `counts` of all; "" if none do."""
    by_form: dict[str, list[str]] = {}
    for name in sorted(counts, key=lambda name: -counts[name]):
        by_form.setdefault(" ".join(normalize("NFC", name).casefold().split()), []).append(name)
    alike = [" and ".join(map(repr, names)) for names in by_form.values() if len(names) > 1]
    if not alike:
        return ""
    named = "; ".join(alike[:MOST_NAMED]) + (f"; and {len(alike) - MOST_NAMED:,} more" if alike[MOST_NAMED:] else "")
    remedy = "write them the same way in the data"
    if len(by_form) > 1 and len(counts) <= MOST_MAPPED and all(map(_PLAIN.fullmatch, counts)):
        merged = ", ".join(f"{name}: {names[0]}" for names in by_form.values() for name in names)
        remedy += f", or merge them with dataset.label_names='{{{merged}}}'"
    return f"Labels that differ only in case or spaces are separate classes: {named}. If they mean the same, {remedy}."


def _scarce_notes(split: str, scores: AnswerScores) -> list[str]:
    """Return the warning about the scored split, if it predicts classes of whole texts."""
    if not isinstance(scores, Scores) or scores.probabilities is None:
        return []
    return list(
        filter(None, [scarce_classes(split, {name: int(one["support"]) for name, one in scores.per_class.items()})])
    )


def _skipped(baselines: Mapping[str, Baseline]) -> list[str]:
    return [
        f"Baseline {name} was skipped: {baseline.skipped}." for name, baseline in baselines.items() if baseline.skipped
    ]
