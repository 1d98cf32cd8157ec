"""What a prediction rests on: how much each word of a text supports the predicted class, or counts against it.

A word's importance is the change of the log-odds (or of a predicted number) when its tokens are replaced by [MASK], or
by the unknown token if there is none (occlusion: Zeiler and Fergus 2014; Li et al. 2016). It does not capture what
several words do only together. The characters of each token come from the tokenizer. Of a linear branch, which
reads characters, those of the word become blanks; it and the network also have each word's score by themselves.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from encoderlab.batch import Batch, Prediction
from encoderlab.config.commands import AttentionConfig, ExplainConfig
from encoderlab.data.examples import Example, texts_of
from encoderlab.data.token_store import TokenStore, repeated, tokenize_examples
from encoderlab.errors import DataError, SettingError
from encoderlab.models.inputs import split_examples
from encoderlab.models.model import Model
from encoderlab.reports.explanation import Importance, WordImportance
from encoderlab.tasks.rows import ExampleRows
from encoderlab.tasks.task import Task, refuse_unknown_label

MOST_OCCLUSIONS = 128  # of one text: a longer one loses several words at a time; otherwise the cost would be quadratic


class Span(NamedTuple):
    """The characters [begin, end) of a token in a text (0, or 1 for the second of a pair), the number of its word, and
    its position among the text's tokens.
    """

    text: int
    word: int
    begin: int
    end: int
    position: int


def word_importance(model: Model, examples: Sequence[Example], labels: Sequence[str] | None = None) -> list[Importance]:
    """Return the importance of every word of each example for its most probable class, or for its entry in `labels`.

    It is computed in `model.compute.precision`; except for rounding, no example's scores depend on the others.
    Raises DataError for a model that does not label or rate whole texts, SettingError for an unknown label.
    """
    task = model.task
    if not task.heads.judges_texts:
        problem = f"{model.task_name} does not label texts or rate them with a number, so there is nothing to explain"
        raise DataError(problem, remedy="Train it with encoderlab finetune init_from=..., or use encoderlab attention")
    if labels and not task.labels:
        raise SettingError(
            f"label={labels[0]} names a class, but {model.task_name} predicts a number", remedy="Remove label"
        )
    for label in labels or []:
        refuse_unknown_label("label", label, task.labels)
    classes = [None] * len(examples) if labels is None else [task.labels.index(label) for label in labels]
    model.network.eval()
    # A handful of texts should not wait for the compiler.
    with torch.compiler.set_stance("force_eager") if model.network.encoder.is_compiled else nullcontext():
        return [_importance(model, example, class_) for example, class_ in zip(examples, classes, strict=True)]


def _importance(model: Model, example: Example, class_: int | None) -> Importance:
    task = model.task

    # The words that are read, each with the positions of its tokens in the whole texts.
    store = tokenize_examples([example], model.tokenizer)
    rows = task.rows(store)
    words = _words_read(model, example, store, rows)

    # The logits of the text, and of the text without each word, or without a few of them.
    groups = np.array_split(np.arange(len(words)), min(max(len(words), 1), MOST_OCCLUSIONS))
    occluded = _occluded(model, example, store, words, groups)
    logits, *parts = _pooled_and_parts(model, occluded)

    # How much the log-odds of the class fall when a word is hidden.
    prediction = task.predictions_of(torch.from_numpy(logits[:1]))[0]
    index = int(logits[0].argmax()) if class_ is None else class_
    sizes = [len(group) for group in groups]
    scores, *of_parts = (_falls(task, each, index, sizes) for each in (logits, *parts))

    is_number = prediction.number is not None
    scored = []
    for number, word in enumerate(words):
        begin = min(span.begin for span in word)
        end = max(span.end for span in word)
        by_part = (float(part[number]) for part in of_parts)
        scored.append(WordImportance(word[0].text, begin, end, float(scores[number]), *by_part))
    return Importance(
        label=None if is_number else task.labels[index],
        probabilities={} if is_number else prediction.by_label(task.labels),
        predicted=prediction.in_words(),
        texts=texts_of(example),
        words=scored,
        truncated=bool(rows.truncated()[0]),
    )


def _pooled_and_parts(model: Model, rows: ExampleRows) -> list[np.ndarray]:
    """Return the logits of the model for each row, [rows, classes]; with a branch, then those of the network and of the
    linear model, of which they are the sum.
    """
    network = torch.stack(replace(model, branch=None).outputs(rows, _logits))
    branch = model.branch
    if branch is None:
        return [network.numpy()]
    linear = branch.outputs(rows.examples or ())
    of_network = branch.added_to(network, np.zeros_like(linear))
    of_linear = branch.added_to(torch.zeros_like(network), linear)
    return [both.numpy() for both in (branch.added_to(network, linear), of_network, of_linear)]


def _falls(task: Task, logits: np.ndarray, index: int, sizes: Sequence[int]) -> np.ndarray:
    """Return how much the log-odds of a class fall when a word is hidden, [words]: from the first row of `logits`,
    [1 + groups, classes], to the one without its group, divided by the size of that.

    The log-odds log(p / (1 - p)) of one class of several do not change if all logits grow equally, as its logit does.
    For one label of a set they are its logit; a number is explained as it is.
    """
    double = logits.astype(np.float64)
    others = 0.0
    if task.heads.sequence_target == "label":
        others = np.logaddexp.reduce(np.delete(double, index, axis=1), axis=1)
    odds = (double[:, index] - others) * task.unit
    return np.repeat((odds[0] - odds[1:]) / np.maximum(sizes, 1), sizes)


def _logits(prediction: Prediction, batch: Batch) -> Tensor:  # noqa: ARG001
    """Return the logits of each row of a batch: [rows, classes]."""
    assert prediction.sequence_logits is not None
    return prediction.sequence_logits.float().cpu()


def _words_read(model: Model, example: Example, store: TokenStore, rows: ExampleRows) -> list[list[Span]]:
    """Return the words of an example that the model reads, each as the spans of its tokens that are read."""
    windows = rows.format.windows
    kept = [len(store["first"].values)]
    if "second" in store:
        kept.append(len(store["second"].values))
    if windows is None:
        lengths = [np.array([n]) for n in kept]
        first, second = rows.format.kept(lengths[0], lengths[1] if len(lengths) > 1 else None)
        kept = [int(first[0])] if second is None else [int(first[0]), int(second[0])]
    words: dict[tuple[int, int], list[Span]] = {}
    for number, text in enumerate(texts_of(example)):
        for position, (word, begin, end) in enumerate(model.tokenizer.spans(text)[: kept[number]]):
            words.setdefault((number, word), []).append(Span(number, word, begin, end, position))
    if windows is None:
        return list(words.values())

    # Windows that are too few for a long text leave tokens between them unread.
    room = rows.format.room(paired=False)
    starts = windows.starts(np.array([kept[0]]), room)
    is_read = np.zeros(kept[0], bool)
    for start in starts.tolist():
        is_read[start : start + room] = True
    read = [[span for span in word if is_read[span.position]] for word in words.values()]
    return [word for word in read if word]


def _occluded(
    model: Model, example: Example, store: TokenStore, words: list[list[Span]], groups: list[np.ndarray]
) -> ExampleRows:
    """Return the rows of a text as it is, and then without the words of each group."""
    tokenizer = model.tokenizer
    hidden = tokenizer.unk_id if tokenizer.mask_id is None else tokenizer.mask_id
    copies = repeated(store, 1 + len(groups))
    names = ("first", "second")
    for number, group in enumerate(groups, start=1):
        for word in group:
            for span in words[word]:
                column = copies[names[span.text]]
                column.values[column.offsets[number] + span.position] = hidden
    rows = model.task.rows(copies)
    rows.examples = _without_words(model, example, words, groups)
    return rows


def _without_words(model: Model, example: Example, words: list[list[Span]], groups: list[np.ndarray]) -> list[Example]:
    """Return the example as it is, and then without the characters of each group's words, for a linear branch."""
    examples = [example]
    for group in groups:
        texts = [list(text) for text in texts_of(example)]
        for word in group:
            for span in words[word]:
                texts[span.text][span.begin : span.end] = " " * (span.end - span.begin)
        examples.append(model.example(*("".join(text) for text in texts)))
    return examples


def selected_examples(config: AttentionConfig | ExplainConfig, model: Model) -> dict[str, Example]:
    """Return the examples to look at by name: `text`, or <split>-<row>.

    Raises SettingError for settings that contradict each other, DataError if there are no such rows.
    """
    if config.text is not None and (config.split is not None or config.rows is not None):
        raise SettingError("text is given together with rows of a split", allowed="one of them")
    if config.text is None and config.text_pair is not None:
        raise SettingError("text_pair is given without text", remedy="Set text=... too")
    if config.text is not None:
        if not model.config.task.of_documents:  # which reads single texts as well as pairs
            model.check_paired(config.text_pair is not None)
        return {"text": model.example(config.text, config.text_pair)}
    name = config.split or "validation"
    rows = config.rows or [0]
    examples, n_rows = split_examples(model, name, config.cache, limited=True)
    split = list(islice(examples, max(*rows, 0) + 1))
    for row in rows:
        if not 0 <= row < len(split):
            allowed = f"0 to {(n_rows or len(split)) - 1}"
            raise DataError(f"rows={rows}: the split {name} has no row {row}", allowed=allowed)
    return {f"{name}-{row}": split[row] for row in rows}
