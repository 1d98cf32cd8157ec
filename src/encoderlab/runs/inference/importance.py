"""Token importance: how much each token of a text supports the predicted class, or counts against it.

It is in log-odds, or in the units of a predicted number. The characters of each token come from
the tokenizer (`token_spans`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from encoderlab.batch import Batch, Encoded, Prediction, TargetKind
from encoderlab.data.examples import Example, WordsExample, are_words
from encoderlab.errors import DataError, SettingError, closest
from encoderlab.runs.assembly import Assembly
from encoderlab.runs.inference.token_gradients import predict_from_embeddings
from encoderlab.runs.inference.token_spans import Span, TokensRead, spans_of, texts_of
from encoderlab.tasks.rows import hold_encoded
from encoderlab.training.evaluation import predict_batches

Explained = tuple[np.ndarray, np.ndarray]  # float32: a score for each token read, and a logit for each class
ForOne = TypeVar("ForOne")


@dataclass(frozen=True, slots=True, eq=False)
class WordImportance:
    """A word of text number `text`, at [begin, end) in it, and the sum of its tokens' scores."""

    text: int
    begin: int
    end: int
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class TokenImportance:
    """What each token adds to the log-odds of `label`, in natural logarithms: 0.7 doubles the odds, -0.7 halves them.

    If the model predicts a number, it is what each token adds to that, and `label` and `probability` are None.
    `predicted` is the model's whole prediction in words. `scores` are float32, one for each of the `pieces`; `special`
    is True at [CLS] and [SEP], which are not text. `spans` gives the characters of each token in `texts` (one text, or
    the two of a pair), None for special ones. `probabilities` are those of all classes by name, for the unchanged text.
    `word` is the index of the explained word, if the model labels words.
    """

    method: str
    label: str | None
    probability: float | None
    probabilities: dict[str, float]
    predicted: str
    pieces: list[str]
    scores: np.ndarray
    special: np.ndarray
    texts: tuple[str, ...]
    spans: list[Span | None]
    truncated: bool
    word: int | None = None

    def words(self) -> list[WordImportance]:
        """Return the words in the order of the texts, without truncated text and white space."""
        found: list[WordImportance] = []
        before = None
        for span, score in zip(self.spans, self.scores.tolist(), strict=True):
            if span is None:
                continue
            if before is not None and (span.text, span.word) == (before.text, before.word):
                last = found.pop()
                begin, end = min(last.begin, span.begin), max(last.end, span.end)
                found.append(WordImportance(span.text, begin, end, last.score + score))
            else:
                found.append(WordImportance(span.text, span.begin, span.end, score))
            before = span
        return found


def token_importance(
    assembly: Assembly,
    examples: Sequence[Example],
    method: str = "gradient",
    *,
    labels: Sequence[str] | None = None,
    words: Sequence[int] | None = None,
) -> list[TokenImportance]:
    """Return the importance of every token of each example for its most probable class, or for its entry in `labels`.

    `gradient` is gradient times input: the gradient of the log-odds with respect to the token's embedding, times that
    embedding (Simonyan et al. 2013; Shrikumar et al. 2016), a first-order estimate of the change without it.
    `occlusion` is the change itself when the token is replaced by [MASK], or by the unknown token if there is none
    (Zeiler and Fergus 2014; Li et al. 2016). Neither captures what several tokens do only together. It is computed in
    `assembly.compute.precision`; except for rounding, no example's scores depend on the others.

    If the model labels words, the class is that of the word at the example's index in `words` (None: the first). Raises
    DataError for a model without classes, and for a word that does not exist or was truncated; SettingError for an
    unknown label.
    """
    check_answers(assembly)
    encoded = _questions(assembly, examples, words)
    chosen = None if labels is None else [_class_named(assembly, label) for label in labels]
    assembly.model.eval()
    with _not_compiled(assembly):
        explained = METHODS[method](assembly, encoded, chosen)
    word_indices = words or [0] * len(examples)
    return [
        _importance(
            assembly, method, example, question, one, None if chosen is None else chosen[row], word_indices[row]
        )
        for row, (example, question, one) in enumerate(zip(examples, encoded, explained, strict=True))
    ]


def log_odds(logits: Float[Tensor, "rows classes"], classes: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
    """Return log(p / (1 - p)) of a class of each row: unlike its logit, it does not change if all logits grow equally."""
    chosen = torch.nn.functional.one_hot(classes, logits.shape[1]).bool()
    return logits[chosen] - logits.masked_fill(chosen, -torch.inf).logsumexp(1)


def evidence(
    logits: Float[Tensor, "rows classes"], classes: Int[Tensor, " rows"], target: TargetKind
) -> Float[Tensor, " rows"]:
    """Return what to explain of each row: the log-odds of a class, which for one label of a set are its logit; or the
    number.
    """
    if target == "label":
        return log_odds(logits, classes)
    return logits.gather(1, classes[:, None])[:, 0]


def by_gradient(assembly: Assembly, encoded: Sequence[Encoded], chosen: Sequence[int] | None) -> list[Explained]:
    """Return gradient times input, for the most probable class of each row or the `chosen` one."""
    target = assembly.task.heads.sequence_target

    def answer(batch: Batch) -> list[Explained]:
        with torch.enable_grad():
            with assembly.compute.autocast():
                prediction, embedded = predict_from_embeddings(assembly.model, batch)
            logits = _logits(prediction)
            classes = logits.argmax(1) if chosen is None else torch.tensor(chosen, device=logits.device)[batch.rows]
            (gradient,) = torch.autograd.grad(evidence(logits, classes, target).sum(), embedded)
        scores = (gradient * embedded.detach()).sum(-1)
        return list(zip(_of_rows(scores.cpu().numpy(), batch), logits.detach().cpu().numpy(), strict=True))

    found = _in_order(assembly, encoded, answer, at_once=False)  # each batch puts embeddings of its own into the model
    return [(_of_tokens(scores, one), logits) for one, (scores, logits) in zip(encoded, found, strict=True)]


def _of_rows(scores: np.ndarray, batch: Batch) -> list[np.ndarray]:
    """Return the scores of each row of a batch: [length], or those of its windows one after another."""
    if batch.row_of_sequence is None:
        return list(scores)
    return [
        scores[sequences].flatten()
        for sequences in batch.row_of_sequence.cpu().numpy() == np.arange(len(batch))[:, None]
    ]


def _of_tokens(scores: np.ndarray, encoded: Encoded) -> np.ndarray:
    """Return one score for each token read, from those of all ids and of the padding after them."""
    tokens = TokensRead.of(encoded)
    return np.bincount(tokens.which, weights=scores[: len(encoded.input_ids)], minlength=len(tokens)).astype(np.float32)


def by_occlusion(assembly: Assembly, encoded: Sequence[Encoded], chosen: Sequence[int] | None) -> list[Explained]:
    """Return the log-odds minus those without the token, for the most probable class of each row or the `chosen` one."""
    mask = assembly.tokenizer.unk_id if assembly.tokenizer.mask_id is None else assembly.tokenizer.mask_id

    def answer(batch: Batch) -> list[np.ndarray]:
        with torch.inference_mode(), assembly.compute.autocast():
            prediction = assembly.model(batch)
        return list(_logits(prediction).cpu().numpy())

    logits = _in_order(assembly, chain.from_iterable([one, *occluded(one, mask)] for one in encoded), answer)
    found: list[Explained] = []
    ends = np.cumsum([len(TokensRead.of(one)) + 1 for one in encoded])
    for row, (begin, end) in enumerate(pairwise([0, *ends.tolist()])):
        own = torch.from_numpy(np.stack(logits[begin:end]))
        index = int(own[0].argmax()) if chosen is None else chosen[row]
        odds = evidence(own, torch.full((len(own),), index), assembly.task.heads.sequence_target)
        found.append(((odds[0] - odds[1:]).numpy(), own[0].numpy()))
    return found


METHODS = {"gradient": by_gradient, "occlusion": by_occlusion}


def occluded(encoded: Encoded, mask: int) -> Iterator[Encoded]:
    """Yield the example once per token read, each time with that token replaced by the id `mask`, in all windows."""
    ids, tokens = np.array(encoded.input_ids), TokensRead.of(encoded)
    for token in range(len(tokens)):
        yield replace(encoded, input_ids=np.where(tokens.which == token, mask, ids).tolist())


def _in_order(
    assembly: Assembly, encoded: Iterable[Encoded], answer: Callable[[Batch], list[ForOne]], *, at_once: bool = True
) -> list[ForOne]:
    """Return the result of `answer` for each row, in the order of `encoded`; see `answered`."""
    heads = assembly.task.heads
    rows = hold_encoded(encoded, assembly.tokenizer.vocabulary_size, heads)
    found: dict[int, ForOne] = {}
    for batch, answers in predict_batches(assembly.scoring_batches(rows), answer, assembly.compute, at_once=at_once):
        found.update(zip(batch.rows.tolist(), answers, strict=True))
    return [found[row] for row in range(len(rows))]


def _logits(prediction: Prediction) -> Float[Tensor, "rows classes"]:
    """Return one row of logits for each example; for token predictions, each example has a single target."""
    logits = prediction.token_logits if prediction.sequence_logits is None else prediction.sequence_logits
    assert logits is not None
    return logits.float()


def _questions(assembly: Assembly, examples: Sequence[Example], words: Sequence[int] | None) -> list[Encoded]:
    """Return the examples as ids; if words are labelled, only the word to explain is a target."""
    encoded = assembly.task.encode(examples)
    if assembly.task.heads.token_classes is None:
        return encoded
    word_indices = words or [0] * len(examples)
    assert are_words(examples)
    return [_about_word(*each) for each in zip(encoded, examples, word_indices, strict=True)]


def _about_word(encoded: Encoded, example: WordsExample, word: int) -> Encoded:
    places = list(encoded.token_labels or ())  # of each word's first token, in order
    if not 0 <= word < len(places):
        cut = f", of which the model reads {len(places)}" if len(places) < len(example.words) else ""
        allowed = f"0 to {len(places) - 1}" if places else "a text with words"
        raise DataError(f"word={word} is not one of the text's {len(example.words)} words{cut}", allowed=allowed)
    return replace(encoded, token_labels={places[word]: None})


def _class_named(assembly: Assembly, label: str) -> int:
    labels = assembly.task.labels
    if not labels:
        raise SettingError(f"label={label} names a class, but this model predicts a number", remedy="Remove label")
    if label not in labels:
        near = closest(label, labels)
        remedy = f"Did you mean label={near}?" if near else ""
        raise SettingError(f"label={label} is not a class of this model", allowed=", ".join(labels), remedy=remedy)
    return labels.index(label)


def check_answers(assembly: Assembly) -> None:
    """Raise DataError for a model without classes."""
    heads, name = assembly.task.heads, assembly.config.task.name
    if heads.vocabulary or (heads.sequence_classes is None and heads.token_classes is None):
        what = "is a pretrained encoder" if heads.vocabulary else "is an encoder without a head"
        remedy = (
            "Train it on a task with encoderlab finetune init_from=..., or plot its attention with encoderlab attention"
        )
        raise DataError(
            f"{name} {what} and has no classes to explain", allowed="a model that labels texts or words", remedy=remedy
        )
    if len(assembly.task.labels) < 2 and heads.sequence_target != "number":
        raise DataError(
            f"{name} has only one class, so there is nothing to explain", allowed="a model with two or more"
        )


def _not_compiled(assembly: Assembly) -> AbstractContextManager[object]:
    """Run the model without compilation: a handful of texts should not wait for the compiler."""
    compiled = (assembly.compiled or "").startswith("compiled")
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()


def _importance(
    assembly: Assembly,
    method: str,
    example: Example,
    encoded: Encoded,
    explained: Explained,
    chosen: int | None,
    word: int,
) -> TokenImportance:
    scores, logits = explained
    tokenizer, task = assembly.tokenizer, assembly.task
    answer = task.answers_of(torch.from_numpy(logits)[None])[0]
    is_number = answer.number is not None
    index = int(np.argmax(logits)) if chosen is None else chosen
    spans = spans_of(tokenizer, example, encoded)
    return TokenImportance(
        method=method,
        label=None if is_number else task.labels[index],
        probability=None if answer.probabilities is None else answer.probabilities[index],
        probabilities={} if is_number else answer.by_label(task.labels),
        predicted=answer.in_words(),
        pieces=tokenizer.pieces([encoded.input_ids[place] for place in TokensRead.of(encoded).first]),
        scores=scores * np.float32(task.unit),
        special=np.array([span is None for span in spans]),
        texts=texts_of(example),
        spans=spans,
        truncated=encoded.truncated,
        word=word if isinstance(example, WordsExample) else None,
    )
