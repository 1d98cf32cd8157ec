"""What is known before training: the data and what is odd about it, the cost of a run, and scores without
an encoder.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO
from unicodedata import normalize

import numpy as np

from encoderlab.errors import one_line
from encoderlab.metrics import NumberScores, PredictionScores
from encoderlab.metrics.classification import classification_scores
from encoderlab.metrics.label_sets import label_set_scores
from encoderlab.metrics.tagging import tagging_scores
from encoderlab.reports.facts import survey_tables
from encoderlab.reports.screen import show
from encoderlab.reports.tables import (
    Block,
    Items,
    Table,
    Text,
    interval,
    json_safe,
    lead,
    named_score,
    number,
    percent,
    score,
    words_of,
)

BASELINE_NAMES = {
    "majority": "always the most frequent label",
    "tfidf_logreg": "TF-IDF + logistic regression",
    "word_majority": "each word's most frequent label",
    "mean": "always the mean",
    "tfidf_ridge": "TF-IDF + ridge regression",
}
# The first of these is shown next to the main score.
SECOND = ("token_accuracy", "f1_macro", "f1_micro", "spearman", "pearson", "accuracy")
REFERENCES = ("majority", "mean")  # the baselines that the others are compared with
LEAST_ROWS = 10  # of a class, below which its scores are mostly chance
LEAST_SHARED = 0.02  # of a split's rows: fewer that are also in training hardly change its score
MOST_NAMED = 5  # labels in a warning
MOST_LONE = 50  # labels with a single training row: if more, and most labels, these are probably not labels
MOST_CLASSES = 12  # of the screen, where more would push the headline off
ODD_TEXT = 90  # characters of an odd row's text that fit next to its place
QUANTILES = ("min", "median", "p90", "p95", "p99", "max")


Baseline = Any  # of `baselines`, which this package may not import: `figures`, `predicted`, `skipped`, `top_features`


def scarce_classes(split: str, counts: Mapping[str, int]) -> str:
    """Return a warning about classes with few rows in a split, given the `counts` of all; "" if each has enough."""
    few = [f"{name!r} ({count})" for name, count in counts.items() if count < LEAST_ROWS]
    if not few:
        return ""
    return (
        f"Too few rows of {split} to score {_some(few)}: with fewer than {LEAST_ROWS}, precision, recall and F1 are "
        "mostly chance."
    )


def shared_rows(split: str, counts: Mapping[str, Any]) -> str:
    """Return a warning about rows of a split whose text is also in training, given its survey; "" if they are few."""
    shared, rows = counts["shared_with_train"], counts["rows"]
    if split == "train" or not rows or shared / rows < LEAST_SHARED:
        return ""
    return (
        f"{shared:,} of the {rows:,} rows of {split} ({shared / rows:.0%}) have a text that is also in train, so the "
        "score says less about new texts than it seems to: remove them from train."
    )


def labels_alike(counts: Mapping[str, int]) -> str:
    """Return a warning about labels that differ only in case or white space, given the `counts` of all; ""
    if none do.
    """
    by_form: dict[str, list[str]] = {}
    for name in sorted(counts, key=lambda name: -counts[name]):
        by_form.setdefault(" ".join(normalize("NFC", name).casefold().split()), []).append(name)
    alike = [" and ".join(map(repr, names)) for names in by_form.values() if len(names) > 1]
    if not alike:
        return ""
    return (
        f"Labels that differ only in case or spaces are separate classes: {_some(alike, '; ')}. "
        "If they mean the same, write them the same way in the data, or merge them with dataset.label_names."
    )


def _lone_labels(counts: Mapping[str, int]) -> str:
    """Return a warning about labels that occur once in training; "" if none does."""
    lone = [repr(label) for label, count in counts.items() if count == 1]
    if len(lone) > max(MOST_LONE, len(counts) / 2):
        labels = f"{len(lone):,} of the {len(counts):,} labels occur once in training"
        return f"{labels}; check that dataset.label names the right column"
    have, them = ("label {} occurs", "it") if len(lone) == 1 else ("labels {} occur", "them")
    remedy = f"add more rows, or merge {them} with another label"
    return f"the {have.format(_some(lone))} once in training, too little to learn from; {remedy}" if lone else ""


def _some(names: Sequence[str], joint: str = ", ") -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"{joint.join(names[:MOST_NAMED])}{more}"


def show_survey(survey: Mapping[str, Mapping[str, Any]], file: TextIO | None = None) -> None:
    """Print the statistics of each split, and what is odd about its labels."""
    show(_survey_blocks(survey), file)


def _survey_blocks(survey: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    of_rows, *others = survey_tables(survey)
    train = next(iter(survey.values())).get("labels") or {}
    blocks: list[Block] = [of_rows]
    if len(train) <= MOST_CLASSES:
        blocks += others
    else:
        rarest, commonest = min(train, key=train.__getitem__), max(train, key=train.__getitem__)
        extremes = f"from {train[rarest]:,} ({rarest}) to {train[commonest]:,} ({commonest})"
        blocks.append(Text(f"{len(train):,}; in {next(iter(survey))} {extremes}", "Labels"))
    warnings = [*(shared_rows(name, split) for name, split in survey.items()), labels_alike(train)]
    if len(train) == 2:
        scored = {name: survey.get(name, {}).get("labels", {}) for name in ("validation", "test")}
        warnings += [scarce_classes(name, counts) for name, counts in scored.items() if any(counts.values())]
    warnings.append(_lone_labels(survey.get("train", {}).get("labels") or {}))
    return [*blocks, *(Text(warning, "Warning") for warning in warnings)]


def show_rows(facts: Mapping[str, Any], file: TextIO) -> None:
    """Print what `encoderlab data` knows of labelled rows: statistics, lengths, tokens, odd rows and examples."""
    splits = facts["splits"]
    lengths = {name: split["tokens"] for name, split in splits.items()}
    blocks = [*_survey_blocks(splits), *_lengths(lengths, facts["max_length"], "row"), *_tokenization(facts["pieces"])]
    blocks += [Items(f"Odd rows of {name}", list(_odd(split["odd_rows"]))) for name, split in splits.items()]
    blocks += [Items(f"Rows of {name}", list(_examples(split["examples"]))) for name, split in splits.items()]
    show(blocks, file)


def show_documents(facts: Mapping[str, Any], file: TextIO) -> None:
    """Print what `encoderlab data` knows of documents: counts, lengths, tokens and examples."""
    splits = facts["splits"]
    first = next(iter(splits.values()))
    kind = "pairs" if "labels" in first else "texts"
    keys = ("documents", "paragraphs", "sentences", "tokens", "pairs")
    rows = [[name, *(number(split[key]) for key in keys)] for name, split in splits.items()]
    lengths = {name: split["tokens_of_a_row"] for name, split in splits.items()}
    blocks: list[Block] = [
        Table(("split", *keys[:-1], f"{kind} of an epoch"), rows),
        Text(f"found by {first['sentence_splitter']}", "Sentences"),
        *_lengths(lengths, facts["max_length"], kind[:-1]),
        *_tokenization(facts["pieces"]),
    ]
    blocks += [
        Items(f"{kind.capitalize()} of {name}", list(_pairs(split["examples"]))) for name, split in splits.items()
    ]
    show(blocks, file)


def _lengths(by_split: Mapping[str, Mapping[str, Any]], max_length: int, what: str) -> list[Block]:
    rows = [
        [name, *(f"{one[key]:,.0f}" if key in one else "-" for key in QUANTILES), percent(one["truncated"])]
        for name, one in by_split.items()
    ]
    reads = f"Lengths include special tokens; the model reads up to model.max_length={max_length}."
    return [Table((f"tokens of a {what}", *QUANTILES, f"truncated at {max_length}"), rows), Text(reads)]


def _tokenization(pieces: Mapping[str, Any] | None) -> list[Block]:
    if pieces is None:
        return []
    words = (
        f"{pieces['pieces_per_word']:.2f} tokens per word, {percent(pieces['whole_words'])} of the words whole, "
        f"{pieces['unknown_pieces']:.2%} of the tokens unknown, a vocabulary of {pieces['vocabulary_size']:,}"
    )
    return [Text(words, "Tokens")]


def _odd(kinds: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for kind in kinds:
        yield f"{number(kind['count'])} with {kind['kind']}"
        for row in kind["first"]:
            like, text = f" (as {row['like']})" if "like" in row else "", one_line(row["text"])
            yield f"    {row['where']}{like}: {text[:ODD_TEXT]}{'...' * (len(text) > ODD_TEXT)}"


def _examples(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield three lines for each row: its place and its label, its text, its tokens."""
    for row in rows:
        label = "no label" if row["label"] is None else one_line(row["label"])
        yield f"{row['where']}, {row['tokens']} tokens, {label}"
        yield f"    {one_line(row['text'])}"
        yield f"    {' '.join(row['pieces'])}{' ...' if row['tokens'] > len(row['pieces']) else ''}"


def _pairs(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        first, *second = (" ".join(pieces) for pieces in row["pieces"])
        yield first if row["label"] is None else f"{row['label']}: {first}"
        yield from (f"    {pieces}" for pieces in second)


def build_baseline_report(
    *,
    task: str,
    seed: int,
    split: str,
    labels: Any,
    names: Sequence[str],
    found: Mapping[str, Baseline],
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
    reference = next(name for name in REFERENCES if name in found)
    reports: dict[str, dict[str, Any]] = {}
    for name, one in found.items():
        if one.predicted is None:
            reports[name] = {"skipped": one.skipped}
            continue
        scores = _scores(labels, one, names, main, positive)
        ahead, bounds = scores.lead_over(found[reference].predicted, seed)
        reports[name] = {
            **one.figures,
            **scores.with_intervals(seed).as_dict(),
            f"ahead_of_{reference}_by": ahead,
            f"ahead_of_{reference}_by_ci95": bounds,
            "top_features": {names[id_]: top[:words] for id_, top in one.top_features.items()} if words else {},
        }
    report = {"command": "baseline", "task": task, "seed": seed, "scored_split": split, "n": len(labels)}
    return json_safe({**report, "main_figure": main, "labels": list(names), "baselines": reports})


def _scores(labels: Any, baseline: Baseline, names: Sequence[str], main: str, positive: int) -> PredictionScores:
    """Return the scores of a baseline's predictions."""
    if isinstance(labels, list):
        return tagging_scores(labels, list(baseline.predicted), names, main)
    predicted = np.asarray(baseline.predicted)
    if labels.dtype.kind in "iu":
        return classification_scores(labels, predicted, names, main, positive)
    if labels.dtype == bool:
        return label_set_scores(labels, predicted, names, main)
    figures = {name: value for name, value in baseline.figures.items() if name != "seconds"}
    return NumberScores(
        n=len(labels), figures=figures, rows=np.arange(len(labels)), labels=labels, predicted=predicted, main=main
    )


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
    columns = ("without an encoder", f"{named} (95% interval)", words_of(second), "ahead by", "seconds")
    where = f"scored on {report['scored_split']} ({number(report['n'])} rows)"
    blocks: list[Block] = [Text(where, f"baseline {report['task']}"), Table(columns, rows)]
    for name, one in baselines.items():
        blocks.append(Text(one.get("skipped", ""), f"{BASELINE_NAMES[name]} was skipped"))
        top = list(one.get("top_features", {}).items())[:MOST_CLASSES]
        lines = [f"{one_line(label)}: {', '.join(words)}" for label, words in top]
        blocks.append(Items("The strongest words for each class", lines))
    show(blocks, file)
