"""Few rows: how good the default line is with 8, 32 and 128 rows for each label, and what simpler methods reach.

`python -m benchmarks few --rows 8 32 --seeds 0 1` finetunes on rows drawn from the training split of each set, and
scores the test split. The report of a run has the linear models on the same rows, so a run gives every line of the
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
ROWS = ("8", "32", "128")
METHODS = {  # keys of a report's baselines, and the run itself
    "tfidf_logreg": "TF-IDF + logistic regression",
    "frozen_encoder_logreg": "frozen mini-en + logistic regression",
    "finetuned": "mini-en, finetuned (the default line)",
    "potion": "potion-base-8M, model2vec's classifier",
    "frozen_minilm": "frozen all-MiniLM-L6-v2 + logistic regression",
    "setfit": "all-MiniLM-L6-v2, SetFit",
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

    `peers` has the model folders of `few_peer.PEERS` that are fitted, too.

    Raises TrainingError for a run that fails.
    """
    suite, output = suite.absolute(), output.absolute()
    for name in sets:
        for each in rows:
            for seed in seeds:
                folder = output / name / f"{each}-{seed}"
                if not (folder / "report.json").exists():
                    finished(
                        python("-m", "encoderlab", "finetune", *_words(suite / name, folder, int(each), int(seed)))
                    )
                for method, model in peers.items():
                    result = folder.with_suffix(f".{method}.json")
                    files = (folder.with_suffix(".csv"), suite / name / "test.csv", result)
                    if not result.exists():
                        finished(python("-m", "benchmarks.few_peer", method, model, *map(str, files), seed))
                print(f"  {name}, {each} rows per label, seed {seed}: finished", file=sys.stderr)
    scores, seconds = read_scores(output)
    if not scores:
        raise TrainingError("No run has finished", remedy="See the lines above")
    for each in sorted(scores, key=int):
        print(f"\n{each} rows per label\n\n" + "\n".join(table(scores[each], seconds[each])))
    print(f"\n{provenance()}.")
    draw(scores, plot)


def _words(data: Path, folder: Path, each: int, seed: int) -> list[str]:
    """Write the drawn rows next to the run's folder, and return the arguments of its command."""
    import pandas as pd

    train = pd.read_csv(data / "train.csv", dtype=str, keep_default_na=False)
    draw = random.Random(1000 + seed)
    rows = [row for _, own in train.groupby("label") for row in draw.sample(list(own.index), min(each, len(own)))]
    drawn = folder.with_suffix(".csv")
    drawn.parent.mkdir(parents=True, exist_ok=True)
    train.loc[sorted(rows)].to_csv(drawn, index=False)
    files = (f"dataset.train={drawn}", f"dataset.test={data}/test.csv", "dataset.text=text", "dataset.label=label")
    return ["task=classification", "dataset=files", *files, f"seed={seed}", f"run_dir={folder}", "resume=auto"]


def read_scores(output: Path) -> tuple[Scores, dict[str, dict[str, list[float]]]]:
    """Return the accuracies of all finished runs, and the seconds of each method by rows per label."""
    scores: Scores = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    seconds: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(output.glob("*/*/report.json")):
        report, each = json.loads(path.read_text(encoding="utf-8")), path.parent.name.partition("-")[0]
        own = {"accuracy": report["splits"]["test"]["accuracy"], "seconds": report["throughput"]["train_seconds"]}
        files = {one.suffixes[-2][1:]: one for one in path.parent.parent.glob(f"{path.parent.name}.*.json")}
        peers = {method: json.loads(one.read_text(encoding="utf-8")) for method, one in files.items()}
        for method, of in {**report["baselines"], **peers, "finetuned": own}.items():
            if method in METHODS and of.get("accuracy") is not None:
                scores[each][method][path.parent.parent.name].append(of["accuracy"])
                seconds[each][method].append(of["seconds"])
    return scores, seconds


def table(scores: Mapping[str, Mapping[str, Sequence[float]]], seconds: Mapping[str, Sequence[float]]) -> list[str]:
    """Return accuracies as a Markdown table: a row for each method, means over the seeds. A method's mean is left out
    if it was not run on all sets.
    """
    sets = [name for name in FEW_SETS if name in scores["finetuned"]]
    head = ["accuracy on test", *(f"{name} ({len(scores['finetuned'][name])})" for name in sets), "mean", "seconds"]
    lines = []
    for method, title in METHODS.items():
        if of := scores.get(method):
            values = [f"{mean(of[name]):.3f}" if name in of else "" for name in sets]
            overall = "" if "" in values else f"{mean(mean(of[name]) for name in sets):.3f}"
            lines.append([title, *values, overall, f"{mean(seconds[method]):.0f}"])
    return grid(head, lines)


def draw(scores: Scores, path: Path) -> None:
    """Draw mean accuracy over rows per label, a line for each method, on the sets that every line has."""
    from matplotlib.figure import Figure

    counts = sorted(scores, key=int)
    sets = set.intersection(*(set(of) for each in counts for of in scores[each].values() if of))
    if len(counts) < 2 or not sets:
        print("benchmarks: no curve: no set has runs with two numbers of rows", file=sys.stderr)
        return
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    axes = figure.subplots()
    for method, title in METHODS.items():
        if not (own := [each for each in counts if scores[each].get(method)]):
            continue
        values = [mean(mean(scores[each][method][name]) for name in sets) for each in own]
        axes.plot([int(each) for each in own], values, marker="o", label=title)
    axes.set_xscale("log", base=2)
    axes.set_xticks([int(each) for each in counts], counts)
    axes.set(xlabel="training rows per label", ylabel=f"accuracy on test, mean of {len(sets)} sets")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
