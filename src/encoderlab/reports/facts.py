"""What a report says of a run besides its scores: its command line, settings, machine and data.

The facts are plain data: `environment` is the run's environment.json, and `settings` lists each setting with `name`,
`value`, `default` and `differs`.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from encoderlab.errors import printable
from encoderlab.reports.tables import (
    Block,
    Code,
    Folded,
    Heading,
    Table,
    Text,
    counted,
    number,
    percent,
    shown,
    words_of,
)

Facts = Mapping[str, Any]
LONGEST_VALUE = 300  # characters of a setting's value, or of a fact
NOT_REPEATED = ("run_dir", "resume")  # a run is repeated in a new folder
MOST_LABELS = 30  # counted on the page
SURVEYED = {
    "rows": "rows",
    "no label": "unlabelled",
    "empty": "empty",
    "duplicates": "duplicates",
    "also in train": "shared_with_train",
    "conflicting label": "shared_with_other_label",
}


def repeat_line(facts: Facts) -> str | None:
    """Return the command line that repeats the run; None if it was started from Python."""
    record = facts["environment"]
    overrides = record.get("overrides")
    if overrides is None:
        return None
    again = [one for one in overrides if one.partition("=")[0].lstrip("+~") not in NOT_REPEATED]
    return printable(" ".join(["encoderlab", record["command"], *map(shlex.quote, again)]))


def changed_settings(facts: Facts) -> list[tuple[str, str, str]]:
    """Return name, value and default ("" if there is none) of the settings that differ from their default."""
    return [_setting(one) for one in facts["settings"] if one["differs"]]


def machine(facts: Facts) -> list[tuple[str, str]]:
    """Return hardware and versions, as far as they are known."""
    record = facts["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items() if version)
    resumed = record.get("continued")
    known = {
        **{words_of(name): value for name, value in record["hardware"].items()},
        "versions": versions,
        "git commit": record["git_commit"],
        "resumed": f"{len(resumed)} time(s); see environment.json" if resumed else None,
    }
    return [(name, _as_yaml(value)) for name, value in known.items() if value is not None]


def origin(facts: Facts) -> dict[str, str]:
    """Return where the rows come from, in words."""
    data = facts["environment"]["dataset"] or {}
    return {words_of(name): _as_yaml(value) for name, value in (data.get("origin") or {}).items()}


def split_facts(facts: Facts) -> dict[str, dict[str, Any]]:
    """Return what is known of each split."""
    return (facts["environment"]["dataset"] or {}).get("splits", {})


def _setting(setting: Mapping[str, Any]) -> tuple[str, str, str]:
    default = "" if setting["required"] else _as_yaml(setting["default"])
    return setting["name"], _as_yaml(setting["value"]), default


def _as_yaml(value: Any) -> str:
    """Return a value as written in YAML, shortened if it is long."""
    return shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), LONGEST_VALUE)


def settings_section(facts: Facts) -> list[Block]:
    """Return the settings, and how to repeat the run."""
    columns = ("setting", "value", "default")
    others = [_setting(one) for one in facts["settings"] if not one["differs"]]
    repeat = repeat_line(facts)
    by_hand = "The run was started from Python, or as part of another run. config.yaml has its settings."
    return [
        Heading("Settings"),
        Text("The settings that differ from their defaults. config.yaml has every setting."),
        Table(columns, changed_settings(facts), n_texts=3),
        Folded(f"{counted(len(others), 'setting')} at the default", [Table(columns, others, n_texts=3)]),
        Heading("Repeating it"),
        Text(by_hand) if repeat is None else Code(repeat),
        Text(
            "On the same machine, with these versions and the same rows, the scores are the same. environment.json has "
            "a fingerprint of each split."
        ),
        Table(("machine", ""), machine(facts), n_texts=2),
        Table(("where the rows come from", ""), list(origin(facts).items()), n_texts=2),
    ]


def survey_tables(splits: Mapping[str, Mapping[str, Any]]) -> list[Table]:
    """Return what a survey counted in each split: its rows and their length, and its numbers or labels."""
    rows = []
    for name, split in splits.items():
        counts = [
            "-" if name == "train" and key.startswith("shared") else number(split[key]) for key in SURVEYED.values()
        ]
        words = " · ".join(f"{split[f'words_{key}']:,.0f}" for key in ("median", "p95", "max"))
        rows.append([name, *counts, words])
    tables = [Table(("split", *SURVEYED, "words (p50, p95, max)"), rows)]
    if any(split.get("numbers") for split in splits.values()):
        keys = {"min": "min", "mean": "mean", "std. dev.": "deviation", "max": "max"}
        rows = [
            [name, *(f"{split['numbers'][key]:,.6g}" if split.get("numbers") else "-" for key in keys.values())]
            for name, split in splits.items()
        ]
        return [*tables, Table(("numbers", *keys), rows)]
    labels = next(iter(splits.values()))["labels"] if splits else {}
    rows = [
        [shown(label, 80), *(_label_share(split["labels"], label) for split in splits.values())]
        for label in list(labels)[:MOST_LABELS]
    ]
    return [*tables, Table(("label", *splits), rows)] if rows else tables


def _label_share(counts: Mapping[str, int], label: str) -> str:
    total = sum(counts.values())
    return f"{number(counts.get(label, 0))} ({percent(counts.get(label, 0) / total)})" if total else "-"


def survey_section(facts: Facts) -> list[Block]:
    """Return what the page says of the run's rows."""
    splits = split_facts(facts)
    n_labels = len(next(iter(splits.values()), {}).get("labels", {}))
    few = f"The first {MOST_LABELS} of {number(n_labels)} labels; environment.json counts all."
    return [
        Heading("Data"),
        *survey_tables(splits),
        Text(few if n_labels > MOST_LABELS else "", tone="quiet"),
        Text(
            "Duplicates are rows whose text occurs earlier in the split; “also in train” counts rows whose text is in "
            "the training split, and “conflicting label” those whose label it never has there.",
            tone="quiet",
        ),
    ]
