"""Wikipedia's articles from the Hugging Face hub: cached, or streamed if the disk is too small for them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from encoderlab.data.dataset import DatasetConfig
from encoderlab.data.documents import (
    Documents,
    DocumentSplit,
    DocumentStream,
    StreamSettings,
    fingerprint,
    paragraphs,
    refuse_stream,
    texts_of,
)
from encoderlab.data.examples import Splits
from encoderlab.data.hub import HubDataset
from encoderlab.data.sentences import LANGUAGES
from encoderlab.errors import DataError, SettingError
from encoderlab.settings import setting
from encoderlab.system.hub_access import few_retries, hub_answers

if TYPE_CHECKING:
    import datasets

    from encoderlab.batch import TargetKind


class _Articles(HubDataset):
    """wikimedia/wikipedia as a hub dataset, with messages that name the settings of `WikipediaDataset`."""

    found_by: ClassVar[str] = "HF_ENDPOINT and dataset.revision"

    def naming(self, configuration: str) -> str:
        date, _, language = configuration.partition(".")
        return f"dataset.date={date} dataset.language={language}"


@dataclass
class WikipediaDataset(DatasetConfig, StreamSettings):
    """Wikipedia articles as cleaned by the Wikimedia Foundation (wikimedia/wikipedia), without labels."""

    date: str = setting("20231101", "Day of the dump, as the hub names it.")
    language: str = setting("en", "Wikipedia's language code, such as en, de or simple.")
    revision: str | None = setting(None, "A branch, tag or commit of wikimedia/wikipedia; null: the newest.")
    streaming: bool = setting(
        False,
        "For pretraining: read the articles from the hub during training and store nothing; with dataset.limit, read "
        "that many once and keep their tokens.",
    )
    validation_fraction: float = setting(0.02, "Share of the articles to hold out for validation.", least=0, below=1)
    test_fraction: float = setting(0.0, "Share of the articles to hold out for testing.", least=0, below=1)
    split_seed: int = setting(
        0, "Seed that selects the articles to hold out; a stream with dataset.limit holds out its first.", least=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"[0-9]{8}", self.date):
            raise SettingError(f"dataset.date is {self.date!r}", allowed="year, month and day, such as 20231101")
        if self.validation_fraction + self.test_fraction >= 1:
            fractions = (
                f"validation_fraction={self.validation_fraction:g} and dataset.test_fraction={self.test_fraction:g}"
            )
            raise SettingError(f"dataset.{fractions} leave no training articles", allowed="a sum below 1")

    @property
    def is_stream(self) -> bool:
        """Return whether `documents` are an endless stream; with a limit they are read once."""
        return self.streaming and self.limit is None

    @property
    def sentence_language(self) -> str:
        """Return the language of the articles, by punkt_tab's name; English for those that it lacks."""
        return LANGUAGES.get(self.language, "english")

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Splits:
        """Read the articles as texts without labels. Raises DataError as `HubDataset.read` does, and if they are
        streamed.
        """
        refuse_stream(self.streaming)
        return self._of_hub().read(cache_dir)

    def read_documents(self, cache_dir: Path) -> Documents:
        """Return each article as a document."""
        articles = self._of_hub()
        return self._streamed(articles) if self.streaming else articles.read_documents(cache_dir)

    def _of_hub(self) -> _Articles:
        return _Articles(
            limit=self.limit,
            text="text",
            label=None,
            validation_fraction=self.validation_fraction,
            test_fraction=self.test_fraction,
            split_seed=self.split_seed,
            path="wikimedia/wikipedia",
            name=f"{self.date}.{self.language}",
            revision=self.revision,
            validation_split=None,
            test_split=None,
        )

    def _streamed(self, articles: _Articles) -> Documents:
        """Return the articles of the hub's files, in a stream; with a `limit`, its first ones, read once."""
        from datasets import config

        if not hub_answers(config.HF_ENDPOINT):
            raise DataError(
                f"The Hugging Face hub at {config.HF_ENDPOINT} cannot be reached to stream {articles.path} from",
                remedy="Set HF_ENDPOINT to a reachable hub, or dataset.streaming=false to use its cache",
            )

        @contextmanager
        def explained() -> Iterator[None]:
            with articles.hub_errors_explained(), few_retries():
                yield

        builder = articles.open_builder()
        name, version = builder.config.name, builder.hash
        origin = {"source": "hub", "path": articles.path, "name": name, "revision": version}
        with explained():
            stream = cast("datasets.IterableDataset", builder.as_streaming_dataset(split="train"))
            stream = stream.select_columns(["text"])
        if self.limit is None:
            total = stream.num_shards
            shards = {f"{name}-{shard:05}-of-{total:05}": f"{version} {shard}" for shard in range(total)}
            fractions = (self.validation_fraction, self.test_fraction, self.split_seed)
            return DocumentStream(stream, shards, self.window, *fractions, explained).as_documents(origin)

        def articles_of(first: int, count: int) -> Iterator[list[str]]:
            return map(paragraphs, texts_of(stream.skip(first).take(count), explained))

        counts, by_name, first = self._counts(self.limit), {}, 0
        for split, count in counts.items():
            made_from = f"{name} {version} {first} {count}"
            by_name[split] = DocumentSplit(partial(articles_of, first, count), None, fingerprint(made_from.encode()))
            first += count
        return Documents({split: by_name[split] for split in reversed(counts)}, origin | {"streamed": counts})

    def _counts(self, limit: int) -> dict[str, int]:
        """Return how many articles of the stream each split gets, in the stream's order: held-out ones come first."""
        fractions = {"validation": self.validation_fraction, "test": self.test_fraction}
        return {name: math.ceil(share * limit) for name, share in fractions.items() if share} | {"train": limit}
