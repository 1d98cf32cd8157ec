"""Wikipedia's articles from the Hugging Face hub: cached, or streamed if the disk is too small for them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from encoderlab.data.documents import (
    Documents,
    DocumentSplit,
    fingerprint,
    paragraphs,
    refuse_lone_document,
    streamed_documents,
)
from encoderlab.data.examples import Splits
from encoderlab.data.shards import Fractions, Shards, StreamSettings, UnreachableError, refuse_stream
from encoderlab.data.sources.dataset import DatasetConfig
from encoderlab.data.sources.hub import HubDataset
from encoderlab.errors import DataError, SettingError
from encoderlab.settings import setting
from encoderlab.system.hub_access import few_retries, http_error, hub_answers

if TYPE_CHECKING:
    import datasets

    from encoderlab.batch import TargetKind

_ARTICLES_AT_A_TIME = 100
_LANGUAGES = {  # Wikipedia's codes of the languages in punkt_tab; English for all others
    "cs": "czech",
    "da": "danish",
    "nl": "dutch",
    "et": "estonian",
    "fi": "finnish",
    "fr": "french",
    "de": "german",
    "el": "greek",
    "it": "italian",
    "ml": "malayalam",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ru": "russian",
    "sl": "slovene",
    "es": "spanish",
    "sv": "swedish",
    "tr": "turkish",
}


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
        "For pretraining: read the articles from the hub during training and store nothing; with dataset.limit, read that many "
        "once and keep their tokens.",
    )
    validation_fraction: float = setting(0.02, "Share of the articles to hold out for validation.", least=0, below=1)
    test_fraction: float = setting(0.0, "Share of the articles to hold out for testing.", least=0, below=1)
    split_seed: int = setting(
        0, "Seed that selects the articles to hold out; a stream with dataset.limit holds out its first.", least=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"[0-9]{8}", self.date):
            raise SettingError(
                f"dataset.date is {self.date!r}",
                allowed="year, month and day as YYYYMMDD",
                remedy="Set dataset.date=20231101",
            )
        if self.validation_fraction + self.test_fraction >= 1:
            fractions = (
                f"validation_fraction={self.validation_fraction:g} and dataset.test_fraction={self.test_fraction:g}"
            )
            raise SettingError(f"dataset.{fractions} leave no training articles", allowed="a sum below 1")

    @property
    def is_stream(self) -> bool:
        """See `DatasetConfig.is_stream`."""
        return self.streaming and self.limit is None

    @property
    def sentence_language(self) -> str:
        """See `DatasetConfig.sentence_language`."""
        return _LANGUAGES.get(self.language, "english")

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Splits:
        """Return the articles as texts without labels. Raises DataError as `HubDataset.read` does, and if they are
        streamed.
        """
        refuse_stream(self.streaming)
        return self._of_hub().read(cache_dir)

    def read_documents(self, cache_dir: Path) -> Documents:
        """Return each article as a document.

        A stream with a `limit` holds out its first articles and trains on the following ones.
        """
        articles = self._of_hub()
        if self.is_stream:
            return self._sharded(articles)
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

    def _sharded(self, articles: _Articles) -> Documents:
        """Return the articles in the hub's files, for a run that reads them during training."""
        builder = _open_stream(articles)
        with articles.hub_errors_explained(), few_retries():
            total = cast("datasets.IterableDataset", builder.as_streaming_dataset(split="train")).num_shards
        names = {f"{builder.config.name}-{shard:05}-of-{total:05}": f"{builder.hash} {shard}" for shard in range(total)}

        def read(shard: int, start: int) -> Iterator[list[str]]:
            try:
                yield from _Stream(articles, builder, start, None, for_training=False, shard=shard)()
            except DataError as error:
                if isinstance(error.__cause__, (OSError, http_error())):
                    raise UnreachableError(error.wrong, remedy=error.remedy) from error
                raise

        fractions = Fractions(self.validation_fraction, self.test_fraction, self.split_seed)
        shards = Shards(names, read, fractions, self.window, self.shards_at_once, self.on_damaged)
        origin = {"source": "hub", "path": articles.path, "name": builder.config.name, "revision": builder.hash}
        return streamed_documents(shards, origin)

    def _streamed(self, articles: _Articles) -> Documents:
        builder = _open_stream(articles)
        by_name, skipped = {}, 0
        for name, count in self._counts().items():
            made_from = f"{builder.config.name} {builder.hash} {skipped} {count}"
            read = _Stream(articles, builder, skipped, count, for_training=name == "train")
            by_name[name] = DocumentSplit(read, None, fingerprint(made_from.encode()))
            skipped += count
        origin = {"source": "hub", "path": articles.path, "name": builder.config.name, "revision": builder.hash}
        return Documents({"train": by_name.pop("train"), **by_name}, origin | {"streamed": self._counts()})

    def _counts(self) -> dict[str, int]:
        """Return how many articles of the stream each split gets, in the stream's order."""
        assert self.limit is not None, "refused when the settings were made"
        fractions = {"validation": self.validation_fraction, "test": self.test_fraction}
        held_out = {name: math.ceil(fraction * self.limit) for name, fraction in fractions.items() if fraction}
        return {**held_out, "train": self.limit}


def _open_stream(articles: _Articles) -> datasets.DatasetBuilder:
    """Return the builder with which `datasets` streams the articles. Raises DataError if the hub cannot be reached."""
    from datasets import config

    if not hub_answers(config.HF_ENDPOINT):
        raise DataError(
            f"The Hugging Face hub at {config.HF_ENDPOINT} cannot be reached to stream {articles.path} from",
            remedy="Set HF_ENDPOINT to a reachable hub, or dataset.streaming=false to use its cache",
        )
    return articles.open_builder()


@dataclass(frozen=True, slots=True)
class _Stream:
    """`count` articles of the hub's stream (None: all) or of one `shard`, after the first `skipped`, read again at each
    call.

    `for_training` refuses a stream that ends before its second article.
    """

    articles: _Articles
    builder: datasets.DatasetBuilder
    skipped: int
    count: int | None
    for_training: bool
    shard: int | None = None

    def __call__(self) -> Iterator[list[str]]:
        """Yield the articles. Raises DataError if the connection to the hub breaks."""
        with self.articles.hub_errors_explained(), few_retries():
            stream = cast("datasets.IterableDataset", self.builder.as_streaming_dataset(split="train"))
            if self.shard is not None:
                stream = stream.shard(num_shards=stream.num_shards, index=self.shard)
            wanted = stream.select_columns(["text"]).skip(self.skipped)
            batches = (wanted if self.count is None else wanted.take(self.count)).iter(_ARTICLES_AT_A_TIME)
        read = 0
        while True:
            with self.articles.hub_errors_explained(), few_retries():
                texts = next(batches, {"text": []})["text"]
            if not texts:
                break
            yield from map(paragraphs, texts)
            read += len(texts)
        if self.for_training:
            refuse_lone_document(read)
