"""What people use for few rows instead of encoderlab, on the same rows.

`python -m benchmarks.few_peer METHOD MODEL TRAIN.csv TEST.csv OUTPUT.json SEED` fits one method from the model in a
folder, and writes its accuracy on test and the seconds of fitting.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Texts = list[str]
Fitted = Callable[[Texts], Any]


def frozen_minilm(folder: str, texts: Texts, labels: Texts, seed: int) -> Fitted:
    """Logistic regression on sentence vectors, its C chosen by cross-validation."""
    import numpy as np
    from sentence_transformers import SentenceTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    encoder = SentenceTransformer(folder, device="cpu")

    def vectors(rows: Texts) -> Any:
        return encoder.encode(rows, normalize_embeddings=True, show_progress_bar=False)

    folds = StratifiedKFold(min(5, *np.unique(labels, return_counts=True)[1]), shuffle=True, random_state=seed)
    grid = {"C": [0.1, 1, 10, 100]}
    search = GridSearchCV(LogisticRegression(max_iter=1000), grid, cv=folds, scoring="neg_log_loss")
    search.fit(vectors(texts), labels)
    return lambda rows: search.predict(vectors(rows))


def setfit(folder: str, texts: Texts, labels: Texts, seed: int) -> Fitted:
    """SetFit (Tunstall et al. 2022) with 20 pairs of either kind for each row, as in the paper."""
    from datasets import Dataset
    from setfit import SetFitModel, Trainer, TrainingArguments

    settings = {"batch_size": 16, "num_epochs": 1, "num_iterations": 20, "save_strategy": "no", "report_to": "none"}
    model = SetFitModel.from_pretrained(folder, device="cpu")
    rows = Dataset.from_dict({"text": texts, "label": labels})
    Trainer(model=model, args=TrainingArguments(seed=seed, **settings), train_dataset=rows).train()
    return model.predict


def potion(folder: str, texts: Texts, labels: Texts, seed: int) -> Fitted:
    """The classifier of model2vec on static vectors, with its defaults."""
    import torch
    from model2vec.train import StaticModelForClassification

    torch.manual_seed(seed)
    model = StaticModelForClassification.from_pretrained(path=folder)
    model.fit(texts, labels, device="cpu")
    return model.predict


PEERS = {"frozen_minilm": frozen_minilm, "setfit": setfit, "potion": potion}


def main(method: str, folder: str, train: str, test: str, output: str, seed: str) -> None:
    """Fit a method and write its accuracy and seconds."""
    import numpy as np
    import pandas as pd

    rows, scored = (pd.read_csv(path, dtype=str, keep_default_na=False) for path in (train, test))
    started = time.perf_counter()
    predict = PEERS[method](folder, rows["text"].tolist(), rows["label"].tolist(), int(seed))
    seconds = time.perf_counter() - started
    right = np.asarray(predict(scored["text"].tolist())) == scored["label"].to_numpy()
    Path(output).write_text(json.dumps({"accuracy": float(right.mean()), "seconds": seconds}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
