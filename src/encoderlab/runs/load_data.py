"""Reads the texts of a run, and tokenises them, each once; a task makes the rows that a model reads of the tokens.

The dataset holds rows out for validation; where these are too few, they are put back here. The columns are decided by
the dataset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from encoderlab.config.commands import CommandConfig, RunConfig
from encoderlab.data.corpus import Corpus
from encoderlab.data.data import Data
from encoderlab.data.dataset import DatasetConfig, Pack
from encoderlab.data.documents import Documents
from encoderlab.data.token_store import lengths_of
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.settle import has_few_rows, too_few_to_hold_out
from encoderlab.tasks.pretraining import DocumentTaskConfig
from encoderlab.tasks.rows import ExampleRows
from encoderlab.tasks.sentence_rows import SentenceRows
from encoderlab.tasks.sequences import SequenceFormat
from encoderlab.tasks.stream import DocumentRows, StreamedRows
from encoderlab.tasks.task import Task, TaskConfig
from encoderlab.tasks.vectors import DocumentTask
from encoderlab.training.batches import EVALUATION_SEED, Rows

_DOCUMENTS_COUNTED = 1000  # to say why none can be learned from
_LOOKED_AT = 1_000_000  # tokens, to find out whether a tokenizer knows any word


def load_data(config: RunConfig, *, scored: bool = True) -> Corpus:
    """Return the labelled rows of a task, or the documents that it is learned from; each row is read once.

    If `dataset.validation_fraction` is open, and a tenth of the rows is too few to choose a checkpoint by, all rows are
    trained on, unless the task fits thresholds on held-out rows, or there is no other split although one is to be
    `scored`. Very few rows are all trained on in any case. Raises SettingError or DataError if the dataset cannot be
    read, or nothing can be learned.
    """
    # Documents, from which rows are drawn for each epoch.
    if config.task.of_documents:
        if config.dataset.is_stream and config.training.steps is None and config.training.budget is None:
            problem = "dataset.streaming=true has no end, and neither training.steps nor training.budget is set"
            raise SettingError(problem, remedy="Set training.steps=100000, or training.budget=12h")
        return load_documents(config.dataset, config.task, config)

    # Labelled rows. Too few for validation are put back into training.
    data = config.dataset.load(config.cache, config.task.target)
    data = replace(data, may_lack_labels=config.task.of_vectors)
    if _trains_on_all_rows(config, data, scored=scored):
        data = data.without_validation()
    data.check_training_labels()
    return data


def splits_to_score(config: RunConfig, data: Corpus, *, scored: bool) -> list[str]:
    """Return the splits that a report scores besides `train`, which is scored if it has very few rows and is alone;
    where nothing is to be `scored`, the splits that a run may choose a checkpoint by.

    Raises DataError if a split is to be scored, and none has labels.
    """
    held_out = [name for name in ("validation", "test") if name in data.by_name]
    if not scored:
        return held_out
    if not held_out and not config.task.of_documents and too_few_to_hold_out(config.training, data.n_undivided):
        return []
    return data.scored_splits()


def load_documents(dataset: DatasetConfig, task: TaskConfig, config: CommandConfig) -> Documents:
    """Return the documents of a dataset, and how `task` reads them."""
    of_documents = cast("DocumentTaskConfig", task)
    language = of_documents.language or dataset.sentence_language
    documents = dataset.documents(config.cache)
    return documents.read_by(language, of_documents.min_characters, of_documents.min_sentences)


def _trains_on_all_rows(config: RunConfig, data: Data, *, scored: bool) -> bool:
    """Return whether the rows that were held out for validation are better trained on."""
    if not config.dataset.leaves_validation_open or data.undivided is None:
        return False
    if too_few_to_hold_out(config.training, data.n_undivided):
        return True
    if config.task.fits_thresholds or (scored and "test" not in data.by_name):
        return False
    return has_few_rows(config.training, config.task, data.n_undivided, len(data.labels))


def tokenize(data: Corpus, tokenizer: Tokenizer, names: Sequence[str], config: RunConfig) -> Tokens:
    """Return the ids of the splits of these `names`, made by one tokenizer, which the cache keeps."""
    if isinstance(data, Documents):
        return DocumentTokens(data, tokenizer, names, config.cache, pack=config.dataset.pack, seed=config.seed)
    return TextTokens(data, tokenizer, names, config.cache)


@dataclass(frozen=True, slots=True)
class ReadRows:
    """The rows of each split as a task reads them. `notes` say of which splits it reads a part; `pairs` are statistics
    of the training rows of documents (None: labelled rows).
    """

    by_split: Mapping[str, Rows]
    notes: list[str]
    pairs: dict[str, Any] | None = None


class TextTokens:
    """The ids of each text of some splits, whole."""

    def __init__(self, data: Corpus, tokenizer: Tokenizer, names: Sequence[str], cache: Path) -> None:
        self.data = data
        self.tokenizer = tokenizer
        self.stores = {name: data.tokenize(name, tokenizer, cache) for name in names}

    @property
    def n_rows(self) -> dict[str, int]:
        """Return the number of rows of each split."""
        return {name: len(store) for name, store in self.stores.items()}

    def row_lengths(self, task: TaskConfig, max_length: int) -> np.ndarray:
        """Return the length of each training row if the model reads at most `max_length` tokens: int64 [rows].

        For a text read in windows, the total over its windows.
        """
        format = SequenceFormat.of(self.tokenizer, max_length, task.windowing, special_tokens=task.adds_special_tokens)
        return format.lengths(*lengths_of(self.stores["train"]))

    def rows(self, task: Task) -> dict[str, ExampleRows]:
        """Return the rows of each split, by its name, as `task` reads them. Raises DataError for the wrong kind."""
        rows = {}
        for name, store in self.stores.items():
            rows[name] = task.rows_of_split(store, self.data.split(name))
        return rows

    def read_by(self, task: Task) -> ReadRows:
        """Return the rows as `task` reads them, with a sentence for each split that it reads in part."""
        rows = self.rows(task)
        notes = [task.reading_note(name, split_rows) for name, split_rows in rows.items()]
        return ReadRows(rows, [note for note in notes if note])


class DocumentTokens:
    """The ids of each sentence of the documents of some splits; `pack` says what their rows are made of.

    The documents of a stream are read while the run trains; only their first window is read here, to know how long its
    rows are.
    """

    n_rows: ClassVar[Mapping[str, int]] = {}  # rows are drawn for each epoch

    def __init__(
        self, data: Documents, tokenizer: Tokenizer, names: Sequence[str], cache: Path, *, pack: Pack, seed: int
    ) -> None:
        self.data = data
        self.tokenizer = tokenizer
        self.names = names
        self.pack = pack
        self.seed = seed
        stored = names if data.stream is None else [name for name in names if name != "train"]
        self.stores = {name: data.tokenize(name, tokenizer, cache) for name in stored}
        self._rows: dict[int, dict[str, DocumentRows]] = {}  # by the length of a row

    def row_lengths(self, task: TaskConfig, max_length: int) -> np.ndarray:
        """Return the length of each training row if the model reads at most `max_length` tokens: int64 [rows].

        Raises DataError as `rows` does.
        """
        rows = self.rows(task.build(self.tokenizer, [], max_length))["train"]
        return rows.epoch(self.seed, 0).lengths.astype(np.int64)

    def rows(self, task: Task) -> dict[str, DocumentRows]:
        """Return the rows of each split, by its name; those for a length are made once, by the first task that asks
        for it.

        Raises DataError if no row can be made of the documents of a split.
        """
        if task.max_length not in self._rows:
            rows = {name: self._rows_of_split(name, cast("DocumentTask", task)) for name in self.names}
            self._rows[task.max_length] = rows
        return self._rows[task.max_length]

    def _rows_of_split(self, name: str, task: DocumentTask) -> DocumentRows:
        stream = self.data.stream
        if name != "train" or stream is None:
            rows = SentenceRows(self.stores[name], task, self.pack)
        else:
            rows = StreamedRows(stream, self.data.sentence_reader.prepare(self.tokenizer), task, self.pack, self.seed)
        _check_document_rows(rows.sample, name, self.data)
        return rows

    def read_by(self, task: Task) -> ReadRows:
        """Return the rows as `task` reads them, with the statistics of their pairs."""
        rows = self.rows(task)
        return ReadRows(rows, [], pair_facts(rows["train"], self.data))


Tokens = TextTokens | DocumentTokens


def _check_document_rows(rows: SentenceRows, name: str, data: Documents) -> None:
    """Raise DataError if nothing can be learned from the documents of a split."""
    config = rows.task.config
    settings = f"task.min_characters={config.min_characters} task.min_sentences={config.min_sentences}"
    if not len(rows):
        raise _no_passage(name, data, config, paired=rows.paired)
    if rows.paired and rows.passages.document[0] == rows.passages.document[-1]:
        n_documents = data.by_name[name].total
        which = "The only" if n_documents == 1 else f"Only one of the {n_documents or 'streamed'}"
        problem = f"{which} document{'s' * (n_documents != 1)} of {name} is long enough for {settings}"
        remedy = "Use or hold out more documents (dataset.validation_fraction), or set task.second_sentence=none"
        allowed = "two documents or more, because the second text of a negative pair is from another"
        raise DataError(problem, allowed=allowed, remedy=remedy)
    if not rows.task.is_ordinary[np.asarray(rows.store["input_ids"].values[:_LOOKED_AT])].any():
        problem = f"The tokenizer knows no word of the {name} documents, so there is nothing to predict"
        raise DataError(problem, remedy="Set tokenizer=wordpiece, which is trained on them")


def _no_passage(name: str, data: Documents, config: DocumentTaskConfig, *, paired: bool) -> DataError:
    """Return the error that says why no documents of a split can be learned from, with their numbers."""
    documents = [document for document in islice(data.by_name[name].documents(), _DOCUMENTS_COUNTED) if document]
    splitter = data.sentence_reader.splitter
    by_paragraph = [len(splitter.split(paragraph)) for document in documents for paragraph in document]
    n_sentences = sum(by_paragraph)
    longest = max((len(paragraph) for document in documents for paragraph in document), default=0)
    if not documents:
        problem = f"The documents of {name} are blank"
        return DataError(problem, remedy="Choose the column of the texts with dataset.text=COLUMN, or another file")

    # What is found, and what is needed.
    counts = f"{len(documents):,} documents, {len(by_paragraph):,} paragraphs and {n_sentences:,} sentences"
    problem = f"{name} has {counts}, and no paragraph is long enough"
    if n_sentences == len(documents):
        problem += ": a document, which ends at a blank line, is one sentence, and none follows it"
    elif max(by_paragraph) == 1:
        problem += ": each paragraph is one sentence, without punctuation that ends others"
    else:
        problem += f": the longest have {max(by_paragraph)} sentences or {longest} characters"
    allowed = f"task.min_characters={config.min_characters} task.min_sentences={config.min_sentences} or more"
    single = ["task.second_sentence=none"] if paired else []
    single += ["task.min_sentences=1"]
    if longest < 2 * config.min_characters:
        single.append("task.min_characters=1")
    return DataError(problem, allowed=allowed, remedy=f"Use longer documents, or set {' '.join(single)}")


def pair_facts(rows: DocumentRows, data: Documents) -> dict[str, Any]:
    """Return how many documents, sentences and so on `rows` have, and statistics of their pairs; for a stream, of its
    first window, with the number of `shards`.
    """
    sample = rows.sample
    drawn = sample.epoch(EVALUATION_SEED, 0)
    facts: dict[str, Any] = {
        "documents": _distinct(sample.sentences.document),
        "paragraphs": _distinct(sample.sentences.paragraph),
        "sentences": len(sample.store),
        "tokens": int(sample.sentences.offsets[-1]),
        "pairs": len(sample),
        "mean_length": float(drawn.lengths.mean()),
        "truncated": sample.truncated_share(),
        "sentence_splitter": data.sentence_reader.splitter.name,
    }
    if sample.paired:
        facts["labels"] = {name: int((drawn.pairs.labels == id_).sum()) for id_, name in enumerate(sample.task.labels)}
    if data.stream is not None:
        facts["shards"] = len(data.stream.shards)
    return facts


def _distinct(rising: np.ndarray) -> int:
    """Return how many different numbers there are in an ascending column."""
    return int((np.diff(rising) != 0).sum()) + 1 if len(rising) else 0
