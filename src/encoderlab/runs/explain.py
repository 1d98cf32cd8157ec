"""What a prediction rests on: how much each word of a text supports the predicted class, or counts against it.

A word's importance is the change of the log-odds (or of a predicted number) when its tokens are replaced by [MASK], or
by the unknown token if there is none (occlusion: Zeiler and Fergus 2014; Li et al. 2016). It does not capture what
several words do only together. The characters of each token come from the tokenizer.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from typing import NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from encoderlab.batch import Encoded
from encoderlab.config.commands import AttentionConfig, ExplainConfig
from encoderlab.data.examples import Example, texts_of
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.reports.explanation import Importance, WordImportance
from encoderlab.runs.assembly import Assembly, check_paired
from encoderlab.runs.predict import example_of, outputs_of, reads_words, split_examples
from encoderlab.tasks.config import DocumentTaskConfig
from encoderlab.tasks.rows import hold_encoded
from encoderlab.tasks.task import refuse_unknown_label
from encoderlab.training.distribution import COMPILED

MOST_OCCLUSIONS = 128  # of one text: a longer one loses several words at a time; otherwise the cost would be quadratic


class Span(NamedTuple):
    """The characters [begin, end) of a text (0, or 1 for the second of a pair), and the number of their word."""

    text: int
    word: int
    begin: int
    end: int


def word_importance(
    assembly: Assembly, examples: Sequence[Example], labels: Sequence[str] | None = None
) -> list[Importance]:
    """Return the importance of every word of each example for its most probable class, or for its entry in `labels`.

    It is computed in `assembly.compute.precision`; except for rounding, no example's scores depend on the others.
    Raises DataError for a model that does not label or rate whole texts, SettingError for an unknown label.
    """
    task, name = assembly.task, assembly.config.task.name
    if task.heads.sequence_classes is None or task.heads.vocabulary:
        wrong = f"{name} does not label texts or rate them with a number, so there is nothing to explain"
        raise DataError(wrong, remedy="Train it with encoderlab finetune init_from=..., or use encoderlab attention")
    if labels and not task.labels:
        raise SettingError(f"label={labels[0]} names a class, but {name} predicts a number", remedy="Remove label")
    for label in labels or []:
        refuse_unknown_label("label", label, task.labels)
    classes = [None] * len(examples) if labels is None else [task.labels.index(label) for label in labels]
    assembly.model.eval()
    # A handful of texts should not wait for the compiler.
    with torch.compiler.set_stance("force_eager") if assembly.compiled == COMPILED else nullcontext():
        explained = zip(examples, task.encode(examples), classes, strict=True)
        return [_importance(assembly, *one) for one in explained]


def _importance(assembly: Assembly, example: Example, encoded: Encoded, class_: int | None) -> Importance:
    task, tokenizer = assembly.task, assembly.tokenizer
    spans = spans_of(tokenizer, example, encoded)
    tokens_of: dict[tuple[int, int], list[int]] = {}  # the positions of each word's tokens, by its text and number
    for position, span in enumerate(spans):
        if span is not None:
            tokens_of.setdefault(span[:2], []).append(position)
    words = list(tokens_of.values())
    groups = np.array_split(np.arange(len(words)), min(max(len(words), 1), MOST_OCCLUSIONS))
    sizes, hidden = [len(group) for group in groups], []
    for group in groups:
        ids = list(encoded.input_ids)
        for position in (position for word in group for position in words[word]):
            ids[position] = tokenizer.unk_id if tokenizer.mask_id is None else tokenizer.mask_id
        hidden.append(replace(encoded, input_ids=ids))
    rows = hold_encoded([encoded, *hidden], tokenizer.vocabulary_size, task.heads)
    outputs = outputs_of(assembly, rows, lambda output, _: cast("Tensor", output.sequence_logits).float().cpu())
    logits = torch.stack(outputs).numpy()
    prediction = task.predictions_of(torch.from_numpy(logits[:1]))[0]
    index, is_number = int(logits[0].argmax()) if class_ is None else class_, prediction.number is not None
    # The log-odds log(p / (1 - p)) of one class of several do not change if all logits grow equally, as its logit does.
    # For one label of a set they are its logit; a number is explained as it is.
    double = logits.astype(np.float64)
    is_one_of_several = task.heads.sequence_target == "label"
    others = np.logaddexp.reduce(np.delete(double, index, axis=1), axis=1) if is_one_of_several else 0
    odds = (double[:, index] - others) * task.unit
    scores = np.repeat((odds[0] - odds[1:]) / np.maximum(sizes, 1), sizes)
    covered = [[span for position in word if (span := spans[position]) is not None] for word in words]
    return Importance(
        label=None if is_number else task.labels[index],
        probabilities={} if is_number else prediction.by_label(task.labels),
        predicted=prediction.in_words(),
        texts=texts_of(example),
        words=[
            WordImportance(of[0].text, min(span.begin for span in of), max(span.end for span in of), score)
            for of, score in zip(covered, scores.tolist(), strict=True)
        ],
        truncated=encoded.truncated,
    )


def spans_of(tokenizer: Tokenizer, example: Example, encoded: Encoded) -> list[Span | None]:
    """Return the span of each token of `encoded`, which is `example` as a task encodes it; None for [CLS] and [SEP]."""
    texts = enumerate(texts_of(example))
    of_texts = [[Span(number, *span) for span in tokenizer.spans(text)] for number, text in texts]
    if starts := encoded.window_starts:  # of [CLS] text [SEP]; each window replaces its first and last token by these
        read = len(encoded.input_ids) // len(starts) - 2
        windows = ([None, *of_texts[0][start : start + read], None] for start in starts)
        return [span for window in windows for span in window]
    remaining = [iter(spans) for spans in of_texts]  # truncation removes the end of a text
    special = {tokenizer.cls_id, tokenizer.sep_id}  # texts never contain these
    tokens = zip(encoded.input_ids, encoded.token_type_ids, strict=True)
    return [None if id_ in special else next(remaining[segment]) for id_, segment in tokens]


def selected_examples(config: AttentionConfig | ExplainConfig, assembly: Assembly) -> dict[str, Example]:
    """Return the examples to look at by name: `text`, or <split>-<row>.

    Raises SettingError for settings that contradict each other, DataError if there are no such rows.
    """
    if config.text is not None and (config.split is not None or config.rows is not None):
        raise SettingError("text is given together with rows of a split", allowed="one of them")
    if config.text is None and config.text_pair is not None:
        raise SettingError("text_pair is given without text", remedy="Set text=... too")
    if config.text is not None:
        if not isinstance(assembly.config.task, DocumentTaskConfig):  # which reads single texts as well as pairs
            check_paired(assembly, config.text_pair is not None)
        return {"text": example_of(config.text, config.text_pair, reads_words(assembly))}
    name, rows = config.split or "validation", config.rows or [0]
    examples, n_rows = split_examples(assembly, name, config.cache, limited=True)
    split = list(islice(examples, max(*rows, 0) + 1))
    for row in rows:
        if not 0 <= row < len(split):
            allowed = f"0 to {(n_rows or len(split)) - 1}"
            raise DataError(f"rows={rows}: the split {name} has no row {row}", allowed=allowed)
    return {f"{name}-{row}": split[row] for row in rows}
