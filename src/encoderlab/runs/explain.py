"""What a prediction rests on: how much each token of a text supports the predicted class, or counts against it.

A token's importance is the change of the log-odds (or of a predicted number) when the token is replaced by [MASK], or
by the unknown token if there is none (occlusion: Zeiler and Fergus 2014; Li et al. 2016). It does not capture what
several tokens do only together. The characters of each token come from the tokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate, chain, islice, pairwise

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from encoderlab.batch import Batch, Encoded, TargetKind
from encoderlab.config.commands import AttentionConfig, ExplainConfig
from encoderlab.data.examples import Example, WordsExample, are_words
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError, closest
from encoderlab.runs.assembly import Assembly, cache_folder, check_paired, own_dataset
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.inputs import example_of, reads_words, split_examples
from encoderlab.tasks.config import DocumentTaskConfig
from encoderlab.tasks.rows import hold_encoded
from encoderlab.training.evaluation import predict_batches

MOST_OCCLUSIONS = (
    128  # of one text: a longer one loses several neighbouring tokens at a time, or its cost would be square
)


@dataclass(frozen=True, slots=True)
class Span:
    """The characters [begin, end) of text number `text` (0, or 1 for the second of a pair), and the number of their
    word.
    """

    text: int
    word: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class TokensRead:
    """The tokens of a text that a model reads, each once, in the text's order.

    Token i is at `places[i]` of [CLS] text [SEP], and first at `first[i]` of the ids; `which` gives the token of every
    id. A token shared by two windows counts once, and so do the windows' [CLS] and their [SEP].
    """

    places: np.ndarray
    first: np.ndarray
    which: np.ndarray

    @classmethod
    def of(cls, encoded: Encoded) -> TokensRead:
        """Return the tokens of one example."""
        every = np.arange(len(encoded.input_ids))
        if not encoded.window_starts:
            return cls(every, every, every)
        starts = np.array(encoded.window_starts)
        places = starts[:, None] + every[: len(every) // len(starts)]
        places[:, 0], places[:, -1] = 0, places[-1, -1]
        return cls(*np.unique(places.flatten(), return_index=True, return_inverse=True))

    def __len__(self) -> int:
        return len(self.places)


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
        words: list[WordImportance] = []
        before = None
        for span, score in zip(self.spans, self.scores.tolist(), strict=True):
            if span is None:
                continue
            if before is not None and (span.text, span.word) == (before.text, before.word):
                last = words.pop()
                begin, end = min(last.begin, span.begin), max(last.end, span.end)
                words.append(WordImportance(span.text, begin, end, last.score + score))
            else:
                words.append(WordImportance(span.text, span.begin, span.end, score))
            before = span
        return words


def token_importance(
    assembly: Assembly,
    examples: Sequence[Example],
    *,
    labels: Sequence[str] | None = None,
    words: Sequence[int] | None = None,
) -> list[TokenImportance]:
    """Return the importance of every token of each example for its most probable class, or for its entry in `labels`.

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
    assembly.model.eval()
    with _not_compiled(assembly):
        logits = _occluded_logits(assembly, encoded)
    return [
        _importance(assembly, example, one, own, class_, word)
        for example, one, own, class_, word in zip(examples, encoded, logits, classes, word_indices, strict=True)
    ]


def _occluded_logits(assembly: Assembly, encoded: Sequence[Encoded]) -> list[Float[Tensor, "texts classes"]]:
    """Return the logits of each example: those of the whole text, then those without each group of its tokens."""
    mask = assembly.tokenizer.unk_id if assembly.tokenizer.mask_id is None else assembly.tokenizer.mask_id

    def predict(batch: Batch) -> list[np.ndarray]:
        with torch.inference_mode(), assembly.compute.autocast():
            prediction = assembly.model(batch)
        # Where words are labelled, the explained word is the only target of its row.
        logits = prediction.token_logits if prediction.sequence_logits is None else prediction.sequence_logits
        assert logits is not None
        return list(logits.float().cpu().numpy())

    texts = chain.from_iterable([one, *occluded(one, mask)] for one in encoded)
    rows = hold_encoded(texts, assembly.tokenizer.vocabulary_size, assembly.task.heads)
    logits: dict[int, np.ndarray] = {}
    for batch, predicted in predict_batches(assembly.scoring_batches(rows), predict, assembly.compute):
        logits.update(zip(batch.rows.tolist(), predicted, strict=True))
    ends = accumulate((1 + int(_groups(one)[-1] + 1) for one in encoded), initial=0)
    return [torch.from_numpy(np.stack([logits[row] for row in range(*ends_of)])) for ends_of in pairwise(ends)]


def occluded(encoded: Encoded, mask: int) -> Iterator[Encoded]:
    """Yield the example once per group of tokens, with those tokens replaced by the id `mask`, in all windows."""
    ids, groups = np.array(encoded.input_ids), _groups(encoded)[TokensRead.of(encoded).which]
    for group in range(int(groups.max()) + 1):
        yield replace(encoded, input_ids=np.where(groups == group, mask, ids).tolist())


def _groups(encoded: Encoded) -> np.ndarray:
    """Return the group of each token read: of its own up to MOST_OCCLUSIONS tokens, otherwise shared with
    neighbours.
    """
    n_tokens = len(TokensRead.of(encoded))
    return np.arange(n_tokens) * min(n_tokens, MOST_OCCLUSIONS) // n_tokens


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
    assembly: Assembly, example: Example, encoded: Encoded, logits: Tensor, class_: int | None, word: int
) -> TokenImportance:
    tokenizer, task = assembly.tokenizer, assembly.task
    answer = task.answers_of(logits[:1])[0]
    is_number = answer.number is not None
    index = int(logits[0].argmax()) if class_ is None else class_
    odds, groups = evidence(logits, index, task.heads.sequence_target), _groups(encoded)
    scores = (odds[0] - odds[1:]).numpy()[groups] / np.bincount(groups)[groups]
    spans = spans_of(tokenizer, example, encoded)
    return TokenImportance(
        label=None if is_number else task.labels[index],
        probability=None if answer.probabilities is None else answer.probabilities[index],
        probabilities={} if is_number else answer.by_label(task.labels),
        predicted=answer.in_words(),
        pieces=tokenizer.pieces([encoded.input_ids[place] for place in TokensRead.of(encoded).first]),
        scores=scores.astype(np.float32) * np.float32(task.unit),
        special=np.array([span is None for span in spans]),
        texts=texts_of(example),
        spans=spans,
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
    compiled = (assembly.compiled or "").startswith("compiled")
    return torch.compiler.set_stance("force_eager") if compiled else nullcontext()


def texts_of(example: Example) -> tuple[str, ...]:
    """Return one text, or the two of a pair; words are joined with blanks."""
    if isinstance(example, WordsExample):
        return (" ".join(example.words),)
    return (example.text,) if example.text_pair is None else (example.text, example.text_pair)


def spans_of(tokenizer: Tokenizer, example: Example, encoded: Encoded) -> list[Span | None]:
    """Return the span of each token read of `encoded`, which is `example` as a task encodes it; None for [CLS] and
    [SEP].

    For words, each of a word's tokens covers the whole word.
    """
    if isinstance(example, WordsExample):
        of_texts = [_spans_of_words(tokenizer, example)]
    else:
        of_texts = [
            [Span(number, *span) for span in tokenizer.spans(text)] for number, text in enumerate(texts_of(example))
        ]
    if encoded.window_starts:
        return [None, *(of_texts[0][place - 1] for place in TokensRead.of(encoded).places[1:-1].tolist()), None]
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
