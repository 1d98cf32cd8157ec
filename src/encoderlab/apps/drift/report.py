"""What `encoderlab data` prints: the rows of a dataset, or how new texts differ from those of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO

from encoderlab.metrics.languages import UNCLEAR
from encoderlab.reports import wording
from encoderlab.reports.blocks import Block, Items, Table, Text, show
from encoderlab.reports.facts import survey_blocks

ODD_TEXT = 90  # characters of an odd row's text that fit next to its place
MOST_CHANGED = 12  # labels shown of new texts: those whose shares have changed most
SHOWN_TEXT = 120  # characters of a new text
LEAST_SHARE = 0.01  # of texts in a language that is shown
MOST_SHARES = 4
MOST_COLUMNS = 6  # of a file whose first rows are shown
CELL_SHOWN = 24  # characters of such a cell
QUANTILES = ("min", "median", "p90", "p95", "p99", "max")


def show_rows(facts: Mapping[str, Any], file: TextIO) -> None:
    """Print what `encoderlab data` knows of labelled rows: statistics, lengths, tokens, odd rows and examples."""
    splits = facts["splits"]
    blocks = [*_reading_blocks(facts), *survey_blocks(splits), *_token_blocks(facts)]
    blocks += [Items(f"Odd rows of {name}", list(_odd(split["odd_rows"]))) for name, split in splits.items()]
    blocks += [Items(f"Rows of {name}", list(_examples(split["examples"]))) for name, split in splits.items()]
    show(blocks, file)


def _reading_blocks(facts: Mapping[str, Any]) -> list[Block]:
    """Return how one's own file is read, beside its first rows; nothing for another dataset."""
    if not facts["reading"]:
        return []
    blocks: list[Block] = [Table(("how the file is read", ""), facts["reading"], n_texts=2)]
    columns = facts["first_rows"]
    if columns:
        names = [*columns][:MOST_COLUMNS]
        cells = [[wording.shown(wording.single_spaced(cell), CELL_SHOWN) for cell in columns[name]] for name in names]
        rows = list(zip(*cells, strict=True))
        shown = [wording.shown(wording.single_spaced(name), CELL_SHOWN) for name in names]
        blocks.append(Table(shown, rows, n_texts=len(names)))
    return blocks


def _token_blocks(facts: Mapping[str, Any]) -> list[Block]:
    """Return the lengths of each split's rows, and how words become tokens."""
    rows = []
    for name, split in facts["splits"].items():
        lengths = split["tokens"]
        quantiles = [f"{lengths[key]:,.0f}" if key in lengths else "-" for key in QUANTILES]
        rows.append([name, *quantiles, wording.percent(lengths["truncated"])])
    most = facts["max_length"]
    pieces = facts["pieces"]
    words = ""
    if pieces is not None:
        unknown = f"{pieces['unknown_pieces']:.2%} of the tokens unknown"
        words = f"{pieces['pieces_per_word']:.2f} tokens per word, {unknown}, vocabulary {pieces['vocabulary_size']:,}"
    return [
        Table(("tokens of a row", *QUANTILES, f"truncated at {most}"), rows),
        Text(f"Lengths include special tokens; the model reads up to model.max_length={most}."),
        Text(words, "Tokens"),
    ]


def _odd(kinds: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a line for each kind of odd rows, and one for each of its first rows."""
    for kind in kinds:
        yield f"{wording.number(kind['count'])} with {kind['kind']}"
        for row in kind["first"]:
            like = f" (as {row['like']})" if "like" in row else ""
            text = wording.single_spaced(row["text"])
            rest = "..." if len(text) > ODD_TEXT else ""
            yield f"    {row['where']}{like}: {text[:ODD_TEXT]}{rest}"


def _examples(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield three lines for each row: its place and its label, its text, its tokens."""
    for row in rows:
        label = "no label" if row["label"] is None else wording.single_spaced(row["label"])
        yield f"{row['where']}, {row['tokens']} tokens, {label}"
        yield f"    {wording.single_spaced(row['text'])}"
        yield f"    {' '.join(row['pieces'])}{' ...' if row['tokens'] > len(row['pieces']) else ''}"


def show_drift(facts: Mapping[str, Any], file: TextIO) -> None:
    """Print the facts of new texts, the verdict first."""
    tone = "bad" if facts["changed"] else "good"
    blocks: list[Block] = [Text(facts["verdict"], tone=tone), _texts_table(facts)]
    if facts["new"]["languages"] is None:
        blocks.append(Text("To see languages instead of scripts: pip install 'encoderlab[languages]'"))
    blocks.append(_test_line(facts["two_sample_test"]))
    if "labels" in facts:
        blocks.append(_labels_table(facts["labels"]))
    lines = []
    for row in facts["least_alike"]:
        text = wording.single_spaced(row["text"])
        lines.append(f"{row['similarity']:.2f}  {row['where']}: {wording.short(text, SHOWN_TEXT)}")
    blocks.append(Items("Least like training (similarity to the nearest training text)", lines))
    show(blocks, file)


def _texts_table(facts: Mapping[str, Any]) -> Table:
    columns = [facts["train"], facts["new"]]
    rows = [
        ["texts", *(wording.number(side["texts"]) for side in columns)],
        ["of these read", *(wording.number(side["read"]) for side in columns)],
        ["words (median)", *(f"{side['words_median']:,.0f}" for side in columns)],
        ["words (95%)", *(f"{side['words_p95']:,.0f}" for side in columns)],
        ["unknown tokens", *(wording.percent(side["unknown_tokens"]) for side in columns)],
        ["words in no (other) training text", *(wording.percent(side["new_words"]) for side in columns)],
    ]
    kind = "scripts" if facts["new"]["languages"] is None else "languages"
    rows.append([kind, *(_main_shares(side[kind]) for side in columns)])
    similarity = facts["similarity_median"]
    if "held_out" in similarity:
        usual = f"{similarity['held_out']:.2f} (held-out rows)"
    else:
        usual = f"{similarity['train']:.2f} (nearest other row)"
    rows.append(["similarity to the nearest training text", usual, f"{similarity['new']:.2f}"])
    confidence = facts.get("mean_confidence")
    if confidence is not None:
        held_out = confidence.get("held_out")
        shown = "-" if held_out is None else f"{wording.score(held_out)} (held-out rows)"
        rows.append(["mean probability of what is predicted", shown, wording.score(confidence["new"])])
    unlike = facts.get("unlike_training")
    if unlike is not None:
        rows.append(["unlike training", *(wording.percent(unlike[side]) for side in ("expected", "new"))])
    return Table(("", "training rows", "new texts"), rows)


def _main_shares(shares: Mapping[str, float]) -> str:
    """Return the largest shares, by name, as words: en 98%, de 1%."""
    shown = [(name, share) for name, share in shares.items() if share >= LEAST_SHARE][:MOST_SHARES]
    return ", ".join(f"{'unclear' if name == UNCLEAR else name} {share:.0%}" for name, share in shown)


def _test_line(test: Mapping[str, Any]) -> Text:
    told = f"AUC {wording.score(test['auc'])} (0.5: chance), p = {test['p_value']:.3f} by permutation"
    return Text(f"{told}, by {test['compared_by']}", "Two-sample test, linear model")


def changed_most(labels: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the names of the labels; of many, those whose share has changed most, in that order."""

    def change(label: str) -> float:
        return -abs(labels[label]["predicted"] - labels[label]["train"])

    names = list(labels)
    return names if len(names) <= MOST_CHANGED else sorted(names, key=change)[:MOST_CHANGED]


def _labels_table(labels: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the labels with their shares."""
    names = changed_most(labels)
    rows = []
    for name in names:
        own = labels[name]
        bounds = f"{wording.percent(own['predicted_ci95'][0])} to {wording.percent(own['predicted_ci95'][1])}"
        rows.append([wording.shown(name, 80), wording.percent(own["train"]), wording.percent(own["predicted"]), bounds])
    more = f" ({len(names)} of {len(labels):,}, changed most)" if len(names) < len(labels) else ""
    return Table((f"label{more}", "training rows", "predicted", "95% interval"), rows)
