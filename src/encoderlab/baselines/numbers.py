"""Numbers without an encoder: the mean, and ridge regression on words."""

from __future__ import annotations

import numpy as np

from encoderlab.baselines.linear import Baseline, cannot_read, joined, tfidf, timed
from encoderlab.data.examples import Split
from encoderlab.metrics.regression import number_figures


def for_numbers(train: Split, scored: Split) -> dict[str, Baseline]:
    """Return `mean`, which always predicts the training mean, and `tfidf_ridge`, with their `number_figures` and
    `seconds`.
    """
    rows = [(joined(example), example.label) for example in train.of_texts() if isinstance(example.label, float)]
    texts, answers = [text for text, _ in rows], np.array([number for _, number in rows])
    labels = np.array([example.label if isinstance(example.label, float) else np.nan for example in scored.of_texts()])

    def mean() -> np.ndarray:
        return np.full(len(scored), answers.mean())

    def ridge() -> np.ndarray:
        from sklearn.linear_model import Ridge
        from sklearn.pipeline import make_pipeline
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            model = make_pipeline(tfidf(), Ridge(random_state=0)).fit(texts, answers)
            return np.asarray(model.predict([joined(example) for example in scored.of_texts()]))

    def figures(predicted: np.ndarray) -> dict[str, float]:
        known = ~np.isnan(labels)
        return number_figures(labels[known], predicted[known])

    reason = cannot_read(train)
    return {"mean": timed(mean, figures), "tfidf_ridge": Baseline(skipped=reason) if reason else timed(ridge, figures)}
