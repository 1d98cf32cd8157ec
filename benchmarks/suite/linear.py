"""The baselines of a data set, fitted once: their scores, and every answer of the best of them to compare with row by row."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np

from encoderlab import compose
from encoderlab.baselines.supervised import Answers, baselines
from encoderlab.config.command_settings import CACHE
from encoderlab.data.examples import Split, WordsExample
from encoderlab.reports.outputs.predictions import write_predictions
from encoderlab.reports.screens.baseline import build_baseline_report
from encoderlab.runs.corpora.corpus import Corpus

BEST = ("tfidf_logreg", "word_majority")  # of texts, and of words


def main() -> None:
    """Fit the baselines of the data set that the words choose, and write report.json and predictions.csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    parser.add_argument("words", nargs="+", help="the data set, as for encoderlab train")
    options = parser.parse_args()
    config = compose(*options.words)
    corpus = Corpus.load(config.dataset, Path(os.environ.get("ENCODERLAB_CACHE", CACHE)).expanduser())
    corpus.check_training_labels()
    split = corpus.scored_splits()[-1]
    rows = corpus.split(split)
    labels, found = _labels(rows), baselines(corpus.splits, split)
    main_figure = "token_accuracy" if isinstance(rows[0], WordsExample) else "accuracy"
    report = build_baseline_report(
        task=config.task.name, seed=0, split=split, labels=labels, names=corpus.labels, found=found, words=0, main=main_figure
    )
    report |= {"training_rows": len(corpus.split("train")), "fingerprint": corpus.fingerprints()[split]}
    report["best"] = next((name for name in BEST if name in found and not found[name].skipped), None)
    options.output.mkdir(parents=True, exist_ok=True)
    if report["best"]:
        texts = ((" ".join(row.words) if isinstance(row, WordsExample) else row.text, None) for row in rows)
        path = options.output / "predictions.csv"
        write_predictions(path, texts, labels, found[report["best"]].predicted, None, corpus.labels)
    (options.output / "report.json").write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _labels(rows: Split) -> Answers:
    """The class ids: [rows], or an array for each sequence of words."""
    if isinstance(rows[0], WordsExample):
        return [np.array(row.labels, dtype=np.int64) for row in rows]
    return np.array([row.label for row in rows])


if __name__ == "__main__":
    main()
