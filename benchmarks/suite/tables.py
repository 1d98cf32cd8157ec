"""The suite's results as Markdown: a summary, a table for each data set, and what ran where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean, median
from typing import Any

from benchmarks.machine import provenance_in_words
from benchmarks.page import grid, mebibytes
from benchmarks.suite.kinds import KINDS
from benchmarks.suite.plan import filled
from benchmarks.suite.sets import ENGLISH, GROUPS, SECOND, SETS, WORDS

Result = dict[str, Any]
BASELINES = {
    "majority": "most frequent label",
    "mean": "mean of training",
    "tfidf_logreg": "TF-IDF + logistic regression",
    "tfidf_ridge": "TF-IDF + ridge regression",
    "word_majority": "each word's most frequent label",
}
REFERENCES = ("majority", "mean")
ABOVE, LEVEL, BELOW = "above", "not distinguishable", "below"
MARKS = {ABOVE: "**{}** ▲", LEVEL: "{}", BELOW: "{} ▼"}
NOT_RUN, FAILED = "–", "failed"
IN_COMMANDS = {"suite": "../shared/suite", "output": "outputs/suite", "minilm": "$MINILM"}


def standing(kind: Mapping[str, Any] | None) -> str | None:
    """Return whether a kind of runs is above, below or not distinguishable from the linear model; None if unknown."""
    interval = ((kind or {}).get("ahead") or {}).get("interval")
    if interval is None:
        return None
    return ABOVE if interval[0] > 0 else BELOW if interval[1] < 0 else LEVEL


def summary(results: Mapping[str, Result]) -> str:
    """Return how many of the English sets each kind wins, then the scores of all sets in one table."""
    head = ["", "training rows", "score", "majority", "TF-IDF", *(kind.title for kind in KINDS.values())]
    rows = []
    for group, title in GROUPS.items():
        inside = [name for name, one in SETS.items() if one.group == group and name in results]
        rows += (
            [[f"*{title}*", *[""] * (len(head) - 1)], *(_summary_row(results[name]) for name in inside)]
            if inside
            else []
        )
    legend = (
        "Scores on the test split (SST-2: validation), as means over the seeds. **Bold** ▲: the whole 95% interval of the paired "
        "difference is above the linear model; ▼: below it; –: not run. Students learn only where a text or a word has one label. "
        "Where words are labelled, each word's most frequent label stands in for TF-IDF; where the score is a correlation, the "
        "mean of training stands in for the majority."
    )
    return "\n".join([*_counts(results), "", *grid(head, rows), "", legend])


def _summary_row(result: Result) -> list[str]:
    best = result["baselines"].get(result["best_baseline"] or "", {"skipped": ""})
    reference = next(result["baselines"][name] for name in REFERENCES if name in result["baselines"])
    cells = [words_of(result["figure"]), *(_number(one.get("score")) for one in (reference, best))]
    for kind in KINDS:
        found = result["kinds"].get(kind)
        score = NOT_RUN if found is None else FAILED if "score" not in found else _number(found["score"])
        cells.append(MARKS[standing(found) or LEVEL].format(score))
    return [f"[{result['name']}](#{result['name']})", f"{result['rows']['train']:,}", *cells]


def _counts(results: Mapping[str, Result]) -> list[str]:
    """Return a row for each kind: on how many of the English sets of the suite it is above the linear model, and what
    it costs.
    """
    english = [results[name] for name, one in SETS.items() if one.group == ENGLISH and name in results]
    rows = []
    for kind, of in KINDS.items():
        found = [result["kinds"][kind] for result in english if "ahead" in result["kinds"].get(kind, {})]
        if not found:
            continue
        where = [standing(one) for one in found]
        counts = [f"{where.count(ABOVE)} of {len(found)}", str(where.count(LEVEL)), str(where.count(BELOW))]
        ahead = f"{100 * mean(one['ahead']['value'] for one in found):+.1f}"
        seconds = [one["train_seconds"] for one in found if one["train_seconds"] is not None]
        minutes = _minutes(median(seconds) if seconds else None)
        rows.append([of.title, *counts, ahead, minutes, f"{median(one['megabytes'] for one in found):,.0f}"])
    n_sets = sum(one.group == ENGLISH for one in SETS.values())
    count = f"all {n_sets}" if len(english) == n_sets else f"{len(english)} of {n_sets}"
    head = [
        "against TF-IDF",
        "above",
        "not distinguishable",
        "below",
        "points ahead, mean",
        "minutes of training, median",
        "MB",
    ]
    return [f"On {count} English classification sets of the suite:", "", *grid(head, rows)] if rows else []


def set_table(result: Result) -> str:
    """Return the table of everything measured on one data set."""
    name, rows = result["name"], result["rows"]
    what = SETS[name].what
    labels = f"{result['n_labels']} labels, " if result["n_labels"] else ""
    size = f"{rows['train']:,} training rows, {labels}scored on {rows['scored']:,} rows of {result['split']}."
    figure, second = result["figure"], SECOND[result["figure"]]
    best = "TF-IDF" if result["best_baseline"] != "word_majority" else "the words' labels"
    scores = [f"{words_of(figure)} (95% interval)", "seeds (lowest to highest)", words_of(second)]
    head = ["", *scores, f"ahead of {best} (95% interval)"]
    head += ["minutes of training", "in all", "MB", "parameters", "peak memory"]
    table = [_baseline_row(BASELINES[title], one, second, len(head)) for title, one in result["baselines"].items()]
    for kind in KINDS:
        table += _kind_rows(kind, result["kinds"].get(kind), second, len(head))
    return "\n".join([f"{what[0].upper()}{what[1:]}: {size}", "", *grid(head, table)])


def words_of(figure: str) -> str:
    """Return a figure's name for readers."""
    return WORDS.get(figure, figure)


def _baseline_row(title: str, one: Result, second: str, width: int) -> list[str]:
    if "skipped" in one:
        return [title, f"skipped: {one['skipped']}", *[""] * (width - 2)]
    cells = [
        title,
        _with_interval(one["score"], one["interval"]),
        "",
        _number(one[second]),
        "",
        _minutes(one["seconds"]),
    ]
    return [*cells, *[""] * (width - len(cells))]


def _kind_rows(kind: str, found: Result | None, second: str, width: int) -> list[list[str]]:
    """Return the row of the finished runs, if any, and one for each run that failed."""
    if found is None:
        return []
    title = KINDS[kind].title
    failed = [
        [f"{title}, seed {one['seed']}", f"failed: {one['error']}".replace("|", "\\|")] for one in found["failed"]
    ]
    rows = [[*row, *[""] * (width - len(row))] for row in failed]
    return [_finished_row(title, found, second), *rows] if found["runs"] else rows


def _finished_row(title: str, found: Result, second: str) -> list[str]:
    scores = [run["score"] for run in found["runs"]]
    spread = f"{len(scores)} ({_number(min(scores))} to {_number(max(scores))})" if len(scores) > 1 else "1"
    ahead, where = found.get("ahead"), standing(found)
    lead = MARKS[where].format(_lead(ahead["value"], ahead["interval"])) if where else ""
    return [
        title,
        _with_interval(found["score"], found["interval"]),
        spread,
        _number(found[second]),
        lead,
        _minutes(found["train_seconds"]),
        _minutes(found["wall_seconds"]),
        f"{found['megabytes']:,.1f}",
        f"{found['parameters'] / 1e6:,.1f} M",
        "" if found["peak_memory"] is None else mebibytes(found["peak_memory"]),
    ]


def origins(results: Mapping[str, Result]) -> str:
    """Return what ran where: dates, machine, commit and versions, once for all sets that share them."""
    found: dict[str, tuple[set[str], dict[str, None]]] = {}
    for name in (name for name in SETS if name in results):
        made = [run["made"] for kind in results[name]["kinds"].values() for run in kind["runs"]]
        for one in made:
            date, _, rest = provenance_in_words(one).partition(", ")
            dates, names = found.setdefault(rest, (set(), {}))
            dates.add(date)
            names[name] = None
    return "\n".join(
        f"* {' to '.join(sorted({min(dates), max(dates)}))}, {rest}: {', '.join(names)}."
        for rest, (dates, names) in found.items()
    )


def commands(results: Mapping[str, Result]) -> str:
    """Return the command of each kind of run on each set, with its first seed and the default folders."""
    lines = []
    for name in (name for name in SETS if name in results):
        found = [results[name]["kinds"][kind] for kind in KINDS if kind in results[name]["kinds"]]
        lines += [f"encoderlab {' '.join(filled(kind['command'], IN_COMMANDS))}" for kind in found]
    return "\n".join(["```", *lines, "```"])


def _number(score: float | None) -> str:
    return NOT_RUN if score is None else f"{score:.3f}"


def _with_interval(value: float, interval: Sequence[float]) -> str:
    return f"{value:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"


def _lead(value: float, interval: Sequence[float]) -> str:
    return f"{value:+.3f} ({interval[0]:+.3f} to {interval[1]:+.3f})"


def _minutes(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds / 60:,.1f}" if seconds >= 6 else "< 0.1"
