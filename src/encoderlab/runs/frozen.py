"""Linear models on the vectors of an encoder that is not trained: a baseline of reports, and the start of a head."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from encoderlab.baselines.supervised import MOST_FROZEN_ROWS
from encoderlab.data.examples import Split, TextExample
from encoderlab.data.tokenizers import SymbolsConfig, TokenizerConfig
from encoderlab.model.config import Pooling
from encoderlab.model.heads import WIDTH, compared
from encoderlab.runs.assembly import Assembly, has_few_rows
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.predict import encoded_rows, vectors_of
from encoderlab.runs.saved_model import read_model
from encoderlab.shipped import SHIPPED, shipped_folder
from encoderlab.system.device import Compute
from encoderlab.tasks.config import ClassificationConfig
from encoderlab.tasks.rows import ExampleRows
from encoderlab.training.config import MANY_LABELS

PROBED, MOST_UNKNOWN = 200, 0.2  # training rows, and the share of their tokens that the shipped encoder may not know


def frozen_vectors(
    train: Split, tokenizer: TokenizerConfig | None, compute: Compute
) -> Callable[[Split], np.ndarray] | str:
    """Return a function from the texts of a split to the vectors of the shipped encoder, [rows, features].

    They have length 1, as `embed` writes them with normalize=true; of a pair, the comparison of both texts' vectors. If
    the training rows are no texts that this encoder can read, return why instead.
    """
    if train.holds_words or isinstance(tokenizer, SymbolsConfig):
        return f"{SHIPPED} reads texts, and these rows are words or symbols"
    saved = read_model(shipped_folder(SHIPPED) or Path(SHIPPED))
    some = train.take(np.unique(np.linspace(0, len(train) - 1, min(len(train), PROBED)).astype(np.int64)))
    ids, _ = saved.tokenizer.encode_flat([text[:1000] for text in some.texts()])
    if (unknown := (ids == saved.tokenizer.unk_id).sum() / max(len(ids), 1)) > MOST_UNKNOWN:
        return f"{SHIPPED} does not know {unknown:.0%} of the tokens: it reads English"
    model = saved.model().to(compute.device)
    box = Assembly(saved.config, compute, saved.tokenizer, saved.task(), model, saved.origin)

    def encoded(texts: list[str]) -> np.ndarray:
        rows = encoded_rows(box, [TextExample(text) for text in texts])
        return vectors_of(box, rows, normalize=True)

    def vectors(split: Split) -> np.ndarray:
        pairs = [(example.text, example.text_pair) for example in split.of_texts()]
        first = encoded([text for text, _ in pairs])
        if not pairs or pairs[0][1] is None:
            return first
        both = torch.from_numpy(np.concatenate([first, encoded([text or "" for _, text in pairs])]))
        return compared(both).numpy() / first.shape[1] ** 0.5

    return vectors


def wants_linear_head(assembly: Assembly, corpus: Corpus) -> bool:
    """Return whether the head of a run on these training rows starts at a linear model: of pairs that are read
    separately, unless there are very many, and of many classes with few rows.

    With 8 rows for each of 150 classes (CLINC150, validation), accuracy was 0.893 instead of 0.843 from a fresh head.
    With two or three classes of single texts it was 8 points lower instead. For pairs see `optimizer.PEAK_OF_PAIRS`.
    """
    config, labels, model = assembly.config, len(assembly.task.labels), assembly.model
    if not isinstance(config.task, ClassificationConfig) or not model.has_weights:
        return False
    if model.separates_pairs:
        return len(corpus.split("train")) <= MOST_FROZEN_ROWS
    return labels >= MANY_LABELS and has_few_rows(config, corpus) and config.model.pooling is Pooling.mean


def set_linear_head(assembly: Assembly, rows: ExampleRows) -> None:
    """Put the weights of logistic regression on what the head reads into the head (Kumar et al. 2022)."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    head = assembly.model.sequence_head
    assert head is not None
    assembly.model.eval()
    separate = assembly.model.separates_pairs
    features = (_compared_vectors(assembly, rows) if separate else vectors_of(assembly, rows)).astype(np.float64)
    mean, scale = features.mean(0), 1 / np.sqrt(features.var(0).sum())
    with threadpool_limits(1):
        regression = LogisticRegression(C=WIDTH if separate else 1, max_iter=1000)
        regression.fit((features - mean) * scale, rows.store["label"].values)
    weight = regression.coef_ * scale
    bias = regression.intercept_ - weight @ mean
    if len(weight) == 1:  # of two classes, it has the difference
        weight, bias = np.concatenate([-weight, weight]) / 2, np.concatenate([-bias, bias]) / 2
    with torch.no_grad():
        head.weight[regression.classes_] = torch.from_numpy(weight).to(head.weight)
        head.bias[regression.classes_] = torch.from_numpy(bias).to(head.bias)


def _compared_vectors(assembly: Assembly, rows: ExampleRows) -> np.ndarray:
    """Return what the head reads of pairs whose texts are read separately: [rows, WIDTH * d_model]."""
    head, read = assembly.model.sequence_head, list[torch.Tensor]()
    assert head is not None
    features = np.empty((len(rows), head.in_features), np.float32)
    hook = head.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0]))
    with torch.inference_mode():
        for batch in assembly.scoring_batches(rows):
            with assembly.compute.autocast():
                assembly.model(batch)
            features[batch.rows.cpu().numpy()] = read.pop().float().cpu().numpy()
    hook.remove()
    return features
