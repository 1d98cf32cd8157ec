"""The settings decided by task and training rows: the sequence length, whether pairs are read separately, and the case."""

from __future__ import annotations

import sys
from dataclasses import replace

from encoderlab.data.tokenizers.config import TokenizerConfig, WordPieceConfig
from encoderlab.data.tokenizers.tokenizer import Tokenizer
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelChoice, ModelConfig, Pairs
from encoderlab.runs.corpora.corpus import Corpus
from encoderlab.runs.corpora.document_corpus import DocumentCorpus
from encoderlab.runs.models.pretrained import Pretrained
from encoderlab.runs.models.task import build_task
from encoderlab.tasks.config import TaggingConfig, TaskConfig

FURTHEST = 512  # tokens: the most that rows can decide for an encoder from scratch, as in BERT
PRETRAINING_LENGTH = 128


def check_pairs(model: ModelChoice, corpus: Corpus | DocumentCorpus) -> None:
    """Raise SettingError for separate pairs if there are none, or in pretraining."""
    if getattr(model, "pairs", None) is not Pairs.separate or reads_pairs(corpus):
        return
    rows = (
        "pretraining reads two texts as one sequence"
        if isinstance(corpus, DocumentCorpus)
        else "the rows are single texts"
    )
    raise SettingError(f"model.pairs=separate is set, but {rows}", remedy="Remove model.pairs")


def with_pairs(model: ModelConfig, corpus: Corpus | DocumentCorpus) -> ModelConfig:
    """Return the settings of a model for these rows: with single texts there are no pairs to read separately."""
    return model if reads_pairs(corpus) else replace(model, pairs=Pairs.joint)


def reads_pairs(corpus: Corpus | DocumentCorpus) -> bool:
    """Return whether each row is a pair of texts with a label."""
    return isinstance(corpus, Corpus) and corpus.paired


def with_case(tokenizer: TokenizerConfig, task: TaskConfig) -> TokenizerConfig:
    """Return the settings of a tokenizer, with an open `lowercase` decided: a task that labels words keeps their case.

    From scratch on French parts of speech (Sequoia, validation) this gains 0.3 points of token accuracy.
    """
    if not isinstance(tokenizer, WordPieceConfig) or tokenizer.lowercase is not None:
        return tokenizer
    return replace(tokenizer, lowercase=not isinstance(task, TaggingConfig))


def with_length(
    model: ModelConfig,
    task: TaskConfig,
    tokenizer: Tokenizer,
    corpus: Corpus | DocumentCorpus,
    pretrained: Pretrained | None = None,
) -> ModelConfig:
    """Return the settings with a number as `max_length`: if it is open, what the training rows need. It is printed.

    It is at most the pretrained encoder's length, or FURTHEST from scratch. Documents fit any length: there it is the
    encoder's own, or PRETRAINING_LENGTH.
    """
    if model.max_length is not None:
        return model
    if isinstance(corpus, DocumentCorpus):
        length = PRETRAINING_LENGTH if pretrained is None else pretrained.config.max_length
        why = "the default for documents" if pretrained is None else "the length of the pretrained encoder"
        print(f"model.max_length={length}, {why}", file=sys.stderr)
        return replace(model, max_length=length)
    furthest = FURTHEST if pretrained is None else pretrained.config.reach
    length = corpus.needed_length(build_task(task, tokenizer, corpus.labels, furthest))
    limit = "the limit from scratch, unless you set it" if pretrained is None else "the limit of this encoder"
    enough = f"enough for 99% of the training rows (at most {furthest})"
    why = enough if length < furthest else f"{limit}; more than 1% of the training rows may be longer"
    print(f"model.max_length={length}, {why}", file=sys.stderr)
    return replace(model, max_length=length)
