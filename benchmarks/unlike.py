"""How well texts unlike those of training are told: one that has none of the labels, and texts that have changed.

`python -m benchmarks unlike` compares the novelty that a run keeps with its probabilities. It finetunes mini-en on each
set, by the default command: on CLINC150, whose queries out of scope have none of the labels, and on sets of which some
labels are left out. The novelty was chosen on validation (`--split validation`); what is reported is test. Runs that
are finished are kept.

`python -m benchmarks drift` counts how often `encoderlab data run=... new.csv` finds that texts have changed. It deals
the training rows of each set to training and new texts at random, and puts rows of the next set in the place of some
new texts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.processes import finished, grid, provenance, python
from benchmarks.selecting import read_texts
from encoderlab.apps.drift.drift import SIGNIFICANT
from encoderlab.metrics.novelty import two_sample_test
from encoderlab.models.model import Model
from encoderlab.tasks.task import RowPrediction

SHARE = 0.05  # of texts like the training texts that may be lost
SPLITS = ("train", "validation", "test")
OUT_OF_SCOPE = "out_of_scope.csv"  # of CLINC150: 100 rows each of train and validation, then those of test
VALIDATION_ROWS = 200  # of that file

DRIFT_SETS = ("subjectivity", "sms_spam", "tweet_offensive", "financial_phrasebank", "clinc150")
NEW_TEXTS = (50, 200, 500)
MOST_KNOWN = 2_000  # training rows
FOREIGN = (0.0, 0.05, 0.2)  # shares of the new texts


@dataclass(frozen=True, slots=True)
class Case:
    """A set of the suite, the labels that are left out of it (none: it has rows out of scope), and more settings."""

    name: str
    left_out: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()


UNLIKE_SETS: Mapping[str, Case] = {
    "clinc150": Case("clinc150"),
    "clinc150-8": Case("clinc150", settings=("dataset.train_share=0.08",)),
    "bbc_news": Case("bbc_news", ("sport", "tech"), ("model.max_length=64",)),
    "financial_phrasebank": Case("financial_phrasebank", ("positive",)),
}
Score = Callable[[RowPrediction], float]
SCORES: Mapping[str, Score] = {
    "largest probability": lambda prediction: sum(sorted(prediction.probabilities or ())[:-1]),  # exact near 1
    "novelty": lambda prediction: prediction.novelty or 0.0,
}


def unlike(suite: Path, output: Path, sets: Sequence[str], split: str) -> None:
    """Measure each score on each set, and print a table. Raises TrainingError for a run that fails."""
    import encoderlab

    lines = []
    for name in sets:
        case = UNLIKE_SETS[name]
        folder = output / name
        _write_rows(suite / case.name, case, folder)
        if not (folder / "run" / "report.json").exists():
            finished(python("-m", "encoderlab", "finetune", *_settings(folder), *case.settings))
        model = encoderlab.load(folder / "run", device="cpu")
        like = _predictions(model, folder / f"{split}.csv")
        others = _predictions(model, folder / f"{split}_unlike.csv")
        lines.append([name, f"{len(like):,}", f"{len(others):,}", *_cells(model, like, others)])
        print(f"  {' '.join(lines[-1])}", file=sys.stderr)
    columns = [*(f"AUROC, {name}" for name in SCORES), f"lost at {SHARE:g}", f"found at {SHARE:g}"]
    print("\n".join(grid(["set", "rows with a label", "without", *columns], lines)))
    print(f"\nScored on {split}. {provenance()}.")


def _write_rows(source: Path, case: Case, folder: Path) -> None:
    """Write the rows of each split that have a label, and those that have none of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        rows = _read(source / f"{split}.csv")
        is_left_out = rows["label"].isin(case.left_out)
        others = rows[is_left_out]
        if not case.left_out:
            out_of_scope = _read(source / OUT_OF_SCOPE)
            others = out_of_scope[VALIDATION_ROWS:] if split == "test" else out_of_scope[:VALIDATION_ROWS]
        rows[~is_left_out].to_csv(folder / f"{split}.csv", index=False)
        others.to_csv(folder / f"{split}_unlike.csv", index=False)


def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def _settings(folder: Path) -> list[str]:
    files = [f"dataset.{split}={(folder / split).absolute()}.csv" for split in SPLITS]
    columns = ["dataset.text=text", "dataset.label=label"]
    return ["task=classification", "dataset=files", *files, *columns, "baselines=false", f"run_dir={folder / 'run'}"]


def _predictions(model: Model, path: Path) -> list[RowPrediction]:
    return model.predictions([model.example(text) for text in _read(path)["text"]])


def _cells(model: Model, like: Sequence[RowPrediction], others: Sequence[RowPrediction]) -> list[str]:
    """Return the areas under the ROC curves, and the shares of both kinds of texts that get no label."""
    from sklearn.metrics import roc_auc_score

    is_other = np.arange(len(like) + len(others)) >= len(like)
    cells = []
    for score in SCORES.values():
        cells.append(f"{roc_auc_score(is_other, [score(one) for one in (*like, *others)]):.3f}")
    abstention = model.abstention(unlike_training=SHARE)
    for side in (like, others):
        cells.append(f"{np.mean([abstention.reason(1.0, one.novelty) is not None for one in side]):.1%}")
    return cells


def drifting(suite: Path, output: Path, sets: Sequence[str], trials: int) -> None:
    """Count the alarms on each set, and print a table."""
    vectors = {name: read_texts(suite, output, name, "train").vectors for name in DRIFT_SETS}
    lines = []
    for name in sets:
        following = DRIFT_SETS[(DRIFT_SETS.index(name) + 1) % len(DRIFT_SETS)]
        for share in FOREIGN:
            cells = []
            for n in NEW_TEXTS:
                alarms = [_is_alarm(vectors[name], vectors[following], n, share, seed) for seed in range(trials)]
                cells.append(f"{np.mean(alarms):.0%}")
            source = f"{share:.0%} of {following}" if share else "the same source"
            lines.append([name, source, *cells])
            print(f"  {name}, {source}: {', '.join(cells)}", file=sys.stderr)
    print("\n".join(grid(["training rows of", "new texts", *(f"{n} texts" for n in NEW_TEXTS)], lines)))
    print(f"\nShare of {trials} deals with an alarm. {provenance()}.")


def _is_alarm(known: np.ndarray, foreign: np.ndarray, n: int, share: float, seed: int) -> bool:
    """Return whether a deal raises an alarm: `n` new texts, of which this share is foreign, and training rows."""
    random = np.random.default_rng(seed)
    n_foreign = round(n * share)
    rows = random.permutation(len(known))[: MOST_KNOWN + n - n_foreign]
    others = random.permutation(len(foreign))[:n_foreign]
    new = np.concatenate([known[rows[: n - n_foreign]], foreign[others]])
    return two_sample_test(known[rows[n - n_foreign :]], new, seed).p_value < SIGNIFICANT
