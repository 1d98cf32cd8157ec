"""What is known of a run besides its scores: its command line, settings, machine and data, and what is odd in it.

RunFacts are plain data: `environment` is its environment.json, `settings` are those it was given, by name.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, TextIO
from unicodedata import normalize

from encoderlab.errors import printable
from encoderlab.reports import wording
from encoderlab.reports.blocks import Block, Heading, Items, Table, Text, show

RunFacts = Mapping[str, Any]
LEAST_ROWS = 10  # of a class, below which its scores are mostly chance
MANY_MARKED = 0.1  # of the training texts
LEAST_SHARED = 0.02  # of a split's rows: fewer that are also in training hardly change its score
MOST_NAMED = 5  # labels in a warning
MOST_CLASSES = 12  # counted on the screen
MOST_LABELS = 30  # counted on the page
LONGEST_VALUE = 300  # characters of a setting's value, or of a fact
COUNTED = ("documents", "paragraphs", "sentences", "tokens")
SURVEYED = {
    "rows": "rows",
    "no label": "unlabelled",
    "empty": "empty",
    "duplicates": "duplicates",
    "also in train": "shared_with_train",
    "conflicting label": "shared_with_other_label",
}
BY_HAND = "The run was started from Python or as part of another run, or resumed with other settings: see config.yaml."
SURVEY = (
    "Duplicates are rows whose text occurs earlier in the split; “also in train” counts rows whose text is in the "
    "training split, and “conflicting label” those that have only other labels there."
)
_NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]*)?")
PRECISIONS = {"float32": "fp32", "bfloat16": "bf16"}  # the values of training.precision, as recorded
_PLACES = ("run_dir=", "resume=")  # a run is repeated in a new folder


def repeat_line(facts: RunFacts) -> str | None:
    """Return the command line that repeats the run; None if started from Python, or resumed with other overrides."""
    record = facts["environment"]
    overrides = record.get("overrides")
    if overrides is None:
        return None
    for resumption in record.get("resumed", []):
        for override in resumption["overrides"] or ["from Python"]:
            if override not in overrides and not override.startswith(_PLACES):
                return None
    repeated = [override for override in overrides if not override.lstrip("+~").startswith(_PLACES)]
    hardware = record["hardware"]
    if hardware.get("speeds"):  # another time, another choice might be the fastest
        names = {override.lstrip("+").partition("=")[0] for override in overrides}
        timed = {"precision": PRECISIONS[hardware["precision"]], "threads": hardware["threads"]}
        repeated += [f"training.{name}={value}" for name, value in timed.items() if f"training.{name}" not in names]
    n_processes = hardware.get("processes") or 1
    program = f"torchrun --standalone --nproc-per-node={n_processes} -m encoderlab" if n_processes > 1 else "encoderlab"
    return printable(" ".join([program, record["command"], *map(shlex.quote, repeated)]))


def given_settings(facts: RunFacts) -> list[tuple[str, str]]:
    """Return name and value of the settings that were typed or, started otherwise, differ from the command's own."""
    return [(name, _as_yaml(value)) for name, value in facts["settings"].items()]


def machine(facts: RunFacts) -> list[tuple[str, str]]:
    """Return hardware and versions, as far as they are known."""
    record = facts["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items() if version)
    hardware = {wording.words_of(name): value for name, value in record["hardware"].items()}
    known = {**hardware, "versions": versions, "git commit": record["git_commit"]}
    return [(name, _as_yaml(value)) for name, value in known.items() if value is not None]


def origin(facts: RunFacts) -> dict[str, str]:
    """Return where the rows come from, in words."""
    data = facts["environment"]["dataset"] or {}
    return {wording.words_of(name): _as_yaml(value) for name, value in (data.get("origin") or {}).items()}


def split_facts(facts: RunFacts) -> dict[str, dict[str, Any]]:
    """Return what is known of each split."""
    return (facts["environment"]["dataset"] or {}).get("splits", {})


def _as_yaml(value: Any) -> str:
    """Return a value as written in YAML, shortened if it is long."""
    return wording.shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), LONGEST_VALUE)


def settings_section(facts: RunFacts) -> list[Block]:
    """Return the settings, and how to repeat the run."""
    repeat = repeat_line(facts)
    return [
        Heading("Settings"),
        Text("The settings that this run was given. config.yaml has every setting."),
        Table(("setting", "value"), given_settings(facts), n_texts=2),
        Heading("Repeating it"),
        Text(BY_HAND) if repeat is None else Items("Command line", [repeat]),
        Table(("machine", ""), machine(facts), n_texts=2),
        Table(("where the rows come from", ""), list(origin(facts).items()), n_texts=2),
    ]


def pair_lines(pairs: Mapping[str, Any]) -> list[Text]:
    """Return what training reads, in words.

    `pairs` count `documents`, `paragraphs`, `sentences` and `tokens`; of an epoch `pairs` (or single texts), their
    `mean_length` in tokens, the share `truncated`, and `labels` (pairs by label, if there are any); of a stream, those
    of its first window, and its `shards`. `sentence_splitter` says how sentences were found.
    """
    counts = ", ".join(f"{wording.number(pairs[name])} {name}" for name in COUNTED)
    if "shards" in pairs:
        counts = f"{wording.counted(pairs['shards'], 'shard')}, read during training; in the first window {counts}"
    labels = pairs.get("labels", {})
    epoch = [f"{wording.number(pairs['pairs'])} {'pairs' if labels else 'texts'}"]
    epoch += [
        f"{pairs['mean_length']:,.1f} tokens long on average",
        f"{wording.percent(pairs['truncated']) if pairs['truncated'] else 'none'} truncated",
    ]
    epoch += [f"{count:,} {label}" for label, count in labels.items()]
    return [
        Text(f"{counts}; sentences found by {pairs['sentence_splitter']}", "Training text"),
        Text(", ".join(epoch), "The first window" if "shards" in pairs else "An epoch"),
    ]


def survey_tables(splits: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """Return what a survey counted in each split: its rows and their length, and its numbers or labels."""
    rows = []
    for name, split in splits.items():
        counts = []
        for key in SURVEYED.values():
            is_itself = name == "train" and "shared" in key
            counts.append("-" if is_itself else wording.number(split[key]))
        lengths = [f"{split[f'words_{key}']:,.0f}" for key in ("median", "p95", "max")]
        rows.append([name, *counts, " · ".join(lengths)])
    tables = [Table(("split", *SURVEYED, "words (p50, p95, max)"), rows)]
    numbers = {name: split["numbers"] for name, split in splits.items() if split.get("numbers")}
    if numbers:
        keys = {"min": "min", "mean": "mean", "std. dev.": "deviation", "max": "max"}
        rows = [[name, *(f"{own[key]:,.6g}" for key in keys.values())] for name, own in numbers.items()]
        return [*tables, Table(("numbers", *keys), rows)]
    counts = [split["labels"] for split in splits.values()]
    labels = list(counts[0])[:MOST_LABELS] if counts else []
    rows = [[wording.shown(label, 80), *(_label_share(own, label) for own in counts)] for label in labels]
    return [*tables, Table(("label", *splits), rows)] if rows else tables


def _label_share(counts: Mapping[str, int], label: str) -> str:
    total = sum(counts.values())
    return f"{wording.number(counts.get(label, 0))} ({wording.percent(counts.get(label, 0) / total)})" if total else "-"


def survey_section(facts: RunFacts, notes: Sequence[str] = ()) -> list[Block]:
    """Return what the page says of the run's rows, with `notes` such as how many were truncated."""
    splits = split_facts(facts)
    n_labels = len(next(iter(splits.values()), {}).get("labels", {}))
    few = f"The first {MOST_LABELS} of {wording.number(n_labels)} labels. " if n_labels > MOST_LABELS else ""
    about = [Text(wording.shown(note), "Note") for note in (*notes, *_left_out(facts))]
    return [Heading("Data"), *about, *survey_tables(splits), Text(f"{few}{SURVEY}", tone="quiet")]


def _left_out(facts: RunFacts) -> list[str]:
    """Return a note on the rows of the training file without a label, if it has any."""
    origin_facts = (facts["environment"]["dataset"] or {}).get("origin") or {}
    n_left = origin_facts.get("rows_without_label", 0)
    why = "Left out, because they have no label"
    return [f"{why}: {wording.counted(n_left, 'row')}"] if n_left else []


# Each of these warnings is "" if there is nothing to warn about.


def scarce_classes(split: str, counts: Mapping[str, int]) -> str:
    """Return a warning about classes with few rows in a split, given the `counts` of all."""
    few = [f"{name!r} ({count})" for name, count in counts.items() if count < LEAST_ROWS]
    why = f"with fewer than {LEAST_ROWS}, precision, recall and F1 are mostly chance."
    return f"Too few rows of {split} to score {_some(few)}: {why}" if few else ""


def shared_rows(split: str, counts: Mapping[str, Any]) -> str:
    """Return a warning about rows of a split whose text is also in training, given its survey."""
    shared = counts["shared_with_train"]
    rows = counts["rows"]
    if split == "train" or not rows or shared / rows < LEAST_SHARED:
        return ""
    return (
        f"{shared:,} of the {rows:,} rows of {split} ({shared / rows:.0%}) have a text that is also in train, so the "
        "score says less about new texts than it seems to: remove them from train."
    )


def conflicting_rows(survey: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a warning about rows with the text of an earlier row and another label."""
    counts = {name: split["conflicting"] for name, split in survey.items() if split["conflicting"]}
    rows = " and ".join(f"{wording.counted(count, 'row')} of {name}" for name, count in counts.items())
    return f"The text of an earlier row has another label in {rows}. `encoderlab data` names them." if rows else ""


def markup(survey: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a warning about HTML in the training texts."""
    share = survey.get("train", {}).get("markup", 0)
    return (
        f"{share:.0%} of the texts of train contain HTML: set dataset.strip_html=true to remove it."
        if share > MANY_MARKED
        else ""
    )


def labels_alike(counts: Mapping[str, int]) -> str:
    """Return a warning about labels that differ only in case, spaces or a number's form."""
    by_form: dict[str, list[str]] = {}
    for name in sorted(counts, key=lambda name: -counts[name]):
        form = " ".join(normalize("NFC", name).casefold().split())
        if _NUMBER.fullmatch(form):
            form = repr(float(form))
        by_form.setdefault(form, []).append(name)
    alike = [" and ".join(map(repr, names)) for names in by_form.values() if len(names) > 1]
    merge = "If they mean the same, write them the same way in the data, or merge them with dataset.label_names."
    what = "Labels that differ only in case, spaces or the form of a number are separate classes"
    return f"{what}: {_some(alike, '; ')}. {merge}" if alike else ""


def _lone_labels(counts: Mapping[str, int]) -> str:
    """Return a warning about labels that occur once in training."""
    lone = [repr(label) for label, count in counts.items() if count == 1]
    mend = "Add rows or merge labels; if there are many, check that dataset.label names the right column."
    what = f"{len(lone):,} of the {len(counts):,} labels occur once in training, too little to learn from"
    return f"{what}: {_some(lone)}. {mend}" if lone else ""


def _some(names: Sequence[str], joint: str = ", ") -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return f"{joint.join(names[:MOST_NAMED])}{more}"


def show_survey(survey: Mapping[str, Mapping[str, Any]], file: TextIO | None = None) -> None:
    """Print the statistics of each split, and what is odd about its labels."""
    show(survey_blocks(survey), file)


def survey_blocks(survey: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    """Return the statistics of each split, and what is odd about its labels."""
    blocks: list[Block] = [*survey_tables(survey)]
    first, labels = next((name, split.get("labels") or {}) for name, split in survey.items())
    if len(labels) > MOST_CLASSES:
        rarest = min(labels, key=lambda label: labels[label])
        commonest = max(reversed(labels), key=lambda label: labels[label])
        extremes = f"from {labels[rarest]:,} ({rarest}) to {labels[commonest]:,} ({commonest})"
        blocks[1:] = [Text(f"{len(labels):,}; in {first} {extremes}", "Labels")]
    warnings = [shared_rows(name, split) for name, split in survey.items()]
    warnings += [labels_alike(labels), conflicting_rows(survey), markup(survey)]
    if len(labels) == 2:
        scored = {name: survey.get(name, {}).get("labels", {}) for name in ("validation", "test")}
        warnings += [scarce_classes(name, counts) for name, counts in scored.items() if any(counts.values())]
    warnings.append(_lone_labels(survey.get("train", {}).get("labels") or {}))
    return [*blocks, *(Text(warning, "Warning") for warning in warnings)]
