"""The report of a run that learned from labels, or of its evaluation: report.json, and the page and screen that show
it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from encoderlab.metrics import NumberScores, PredictionScores, Scores, TaggingScores
from encoderlab.metrics.calibration import at_temperature, calibration, fit_temperature, of_confidences
from encoderlab.reports import plots
from encoderlab.reports.facts import Facts, settings_section, survey_section
from encoderlab.reports.mistakes import mistakes_section
from encoderlab.reports.page import write_page
from encoderlab.reports.predictions import texts_of, write_predictions
from encoderlab.reports.preparation import BASELINE_NAMES, SECOND, Baseline, scarce_classes
from encoderlab.reports.screen import show
from encoderlab.reports.tables import (
    Bar,
    Block,
    Cell,
    Heading,
    Items,
    Matrix,
    Plot,
    Table,
    Text,
    checkpoint_words,
    interval,
    json_safe,
    lead,
    named_score,
    notes,
    number,
    percent,
    score,
    shown,
    speed,
    with_interval,
    words_of,
)
from encoderlab.system.files import atomic_write_text

if TYPE_CHECKING:
    from encoderlab.metrics import SplitScores
    from encoderlab.reports.mistakes import Explain

MOST_ON_SCREEN, MOST_ON_PAGE = 12, 60  # classes in a table
MOST_OF_A_MATRIX, MOST_CONFUSIONS = 20, 30
FEW_CLASSES = 4  # up to which a matrix says enough without a list of confusions
NO_SCORES = ("n", "per_class", "per_entity", "confusion", "calibration", "positive_label")  # of a split in report.json
USUAL_SPLITS = ("train", "validation", "test")  # of these, only the scored one is printed
THRESHOLD = (
    "For every threshold of the probability; the dot is the threshold in use. task.threshold=f1 or "
    "task.threshold=precision:0.9 chooses another one on validation."
)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run without its scores.

    `parameters` counts the model's, by part and as `total`; `checkpoint` holds step, chosen_by and chosen_on.
    """

    command: str
    task: str
    seed: int
    parameters: Mapping[str, int]
    throughput: Mapping[str, float]
    checkpoint: Mapping[str, Any]
    notes: Sequence[str] = ()
    init_from: str | None = None


def scored_split(splits: Mapping[str, Any]) -> str:
    """Return the split that the verdict is about: test, otherwise validation, otherwise the first."""
    return next(name for name in ("test", "validation", *splits) if name in splits)


def run_report(
    run: RunSummary, splits: Mapping[str, SplitScores], scores: Mapping[str, Mapping[str, Any]], **own: Any
) -> dict[str, Any]:
    """Return the content of report.json of any run: JSON-safe, with null for any number that is not finite.

    `scores` are those of each split, with intervals; `own` is what one kind of run adds.
    """
    scored = scored_split(splits)
    parts = {part: n for part, n in run.parameters.items() if part != "total"}
    report = {
        "command": run.command,
        "task": run.task,
        "seed": run.seed,
        "init_from": run.init_from,
        "model": {"parameters": run.parameters["total"], "parameters_by_part": parts},
        "scored_split": scored,
        "main_figure": splits[scored].main,
        "splits": scores,
        "baselines": {},
        "verdict": None,
        "throughput": run.throughput,
        "checkpoint": run.checkpoint,
        "notes": [*run.notes, *_caveats(splits[scored], scored, run.checkpoint)],
    }
    return json_safe({**report, **own})


def _caveats(scores: SplitScores, scored: str, checkpoint: Mapping[str, Any]) -> list[str]:
    """Return caveats that a reader of the scores should know."""
    caveats = []
    if scored == "train":
        caveats.append("The model was trained on these rows, so the scores show what it remembers, not what it can do.")
    if checkpoint.get("chosen_on") == scored:
        caveats.append(
            f"The checkpoint was chosen on {scored}, the split it is scored on, so its scores are slightly too good."
        )
    if scores.main.endswith(("accuracy", "f1_micro", "entity_f1")) and scores.figures[scores.main] == 1:
        caveats.append(
            f"Every prediction is right, so the interval has no width; with {scores.n:,} row{'s' * (scores.n != 1)}, "
            f"an error rate of up to {min(3 / scores.n, 1):.2g} is still possible (the rule of three)."
        )
    return caveats


def build_report(
    run: RunSummary, splits: Mapping[str, PredictionScores], baselines: Mapping[str, Baseline]
) -> dict[str, Any]:
    """Return the content of report.json; `splits` are the labelled ones, `baselines` were scored on the verdict's
    split.

    The seed also draws the bootstrap.
    """
    name = scored_split(splits)
    scored = splits[name]
    compared = {key: _baseline(baseline, scored, run.seed) for key, baseline in baselines.items()}
    scores = {
        key: {**one.with_intervals(run.seed).as_dict(), **_calibration(key, name, splits)}
        for key, one in splits.items()
    }
    main = named_score(scored.main, {"positive_label": getattr(scored, "positive_label", None)})
    verdict = verdict_on(compared, f"The model's {main}", where=", on the same rows")
    report = run_report(run, splits, scores, baselines=compared, verdict=verdict)
    if isinstance(scored, Scores) and scored.probabilities is not None:
        scarce = scarce_classes(name, {key: int(one["support"]) for key, one in scored.per_class.items()})
        report["notes"] += [scarce] if scarce else []
    report["notes"] += [f"Baseline {key} was skipped: {one.skipped}." for key, one in baselines.items() if one.skipped]
    return report


def _calibration(name: str, scored: str, splits: Mapping[str, PredictionScores]) -> dict[str, Any]:
    """Return how well confidence matches accuracy on a split of classes; for the scored one, also at a temperature.

    The temperature is fitted on validation, never on the rows scored: if these are one split, there is none; nor if
    validation determines none.
    """
    scores, held_out = splits[name], splits.get("validation")
    if isinstance(scores, TaggingScores):
        assert scores.confidences is not None
        right = np.concatenate([a == b for a, b in zip(scores.labels, scores.predicted, strict=True)])
        return {"calibration": of_confidences(np.concatenate(scores.confidences), right)}
    if not isinstance(scores, Scores):
        return {}
    assert scores.probabilities is not None
    as_trained = calibration(scores.probabilities, scores.labels)
    if name != scored or scored == "validation" or not isinstance(held_out, Scores):
        return {"calibration": as_trained}
    assert held_out.probabilities is not None
    temperature = fit_temperature(held_out.probabilities, held_out.labels)
    if temperature is None:
        return {"calibration": as_trained}
    after = calibration(at_temperature(scores.probabilities, temperature), scores.labels)
    fitted = {"temperature": temperature, "fitted_on": "validation", **after}
    return {"calibration": {**as_trained, "after_temperature": fitted}}


def _baseline(baseline: Baseline, scores: PredictionScores, seed: int) -> dict[str, Any]:
    """Return the baseline's scores, and by how much the model's main score is better on the same rows."""
    if baseline.skipped:
        accuracy = {"accuracy": None} if isinstance(scores, Scores) else {}
        return {**accuracy, scores.main: None, "skipped": baseline.skipped}
    ahead, bounds = scores.lead_over(baseline.predicted, seed)
    own = {} if scores.main in baseline.figures else {scores.main: scores.figures[scores.main] - ahead}
    return {**baseline.figures, **own, "model_leads_by": ahead, "model_leads_by_ci95": bounds}


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


def show_report(
    report: Mapping[str, Any], files: Mapping[str, str], next_commands: Sequence[str], file: TextIO | None = None
) -> None:
    """Print a report from `build_report`, on standard error unless `file` is given.

    `files` are the paths of the run's files by name.
    """
    scored, main = report["splits"][report["scored_split"]], report["main_figure"]
    where = f"on {report['scored_split']} ({scored['n']:,} rows)"
    also = [f"{named_score(name, scored)} {with_interval(scored, name)}" for name in scores_in(scored) if name != main]
    blocks: list[Block] = [
        Heading(f"{title_of(report)}: {named_score(main, scored)} {with_interval(scored, main)} {where}"),
        Text(", ".join(also), "Also"),
    ]
    for name, split in report["splits"].items():
        if name not in (report["scored_split"], *USUAL_SPLITS):
            words = f"{named_score(main, split)} {with_interval(split, main)}, {split['n']:,} rows"
            blocks.append(Text(words, f"On {name}"))
    blocks += [*weights_lines(report), *baseline_blocks(report)]
    per_class = scored.get("per_entity", scored.get("per_class"))
    if per_class:
        blocks.append(class_table(per_class, "type" if "per_entity" in scored else "class", MOST_ON_SCREEN))
        if len(per_class) > MOST_ON_SCREEN:
            few = f"the {MOST_ON_SCREEN} with the lowest F1 of {len(per_class):,}; the report has more"
            blocks.append(Text(few, "Classes"))
    show([*blocks, *last_lines(report, files, next_commands)], file)


def scores_in(split: Mapping[str, Any]) -> list[str]:
    """Return the names of the scores of a split in report.json."""
    return [name for name in split if name not in NO_SCORES and not name.endswith("_ci95")]


def title_of(report: Mapping[str, Any]) -> str:
    """Return which run a report is about."""
    return f"{report['command']} {report['task']}, seed {report['seed']}"


def weights_lines(report: Mapping[str, Any]) -> list[Text]:
    """Return where the weights come from and how many parameters there are."""
    parts = report["model"].get("parameters_by_part", {})
    by_part = ", ".join(f"{words_of(part)} {number(n)}" for part, n in parts.items())
    return [
        Text(shown(report["init_from"] or ""), "Started from"),
        Text(checkpoint_words(report["checkpoint"]), "Checkpoint"),
        Text(f"{report['model']['parameters']:,}{f' ({by_part})' if by_part else ''}", "Parameters"),
    ]


def last_lines(report: Mapping[str, Any], files: Mapping[str, str], next_commands: Sequence[str]) -> list[Block]:
    """Return what ends everything printed about a run: speed, notes, files, and what to run next."""
    return [
        Text(speed(report["throughput"]), "Speed"),
        *notes(report["notes"]),
        Items("Files", [f"{name}: {path}" for name, path in files.items()]),
        Items("Next", next_commands),
    ]


def baseline_blocks(report: Mapping[str, Any]) -> list[Block]:
    """Return the model next to its baselines, and the verdict; nothing if there are none."""
    if not report["baselines"]:
        return []
    scored, main = report["splits"][report["scored_split"]], report["main_figure"]
    fitted = [baseline for baseline in report["baselines"].values() if "skipped" not in baseline]
    others = (name for name in SECOND if name != main and name in scored)
    second = [name for name in others if all(name in baseline for baseline in fitted)][:1]
    seconds = number(report["throughput"].get("train_seconds"))
    rows: list[list[Cell]] = [
        [
            "this model",
            score(scored[main]),
            Bar(_share(scored[main])),
            *(score(scored[name]) for name in second),
            "",
            seconds,
        ]
    ]
    for name, baseline in report["baselines"].items():
        row: list[Cell] = [BASELINE_NAMES.get(name) or name, "skipped", "", *("" for _ in second), "", ""]
        if "skipped" not in baseline:
            row[1:] = [
                score(baseline[main]),
                Bar(_share(baseline[main])),
                *(score(baseline.get(one)) for one in second),
            ]
            row += [lead(baseline, "model_leads_by") or "", number(baseline.get("seconds"))]
        rows.append(row)
    ahead = "model ahead by (95% interval)"
    columns = ("on the same rows", named_score(main, scored), "", *map(words_of, second), ahead, "seconds")
    return [Table(columns, rows, marked=0), *verdict_line(report)]


def verdict_line(report: Mapping[str, Any]) -> list[Text]:
    """Return the verdict, if there is one."""
    verdict = report["verdict"]
    return [Text(verdict["sentence"], tone=TONES.get(verdict.get("outcome"), "bold"))] if verdict else []


TONES = {"above": "good", "below": "bad"}  # of a verdict's outcome


def _share(value: float | None) -> float:
    return min(max(value or 0.0, 0.0), 1.0)


def class_table(per_class: Mapping[str, Mapping[str, Any]], kind: str, most: int) -> Table:
    """Return a row for each class, type of entity or label; of too many, for those with the lowest F1 that
    have rows.
    """
    selected = list(per_class.items())
    if len(selected) > most:
        selected = sorted(selected, key=lambda one: (one[1]["support"] == 0, one[1]["f1"]))[:most]
    columns = [kind, "precision", "recall", "F1", "", "entities" if kind == "type" else "rows"]
    extra = [name for name in ("average_precision", "threshold") if selected and name in selected[0][1]]
    with_bounds = bool(selected) and "f1_ci95" in selected[0][1]
    rows: list[list[Cell]] = []
    for name, one in selected:
        row: list[Cell] = [shown(name, 80), *(score(one[key]) for key in ("precision", "recall", "f1"))]
        row += [Bar(_share(one["f1"])), number(one["support"]), *([interval(one["f1_ci95"])] if with_bounds else [])]
        rows.append([*row, *(score(one[name]) for name in extra)])
    bounds = ["F1, 95% interval"] if with_bounds else []
    return Table([*columns, *bounds, *map(words_of, extra)], rows)


def write_report(
    folder: Path,
    report: dict[str, Any],
    facts: Facts,
    examples: Any,
    scores: PredictionScores,
    explain: Explain | None = None,
    carried: Iterable[Any] | None = None,
) -> None:
    """Write the files of `report` into the run's `folder`: plots, predictions.csv, report.html, and last report.json.

    `examples` are the scored split's, by row; `scores` hold their predictions. `explain` marks the words of mistakes.
    `carried` yields the columns to copy to predictions.csv, for each scored row.
    """
    drawn = _plots(folder, report, scores)
    write_pngs(folder, title_of(report), drawn)
    texts = [texts_of(examples[int(row)]) for row in scores.rows]
    probabilities, names = getattr(scores, "probabilities", None), getattr(scores, "label_names", [])
    write_predictions(folder / "predictions.csv", texts, scores.labels, scores.predicted, probabilities, names, carried)
    write_page(folder / "report.html", f"encoderlab {title_of(report)}", [
        *_page_head(report),
        *_page_scores(report, drawn),
        *mistakes_section(examples, scores, explain),
        *survey_section(facts),
        *settings_section(facts),
    ])  # fmt: skip
    write_json(folder / "report.json", report)


def write_json(path: Path, content: Any) -> None:
    """Write report.json, with which a run is finished, or another JSON file."""
    atomic_write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_pngs(folder: Path, title: str, drawn: Mapping[str, Plot]) -> None:
    """Write each plot to plots/<name>.png."""
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    for name, plot in drawn.items():
        plots.write_png(plot.figure, folder / "plots" / f"{name}.png", title)


def metric_lines(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of the run's metrics.jsonl; none if it has not trained."""
    path = folder / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def _plots(folder: Path, report: Mapping[str, Any], scores: PredictionScores) -> dict[str, Plot]:
    """Return the plots of a run by name."""
    main = report["main_figure"]
    drawn = {}
    if lines := metric_lines(folder):
        what = f"Curves over the optimizer's steps: loss, {words_of(main)} on validation, learning rate"
        drawn["curves"] = Plot(plots.curves(lines, [plots.Column("loss", "loss", main)]), what)
    if isinstance(scores, Scores | TaggingScores):
        confusion = plots.confusion_plot(scores.confusion, scores.label_names)
        drawn["confusion"] = Plot(confusion, "Confusion matrix")
        what = "Reliability diagram: accuracy in bins of confidence, and how many predictions each bin holds"
        measured = report["splits"][report["scored_split"]]["calibration"]
        drawn["calibration"] = Plot(plots.reliability_plot(measured), what)
    if (figure := plots.precision_recall_plot(scores)) is not None:
        what = "Precision against recall for every threshold, with a dot at the threshold in use"
        drawn["precision_recall"] = Plot(figure, what)
    if isinstance(scores, NumberScores):
        drawn["numbers"] = Plot(plots.numbers_plot(scores.labels, scores.predicted), "Predicted against true numbers")
    return drawn


def _page_head(report: Mapping[str, Any]) -> list[Block]:
    """Return the main score, how it compares, and notes."""
    scored, main = report["splits"][report["scored_split"]], report["main_figure"]
    where = f"{named_score(main, scored)} on {report['scored_split']} ({number(scored['n'])} rows)"
    bounds = f", 95% interval {interval(scored[f'{main}_ci95'])}" if f"{main}_ci95" in scored else ""
    return [
        Text(score(scored[main]), tone="headline"),
        Text(f"{where}{bounds}."),
        *baseline_blocks(report),
        *notes(map(shown, report["notes"])),
    ]


def splits_table(report: Mapping[str, Any], names: Sequence[str]) -> Table:
    """Return a row for each of the scores `names`, with a column for each split; "" if a split does not have it."""
    splits = report["splits"]
    first = next(iter(splits.values()))
    rows = [["rows", *(number(split["n"]) for split in splits.values())]]
    for name in names:
        cells = (with_interval(split, name) if name in split else "" for split in splits.values())
        rows.append([named_score(name, first), *cells])
    return Table(("", *splits), rows)


def _page_scores(report: Mapping[str, Any], drawn: Mapping[str, Plot]) -> list[Block]:
    """Return the sections on scores: of each split, over the steps, by class, by threshold, and of confidence."""
    scored = report["splits"][report["scored_split"]]
    names = scores_in(next(iter(report["splits"].values())))
    blocks: list[Block] = [Heading("Scores"), splits_table(report, names), *weights_lines(report)]
    blocks += [
        Text(speed(report["throughput"]), "Speed"),
        Text(
            "Intervals are bootstrap percentiles over the rows: they cover the choice of rows, but not the variation "
            "between training runs, which takes several seeds.",
            tone="quiet",
        ),
    ]
    if "curves" in drawn:
        blocks += [Heading("Curves"), drawn["curves"]]
    if "numbers" in drawn:
        words = "Predicted against true numbers. On the dashed line both are the same."
        blocks += [Heading("Numbers"), Text(words), drawn["numbers"]]
    if scored.get("per_entity"):
        words = "An entity is right if its first word, its last word and its type are: as conlleval counts."
        blocks += [Heading("Entities"), Text(words), class_table(scored["per_entity"], "type", MOST_ON_PAGE)]
    blocks += _classes(scored)
    if "precision_recall" in drawn:
        blocks += [Heading("Precision and recall"), Text(THRESHOLD), drawn["precision_recall"]]
    if "calibration" in scored:
        blocks += [*_about_calibration(report, scored["calibration"]), drawn["calibration"]]
    return blocks


def _classes(scored: Mapping[str, Any]) -> list[Block]:
    per_class = scored.get("per_class")
    if not per_class:
        return []
    few = f"The {MOST_ON_PAGE} of {len(per_class):,} classes with the lowest F1; report.json has all."
    kind = "class" if "confusion" in scored else "label"
    blocks: list[Block] = [Heading("Classes"), Text(few if len(per_class) > MOST_ON_PAGE else "")]
    blocks.append(class_table(per_class, kind, MOST_ON_PAGE))
    if "confusion" not in scored:
        return blocks
    names = list(per_class)
    if len(names) <= MOST_OF_A_MATRIX:
        words = "True classes are rows, predicted classes columns; the shade is the share of the true class."
        matrix = Matrix([shown(name, 40) for name in names], scored["confusion"])
        blocks += [Heading("Confusion matrix", level=3), Text(words), matrix]
    if len(names) > FEW_CLASSES:
        most = MOST_CONFUSIONS if len(names) > MOST_OF_A_MATRIX else MOST_CONFUSIONS // 3
        blocks += [Heading("Most frequent confusions", level=3), confusions_table(scored["confusion"], names, most)]
    return blocks


def confusions_table(confusion: Sequence[Sequence[int]], names: Sequence[str], most: int) -> Table:
    """Return the most frequent confusions of a true and a predicted class."""
    counts = np.array(confusion)
    wrong = counts * ~np.eye(len(counts), dtype=bool)
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = [(int(a), int(b)) for a, b in (np.unravel_index(place, wrong.shape) for place in order) if wrong[a, b]]
    rows = [
        [shown(names[a], 60), shown(names[b], 60), number(int(wrong[a, b])), percent(wrong[a, b] / counts[a].sum())]
        for a, b in pairs
    ]
    return Table(("true class", "predicted", "times", "of the true class"), rows, n_texts=2)


def _about_calibration(report: Mapping[str, Any], measured: Mapping[str, Any]) -> list[Block]:
    after = measured.get("after_temperature")
    tempered = ""
    if after:
        tempered = (
            f", and {score(after['ece'])} at the temperature {after['temperature']:.2f}, fitted on {after['fitted_on']}"
        )
    words = (
        "Are predictions with a confidence of 80% right 80% of the time? The expected calibration error (ECE) is "
        f"{score(measured['ece'])}{tempered}. A perfectly calibrated model would show about "
        f"{score(measured['ece_by_luck'])} on so few predictions."
    )
    blocks: list[Block] = [Heading("Calibration"), Text(words)]
    if "brier" in measured:
        each = {"as trained": measured, **({"after temperature scaling": after} if after else {})}
        rows = [[name, *(score(one[key]) for key in ("ece", "brier", "loss"))] for name, one in each.items()]
        blocks.append(Table(("", "ECE", "Brier score", "loss"), rows))
    bins = f"{measured['bins']} bins of equal width (Guo et al. 2017, eq. 3; temperature scaling: section 4.2)."
    held_out = "" if after or report["scored_split"] != "validation" else (
        " No temperature is fitted on the rows that are scored, which would flatter the model."
    )  # fmt: skip
    return [*blocks, Text(f"{bins}{held_out}", tone="quiet")]
