"""The report of an encoder that learned from documents: by masked tokens and sentence pairs, or from a teacher's
vectors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from encoderlab.reports import plots
from encoderlab.reports.facts import Facts, settings_section, split_facts
from encoderlab.reports.page import write_page
from encoderlab.reports.screen import show
from encoderlab.reports.tables import (
    Block,
    Cell,
    Heading,
    Items,
    Passage,
    Plot,
    Table,
    Text,
    interval,
    notes,
    number,
    percent,
    score,
    shown,
    speed,
    with_interval,
    words_of,
)
from encoderlab.reports.training import (
    RunSummary,
    last_lines,
    metric_lines,
    run_report,
    scored_split,
    title_of,
    verdict_line,
    weights_lines,
    write_json,
    write_pngs,
)

if TYPE_CHECKING:
    from encoderlab.metrics import PretrainingScores
    from encoderlab.metrics.pretraining import TeacherVectorsScores

PRETRAINING_BASELINES = {
    "most_frequent_token": "always the most frequent token",
    "unigram": "each token as often as in training",
    "majority": "always the most frequent label",
    "word_overlap": "words that both texts share",
    "length": "lengths of both texts",
}
PAIR_TASKS = {"next": "NSP", "swapped": "sentence order"}  # what the scores nsp_* are about
COUNTED = ("documents", "paragraphs", "sentences", "tokens")
COMPARED = ("mlm_accuracy", "mlm_perplexity", "nsp_accuracy")  # with the baselines
MASK, OTHER_MASK = "[MASK]", "___"
CHARACTERS = 200  # of a text around its mask
_NO_TEXT = {"[CLS]", "[SEP]", "[PAD]", "<s>", "</s>", "<pad>"}
_NO_SPACE_BEFORE, _NO_SPACE_AFTER = set(".,;:!?)]}%"), set("([{")


def build_pretraining_report(
    run: RunSummary,
    splits: Mapping[str, PretrainingScores],
    baselines: Mapping[str, Mapping[str, Any]],
    *,
    pairs: Mapping[str, Any],
    filled_masks: Sequence[Mapping[str, Any]],
    second_sentence: str,
) -> dict[str, Any]:
    """Return the content of report.json. `baselines` are the baselines' scores on the scored split, by name.

    `pairs` are the facts that `show_pairs` prints, `filled_masks` what `readable` makes. `second_sentence` is the task
    that the scores nsp_* are about: next, swapped, or none. The seed also draws the bootstrap.
    """
    scores = {name: part.with_intervals(run.seed).as_dict() for name, part in splits.items()}
    verdict = _verdict(scores[scored_split(splits)], baselines, second_sentence)
    own = {"second_sentence": second_sentence, "pairs": pairs, "filled_masks": filled_masks}
    return run_report(run, splits, scores, baselines=baselines, verdict=verdict, **own)


def build_vectors_report(
    run: RunSummary, splits: Mapping[str, TeacherVectorsScores], *, teacher: str, pairs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of report.json of a student that learned the vectors of `teacher`; `pairs` as above."""
    scores = {name: part.with_intervals().as_dict() for name, part in splits.items()}
    return run_report(run, splits, scores, teacher=teacher, pairs=pairs)


def best_baseline(baselines: Mapping[str, Mapping[str, Any]], metric: str) -> tuple[str, float] | None:
    """Return name and score of the baseline that is best at `metric`; None if there is none."""
    scored = {name: baseline[metric] for name, baseline in baselines.items() if baseline.get(metric) is not None}
    name = max(scored, key=scored.__getitem__, default=None)
    return None if name is None else (name, scored[name])


def _verdict(
    scores: Mapping[str, Any], baselines: Mapping[str, Mapping[str, Any]], pair_task: str
) -> dict[str, Any] | None:
    """Return whether the model is above, below or not distinguishable from the best baseline of each objective.

    It is above or below only if the baseline's score is outside the 95% interval of the model's.
    """
    verdict: dict[str, Any] = {}
    sentences = []
    for key, metric, title in (
        ("masked_tokens", "mlm_accuracy", "MLM"),
        ("pairs", "nsp_accuracy", PAIR_TASKS.get(pair_task, "")),
    ):
        best = best_baseline(baselines, metric)
        if best is None or metric not in scores:
            continue
        low, high = scores[f"{metric}_ci95"]
        outcome = "above" if low > best[1] else "below" if high < best[1] else "not distinguishable"
        stands = f"{outcome} from" if outcome == "not distinguishable" else outcome
        verdict[key] = {"against": best[0], "outcome": outcome}
        sentences.append(
            f"The model's {title} accuracy of {with_interval(scores, metric)} is {stands} the {best[1]:.3f} of the "
            "best "
            f"baseline ({PRETRAINING_BASELINES.get(best[0], best[0])})."
        )
    if pair_task == "next" and verdict.get("pairs", {}).get("outcome") == "above":
        sentences.append(
            "NSP can be solved by topic alone: a high score does not show that the model follows an argument."
        )
    return {"sentence": " ".join(sentences), **verdict} if verdict else None


def metric_name(name: str, report: Mapping[str, Any]) -> str:
    """Return the name of a score in words; nsp_* are named after the task on pairs."""
    return words_of(name).replace("nsp", PAIR_TASKS.get(report.get("second_sentence", ""), ""))


def write_pretraining_report(folder: Path, report: Mapping[str, Any], facts: Facts) -> None:
    """Write plots/curves.png if the run has trained, report.html, and last report.json, with which the run
    is finished.
    """
    drawn = _curves(folder, report)
    write_pngs(folder, title_of(report), drawn)
    names = [name for name in _scores(report) if not name.endswith("_ci95") and name != "n"]
    splits = report["splits"]
    forms = {
        "mlm_perplexity": lambda part, name: number(part[name]),
        "target_tokens": lambda part, name: number(part[name]),
    }
    rows = [["rows", *(number(part["n"]) for part in splits.values())]]
    for name in names:
        rows.append(
            [metric_name(name, report), *(forms.get(name, with_interval)(part, name) for part in splits.values())]
        )
    documents = [[name, number(part["documents"])] for name, part in split_facts(facts).items() if "documents" in part]
    main = report["main_figure"]
    blocks: list[Block] = [
        Text(score(_scores(report)[main]), tone="headline"),
        Text(f"{_summary(report)}, 95% interval {interval(_scores(report)[f'{main}_ci95'])}."),
        *_comparison(report),
        *notes(map(shown, report["notes"])),
        Heading("Scores"),
        Table(("", *splits), rows),
        *weights_lines(report),
        Text(speed(report["throughput"]), "Speed"),
        *([Heading("Curves"), *drawn.values()] if drawn else []),
        *_masks(report),
        Heading("Data"),
        *_pair_lines(report["pairs"]),
        Table(("split", "documents"), documents),
        *settings_section(facts),
    ]
    write_page(folder / "report.html", f"encoderlab {title_of(report)}", blocks)
    write_json(folder / "report.json", report)


def _scores(report: Mapping[str, Any]) -> Mapping[str, Any]:
    return report["splits"][report["scored_split"]]


def _curves(folder: Path, report: Mapping[str, Any]) -> dict[str, Plot]:
    lines = metric_lines(folder)
    if not lines:
        return {}
    what = "Curves over the optimizer's steps: losses, scores on validation, learning rate"
    if "teacher" in report:
        return {"curves": Plot(plots.curves(lines, [plots.Column("loss", "loss", report["main_figure"])]), what)}
    baselines = {key: best_baseline(report["baselines"], f"{key}_accuracy") for key in ("mlm", "nsp")}
    levels = {key: best[1] if best else None for key, best in baselines.items()}
    paired = any("loss_sequence" in line or "nsp_loss" in line for line in lines)
    training_loss = "loss_token" if paired else "loss"
    columns = [plots.Column(training_loss, "mlm_loss", "mlm_accuracy", "masked tokens: ", levels["mlm"])]
    if paired:
        columns.append(plots.Column("loss_sequence", "nsp_loss", "nsp_accuracy", "pairs: ", levels["nsp"]))
    return {"curves": Plot(plots.curves(lines, columns), what)}


def _summary(report: Mapping[str, Any]) -> str:
    """Return what the main score is about."""
    scores, where = _scores(report), f"on {report['scored_split']}"
    if "teacher" in report:
        return f"Cosine to the vectors of the teacher {shown(report['teacher'])} {where} ({scores['n']:,} texts)"
    return f"MLM accuracy {where}: {scores['target_tokens']:,} masked tokens in {scores['n']:,} rows"


def _comparison(report: Mapping[str, Any]) -> list[Block]:
    """Return the model next to its baselines, and the verdict; nothing if there are none."""
    if not report["baselines"]:
        return []
    names = [name for name in COMPARED if name in _scores(report)]

    def cells(scores: Mapping[str, Any]) -> list[Cell]:
        forms = {"mlm_perplexity": number}
        return [forms.get(name, score)(scores[name]) if name in scores else "" for name in names]

    rows: list[list[Cell]] = [["this model", *cells(_scores(report))]]
    for name, baseline in report["baselines"].items():
        token = f" ({shown(baseline['token'], 40)})" if "token" in baseline else ""
        rows.append([f"{PRETRAINING_BASELINES.get(name, name)}{token}", *cells(baseline)])
    columns = ("on the same rows", *(metric_name(name, report) for name in names))
    return [Table(columns, rows, marked=0), *verdict_line(report)]


def _masks(report: Mapping[str, Any]) -> list[Block]:
    if not report.get("filled_masks"):
        return []
    words = f"From documents that were held out; {OTHER_MASK} stands for other masks of the same text."
    blocks: list[Block] = [Heading("Masks filled in"), Text(words)]
    for one in report["filled_masks"]:
        heading = [("true: ", ""), (shown(one["answer"], 40), "good"), ("; predicted: ", "")]
        for place, guess in enumerate(one["guesses"]):
            tone = "good" if guess["token"] == one["answer"] else "quiet"
            heading += [(", ", "")] * (place > 0)
            heading.append((f"{shown(guess['token'], 40)} {percent(guess['probability'])}", tone))
        blocks.append(Passage(heading, [[{"text": shown(one["text"]), "weight": 0}]]))
    return blocks


def _pair_lines(pairs: Mapping[str, Any]) -> list[Text]:
    counts = ", ".join(f"{number(pairs[name])} {name}" for name in COUNTED)
    if "shards" in pairs:
        shards = f"{pairs['shards']:,} shard{'s' * (pairs['shards'] != 1)}"
        counts = f"{shards}, read during training; in the first window {counts}"
    rows = "pairs" if "labels" in pairs else "texts"
    labels = pairs.get("labels", {})
    total = max(sum(labels.values()), 1)
    epoch = [f"{number(pairs['pairs'])} {rows}, {pairs['mean_length']:,.1f} tokens long on average"]
    epoch += [f"{percent(pairs['truncated'])} truncated"]
    epoch += [f"{count:,} {label} ({percent(count / total)})" for label, count in labels.items()]
    return [
        Text(f"{counts}; sentences found by {pairs['sentence_splitter']}", "Training text"),
        Text(", ".join(epoch), "The first window" if "shards" in pairs else "An epoch"),
    ]


def show_pairs(
    facts: Mapping[str, Any], baselines: Mapping[str, Mapping[str, float]], file: TextIO | None = None
) -> None:
    """Print what training reads and the baselines' scores on pairs, which may be none.

    `facts` count `documents`, `paragraphs`, `sentences` and `tokens`; of an epoch `pairs` (or single texts), their
    `mean_length` in tokens, the share `truncated`, and `labels` (pairs by label, if there are any); of a stream, those
    of its first window, and its `shards`. `sentence_splitter` says how sentences were found.
    """
    scored = ", ".join(
        f"{PRETRAINING_BASELINES.get(name, name)} {score(one.get('nsp_accuracy'))}" for name, one in baselines.items()
    )
    show([*_pair_lines(facts), Text(scored, "Baselines on pairs (no encoder)")], file)


def show_pretraining_report(
    report: Mapping[str, Any], files: Mapping[str, str], next_commands: Sequence[str], file: TextIO | None = None
) -> None:
    """Print either report, on standard error unless `file` is given; `files` are the run's paths by name."""
    scores, main = _scores(report), report["main_figure"]
    also = [name for name in scores if name not in ("n", "target_tokens", main) and not name.endswith("_ci95")]
    forms = {"mlm_perplexity": lambda scores, name: number(scores[name])}
    words = [f"{metric_name(name, report)} {forms.get(name, with_interval)(scores, name)}" for name in also]
    blocks: list[Block] = [
        Heading(f"{title_of(report)}: {metric_name(main, report)} {with_interval(scores, main)}"),
        Text(f"{_summary(report)}."),
        Text(", ".join(words), "Also"),
        *weights_lines(report),
        *_comparison(report),
        *_pair_lines(report["pairs"]),
        Items("Masks filled in", list(_printed_masks(report.get("filled_masks", [])))),
    ]
    show([*blocks, *last_lines(report, files, next_commands)], file)


def _printed_masks(filled_masks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return two lines for each mask: the text, and the true token with the predictions."""
    lines = []
    for one in filled_masks:
        guesses = ", ".join(f"{guess['token']} {percent(guess['probability'])}" for guess in one["guesses"])
        lines += [one["text"], f"    true: {one['answer']}; predicted: {guesses}"]
    return lines


def readable(filled: Any) -> dict[str, Any]:
    """Return `text`, `answer` and `guesses` (each with `token` and `probability`), as report.json holds them.

    `filled` is a masked row: its `pieces`, the `place` of one mask, its true token `answer`, and the `guesses`.

    The text is shortened to about 200 characters around the mask, which is written [MASK] whatever the tokenizer calls
    it; the other masks are ___. Other tokens are joined as printed. Of the special tokens, only those between two texts
    are kept.
    """
    words, place = _words(filled.pieces, filled.place)
    guesses = [{"token": token, "probability": round(float(chance), 4)} for token, chance in filled.guesses]
    return {"text": _around(words, place), "answer": filled.answer, "guesses": guesses}


def _words(pieces: Sequence[str], target: int) -> tuple[list[str], int]:
    """Return the blank-separated words, and the index of the one with the mask at `target` in the tokens."""
    texts = [place for place, piece in enumerate(pieces) if piece not in _NO_TEXT]
    mask, words, before, at = pieces[target], [], None, 0
    for place in range(texts[0], texts[-1] + 1):
        piece = pieces[place]
        masked = MASK if place == target else OTHER_MASK if piece == mask else None
        text = masked or piece.removeprefix("##") or piece
        is_suffix = piece.startswith("##") and len(piece) > 2
        if before is not None and (before in _NO_SPACE_AFTER or piece in _NO_SPACE_BEFORE or is_suffix):
            words[-1] += text
        else:
            words.append(text)
        before = None if piece in _NO_TEXT else text
        at = len(words) - 1 if place == target else at
    return words, at


def _around(words: Sequence[str], place: int) -> str:
    """Return as many whole words around the mask as fit, nearest first, with an ellipsis where text is omitted."""
    low, high, room = place, place + 1, CHARACTERS - len(words[place])
    while True:
        sides = [(place - low + 1, low - 1)] * (low > 0) + [(high - place, high)] * (high < len(words))
        fitting = [(distance, side) for distance, side in sides if len(words[side]) < room]
        if not fitting:
            break
        side = min(fitting)[1]
        room -= len(words[side]) + 1
        low, high = min(low, side), max(high, side + 1)
    return " ".join(["…"] * (low > 0) + list(words[low:high]) + ["…"] * (high < len(words)))
