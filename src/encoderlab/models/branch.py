"""Wide beside deep: a linear model of n-grams whose logits are added to the network's (Cheng et al. 2016, "Wide & Deep
Learning for Recommender Systems", section 3).

Each model is fitted to the training rows by itself, the linear one after the last step. Their logits are pooled,
(1 - weight) x network + weight x linear, and divided by a temperature (`metrics.pooling` has the source). The weight is
chosen on rows that neither of them has seen. It is 0, and there is no branch, unless the pool is better by evidence.

The encoder knows nothing of the branch: it is a value beside the network in a `Model`.

An exported folder has the branch in the same two files, and its programs compute it (`exchange.onnx_predict`,
`web_linear.js`), not the graph: of the n-grams, skl2onnx 1.20 refuses characters within words, and what ONNX's
StringNormalizer does to words depends on the machine, where onnxruntime fails without the locale en_US.UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from encoderlab.data.examples import Example, texts_of
from encoderlab.errors import DataError, SettingError, one_line
from encoderlab.exchange.weights import read_config, read_weights
from encoderlab.metrics.pooling import pooled
from encoderlab.tables.batches import in_lists
from encoderlab.tasks.task import Task

if TYPE_CHECKING:
    from encoderlab.linear.model import LinearModel

LARGEST = 5_000_000  # bytes of a branch in a model folder
LONGEST = 10  # items of an n-gram: the cost of reading a text grows with them
GREATEST = 1e30  # a number in a branch, of which sums do not overflow
TEMPERATURES = (0.01, 100.0)
AT_A_TIME = 5_000  # texts whose n-grams are in memory
THRESHOLDS = ("threshold", "thresholds")  # of classes and of several labels, in the settings of a task
DESCRIPTION = "linear.json"  # the files of a model folder: n-grams and settings, and the arrays
ARRAYS = "linear.safetensors"
BRANCH_FILES = (DESCRIPTION, ARRAYS)


@dataclass(frozen=True, slots=True)
class LinearBranch:
    """A linear model beside a network, and how the two are pooled.

    Its outputs are what the network's are: logits, or a number that is centred and scaled as the task does. `facts`
    are what report.json says of it.
    """

    model: LinearModel
    weight: float
    temperature: float
    facts: dict[str, Any]

    @property
    def network_thresholds(self) -> dict[str, Any]:
        """Return the settings of the task with the thresholds that suit the network alone, by name."""
        thresholds = self.facts.get("network_thresholds")
        return {name: value for name, value in (thresholds or {}).items() if name in THRESHOLDS}

    def outputs(self, examples: Iterable[Example]) -> np.ndarray:
        """Return the linear model's logits or numbers for each example: float32 [rows, outputs]."""
        return outputs_of(self.model, examples)

    def added_to(self, logits: Tensor, outputs: np.ndarray) -> Tensor:
        """Return the network's `logits` pooled with the linear model's `outputs` of the same rows: [rows, outputs]."""
        linear = torch.from_numpy(outputs).to(logits.device)
        return pooled(logits.float(), linear, self.weight) / self.temperature

    def write(self, folder: Path) -> list[str]:
        """Write the branch as files of a model folder, and return their names."""
        about = {"weight": self.weight, "temperature": self.temperature, "facts": self.facts}
        content = json.dumps(about | self.model.description(), ensure_ascii=False, separators=(",", ":"))
        (folder / DESCRIPTION).write_text(content + "\n", encoding="utf-8")
        arrays = self.model.arrays()
        stored = {name: torch.from_numpy(array) for name, array in arrays.items()}
        halved = stored["weights"].half()
        if torch.equal(halved.float(), stored["weights"]):  # as they were rounded, unless they have other units since
            stored["weights"] = halved
        (folder / ARRAYS).write_bytes(safetensors.torch.save(stored))
        return [*BRANCH_FILES]


def outputs_of(model: LinearModel, examples: Iterable[Example]) -> np.ndarray:
    """Return a linear model's outputs for each example, a few thousand at a time: float32 [rows, outputs]."""
    some = [model.outputs(list(map(texts_of, chunk))) for chunk in in_lists(examples, AT_A_TIME)]
    return np.concatenate(some) if some else np.zeros((0, len(model.intercept)), np.float32)


def read_branch(folder: Path, task: Task) -> LinearBranch | None:
    """Return the branch in a model folder, whose outputs suit the task; None if there is none.

    Raises DataError if its files are damaged.
    """
    if not (folder / DESCRIPTION).is_file():
        return None
    from encoderlab.linear.model import LinearModel
    from encoderlab.linear.ngrams import Analyzer

    about = read_config(folder, DESCRIPTION)
    arrays = {name: tensor.float().numpy() for name, tensor in read_weights(folder / ARRAYS).items()}
    try:
        model = LinearModel.from_parts(about, arrays)
        for ngrams in filter(None, (model.setting.ngrams, model.setting.ngrams.beside)):
            lengths = (ngrams.shortest, ngrams.longest)
            are_counts = all(isinstance(length, int) for length in lengths)
            if (
                ngrams.analyzer not in get_args(Analyzer)
                or not are_counts
                or not 1 <= lengths[0] <= lengths[1] <= LONGEST
            ):
                raise ValueError(f"it reads {ngrams}")
        branch = LinearBranch(model, float(about["weight"]), float(about["temperature"]), dict(about["facts"]))
        _check_numbers(branch, arrays)
        _check_facts(branch, task)
        if (model.kind, len(model.intercept)) != (task.heads.sequence_target, task.heads.sequence_classes):
            raise ValueError(f"it predicts a {model.kind} with {len(model.intercept)} outputs")
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, SettingError) as error:
        problem = f"{folder / DESCRIPTION} is damaged: {one_line(str(error))[:200]}"
        raise DataError(problem, remedy="Use another copy") from None
    return branch


def _check_numbers(branch: LinearBranch, arrays: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError for numbers from which no probability can be computed."""
    lowest, highest = TEMPERATURES
    if not (0 < branch.weight <= 1 and lowest <= branch.temperature <= highest):
        raise ValueError(f"its weight is {branch.weight:g} and its temperature {branch.temperature:g}")
    if not all(np.abs(array).max(initial=0) < GREATEST for array in arrays.values()):
        raise ValueError("its numbers are not finite")
    if not (arrays["idf"] > 0).all():
        raise ValueError("an inverse document frequency is not above 0")


def _check_facts(branch: LinearBranch, task: Task) -> None:
    """Raise an error if what exports read of the facts is not what a run writes."""
    for parts in branch.facts.get("splits", {}).values():
        if not all(isinstance(parts[name], float | int) for name in ("network", "linear", "both")):
            raise ValueError("a score in its facts is not a number")
        if not isinstance(branch.facts["score"], str):
            raise ValueError("its facts do not name a score")
    if any(value is not None for value in branch.network_thresholds.values()):  # refused as those of a task are
        replace(task.config, **branch.network_thresholds).build(task.tokenizer, task.labels, task.max_length)


def small(model: LinearModel, largest: int = LARGEST) -> LinearModel:
    """Return the model with weights of 16 bits and as many n-grams as a folder holds in `largest` bytes.

    Those with the greatest part in the logits are kept: the length of an n-gram's weights, times the root mean square
    of its value in a text, its idf times the root of the share of texts that hold it.
    """
    names = list(model.tfidf.vocabulary)
    idf = model.tfidf.idf
    n_outputs = len(model.intercept)
    weights = model.weights.astype(np.float16).astype(np.float32)
    # The features of compared texts are several blocks of all n-grams, and others after them.
    n_blocks = len(weights) // len(names)
    blocks = weights[: n_blocks * len(names)].reshape(n_blocks, len(names), n_outputs)
    others = weights[n_blocks * len(names) :]

    n_bytes = np.array([len(json.dumps(name, ensure_ascii=False).encode()) for name in names], np.int64)
    n_bytes += 1 + idf.itemsize + 2 * n_blocks * n_outputs
    share = np.exp(1 - idf)
    order = np.argsort(-np.sqrt((blocks**2).sum((0, 2)) * share) * idf, kind="stable")
    kept = np.sort(order[: int(np.searchsorted(np.cumsum(n_bytes[order]), largest, side="right"))])
    vocabulary = {names[column]: number for number, column in enumerate(kept.tolist())}
    tfidf = replace(model.tfidf, vocabulary=vocabulary, idf=idf[kept])
    return replace(model, tfidf=tfidf, weights=np.concatenate([blocks[:, kept].reshape(-1, n_outputs), others]))


def in_units(model: LinearModel, mean: float, unit: float) -> LinearModel:
    """Return a model of numbers that predicts them less `mean`, in units of `unit`."""
    weights = (model.weights / unit).astype(np.float32)
    return replace(model, weights=weights, intercept=((model.intercept - mean) / unit).astype(np.float32))
