"""What a prediction rests on: how much each word of a text supports the predicted class, or counts against it.

A word's importance is the change of the log-odds (or of a predicted number) when its tokens are replaced by [MASK], or
by the unknown token if there is none (occlusion: Zeiler and Fergus 2014; Li et al. 2016). It does not capture what
several words do only together. The characters of each token come from the tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import accumulate, islice, pairwise
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from encoderlab.batch import Batch, Encoded, TargetKind
from encoderlab.config.commands import AttentionConfig, ExplainConfig
from encoderlab.data.examples import Example, WordsExample, are_words
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError, closest
from encoderlab.reports.explanation import Importance, WordImportance
from encoderlab.reports.predictions import texts_of
from encoderlab.runs.assembly import Assembly, cache_folder, check_paired, own_dataset
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.predict import example_of, reads_words, split_examples
from encoderlab.tasks.config import DocumentTaskConfig
from encoderlab.tasks.rows import hold_encoded
from encoderlab.training.evaluation import predict_batches

MOST_OCCLUSIONS = 128  # of one text: a longer one loses several neighbouring words at a time, or its cost were square


class Span(NamedTuple):
    """The characters [begin, end) of a text (0, or 1 for the second of a pair), and the number of their word."""

    text: int
    word: int
    begin: int
    end: int


def word_importance(
    assembly: Assembly,
    examples: Sequence[Example],
    *,
    labels: Sequence[str] | None = None,
    words: Sequence[int] | None = None,
) -> list[Importance]:
    """Return the importance of every word of each example for its most probable class, or for its entry in `labels`.

    It is computed in `assembly.compute.precision`; except for rounding, no example's scores depend on the others. If
    the model labels words, the class is that of the word at the example's index in `words` (None: the first). Raises
    DataError for a model without classes, and for a word that does not exist or was truncated; SettingError for an
    unknown label.
    """
    check_explainable(assembly)
    word_indices = list(words or [0] * len(examples))
    encoded = assembly.task.encode(examples)
    if assembly.task.heads.token_classes is not None:
        assert are_words(examples)
        encoded = [_about_word(*each) for each in zip(encoded, examples, word_indices, strict=True)]
    classes = [None] * len(examples) if labels is None else [_class_of(assembly, label) for label in labels]
    spans = [spans_of(assembly.tokenizer, example, one) for example, one in zip(examples, encoded, strict=True)]
    assembly.model.eval()
    with _not_compiled(assembly):
        logits = _occluded_logits(assembly, encoded, spans)
    return [
        _importance(assembly, *each)
        for each in zip(examples, encoded, spans, logits, classes, word_indices, strict=True)
    ]


def _occluded_logits(
    assembly: Assembly, encoded: Sequence[Encoded], spans: Sequence[list[Span | None]]
) -> list[Float[Tensor, "texts classes"]]:
    """Return the logits of each example: those of the whole text, then those without each group of its words."""
    mask = assembly.tokenizer.unk_id if assembly.tokenizer.mask_id is None else assembly.tokenizer.mask_id

    def predict(batch: Batch) -> list[np.ndarray]:
        with torch.inference_mode(), assembly.compute.autocast():
            prediction = assembly.model(batch)
        # Where words are labelled, the explained word is the only target of its row.
        logits = prediction.token_logits if prediction.sequence_logits is None else prediction.sequence_logits
        assert logits is not None
        return list(logits.float().cpu().numpy())

    texts, ends = [], [0]
    for one, of_tokens in zip(encoded, spans, strict=True):
        ids, groups = np.array(one.input_ids), _groups(of_tokens)
        hidden = [np.where(groups == group, mask, ids) for group in range(groups.max(initial=-1) + 1)]
        texts += [one, *(replace(one, input_ids=ids.tolist()) for ids in hidden)]
        ends.append(len(texts))
    rows = hold_encoded(texts, assembly.tokenizer.vocabulary_size, assembly.task.heads)
    logits: dict[int, np.ndarray] = {}
    for batch, predicted in predict_batches(assembly.scoring_batches(rows), predict, assembly.compute):
        logits.update(zip(batch.rows.tolist(), predicted, strict=True))
    return [torch.from_numpy(np.stack([logits[row] for row in range(*ends_of)])) for ends_of in pairwise(ends)]


def _words_of(spans: Sequence[Span | None]) -> dict[tuple[int, int], list[Span]]:
    """Return the spans of each word that was read, by the number of its text and its own, in the texts' order."""
    words: dict[tuple[int, int], list[Span]] = {}
    for span in sorted(span for span in spans if span is not None):
        words.setdefault((span.text, span.word), []).append(span)
    return words


def _groups(spans: Sequence[Span | None]) -> np.ndarray:
    """Return the group of each token, -1 for [CLS] and [SEP]: its word's own, of more than MOST_OCCLUSIONS words one
    that is shared with neighbouring words.
    """
    number = {word: place for place, word in enumerate(_words_of(spans))}
    shared = max(len(number), MOST_OCCLUSIONS)
    return np.array([-1 if one is None else number[one.text, one.word] * MOST_OCCLUSIONS // shared for one in spans])


def evidence(logits: Float[Tensor, "texts classes"], class_: int, target: TargetKind) -> Float[Tensor, " texts"]:
    """Return what is explained: the log-odds of a class, which for one label of a set are its logit; or the number.

    Unlike its logit, the log-odds log(p / (1 - p)) of one class of several do not change if all logits grow equally.
    """
    own = logits[:, class_]
    if target != "label":
        return own
    others = torch.arange(logits.shape[1]) != class_
    return own - logits[:, others].logsumexp(1)


def _importance(
    assembly: Assembly,
    example: Example,
    encoded: Encoded,
    spans: Sequence[Span | None],
    logits: Tensor,
    class_: int | None,
    word: int,
) -> Importance:
    task, words = assembly.task, _words_of(spans)
    answer = task.predictions_of(logits[:1])[0]
    is_number = answer.number is not None
    index = int(logits[0].argmax()) if class_ is None else class_
    odds = evidence(logits, index, task.heads.sequence_target).double().numpy()
    group_of = dict(zip(spans, _groups(spans).tolist(), strict=True))
    groups = np.array([group_of[of_word[0]] for of_word in words.values()], np.int64)
    scores = (odds[0] - odds[1:])[groups] / np.bincount(groups)[groups] * task.unit
    return Importance(
        label=None if is_number else task.labels[index],
        probabilities={} if is_number else answer.by_label(task.labels),
        predicted=answer.in_words(),
        texts=texts_of(example),
        words=[
            WordImportance(of_word[0].text, of_word[0].begin, max(span.end for span in of_word), score)
            for of_word, score in zip(words.values(), scores.tolist(), strict=True)
        ],
        truncated=encoded.truncated,
        word=word if isinstance(example, WordsExample) else None,
    )


def _about_word(encoded: Encoded, example: WordsExample, word: int) -> Encoded:
    """Return the sentence with this word as its only target. Raises DataError if there is no such word."""
    places = list(encoded.token_labels or ())  # of each word's first token, in order
    if not 0 <= word < len(places):
        cut = f", of which the model reads {len(places)}" if len(places) < len(example.words) else ""
        allowed = f"0 to {len(places) - 1}" if places else "a text with words"
        raise DataError(f"word={word} is not one of the text's {len(example.words)} words{cut}", allowed=allowed)
    return replace(encoded, token_labels={places[word]: None})


def _class_of(assembly: Assembly, label: str) -> int:
    """Return the id of a class. Raises SettingError for an unknown name."""
    labels = assembly.task.labels
    if not labels:
        raise SettingError(f"label={label} names a class, but this model predicts a number", remedy="Remove label")
    if label not in labels:
        near = closest(label, labels)
        remedy = f"Did you mean label={near}?" if near else ""
        raise SettingError(f"label={label} is not a class of this model", allowed=", ".join(labels), remedy=remedy)
    return labels.index(label)


def check_explainable(assembly: Assembly) -> None:
    """Raise DataError for a model without classes."""
    heads, name = assembly.task.heads, assembly.config.task.name
    if heads.vocabulary or (heads.sequence_classes is None and heads.token_classes is None):
        what = "is a pretrained encoder" if heads.vocabulary else "is an encoder without a head"
        raise DataError(
            f"{name} {what} and has no classes to explain",
            allowed="a model that labels texts or words",
            remedy="Train it on a task with encoderlab finetune init_from=..., or plot its attention with encoderlab "
            "attention",
        )
    if len(assembly.task.labels) < 2 and heads.sequence_target != "number":
        raise DataError(
            f"{name} has only one class, so there is nothing to explain", allowed="a model with two or more"
        )


def _not_compiled(assembly: Assembly) -> AbstractContextManager[object]:
    """Run the model without compilation: a handful of texts should not wait for the compiler."""
    return torch.compiler.set_stance("force_eager") if assembly.is_compiled else nullcontext()


def spans_of(tokenizer: Tokenizer, example: Example, encoded: Encoded) -> list[Span | None]:
    """Return the span of each token of `encoded`, which is `example` as a task encodes it; None for [CLS] and [SEP].

    For words, each of a word's tokens covers the whole word.
    """
    if isinstance(example, WordsExample):
        of_texts = [_spans_of_words(tokenizer, example)]
    else:
        of_texts = [
            [Span(number, *span) for span in tokenizer.spans(text)] for number, text in enumerate(texts_of(example))
        ]
    if starts := encoded.window_starts:  # of [CLS] text [SEP]; each window replaces its first and last token by these
        read = len(encoded.input_ids) // len(starts) - 2
        windows = ([None, *of_texts[0][start : start + read], None] for start in starts)
        return [span for window in windows for span in window]
    remaining = [iter(spans) for spans in of_texts]  # truncation removes the end of a text
    special = {tokenizer.cls_id, tokenizer.sep_id}  # texts never contain these
    tokens = zip(encoded.input_ids, encoded.token_type_ids, strict=True)
    return [None if id_ in special else next(remaining[segment]) for id_, segment in tokens]


def _spans_of_words(tokenizer: Tokenizer, example: WordsExample) -> list[Span]:
    ((_, word_of),) = tokenizer.encode_words([example.words])
    begins = list(accumulate((len(word) + 1 for word in example.words), initial=0))
    return [Span(0, word, begins[word], begins[word] + len(example.words[word])) for word in word_of]


def check_selection(config: AttentionConfig | ExplainConfig) -> None:
    """Raise SettingError for settings that contradict each other, before a model is loaded."""
    if config.text is not None and (config.split is not None or config.rows is not None):
        raise SettingError("text is given together with rows of a split", allowed="one of them")
    if config.text is not None and not config.text.strip():
        raise SettingError("text is empty", allowed="a text with at least one word")
    if config.text_pair is not None and config.text is None:
        raise SettingError("text_pair is given without text", remedy="Set text=... too")
    if config.rows == []:
        raise SettingError("rows is empty", allowed="a list such as [0,7]", remedy="Remove it for the first row")


def selected_examples(config: AttentionConfig | ExplainConfig, assembly: Assembly) -> dict[str, Example]:
    """Return the examples to look at by name: `text`, or <split>-<row>. Raises DataError if they do not exist."""
    pretrained = isinstance(assembly.config.task, DocumentTaskConfig)  # reads single texts as well as pairs
    if config.text is not None:
        if not pretrained:
            check_paired(assembly, config.text_pair is not None)
        return {"text": example_of(config.text, config.text_pair, reads_words(assembly))}
    name = config.split or "validation"
    rows = config.rows or [0]
    if pretrained:
        examples, _ = split_examples(assembly, name, config.cache_dir)
        split = list(islice(examples, max(rows) + 1))
    else:
        corpus = Corpus.load(own_dataset(assembly), cache_folder(config.cache_dir), assembly.config.task.target)
        split = corpus.split(name)
    for row in rows:
        if not 0 <= row < len(split):
            raise DataError(f"rows={rows}: the split {name} has no row {row}", allowed=f"0 to {len(split) - 1}")
    return {f"{name}-{row}": split[row] for row in rows}
