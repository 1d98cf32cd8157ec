"""The report of a run, or of its evaluation: report.json, and the page and screen that show it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from encoderlab.metrics.calibration import MIN_BIN_ROWS
from encoderlab.metrics.entities import TaggingScores
from encoderlab.metrics.scores import PredictionScores
from encoderlab.metrics.texts import ClassificationScores, LabelSetScores, NumberScores
from encoderlab.reports import plots, wording
from encoderlab.reports.blocks import (
    Block,
    Heading,
    Headline,
    Items,
    Plot,
    Table,
    Text,
    json_safe,
    show,
    write_html_json,
)
from encoderlab.reports.calibration import about_calibration, calibration_of, without_temperature
from encoderlab.reports.classes import MOST_ON_PAGE, class_sections, class_table, single_class_warning
from encoderlab.reports.comparisons import (
    BASELINE_NAMES,
    against_blocks,
    baseline_blocks,
    branch_blocks,
    headline_block,
    verdict_on,
)
from encoderlab.reports.explanation import mistakes_section
from encoderlab.reports.facts import RunFacts, pair_lines, scarce_classes, settings_section, split_facts, survey_section
from encoderlab.reports.predictions import texts_of, write_predictions
from encoderlab.reports.slices import slice_blocks

if TYPE_CHECKING:
    from encoderlab.metrics.scores import SplitScores
    from encoderlab.reports.explanation import Explain

MAJORITY = 0.8  # share of the rows from which on the most frequent class hides the others in the accuracy
MOST_ON_SCREEN = 12  # classes in a table
# Of a split in report.json:
NO_SCORES = ("n", "beta", "per_class", "per_entity", "confusion", "calibration", "positive_label", "undefined")
INTERVALS = (
    "Intervals are bootstrap percentiles over the rows, and Wilson's for a share of 0 or 1: they cover the choice of "
    "rows, but not the variation between training runs, which takes several seeds."
)
THRESHOLD = (
    "Precision against recall for every threshold of the probability; the dot is the threshold in use. "
    "task.threshold=f1 or task.threshold=precision:0.9 chooses another one on validation."
)


def scored_split(splits: Mapping[str, Any]) -> str:
    """Return the split that the verdict is about: test, otherwise validation, otherwise the first."""
    return next(name for name in ("test", "validation", *splits) if name in splits)


def run_report(run: Mapping[str, Any], splits: Mapping[str, SplitScores], **own: Any) -> dict[str, Any]:
    """Return the content of report.json of any run: JSON-safe, with null for any number that is not finite.

    `run` is what it holds of a run without scores: command, task, data (the name of your own file or folder), seed,
    init_from, model, throughput, checkpoint and notes; `data_notes` are those of the notes that are about the rows,
    such as how many were truncated. The seed also draws the bootstrap; `own` is what one kind of run adds.
    """
    scored = scored_split(splits)
    report = {
        "scored_split": scored,
        "main_score": splits[scored].main_score,
        "splits": {name: _split_report(scores, run["seed"]) for name, scores in splits.items()},
        "baselines": {},
        "verdict": None,
        "notes": [*run["notes"], *_caveats(splits[scored], scored, run["checkpoint"])],
    }
    return json_safe({**run, **report, **own})


def _split_report(scores: SplitScores, seed: int) -> dict[str, Any]:
    """Return what report.json holds of a split."""
    return {**scores.with_intervals(seed).as_dict(), **calibration_of(scores)}


def _caveats(scores: SplitScores, scored: str, checkpoint: Mapping[str, Any]) -> Iterator[str]:
    """Yield caveats that a reader of the scores should know."""
    if scored == "train":
        yield "The model was trained on these rows, so the scores show what it remembers, not what it can do."
        return
    if checkpoint.get("chosen_on") == scored:
        yield f"The checkpoint was chosen on {scored}, the split it is scored on, so its scores are slightly too good."
    if scores.n == 1:
        yield f"A single row of {scored} was scored, which says nothing about others."
    elif scores.main_score.endswith(("accuracy", "f1_micro", "entity_f1")) and scores.values[scores.main_score] == 1:
        yield f"Every prediction is right; the interval says what {scores.n:,} rows without a mistake leave open."
    undefined = scores.undefined()
    if undefined:
        names = ", ".join(map(wording.words_of, undefined))
        are = "is" if len(undefined) == 1 else "are"
        yield f"On {scored}, {names} {are} undefined: {next(iter(undefined.values()))}."


def build_report(
    run: Mapping[str, Any], splits: Mapping[str, PredictionScores], baselines: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of report.json; `splits` are the labelled ones, `baselines` those of `baselines.supervised` on
    `scored_split`.
    """
    split = scored_split(splits)
    scores = splits[split]
    compared = {name: _baseline(baseline, scores, run["seed"]) for name, baseline in baselines.items()}
    positive_label = getattr(scores, "positive_label", None)
    score_name = wording.named_score(scores.main_score, {"positive_label": positive_label})
    verdict = verdict_on(compared, f"The model's {score_name}", where=", on the same rows")
    report = run_report(run, splits, baselines=compared, verdict=verdict)
    if scores.own is not None:
        report["notes"].append(f"{scores.own.name} is {scores.own.function.dotted}: {scores.own.function.about}")
    report["notes"] += _absent_labels(scores)
    if isinstance(scores, ClassificationScores) and scores.probabilities is not None:
        warning = scarce_classes(split, {name: int(own["support"]) for name, own in scores.per_class.items()})
        if warning:
            report["notes"].append(warning)
    note = without_temperature(report, report["splits"][split])
    report["notes"] += [note] if note else []
    for name, baseline in baselines.items():
        subject = f"Baseline {BASELINE_NAMES.get(name, name)}"
        if baseline.skipped:
            report["notes"].append(f"{subject} was skipped: {baseline.skipped}.")
        if baseline.note:
            report["notes"].append(f"{subject} {baseline.note}.")
    return report


def _absent_labels(scores: PredictionScores) -> list[str]:
    """Return a note on the labels that no row has and none is predicted to have, which macro F1 leaves out."""
    if not isinstance(scores, LabelSetScores):
        return []
    absent = ~(scores.labels.any(0) | scores.predicted.any(0))
    if not absent.any():
        return []
    n = len(absent)
    n_absent = int(absent.sum())
    with_zeros = scores.values["f1_macro"] * (n - n_absent) / n
    return [
        f"Macro F1 is the mean over the {n - n_absent} of {n} labels that occur as a label or a prediction. "
        f"With 0 for the others, as scikit-learn counts, it is {with_zeros:.3f}."
    ]


def _baseline(baseline: Any, scores: PredictionScores, seed: int) -> dict[str, Any]:
    """Return the baseline's scores, and by how much the model's main score is better on the same rows."""
    if baseline.skipped:
        accuracy = {"accuracy": None} if isinstance(scores, ClassificationScores) else {}
        return {**accuracy, scores.main_score: None, "skipped": baseline.skipped}
    lead, bounds = scores.lead_over(baseline.predicted, seed)
    own_scores = dict(baseline.scores)
    own_scores.setdefault(scores.main_score, scores.values[scores.main_score] - lead)
    undefined = scores.undefined()
    own_scores |= dict.fromkeys(own_scores.keys() & undefined.keys())
    leads = {"model_leads_by": lead, "model_leads_by_ci95": bounds}
    if scores.main_score in undefined:
        leads = dict.fromkeys(leads)
    return {**own_scores, **baseline.description(), **leads}


def pretraining_verdict(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return whether the model is above, below or not distinguishable from the best baseline of each objective.

    Baselines have no interval of their own: the lead's is that of the model's score.
    """
    scores = report["splits"][report["scored_split"]]
    by_objective = {}
    for objective, metric in (("masked_tokens", "mlm_accuracy"), ("pairs", "nsp_accuracy")):
        if metric not in scores:
            continue
        own = scores[metric]
        bounds = scores[f"{metric}_ci95"]
        leads = {}
        for name, baseline in report["baselines"].items():
            other = baseline.get(metric)
            if other is not None:
                lead_bounds = None if bounds is None else [bound - other for bound in bounds]
                leads[name] = {"model_leads_by": own - other, "model_leads_by_ci95": lead_bounds}
        verdict = verdict_on(leads, f"The model's {metric[:3].upper()} accuracy")
        if verdict is not None:
            by_objective[objective] = verdict
    if not by_objective:
        return None
    sentences = [verdict["sentence"] for verdict in by_objective.values()]
    return {"sentence": " ".join(sentences), **by_objective}


def show_pairs(pairs: Mapping[str, Any], baselines: Mapping[str, Mapping[str, float]]) -> None:
    """Print what training reads and the baselines' scores on pairs, which may be none."""
    shown = []
    for name, scores in baselines.items():
        shown.append(f"{BASELINE_NAMES.get(name, name)} {wording.score(scores.get('nsp_accuracy'))}")
    show([*pair_lines(pairs), Text(", ".join(shown), "Baselines on pairs (no encoder)")])


def show_report(
    report: Mapping[str, Any], files: Mapping[str, str], next_commands: Sequence[str], file: TextIO | None = None
) -> None:
    """Print a report, on standard error unless `file` is given.

    `files` are the run's paths by name, and `next_commands` lines to copy.
    """
    scored = report["splits"][report["scored_split"]]
    show([
        Heading(f"{wording.title_of(report)}: {headline(report)}"),
        *single_class_warning(report),
        *_summary(report),
        *baseline_blocks(report),
        *branch_blocks(report),
        *against_blocks(report),
        *slice_blocks(report, most=MOST_ON_SCREEN),
        *class_table(scored, "per_entity" if scored.get("per_entity") else "per_class", MOST_ON_SCREEN),
        *(pair_lines(report["pairs"]) if "pairs" in report else []),
        *_notes(report),
        Items.files(files),
        Items("Next", next_commands),
    ], file)  # fmt: skip


def _summary(report: Mapping[str, Any]) -> list[Block]:
    """Return the scores of each split, where the weights come from, how many parameters there are, and the speed."""
    splits = report["splits"]
    first = next(iter(splits.values()))
    rows = [["rows", *(wording.number(split["n"]) for split in splits.values())]]
    for name in first:
        if name not in NO_SCORES and not name.endswith("_ci95"):
            cells = [wording.with_interval(split, name, "") if name in split else "" for split in splits.values()]
            rows.append([wording.named_score(name, first), *cells])
    if "calibration" in first:
        measured = [split["calibration"] for split in splits.values()]
        rows.append(["expected calibration error", *(wording.score(own["ece"]) for own in measured)])
        if any("ece_uncalibrated" in own for own in measured):
            before = [wording.score(own.get("ece_uncalibrated")) for own in measured]
            rows.append(["before the temperature", *before])
    parameters = f"{report['model']['parameters']:,}"
    parts = report["model"].get("parameters_by_part", {})
    if parts:
        each = [f"{wording.words_of(part)} {wording.number(n)}" for part, n in parts.items()]
        parameters += f" ({', '.join(each)})"
    return [
        Table(("scores (95% intervals)", *splits), rows),
        Text(wording.shown(report.get("teacher") or ""), "Teacher"),
        Text(wording.shown(report["init_from"] or ""), "Started from"),
        Text(wording.checkpoint_words(report["checkpoint"]), "Checkpoint"),
        Text(parameters, "Parameters"),
        Text(
            wording.speed(report["throughput"]) + _not_kept(report, ", of the finetuned model, which is not kept"),
            "Speed",
        ),
    ]


def _notes(report: Mapping[str, Any], *, apart: Sequence[str] = ()) -> list[Text]:
    """Return what may change a decision, and then what was chosen; without the notes that stand `apart`."""
    choices = report.get("choices", [])
    notes = [note for note in report["notes"] if note not in apart]
    first = [Text(wording.shown(note), "Note") for note in notes if note not in choices]
    return [*first, *(Text(wording.shown(note), "Chosen", tone="quiet") for note in notes if note in choices)]


def _not_kept(report: Mapping[str, Any], words: str) -> str:
    """Return the words if steps were taken, and then the head alone was kept; otherwise ""."""
    head_alone = report["checkpoint"].get("head_alone", {})
    return words if head_alone.get("kept") and "head_alone_seconds" in report["throughput"] else ""


def headline(report: Mapping[str, Any]) -> str:
    """Return the main score in words, and if most rows have one class, also how well the others are predicted."""
    scored = report["splits"][report["scored_split"]]
    main_score = report["main_score"]
    words = f"{wording.named_score(main_score, scored)} {wording.with_interval(scored, main_score)}"
    words += f" on {report['scored_split']} ({wording.counted(scored['n'], 'row')})"
    return ", ".join([words, *_rare_scores(report)])


def _headline_block(report: Mapping[str, Any]) -> Headline:
    """Return the main score with what one has to know to read it, in one glance."""
    split = report["scored_split"]
    rows = f"{wording.counted(report['splits'][split]['n'], 'row')} of {split}"
    return headline_block(report, split, rows, _rare_scores(report))


def _rare_scores(report: Mapping[str, Any]) -> list[str]:
    """Return how well the rare classes are predicted, in words, if most rows have one class."""
    scored = report["splits"][report["scored_split"]]
    main_score = report["main_score"]
    support = {name: class_scores["support"] for name, class_scores in scored.get("per_class", {}).items()}
    if "confusion" not in scored:
        return []
    has_majority = max(support.values()) > MAJORITY * sum(support.values())
    occurring = [name for name in support if support[name]]
    if not has_majority or len(occurring) == 1:
        return []
    rare = min(occurring, key=support.__getitem__)
    parts = []
    if (main_score, scored.get("positive_label")) != ("f1", rare):
        parts.append(f"F1 of {wording.shown(rare, 60)} {wording.score(scored['per_class'][rare]['f1'])}")
    if len(support) > 2:
        parts.append(f"macro F1 {wording.score(scored['f1_macro'])}")
    elif scored.get("positive_label") == rare and "average_precision" in scored:
        parts.append(f"average precision {wording.score(scored['average_precision'])}")
    return parts


def write_report(
    folder: Path,
    report: dict[str, Any],
    facts: RunFacts,
    examples: Any,
    scores: PredictionScores,
    explain: Explain | None = None,
) -> None:
    """Write the files of `report` into the run's `folder`: plots, predictions.csv, report.html, and last report.json.

    `examples` are the scored split's, by row; `scores` hold their predictions. `explain` marks the words of mistakes.
    """
    texts = [texts_of(examples[int(row)]) for row in scores.rows]
    where = [examples.where(int(row)) for row in scores.rows] if report["data"] else ()
    carried = None if examples.carried is None else examples.carried.select(scores.rows)
    write_predictions(folder / "predictions.csv", texts, scores, carried, where)
    sections = [*mistakes_section(examples, scores, explain), *survey_section(facts, report.get("data_notes", []))]
    _write_page(
        folder, report, _curves(folder, report) | _plots_of(report, scores), [*sections, *settings_section(facts)]
    )


def write_encoder_report(folder: Path, report: Mapping[str, Any], facts: RunFacts) -> None:
    """Write the report of an encoder without a task: the curves, report.html, and last report.json."""
    if "pairs" not in report:  # it learned from labelled rows
        sections = [*survey_section(facts, report.get("data_notes", [])), *settings_section(facts)]
        _write_page(folder, report, _curves(folder, report), sections)
        return
    documents = []
    for name, split in split_facts(facts).items():
        if "documents" in split:
            documents.append([name, wording.number(split["documents"])])
    data = [Heading("Data"), *pair_lines(report["pairs"]), Table(("split", "documents"), documents)]
    _write_page(folder, report, _curves(folder, report), [*data, *settings_section(facts)])


def _write_page(folder: Path, report: Mapping[str, Any], drawn: Mapping[str, Plot], sections: Sequence[Block]) -> None:
    """Write each plot to plots/<name>.png, report.html with these `sections` below the scores, and report.json."""
    (folder / "plots").mkdir(parents=True, exist_ok=True)
    for name, plot in drawn.items():
        plots.write_png(plot.figure, folder / "plots" / f"{name}.png")
    write_html_json(folder / "report.html", wording.title_of(report), [*_page_blocks(report, drawn), *sections], report)


def _curves(folder: Path, report: Mapping[str, Any]) -> dict[str, Plot]:
    """Return the plot of the run's metrics.jsonl; none if it has not trained."""
    path = folder / "metrics.jsonl"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    lines = [json.loads(line) for line in text.splitlines()]
    if not any(line["kind"] == "step" for line in lines):
        return {}
    main_score = report["main_score"]
    scores = "Losses, scores" if "pairs" in report else f"Loss, {wording.words_of(main_score)}"
    columns = [("loss", "loss", main_score, "")]
    if "second_sentence" in report:
        paired = any("loss_sequence" in line or "nsp_loss" in line for line in lines)
        columns = [("loss_token" if paired else "loss", "mlm_loss", "mlm_accuracy", "masked tokens: ")]
        if paired:
            columns.append(("loss_sequence", "nsp_loss", "nsp_accuracy", "pairs: "))
    what = f"{scores} on validation and learning rate over the optimizer's steps."
    what += _not_kept(report, " They are those of the finetuned model, which is not kept: the head alone is.")
    gaps = report.get("not_logged", [])
    if gaps:
        what += " In grey: steps of which metrics.jsonl lacks lines."
    return {"curves": Plot(plots.curves(lines, columns, gaps), what)}


def _plots_of(report: Mapping[str, Any], scores: PredictionScores) -> dict[str, Plot]:
    """Return the plots of predictions by name."""
    drawn: dict[str, Plot] = {}
    if isinstance(scores, ClassificationScores | TaggingScores):
        drawn["confusion"] = Plot(plots.confusion_plot(scores.confusion, scores.label_names), "Confusion matrix.")
        what = "Accuracy with its 95% interval in bins of confidence, and how many predictions each bin holds. "
        what += f"Accuracy is not shown of fewer than {MIN_BIN_ROWS}."
        measured = report["splits"][report["scored_split"]]["calibration"]
        drawn["calibration"] = Plot(plots.reliability_plot(measured), what)
    precision_recall = plots.precision_recall_plot(scores)
    if precision_recall is not None:
        drawn["precision_recall"] = Plot(precision_recall, THRESHOLD)
    if isinstance(scores, NumberScores):
        what = "Predicted against true numbers. On the dashed line both are the same."
        drawn["numbers"] = Plot(plots.numbers_plot(scores.labels, scores.predicted), what)
    return drawn


def _page_blocks(report: Mapping[str, Any], drawn: Mapping[str, Plot]) -> list[Block]:
    """Return the main score, how it compares, notes, and the sections on scores and confidence."""
    scored = report["splits"][report["scored_split"]]

    def section(title: str, name: str, about: str = "") -> list[Block]:
        return [Heading(title), Text(about), drawn[name]] if name in drawn else []

    return [
        _headline_block(report),
        *single_class_warning(report),
        Text(f"encoderlab {report['command']}, seed {report['seed']}", tone="quiet"),
        *baseline_blocks(report),
        *branch_blocks(report),
        *against_blocks(report),
        *_notes(report, apart=report.get("data_notes", [])),
        Heading("Scores"),
        *_summary(report),
        Text(INTERVALS, tone="quiet"),
        *section("Curves", "curves"),
        *section("Numbers", "numbers"),
        *slice_blocks(report, most=MOST_ON_PAGE),
        *class_sections(scored),
        *section("Precision and recall", "precision_recall"),
        *section("Calibration", "calibration", about_calibration(report, scored)),
    ]
