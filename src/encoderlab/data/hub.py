"""The Hugging Face hub: whether it answers, any dataset by its id, and Wikipedia's articles, cached or streamed."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.data.data import Data
from encoderlab.data.dataset import MAIN_SPLITS, ColumnDataset, DatasetConfig
from encoderlab.data.documents import Documents, DocumentStream, StreamSettings
from encoderlab.data.sentences import LANGUAGES
from encoderlab.errors import DataError, SettingError, one_line
from encoderlab.settings import REQUIRED, setting

if TYPE_CHECKING:
    import datasets

    from encoderlab.network.config import TargetKind
    from encoderlab.tables.columns import Columns
    from encoderlab.tables.raw_rows import RawRows

logger = logging.getLogger(__name__)
_HIDDEN = "-1"  # an unknown label, as in the test splits of GLUE


@dataclass
class HubDataset(ColumnDataset):
    """A dataset of the Hugging Face hub, kept in the hub's own cache (HF_HOME)."""

    path: str = setting(REQUIRED, "The dataset's id, such as nyu-mll/glue.")
    name: str | None = setting(None, "The configuration, such as sst2, if the dataset has several.")
    revision: str | None = setting(None, "A branch, tag or commit; null: the newest.")
    train_split: str = setting("train", "The hub's name of the training split.")
    validation_split: str | None = setting(
        "validation", "The hub's name of the validation split; null: held out from training."
    )
    test_split: str | None = setting("test", "The hub's name of the test split; null: none.")
    further_splits: list[str] | None = setting(
        None, "Further splits to score and predict, such as [validation_mismatched]."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        main = {*(self.further_splits or ())} & {*MAIN_SPLITS}
        if main:
            problem = f"dataset.further_splits names {min(main)}"
            raise SettingError(problem, allowed="other names", remedy=f"Set dataset.{min(main)}_split")

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Data:
        """Read the rows from the hub, or from its own cache if the hub cannot be reached; `cache_dir` is not used."""
        import pyarrow.compute as pc
        from datasets import config

        from encoderlab.tables.raw_rows import flat, mapped

        reachable = hub_answers(config.HF_ENDPOINT)
        with self.hub_errors_explained(reachable=reachable), nullcontext() if reachable else no_requests():
            builder = self.builder()
            builder.download_and_prepare()
            whole: Any = builder.as_dataset()  # a DatasetDict, because no split is named
        columns = self.columns(target)
        further = {name: name for name in self.further_splits or ()}
        names = {"train": self.train_split, "validation": self.validation_split, "test": self.test_split, **further}
        rows = {}
        for name, hub_name in names.items():
            if hub_name is not None:
                rows[name] = self._rows(whole, name, hub_name, columns)
        class_names = None
        if columns.label is not None:
            feature = whole[self.train_split].features[columns.label]  # a ClassLabel has names, or a list of them
            class_names = getattr(getattr(feature, "feature", feature), "names", None)
            labels = rows["train"].labels
            if class_names is not None or _HIDDEN not in flat(labels).unique().to_pylist():  # otherwise it is a label
                shown = lambda ids: pc.if_else(pc.equal(ids, _HIDDEN), None, ids)  # noqa: E731
                rows = {name: part.with_labels(mapped(part.labels, shown)) for name, part in rows.items()}
        origin = {"source": "hub", "path": self.path, "name": builder.config.name, "revision": builder.hash}
        return self.build_splits(rows, origin, class_names, target)

    @contextmanager
    def hub_errors_explained(self, *, reachable: bool = True) -> Iterator[None]:
        """Silence the hub's own output within this context, and raise any error as a DataError."""
        from datasets import config
        from datasets.exceptions import DatasetNotFoundError, DatasetsError

        try:
            with quiet():
                yield
        except (DatasetsError, http_error(), OSError, ValueError, RuntimeError) as error:
            reason = one_line(str(error).strip())[:500] or type(error).__name__
            fetching = isinstance(error, (ConnectionError, http_error())) or isinstance(error.__cause__, OSError)
            if reachable and (isinstance(error, DatasetNotFoundError) or not fetching):
                problem = f"{self.path} cannot be read from the hub at {config.HF_ENDPOINT}: {reason}"
                settings = "dataset.path, dataset.name and dataset.revision (of Wikipedia dataset.language and date)"
                raise DataError(problem, remedy=f"Check {settings}; a gated one needs hf auth login") from error
            cache = f"{self.path} is not in the cache {config.HF_DATASETS_CACHE}"
            remedy = "Set HF_ENDPOINT to another, or HF_HOME to a cache that has it; dataset=files needs no network"
            raise DataError(f"{cache}, and {config.HF_ENDPOINT} cannot be reached ({reason})", remedy=remedy) from error

    def builder(self) -> datasets.DatasetBuilder:
        """Return what reads the rows, from the hub or its cache. Raises any error of theirs, and DataError."""
        import datasets

        # `datasets` would also read a folder of that name, or take "csv" for a format whose files are missing.
        is_id = re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", self.path) and not Path(self.path).exists()
        if not is_id or (self.path.isidentifier() and find_spec(f"datasets.packaged_modules.{self.path}")):
            problem = f"dataset.path={self.path} is not the id of a dataset on the hub"
            raise SettingError(problem, allowed="OWNER/NAME", remedy="For your own files set dataset=files")
        builder = datasets.load_dataset_builder(self.path, self.name, revision=self.revision)
        if type(builder).__module__.endswith(".cache"):
            commit = builder.hash or ""
            if self.revision is not None and not commit.startswith(self.revision):
                problem = f"The hub cannot be reached, and revision {self.revision} of {self.path} is not in its cache"
                raise DataError(problem, remedy=f"Set dataset.revision={commit[:12]} to use the one that is")
            cached = f"the rows of {self.path} in its cache, commit {commit[:12]}"
            logger.warning("The Hugging Face hub cannot be reached: using %s.", cached)
        return builder

    def _rows(self, whole: datasets.DatasetDict, split: str, name: str, columns: Columns) -> RawRows:
        """Return the rows of a split; texts stay where the hub's cache has them, mapped from a file."""
        import pyarrow as pa

        from encoderlab.tables.checks import checked
        from encoderlab.tables.columns import CARRIED
        from encoderlab.tables.raw_rows import RawRows, is_single, plain

        if name not in whole:
            main = split in MAIN_SPLITS
            remedy = f"Check dataset.{split}_split; null does without" if main else "Check dataset.further_splits"
            raise DataError(f"{self.path} has no split {name!r}", allowed=", ".join(map(str, whole)), remedy=remedy)
        table = whole[name].data.table
        place = f"{self.path}, split {name}, row"
        used = list(dict.fromkeys(columns.by_setting().values()))
        names = columns.to_read(table.column_names, f"{self.path} (split {name})")
        batches = []
        first = 1
        for batch in table.select(used).to_batches():
            where = lambda row, first=first: f"{place} {first + row}"  # noqa: E731
            arrays, _ = checked({column: batch[column] for column in used}, columns, where)
            batches.append(pa.record_batch(arrays))
            first += len(batch)
        rows = pa.Table.from_batches(batches)
        for column in names:
            if column not in used and is_single(table.schema.field(column).type):
                rows = rows.append_column(f"{CARRIED}{column}", pa.chunked_array(map(plain, table[column].chunks)))
        return RawRows(rows, lambda row: f"{place} {row + 1}")


@dataclass
class WikipediaDataset(DatasetConfig, StreamSettings):
    """Wikipedia articles as cleaned by the Wikimedia Foundation (wikimedia/wikipedia), without labels."""

    date: str = setting("20231101", "Day of the dump, as the hub names it.")
    language: str = setting("en", "Wikipedia's language code, such as en, de or simple.")
    revision: str | None = setting(None, "A branch, tag or commit of wikimedia/wikipedia; null: the newest.")
    validation_fraction: float = setting(0.02, "Share of the articles to hold out for validation.", minimum=0, below=1)
    test_fraction: float = setting(0.0, "Share of the articles to hold out for testing.", minimum=0, below=1)
    split_seed: int = setting(0, "Seed that selects the articles to hold out.", minimum=0)

    @property
    def is_stream(self) -> bool:
        return self.streaming

    @property
    def row_seed(self) -> int:
        return self.split_seed

    @property
    def sentence_language(self) -> str:
        """Return the language of the articles, by punkt_tab's name; English for those that it lacks."""
        return LANGUAGES.get(self.language, "english")

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Data:
        """Read the articles as texts without labels."""
        return self._of_hub().read(cache_dir)

    def read_documents(self, cache_dir: Path) -> Documents:
        """Return each article as a document."""
        articles = self._of_hub()
        if not self.streaming:
            return articles.read_documents(cache_dir)
        from datasets import config

        if not hub_answers(config.HF_ENDPOINT):
            problem = f"The Hugging Face hub at {config.HF_ENDPOINT} cannot be reached to stream {articles.path} from"
            raise DataError(problem, remedy="Set HF_ENDPOINT, or dataset.streaming=false to use the cache")
        with articles.hub_errors_explained():
            builder = articles.builder()
            documents: Any = builder.as_streaming_dataset(split="train")
            stream = documents.select_columns(["text"])
        name = builder.config.name
        version = builder.hash
        total = stream.num_shards
        origin = {"source": "hub", "path": articles.path, "name": name, "revision": version}
        shards = {f"{name}-{shard:05}-of-{total:05}": f"{version} {shard}" for shard in range(total)}
        fractions = (self.validation_fraction, self.test_fraction, self.split_seed)
        explained = articles.hub_errors_explained
        return DocumentStream(stream, shards, self.window, *fractions, explained).as_documents(origin)

    def _of_hub(self) -> HubDataset:
        names = (setting.name for setting in fields(HubDataset))
        shared = {name: getattr(self, name) for name in names if hasattr(self, name)}
        shared |= {"path": "wikimedia/wikipedia", "name": f"{self.date}.{self.language}"}
        return HubDataset(label=None, validation_split=None, test_split=None, **shared)


def hub_answers(endpoint: str) -> bool:
    """Return whether the hub answers without a server error, in two attempts of HF_HUB_ETAG_TIMEOUT (10) seconds each.

    It is called before anything is loaded, because `huggingface_hub` itself tries for half a minute or more.
    """
    from huggingface_hub import constants, get_session
    from huggingface_hub.errors import OfflineModeIsEnabled

    for pause in (1.0, 0.0):
        try:
            if get_session().head(endpoint, timeout=constants.HF_HUB_ETAG_TIMEOUT).status_code < 500:
                return True
        except OfflineModeIsEnabled:
            return False
        except (http_error(), OSError):
            pass
        time.sleep(pause)
    return False


def http_error() -> type[Exception]:
    """Return the error class of the hub's client for failed requests; some of its errors are only of this class."""
    from huggingface_hub.errors import HTTPError  # pyright: ignore[reportPrivateImportUsage]  of the client it is built on

    return HTTPError


@contextmanager
def no_requests() -> Iterator[None]:
    """Make every request to the hub fail at once, as under HF_HUB_OFFLINE, so that `datasets` turns to its cache."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the libraries' log lines, because errors are raised, and outside a terminal their progress bars."""
    import datasets
    import huggingface_hub

    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    if not sys.stderr.isatty():
        datasets.utils.disable_progress_bars()
        huggingface_hub.utils.disable_progress_bars()
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
