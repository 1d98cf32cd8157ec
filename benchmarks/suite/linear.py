"""The baselines of a data set, fitted once: their scores, and every prediction of the best one for row-by-row
comparison.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from encoderlab import compose
from encoderlab.commands.baseline import fit_baselines, report_of
from encoderlab.config.commands import CACHE, BaselineConfig
from encoderlab.data.examples import WordsExample
from encoderlab.reports.outputs.predictions import write_predictions

BEST = ("tfidf_logreg", "tfidf_ridge", "word_majority")  # for texts with labels, texts with numbers, and words


def main() -> None:
    """Fit the baselines of the data set that the arguments choose, and write report.json and predictions.csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    parser.add_argument("--figure", help="the figure to put first (default: the task's own)")
    parser.add_argument("words", nargs="+", help="the data set, as for encoderlab train")
    options = parser.parse_args()
    run = compose(*options.words)
    config = BaselineConfig(os.environ.get("ENCODERLAB_CACHE", CACHE), run.task, run.dataset, words=0)
    fitted = fit_baselines(config)
    report, corpus = report_of(config, fitted, options.figure), fitted.corpus
    report |= {"training_rows": len(corpus.split("train")), "fingerprint": corpus.fingerprints()[fitted.split]}
    report["best"] = next((name for name in BEST if name in fitted.found and not fitted.found[name].skipped), None)
    options.output.mkdir(parents=True, exist_ok=True)
    if report["best"]:
        texts = ((" ".join(row.words) if isinstance(row, WordsExample) else row.text, None) for row in fitted.rows)
        path = options.output / "predictions.csv"
        write_predictions(path, texts, fitted.labels, fitted.found[report["best"]].predicted, None, corpus.labels)
    (options.output / "report.json").write_text(
        json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
