"""The corpus of a pretraining run: documents split into sentences, tokenised once and cached; pairs are assembled from
it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from encoderlab.data.dataset import DatasetConfig, Pack
from encoderlab.data.documents import Documents, DocumentSplit
from encoderlab.data.sentences import (
    Preparation,
    SentenceBlock,
    SentenceSplitter,
    columns_of,
    numbered,
    prepared,
    splitter_for,
)
from encoderlab.data.token_store import TokenStore, kept_store, write_blocks
from encoderlab.errors import DataError
from encoderlab.tasks.config import DocumentTaskConfig, SecondSentence
from encoderlab.tasks.sentence_rows import DocumentTask, SentenceRows
from encoderlab.tasks.stream import StreamedRows, sample_of

STORE_VERSION = 1  # increase it when the columns of the store or their meaning change
_LOOKED_AT = 1_000_000  # tokens, to find out whether a tokenizer knows any word


@dataclass(frozen=True, slots=True)
class DocumentCorpus:
    """Documents, how they are split into sentences, and `cache`, the folder of their token stores."""

    documents: Documents
    splitter: SentenceSplitter
    task: DocumentTaskConfig
    pack: Pack
    cache: Path

    @classmethod
    def load(
        cls, dataset: DatasetConfig, task: DocumentTaskConfig, cache: Path, documents: Documents | None = None
    ) -> DocumentCorpus:
        """Load the documents, unless they are given, and a sentence splitter for them.

        Raises DataError, SettingError as `DatasetConfig.documents` does.
        """
        documents = documents or dataset.documents(cache)

        def paragraphs() -> Iterator[str]:
            return (paragraph for document in documents.by_name["train"].documents() for paragraph in document)

        return cls(
            documents, splitter_for(paragraphs, task.language or dataset.sentence_language), task, dataset.pack, cache
        )

    @property
    def labels(self) -> list[str]:
        """Return no labels: the task has its own."""
        return []

    def fingerprints(self) -> dict[str, str]:
        """Return a fingerprint of each split's documents."""
        return {name: split.fingerprint for name, split in self.documents.by_name.items()}

    @property
    def shards(self) -> dict[str, str]:
        """Return a fingerprint of each shard, by name, if the documents are streamed; otherwise empty."""
        return {} if self.documents.stream is None else self.documents.stream.shards

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
        splits = {
            name: {"documents": split.total, "fingerprint": split.fingerprint}
            for name, split in self.documents.by_name.items()
        }
        shards = {"shards": self.shards} if self.shards else {}
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
        made_from = (STORE_VERSION, split.fingerprint, self.splitter.key, task.tokenizer.fingerprint)
        kept_if = (self.task.min_characters, self.task.min_sentences)
        key = hashlib.sha256(repr((made_from, kept_if)).encode()).hexdigest()[:24]
        store = kept_store(self.cache / "sentences" / key, lambda folder: self._write(folder, name, split, task))
        rows = SentenceRows(store, task, self.pack)
        self._check(rows, name)
        return rows

    def _write(self, folder: Path, name: str, split: DocumentSplit, task: DocumentTask) -> TokenStore:
        size = task.tokenizer.vocabulary_size
        with tqdm(
            total=split.total, desc=f"tokenising {name}", unit=" documents", file=sys.stderr, disable=None, leave=False
        ) as bar:

            def counted() -> Iterator[SentenceBlock]:
                for block in prepared(split.documents(), self._preparation(task)):
                    yield block
                    bar.update(block.documents)

            return write_blocks(folder, columns_of(size), numbered(counted(), size))

    def _preparation(self, task: DocumentTask) -> Preparation:
        return Preparation(self.splitter, task.tokenizer, self.task.min_characters, self.task.min_sentences)

    def _check(self, rows: SentenceRows, name: str) -> None:
        settings = f"task.min_characters={self.task.min_characters} task.min_sentences={self.task.min_sentences}"
        if not len(rows):
            raise DataError(
                f"The {name} documents have no paragraph that is long enough for {settings}",
                remedy="Use smaller values, or longer documents",
            )
        if rows.second is SecondSentence.next and rows.windows.document[0] == rows.windows.document[-1]:
            raise DataError(
                f"Only one of the {name} documents is long enough for {settings}, but negative pairs need another",
                allowed="two documents or more",
                remedy="Use more documents, hold out more (dataset.validation_fraction), or set "
                "task.second_sentence=swapped",
            )
        known = rows.task.is_ordinary[np.asarray(rows.store["input_ids"].values[:_LOOKED_AT])]
        if not known.any():
            raise DataError(
                f"The tokenizer knows no word of the {name} documents, so there is nothing to predict",
                remedy="Set tokenizer=wordpiece, which is trained on them",
            )
