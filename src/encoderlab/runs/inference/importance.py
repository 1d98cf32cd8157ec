"""Token importance: how much each token of a text speaks for the class that a model gives it, or against.

It is given in log-odds; of a number that a model gives, in the units of that number. Which characters a token stands for is asked
of the tokenizer (`token_spans`).
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
from encoderlab.runs.inference.token_gradients import predict_from_embeddings
from encoderlab.runs.inference.token_spans import Span, TokensRead, spans_of, texts_of
from encoderlab.runs.models.assembly import Assembly
from encoderlab.tasks.rows import hold_encoded
from encoderlab.training.memory import answered

Explained = tuple[np.ndarray, np.ndarray]  # float32: a score for each token read, and a logit for each class
ForOne = TypeVar("ForOne")


@dataclass(frozen=True, slots=True, eq=False)
class WordImportance:
    """A word of text number `text`, which stands there at [begin, end), and the sum of its pieces' scores."""

    text: int
    begin: int
    end: int
    score: float


@dataclass(frozen=True, slots=True, eq=False)
class TokenImportance:
    """What each token adds to the log-odds of `label`, in natural logarithms: 0.7 doubles the odds, -0.7 halves them.

    Where the model gives a number, it is what each token adds to that; `label` and `probability` are then None. `predicted` is the
    model's whole answer in words.
    `scores` are float32, one for each of the `pieces`; `special` is True at [CLS] and [SEP], which stand for no text. `spans` say
    which characters of `texts` (one text, or the two of a pair) each piece is, None for special ones. `probabilities` are those of
    all classes by name, without any change to the text. `word` is the place of the word in question, where a model labels words.
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
        """The words in the order of the texts; what was cut off, and white space, is in none."""
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
    """The importance of every token of each example for the likeliest class, or for the example's one of `labels`.

    `gradient` is gradient times input: the gradient of the log-odds with respect to the token's embedding, times that embedding
    (Simonyan et al. 2013; Shrikumar et al. 2016), the first term of what they would change by without it. `occlusion` is what they
    do change by where the token is replaced by [MASK], or by the unknown token where there is none (Zeiler and Fergus 2014; Li et
    al. 2016). Neither sees what several tokens do only together. It is computed in `assembly.compute.precision`; but for rounding,
    no example's scores depend on the others.

    Where the model labels words, the class is that of the word at the example's place of `words` (None: the first). Raises
    DataError for a model without classes, and for a word that is not there or was cut off; SettingError for a label there is not.
    """
    check_answers(assembly)
    encoded = _questions(assembly, examples, words)
    chosen = None if labels is None else [_class_named(assembly, label) for label in labels]
    assembly.model.eval()
    with _not_compiled(assembly):
        explained = METHODS[method](assembly, encoded, chosen)
    asked = words or [0] * len(examples)
    return [
        _importance(assembly, method, example, question, one, None if chosen is None else chosen[row], asked[row])
        for row, (example, question, one) in enumerate(zip(examples, encoded, explained, strict=True))
    ]


def log_odds(logits: Float[Tensor, "rows classes"], classes: Int[Tensor, " rows"]) -> Float[Tensor, " rows"]:
    """log(p / (1 - p)) of a class of each row: unlike its logit, it stays the same where all logits grow alike."""
    chosen = torch.nn.functional.one_hot(classes, logits.shape[1]).bool()
    return logits[chosen] - logits.masked_fill(chosen, -torch.inf).logsumexp(1)


def evidence(logits: Float[Tensor, "rows classes"], classes: Int[Tensor, " rows"], target: TargetKind) -> Float[Tensor, " rows"]:
    """What is explained of each row: the log-odds of a class, which for one label of a set are its logit; or the number."""
    if target == "label":
        return log_odds(logits, classes)
    return logits.gather(1, classes[:, None])[:, 0]


def by_gradient(assembly: Assembly, encoded: Sequence[Encoded], chosen: Sequence[int] | None) -> list[Explained]:
    """Gradient times input, for the likeliest class of each row or the `chosen` one."""
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

    found = _in_order(assembly, encoded, answer)
    return [(_of_tokens(scores, one), logits) for one, (scores, logits) in zip(encoded, found, strict=True)]


def _of_rows(scores: np.ndarray, batch: Batch) -> list[np.ndarray]:
    """The scores of each row of a batch: [length], or those of its windows one behind another."""
    if batch.row_of_sequence is None:
        return list(scores)
    return [scores[sequences].flatten() for sequences in batch.row_of_sequence.cpu().numpy() == np.arange(len(batch))[:, None]]


def _of_tokens(scores: np.ndarray, encoded: Encoded) -> np.ndarray:
    """One score for each token read, out of those of all ids, and of padding behind them."""
    tokens = TokensRead.of(encoded)
    return np.bincount(tokens.which, weights=scores[: len(encoded.input_ids)], minlength=len(tokens)).astype(np.float32)


def by_occlusion(assembly: Assembly, encoded: Sequence[Encoded], chosen: Sequence[int] | None) -> list[Explained]:
    """Log-odds as they are less those without the token, for the likeliest class of each row or the `chosen` one."""
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
    """The same example as often as tokens of it are read, each time with another one replaced by the id `mask`, in all windows."""
    ids, tokens = np.array(encoded.input_ids), TokensRead.of(encoded)
    for token in range(len(tokens)):
        yield replace(encoded, input_ids=np.where(tokens.which == token, mask, ids).tolist())


def _in_order(assembly: Assembly, encoded: Iterable[Encoded], answer: Callable[[Batch], list[ForOne]]) -> list[ForOne]:
    """What `answer` says of each row, in the order of `encoded`."""
    heads = assembly.task.heads
    rows = hold_encoded(encoded, assembly.tokenizer.vocabulary_size, heads)
    found: dict[int, ForOne] = {}
    for batch, answers in answered(assembly.scoring_batches(rows), answer):
        found.update(zip(batch.rows.tolist(), answers, strict=True))
    return [found[row] for row in range(len(rows))]


def _logits(prediction: Prediction) -> Float[Tensor, "rows classes"]:
    """One row of logits for each example: of tokens, a single one is asked in each."""
    logits = prediction.token_logits if prediction.sequence_logits is None else prediction.sequence_logits
    assert logits is not None
    return logits.float()


def _questions(assembly: Assembly, examples: Sequence[Example], words: Sequence[int] | None) -> list[Encoded]:
    """The examples as ids; where words are labelled, only the one in question is asked."""
    encoded = assembly.task.encode(examples)
    if assembly.task.heads.token_classes is None:
        return encoded
    asked = words or [0] * len(examples)
    assert are_words(examples)
    return [_about_word(*each) for each in zip(encoded, examples, asked, strict=True)]


def _about_word(encoded: Encoded, example: WordsExample, word: int) -> Encoded:
    places = list(encoded.token_labels or ())  # of each word's first piece, in their order
    if not 0 <= word < len(places):
        cut = f", of which the model reads {len(places)}" if len(places) < len(example.words) else ""
        allowed = f"0 to {len(places) - 1}" if places else "a text with words"
        raise DataError(f"word={word} is none of the text's {len(example.words)} words{cut}", allowed=allowed)
    return replace(encoded, token_labels={places[word]: None})


def _class_named(assembly: Assembly, label: str) -> int:
    labels = assembly.task.labels
    if not labels:
        raise SettingError(f"label={label} names a class, and this model gives a number", remedy="Remove label")
    if label not in labels:
        near = closest(label, labels)
        remedy = f"Did you mean label={near}?" if near else ""
        raise SettingError(f"label={label} is no class of this model", allowed=", ".join(labels), remedy=remedy)
    return labels.index(label)


def check_answers(assembly: Assembly) -> None:
    """Refuse a model that chooses between no classes. Raises DataError."""
    heads, name = assembly.task.heads, assembly.config.task.name
    if heads.vocabulary or (heads.sequence_classes is None and heads.token_classes is None):
        what = "is a pretrained encoder" if heads.vocabulary else "is an encoder without a head"
        remedy = "Run encoderlab finetune init_from=... to teach it a task, or encoderlab attention to see where it looks"
        raise DataError(f"{name} {what}: it has no classes to explain", allowed="a model that labels texts or words", remedy=remedy)
    if len(assembly.task.labels) < 2 and heads.sequence_target != "number":
        raise DataError(f"{name} knows one class only, and there is nothing to explain", allowed="a model with two or more")


def _not_compiled(assembly: Assembly) -> AbstractContextManager[object]:
    """Run what was compiled for training as it is written: for a handful of texts nobody should wait for the compiler."""
    compiled = (assembly.compiled or "").startswith("compiled")
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()


def _importance(
    assembly: Assembly, method: str, example: Example, encoded: Encoded, explained: Explained, chosen: int | None, word: int
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
