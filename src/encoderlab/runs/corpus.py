"""The corpus of a run: its splits, their statistics and token stores, and how much of its rows a model reads; or its
documents, split into sentences, tokenised once and cached, from which pairs are assembled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from encoderlab.batch import Encoded, TargetKind
from encoderlab.data import sentences
from encoderlab.data.dataset import DatasetConfig, Pack
from encoderlab.data.documents import Documents, DocumentSplit
from encoderlab.data.examples import Split, Splits, TextExample
from encoderlab.data.survey import SplitSurvey, survey
from encoderlab.data.token_store import TokenStore, kept_store, write_store
from encoderlab.errors import DataError
from encoderlab.system.progress import progress_bar
from encoderlab.tasks.config import DocumentTaskConfig
from encoderlab.tasks.pretraining import DocumentTask
from encoderlab.tasks.rows import ExampleRows, in_columns
from encoderlab.tasks.sentence_rows import SentenceRows
from encoderlab.tasks.stream import StreamedRows, sample_of
from encoderlab.tasks.task import Task
from encoderlab.training.batches import EVALUATION_SEED, Rows

STORE_VERSION = 3  # increase it when the columns of the store or their meaning change
ROWS_LOOKED_AT = 20_000  # to measure lengths: enough to find the longest 1%, tokenised in a second or two
MANY = 0.1  # of the rows: more of them are worth a remedy
LEAST_LENGTH = 32  # tokens: shorter sequences save nothing, and later inputs may be longer than the training rows


@dataclass(frozen=True, slots=True)
class Corpus:
    """The examples of a run and their statistics; `cache` is the folder of token stores."""

    splits: Splits
    survey: dict[str, SplitSurvey]
    cache: Path

    @classmethod
    def load(cls, dataset: DatasetConfig, cache: Path, target: TargetKind = "label", *, whole: bool = False) -> Corpus:
        """Read the dataset for `target` and survey it, if `whole` as a single split named `all`, no row of which is for
        training. Raises DataError, SettingError as `DatasetConfig.load` does.
        """
        splits = dataset.load(cache, target)
        splits = replace(splits, by_name={"all": splits.by_name["train"]}) if whole else splits
        return cls(splits, survey(splits), cache)

    def split(self, name: str) -> Split:
        """Return the split of that name. Raises DataError if there is none."""
        if name not in self.splits.by_name:
            raise DataError(f"split={name} is not in this dataset", allowed=", ".join(self.splits.by_name))
        return self.splits.by_name[name]

    def is_labelled(self, name: str) -> bool:
        """Return whether every row of the split has a known target. Raises DataError if only some have one."""
        unknown, rows = self.survey[name].unlabelled, len(self.split(name))
        if 0 < unknown < rows:
            wrong = f"{unknown} of {rows} rows of the split {name} have no label"
            raise DataError(wrong, allowed="a label in every row, or in none", remedy="Remove the rows without a label")
        return unknown == 0 and rows > 0

    def check_training_labels(self) -> None:
        """Raise DataError if nothing can be learned from training: it has no labels, or only one label or number."""
        if not self.is_labelled("train"):
            remedy = "Set dataset.label to the column that holds them"
            raise DataError("The training split has no labels", remedy=remedy)
        survey = self.survey["train"]
        names: set[Any] = {name for name, count in survey.labels.items() if count}
        if survey.numbers is not None:
            names = {survey.numbers["min"], survey.numbers["max"]}
        if len(names) < 2:
            wrong = f"All training rows have the label {names.pop()!r}"
            raise DataError(wrong, allowed="at least two labels or numbers", remedy="Check dataset.label")

    @property
    def labels(self) -> list[str]:
        """Return the names of the labels, in the order of their ids."""
        return self.splits.labels

    def description(self) -> dict[str, Any]:
        """Return what environment.json records about the data."""
        survey = {name: asdict(split) for name, split in self.survey.items()}
        return {"origin": self.splits.origin, "labels": self.splits.labels, "splits": survey}

    @property
    def paired(self) -> bool:
        """Return whether an example is two texts."""
        example = next(iter(next(iter(self.splits.by_name.values()))), None)
        return isinstance(example, TextExample) and example.text_pair is not None

    def fingerprints(self) -> dict[str, str]:
        """Return a fingerprint of each split's rows."""
        return {name: split.fingerprint for name, split in self.survey.items()}

    def scored_splits(self) -> list[str]:
        """Return the splits a report scores: additional ones, validation and test, if they have labels; the main one
        comes last.

        Raises DataError if neither validation nor test has labels.
        """
        main = [name for name in ("validation", "test") if name in self.splits.by_name]
        further = [name for name in self.splits.by_name if name not in ("train", *main)]
        scored = [name for name in (*further, *main) if self.is_labelled(name)]
        if not set(main) & set(scored):
            remedy = "Hold rows out of training with dataset.validation_fraction=0.1, or set dataset.validation=FILE"
            raise DataError("No split has labels to score on", remedy=remedy)
        return scored

    def training_texts(self) -> Iterator[str]:
        """Yield all texts of the training split, to train a tokenizer on."""
        return self.split("train").texts()

    def needed_length(self, task: Task) -> int:
        """Return how many tokens 99% of the training rows, or of a sample of many, need as the task encodes them, from
        LEAST_LENGTH up to its own limit.
        """
        encoded = _encoded(self.split("train").evenly(ROWS_LOOKED_AT), task, "measuring texts")
        lengths = np.fromiter((len(one.input_ids) for one in encoded), np.int64)
        return min(max(int(np.percentile(lengths, 99, method="higher")), LEAST_LENGTH), task.max_length)

    def rows(self, name: str, task: Task) -> ExampleRows:
        """Return the encoded rows of a split from a token store, opened from the cache or written there."""
        fingerprint = self.fingerprints()[name]
        key = hashlib.sha256(f"{STORE_VERSION} {fingerprint} {task.key}".encode()).hexdigest()[:24]

        def make(folder: Path) -> TokenStore:
            encoded = _encoded(self.split(name), task, f"tokenising {name}")
            return write_store(folder, *in_columns(encoded, task.tokenizer.vocabulary_size, task.heads))

        return ExampleRows(kept_store(self.cache / "tokens" / key, make))


def _encoded(split: Split, task: Task, description: str) -> Iterator[Encoded]:
    examples = iter(split)
    with progress_bar(description, "rows", len(split), leave=False) as bar:
        while some := list(islice(examples, 1000)):
            yield from task.encode(some)
            bar.update(len(some))


def reading_notes(rows: Mapping[str, Rows], task: Task) -> list[str]:
    """Return a sentence for each split that has rows longer than the model reads at once."""
    return [note for name, part in rows.items() if (note := _note(name, part, task))]


def _note(name: str, rows: Rows, task: Task) -> str:
    of_rows = f"of the rows of {name}"
    if task.windows is None or not isinstance(rows, ExampleRows):
        share = rows.truncated_share()
        has_windows = task.heads.sequence_target is not None and task.heads.token_classes is None
        remedy = "; task.windows=mean reads them whole" if share > MANY and has_windows else ""
        return f"{share:.1%} {of_rows} were truncated to {task.limit}{remedy}" if share else ""
    windows, too_long = rows.windows(), int(rows.truncated().sum())
    several = windows > 1
    if not several.any():
        return ""
    capped = f"; {too_long:,} longer ones in {task.windows.most} of them (task.max_windows)" if too_long else ""
    read = f"read in windows of {task.max_length} tokens, {windows[several].mean():.1f} on average (task.windows)"
    return f"{several.mean():.1%} {of_rows} were {read}{capped}"


SENTENCES_VERSION = 1  # increase it when the columns of the store or their meaning change
_LOOKED_AT = 1_000_000  # tokens, to find out whether a tokenizer knows any word
_AT_A_TIME = 10_000_000  # tokens


@dataclass(frozen=True, slots=True)
class DocumentCorpus:
    """Documents, how they are split into sentences, and `cache`, the folder of their token stores."""

    documents: Documents
    splitter: sentences.SentenceSplitter
    task: DocumentTaskConfig
    pack: Pack
    cache: Path

    @classmethod
    def load(cls, dataset: DatasetConfig, task: DocumentTaskConfig, cache: Path) -> DocumentCorpus:
        """Load documents, and a splitter for their sentences. Raises DataError, SettingError as their dataset does."""
        documents = dataset.documents(cache)
        train, language = documents.by_name["train"], task.language or dataset.sentence_language
        splitter = sentences.splitter_for(lambda: chain.from_iterable(train.documents()), language)
        return cls(documents, splitter, task, dataset.pack, cache)

    @property
    def labels(self) -> list[str]:
        """Return no labels: the task has its own."""
        return []

    def fingerprints(self) -> dict[str, str]:
        """Return a fingerprint of each split's documents."""
        return {name: split.fingerprint for name, split in self.documents.by_name.items()}

    def scored_splits(self) -> list[str]:
        """Return the splits of held-out documents. Raises DataError if there are none."""
        scored = [name for name in ("validation", "test") if name in self.documents.by_name]
        if not scored:
            raise DataError("No documents are held out to score on", remedy="Set dataset.validation_fraction=0.05")
        return scored

    def training_texts(self) -> Iterator[str]:
        """Yield paragraphs of the training documents, as many as training a tokenizer needs."""
        return self.documents.by_name["train"].texts()

    def description(self) -> dict[str, Any]:
        """Return what environment.json records about the data."""
        named = self.documents.by_name.items()
        splits = {name: {"documents": split.total, "fingerprint": split.fingerprint} for name, split in named}
        shards = {} if self.documents.stream is None else {"shards": self.documents.stream.shards}
        return {"origin": self.documents.origin, "sentence_splitter": self.splitter.name, "splits": splits, **shards}

    def training_rows(self, task: DocumentTask, seed: int) -> SentenceRows | StreamedRows:
        """Return the rows to train on: those of `rows`, or a stream whose order of shards is drawn from `seed`."""
        stream = self.documents.stream
        if stream is None:
            return self.rows("train", task)
        rows = StreamedRows(stream, self._preparation(task), task, self.pack, seed)
        self._check(rows.first, "train")
        return rows

    def rows(self, name: str, task: DocumentTask) -> SentenceRows:
        """Return the rows of a split, from a store of its sentences in the cache, which is written if necessary.

        For a training split that is streamed, these are the rows of its first window. Raises DataError if no pairs, or
        no single texts, can be made from it.
        """
        if name == "train" and self.documents.stream is not None:
            return sample_of(self.training_rows(task, seed=0))
        split = self.documents.by_name[name]
        made_from = (SENTENCES_VERSION, split.fingerprint, self.splitter.key, task.tokenizer.fingerprint)
        kept_if = (self.task.min_characters, self.task.min_sentences)
        key = hashlib.sha256(repr((made_from, kept_if)).encode()).hexdigest()[:24]
        store = kept_store(self.cache / "sentences" / key, lambda folder: self._write(folder, name, split, task))
        rows = SentenceRows(store, task, self.pack)
        self._check(rows, name)
        return rows

    def _write(self, folder: Path, name: str, split: DocumentSplit, task: DocumentTask) -> TokenStore:
        size = task.tokenizer.vocabulary_size
        with progress_bar(f"tokenising {name}", "documents", split.total, leave=False) as bar:

            def counted() -> Iterator[sentences.SentenceBlock]:
                for block in sentences.prepared(split.documents(), self._preparation(task)):
                    yield block
                    bar.update(block.documents)

            return write_store(folder, *sentences.in_columns(counted(), size))

    def _preparation(self, task: DocumentTask) -> sentences.Prepare:
        least = (self.task.min_characters, self.task.min_sentences)
        return partial(sentences.block_of, self.splitter, task.tokenizer, *least)

    def _check(self, rows: SentenceRows, name: str) -> None:
        settings = f"task.min_characters={self.task.min_characters} task.min_sentences={self.task.min_sentences}"
        if not len(rows):
            wrong = f"The {name} documents have no paragraph that is long enough for {settings}"
            remedy = "Use smaller values, longer documents, or task.second_sentence=none task.min_sentences=1"
            raise DataError(wrong, remedy=remedy)
        if rows.paired and rows.windows.document[0] == rows.windows.document[-1]:
            wrong = f"Only one of the {name} documents is long enough for {settings}, but negative pairs need another"
            remedy = "Use or hold out more documents (dataset.validation_fraction), or set task.second_sentence=none"
            raise DataError(wrong, allowed="two documents or more", remedy=remedy)
        if not rows.task.is_ordinary[np.asarray(rows.store["input_ids"].values[:_LOOKED_AT])].any():
            wrong = f"The tokenizer knows no word of the {name} documents, so there is nothing to predict"
            raise DataError(wrong, remedy="Set tokenizer=wordpiece, which is trained on them")


AnyCorpus = Corpus | DocumentCorpus


def pair_facts(rows: SentenceRows | StreamedRows, corpus: DocumentCorpus) -> dict[str, Any]:
    """Return how many documents, sentences and so on `rows` have, and statistics of their pairs; for a stream, of its
    first window, with the number of `shards`.
    """
    streamed, rows = not isinstance(rows, SentenceRows), sample_of(rows)
    drawn = rows.epoch(EVALUATION_SEED, 0)
    facts: dict[str, Any] = {
        "documents": _distinct(rows.sentences.document),
        "paragraphs": _distinct(rows.sentences.paragraph),
        "sentences": len(rows.store),
        "tokens": int(rows.sentences.offsets[-1]),
        "pairs": len(rows),
        "mean_length": float(drawn.lengths.mean()),
        "truncated": rows.truncated_share(),
        "sentence_splitter": corpus.splitter.name,
    }
    if rows.paired:
        facts["labels"] = {name: int((drawn.pairs.labels == id_).sum()) for id_, name in enumerate(rows.task.labels)}
    if streamed and corpus.documents.stream is not None:
        facts["shards"] = len(corpus.documents.stream.shards)
    return facts


def guessed_pairs(train: SentenceRows, scored: SentenceRows) -> dict[str, dict[str, float]]:
    """Return the accuracy of always predicting the more frequent label of training; {} without pairs."""
    if not train.paired:
        return {}
    labels, target_labels = (rows.epoch(EVALUATION_SEED, 0).pairs.labels for rows in (train, scored))
    return {"majority": {"nsp_accuracy": float((np.bincount(labels).argmax() == target_labels).mean())}}


def guessed_tokens(train: SentenceRows, target_labels: np.ndarray) -> dict[str, dict[str, Any]]:
    """Return the scores of predicting by training's token counts alone; `target_labels` [targets] are the true ids.

    `most_frequent_token` always predicts the same id; `unigram` gives every id its share of the training tokens, after
    adding one to each count (Laplace) so that none is impossible. Its `mlm_loss` is in nats per token.
    """
    tokenizer = train.task.tokenizer
    counts = np.zeros(tokenizer.vocabulary_size, dtype=np.int64)
    ids = train.store["input_ids"].values
    for start in range(0, len(ids), _AT_A_TIME):
        counts += np.bincount(ids[start : start + _AT_A_TIME], minlength=len(counts))
    counts[list(tokenizer.special_ids)] = 0
    most_frequent = int(counts.argmax())
    loss = float(-np.log((counts + 1) / (counts.sum() + len(counts)))[target_labels].mean())
    return {
        "most_frequent_token": {
            "mlm_accuracy": float((target_labels == most_frequent).mean()),
            "token_id": most_frequent,
            "token": tokenizer.pieces([most_frequent])[0],
        },
        "unigram": {"mlm_loss": loss, "mlm_perplexity": float(np.exp(loss))},
    }


def _distinct(rising: np.ndarray) -> int:
    """Return how many different numbers there are in an ascending column."""
    return int((np.diff(rising) != 0).sum()) + 1 if len(rising) else 0
