"""How often `encoderlab data run=... new.csv` finds that texts have changed: of the same source, and mixed with foreign
ones.

`python -m benchmarks drift` deals the training rows of each set of the suite to training and new texts at random, and
puts rows of the next set in the place of some new texts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.processes import grid, provenance
from benchmarks.selecting import read_texts
from encoderlab.metrics.novelty import two_sample_test
from encoderlab.runs.drift import SIGNIFICANT

DRIFT_SETS = ("subjectivity", "sms_spam", "tweet_offensive", "financial_phrasebank", "clinc150")
NEW_TEXTS = (50, 200, 500)
MOST_KNOWN = 2_000  # training rows
FOREIGN = (0.0, 0.05, 0.2)  # shares of the new texts


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
