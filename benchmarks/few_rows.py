"""Few rows: how good the default line is with 8, 32, 128 and all rows for each label, and what other methods reach.

`python -m benchmarks few --rows 8 all --seeds 0 1` finetunes on rows drawn from the training split of each set, and
scores the test split. The report of a run has the linear models on the same rows, so a run gives several lines of the
curve. `--peers setfit=FOLDER` fits what others use, too, from the model in a folder.
"""

from __future__ import annotations

import json
import random
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

from benchmarks.processes import finished, grid, provenance, python
from encoderlab.errors import TrainingError

FEW_SETS = ("subjectivity", "sms_spam", "tweet_offensive", "financial_phrasebank", "bbc_news", "clinc150")
ALL = "all"
ROWS = ("8", "32", "128", ALL)
MINILM = "finetuned_minilm"  # a peer that is a run of ours, too
METHODS = {  # keys of a report's baselines, and the run itself
    "tfidf_logreg": "TF-IDF + logistic regression",
    "frozen_encoder_logreg": "frozen mini-en + logistic regression",
    "finetuned": "mini-en, finetuned (the default line)",
    "potion": "potion-base-8M, model2vec's classifier",
    "frozen_minilm": "frozen all-MiniLM-L6-v2 + logistic regression",
    "setfit": "all-MiniLM-L6-v2, SetFit",
    MINILM: "all-MiniLM-L6-v2, finetuned (init_from)",
}
Scores = dict[str, dict[str, dict[str, list[float]]]]  # by rows per label, method and set: an accuracy for each seed


def few_rows(
    suite: Path,
    output: Path,
    sets: Sequence[str],
    rows: Sequence[str],
    seeds: Sequence[str],
    peers: Mapping[str, str],
    plot: Path,
) -> None:
    """Do the runs that are not finished, print a table for each number of rows, and draw the curve.

    `peers` has the model folders of `few_peer.PEERS` that are fitted, too, and of MINILM.

    Raises TrainingError for a run that fails.
    """
    suite = suite.absolute()
    output = output.absolute()
    for name in sets:
        for count in rows:
            for seed in seeds:
                folder = output / name / f"{count}-{seed}"
                drawn = folder.with_suffix(".csv")
                words = [*_words(suite / name, drawn, count, int(seed)), "resume=auto"]
                starts = {folder: "mini-en"} | {folder.with_suffix(f".{MINILM}"): peers.get(MINILM)}
                for run, start in starts.items():
                    if start is not None and not (run / "report.json").exists():
                        command = ("-m", "encoderlab", "finetune", *words, f"init_from={start}", f"run_dir={run}")
                        finished(python(*command))
                for method, model in peers.items():
                    result = folder.with_suffix(f".{method}.json")
                    files = (drawn, suite / name / "test.csv", result)
                    if method != MINILM and not result.exists():
                        finished(python("-m", "benchmarks.few_peer", method, model, *map(str, files), seed))
                print(f"  {name}, {count} rows per label, seed {seed}: finished", file=sys.stderr)
    scores, seconds = read_scores(output)
    if not scores:
        raise TrainingError("No run has finished", remedy="See the lines above")
    for count in sorted(scores, key=ROWS.index):
        print(f"\n{count} rows per label\n\n" + "\n".join(table(scores[count], seconds[count])))
    print(f"\n{provenance()}.")
    draw(scores, plot)


def _words(data: Path, drawn: Path, count: str, seed: int) -> list[str]:
    """Write the rows to train on to `drawn`, and return the arguments of the command; with all rows come those of
    validation.
    """
    import pandas as pd

    train = pd.read_csv(data / "train.csv", dtype=str, keep_default_na=False)
    if count != ALL:
        draw = random.Random(1000 + seed)
        rows = []
        for _, of_label in train.groupby("label"):
            rows += draw.sample([*of_label.index], min(int(count), len(of_label)))
        train = train.loc[sorted(rows)]
    drawn.parent.mkdir(parents=True, exist_ok=True)
    train.to_csv(drawn, index=False)
    files = [f"dataset.train={drawn}", f"dataset.test={data}/test.csv", "dataset.text=text", "dataset.label=label"]
    files += [f"dataset.validation={data}/validation.csv"] if count == ALL else []
    return ["task=classification", "dataset=files", *files, f"seed={seed}"]


def read_scores(output: Path) -> tuple[Scores, dict[str, dict[str, list[float]]]]:
    """Return the accuracies of all finished runs, and the seconds of each method by rows per label."""
    scores: Scores = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(output.glob("*/*/report.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        (run, _, peer) = path.parent.name.partition(".")
        count = run.partition("-")[0]
        own = {"accuracy": report["splits"]["test"]["accuracy"], "seconds": report["throughput"]["train_seconds"]}
        files = {} if peer else {file.suffixes[-2][1:]: file for file in path.parent.parent.glob(f"{run}.*.json")}
        peers = {method: json.loads(file.read_text(encoding="utf-8")) for method, file in files.items()}
        others = {} if peer else {**report["baselines"], **peers}
        for method, result in {**others, peer or "finetuned": own}.items():
            if method in METHODS and result.get("accuracy") is not None:
                scores[count][method][path.parent.parent.name].append(result["accuracy"])
                seconds[count][method].append(result["seconds"])
    return scores, seconds


def table(scores: Mapping[str, Mapping[str, Sequence[float]]], seconds: Mapping[str, Sequence[float]]) -> list[str]:
    """Return accuracies as a Markdown table: a row for each method, means over the seeds. A method's mean is left out
    if it was not run on all sets.
    """
    sets = [name for name in FEW_SETS if name in scores["finetuned"]]
    head = ["accuracy on test", *(f"{name} ({len(scores['finetuned'][name])})" for name in sets), "mean", "seconds"]
    lines = []
    for method, title in METHODS.items():
        by_set = scores.get(method)
        if by_set:
            values = [f"{mean(by_set[name]):.3f}" if name in by_set else "" for name in sets]
            overall = "" if "" in values else f"{mean(mean(by_set[name]) for name in sets):.3f}"
            lines.append([title, *values, overall, f"{mean(seconds[method]):.0f}"])
    return grid(head, lines)


def draw(scores: Scores, path: Path) -> None:
    """Draw mean accuracy over rows per label, a line for each method, on the sets that every line has."""
    from matplotlib.figure import Figure

    counts = sorted(scores, key=ROWS.index)
    sets = set.intersection(*(set(by_set) for count in counts for by_set in scores[count].values() if by_set))
    if len(counts) < 2 or not sets:
        print("benchmarks: no curve: no set has runs with two numbers of rows", file=sys.stderr)
        return
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for method, title in METHODS.items():
        counts_of_method = [count for count in counts if scores[count].get(method)]
        if not counts_of_method:
            continue
        values = [mean(mean(scores[count][method][name]) for name in sets) for count in counts_of_method]
        axes.plot([counts.index(count) for count in counts_of_method], values, marker="o", label=title)
    axes.set_xticks(range(len(counts)), counts)
    axes.set(xlabel="training rows per label", ylabel=f"accuracy on test, mean of {len(sets)} sets")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
