"""The ids of a run's texts, made once, and the rows that a task makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np

from encoderlab.data.data import Data
from encoderlab.data.dataset import Pack
from encoderlab.data.documents import Documents
from encoderlab.data.token_store import TokenStore, lengths_of
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError
from encoderlab.tasks.pretraining import DocumentTaskConfig
from encoderlab.tasks.sentence_rows import SentenceRows
from encoderlab.tasks.sequences import SequenceFormat
from encoderlab.tasks.stream import StreamedRows
from encoderlab.tasks.task import Task, TaskConfig
from encoderlab.tasks.vectors import DocumentTask
from encoderlab.training.batches import Rows

_LOOKED_AT = 1_000_000  # tokens, to find out whether a tokenizer knows any word
RowLengths = Callable[[TaskConfig, int], np.ndarray]


class Tokens:
    """The ids of some splits, made by one tokenizer: of each text, whole, or of each sentence of documents.

    `pack` says what the rows of documents are made of. The documents of a stream are read while the run trains; only
    their first window is read here, to know how long its rows are.
    """

    def __init__(
        self, data: Data | Documents, tokenizer: Tokenizer, names: Sequence[str], cache: Path, *, pack: Pack, seed: int
    ) -> None:
        self.data = data
        self.tokenizer = tokenizer
        self.names = names
        self.pack = pack
        self.seed = seed
        self.stores: dict[str, TokenStore] = {}
        for name in names:
            if name != "train" or data.stream is None:
                self.stores[name] = data.tokenize(name, tokenizer, cache)
        self._document_rows: dict[int, dict[str, SentenceRows | StreamedRows]] = {}  # by the length of a row

    def row_lengths(self, task: TaskConfig, max_length: int) -> np.ndarray:
        """Return the length of each training row if the model reads at most `max_length` tokens: int64 [rows].

        For a text read in windows, the total over its windows. Raises DataError as `rows` does.
        """
        if isinstance(self.data, Documents):
            rows = self._rows_of_documents(task.build(self.tokenizer, [], max_length))["train"]
            return rows.epoch(self.seed, 0).lengths.astype(np.int64)
        special_tokens = getattr(task, "special_tokens", True)
        format = SequenceFormat.of(self.tokenizer, max_length, task.windowing, special_tokens=special_tokens)
        return format.lengths(*lengths_of(self.stores["train"]))

    def rows(self, task: Task) -> dict[str, Rows]:
        """Return the rows of each split, by its name, as `task` reads them.

        Raises DataError for texts of the wrong kind, or if no row can be made of the documents of a split.
        """
        if isinstance(self.data, Documents):
            return dict(cast("dict[str, Rows]", self._rows_of_documents(task)))
        rows: dict[str, Rows] = {}
        for name, store in self.stores.items():
            rows[name] = task.rows_of_split(store, self.data.split(name))
        return rows

    def _rows_of_documents(self, task: Task) -> dict[str, SentenceRows | StreamedRows]:
        """Return the rows of documents; those for a length are made once, by the first task that asks for it."""
        of_documents = cast("DocumentTask", task)
        if task.max_length in self._document_rows:
            return self._document_rows[task.max_length]
        assert isinstance(self.data, Documents)
        rows: dict[str, SentenceRows | StreamedRows] = {}
        for name in self.names:
            if name in self.stores:
                rows[name] = SentenceRows(self.stores[name], of_documents, self.pack)
                _check_document_rows(rows[name], name)
            else:
                assert self.data.stream is not None
                prepare = self.data.sentence_reader.prepare(self.tokenizer)
                streamed = StreamedRows(self.data.stream, prepare, of_documents, self.pack, self.seed)
                _check_document_rows(streamed.first, name)
                rows[name] = streamed
        self._document_rows[task.max_length] = rows
        return rows


def _check_document_rows(rows: SentenceRows | StreamedRows, name: str) -> None:
    """Raise DataError if nothing can be learned from the documents of a split."""
    assert isinstance(rows, SentenceRows)
    config = cast("DocumentTaskConfig", rows.task.config)
    settings = f"task.min_characters={config.min_characters} task.min_sentences={config.min_sentences}"
    if not len(rows):
        problem = f"The {name} documents have no paragraph that is long enough for {settings}"
        remedy = "Use smaller values, longer documents, or task.second_sentence=none task.min_sentences=1"
        raise DataError(problem, remedy=remedy)
    if rows.paired and rows.passages.document[0] == rows.passages.document[-1]:
        problem = f"Only one of the {name} documents is long enough for {settings}, but negative pairs need another"
        remedy = "Use or hold out more documents (dataset.validation_fraction), or set task.second_sentence=none"
        raise DataError(problem, allowed="two documents or more", remedy=remedy)
    if not rows.task.is_ordinary[np.asarray(rows.store["input_ids"].values[:_LOOKED_AT])].any():
        problem = f"The tokenizer knows no word of the {name} documents, so there is nothing to predict"
        raise DataError(problem, remedy="Set tokenizer=wordpiece, which is trained on them")
