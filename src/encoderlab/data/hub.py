"""Any dataset of the Hugging Face hub, by its id."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from encoderlab.data.dataset import MAIN_SPLITS, ColumnDataset
from encoderlab.data.examples import Splits
from encoderlab.errors import DataError, SettingError, closest
from encoderlab.settings import REQUIRED, setting
from encoderlab.system.hub_access import http_error, hub_answers, no_requests, quiet

if TYPE_CHECKING:
    import datasets
    import pyarrow as pa

    from encoderlab.batch import TargetKind
    from encoderlab.data.columns import Columns, Rows

Result = TypeVar("Result")

logger = logging.getLogger(__name__)

_PAUSES = (1.0, 2.0)  # seconds to wait before a retry if the hub answers but breaks off
# Errors for which huggingface_hub has already retried, by their names in its HTTP library.
_TRIED_AGAIN = {"TimeoutException", "RemoteProtocolError", "ConnectError"}
_OFFLINE = "`encoderlab train` and dataset=files need no network"


@dataclass
class HubDataset(ColumnDataset):
    """A dataset of the Hugging Face hub, kept in the hub's own cache (HF_HOME)."""

    found_by: ClassVar[str] = (
        "dataset.path and dataset.revision"  # the settings named in the message for a missing dataset
    )

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
        taken = next((name for name in self.further_splits or () if name in MAIN_SPLITS), None)
        if taken is not None:
            raise SettingError(
                f"dataset.further_splits names {taken}", allowed="other names", remedy=f"Set dataset.{taken}_split"
            )
        if self.path != REQUIRED and not re.fullmatch(r"\w[\w.-]*(/\w[\w.-]*)?", self.path):
            raise SettingError(
                f"dataset.path={self.path} is not the id of a hub dataset",
                allowed="OWNER/NAME",
                remedy="For files of your own set dataset=files dataset.path=FILE",
            )

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Splits:
        """Read the rows from the hub, or from its own cache if the hub cannot be reached; `cache_dir` is not used."""
        builder, whole = self._fetch()
        columns = self.columns(target)
        rows = {name: self._rows(whole, of_hub, columns) for name, of_hub in self._split_names().items()}
        class_names = None
        if columns.label is not None:
            class_names = _class_names(whole[self.train_split].features[columns.label])
            rows = _hide_unknown(rows, has_classes=class_names is not None)
        origin = {"source": "hub", "path": self.path, "name": builder.config.name, "revision": builder.hash}
        return self.splits(rows, origin, class_names, target)

    def _fetch(self) -> tuple[datasets.DatasetBuilder, datasets.DatasetDict]:
        from datasets import config

        reachable = hub_answers(config.HF_ENDPOINT)
        with self.hub_errors_explained(reachable=reachable), nullcontext() if reachable else no_requests():
            return _patiently(self._load, _PAUSES if reachable else ())

    @contextmanager
    def hub_errors_explained(self, *, reachable: bool = True) -> Iterator[None]:
        """Silence the hub's own output within this context, and raise any error as a DataError."""
        from datasets.exceptions import DatasetsError

        try:
            with quiet():
                yield
        except (DatasetsError, http_error(), OSError, ValueError, RuntimeError) as error:
            raise self._explained(error, reachable) from error

    def _explained(self, error: Exception, reachable: bool) -> DataError:
        from datasets import config
        from datasets.exceptions import DatasetNotFoundError

        if isinstance(error, DatasetNotFoundError):
            return DataError(
                _first_line(error), remedy=f"Check {self.found_by}; a private or gated one needs hf auth login"
            )
        if isinstance(error, (ConnectionError, http_error())):
            return self._unreachable(config, error)
        if isinstance(error, _unreadable()):
            return DataError(
                f"The hub at {config.HF_ENDPOINT} did not send a table of rows for {self.path}: {_first_line(error)}",
                remedy=f"Check for a login page or a proxy in between, try again later, or work offline: {_OFFLINE}",
            )
        if isinstance(error, ValueError):  # its cause is another error if a file is downloaded again
            fetching = isinstance(error.__cause__, (OSError, http_error()))
            return self._wrong_configuration(error) if reachable and not fetching else self._unreachable(config, error)
        reason = _first_line(error).rpartition(" Hub either: ")[2]
        remedy = f"Try again later, or work offline: {_OFFLINE}" if isinstance(error, OSError) else ""
        return DataError(f"{self.path} cannot be read from the hub at {config.HF_ENDPOINT}: {reason}", remedy=remedy)

    def _load(self) -> tuple[datasets.DatasetBuilder, datasets.DatasetDict]:
        builder = self._builder()
        try:
            builder.download_and_prepare()
        except _unreadable():  # a file in the cache may be a saved error page: nothing has checked it
            builder.download_and_prepare(download_mode="force_redownload")
        return builder, cast("datasets.DatasetDict", builder.as_dataset())  # because no split is named

    def open_builder(self) -> datasets.DatasetBuilder:
        """Return the builder with which `datasets` reads the rows from a reachable hub. Raises as `load` does."""
        with self.hub_errors_explained():
            return _patiently(self._builder, _PAUSES)

    def _builder(self) -> datasets.DatasetBuilder:
        import datasets

        self._refuse_what_is_here()
        builder = datasets.load_dataset_builder(self.path, self.name, revision=self.revision)
        self._refuse_another_commit(builder)
        return builder

    def _refuse_what_is_here(self) -> None:
        """Raise SettingError for a folder or file format, which `datasets` would also accept and search for files."""
        is_format = self.path.isidentifier() and find_spec(f"datasets.packaged_modules.{self.path}") is not None
        if is_format or Path(self.path).is_dir():
            raise SettingError(
                f"dataset.path={self.path} is a folder or a file format, not a dataset on the hub",
                allowed="OWNER/NAME",
                remedy="For files of your own set dataset=files dataset.path=FILE",
            )

    def _refuse_another_commit(self, builder: datasets.DatasetBuilder) -> None:
        if not type(builder).__module__.endswith(".cache"):
            return
        commit = builder.hash or ""
        if self.revision is not None and not commit.startswith(self.revision):
            raise DataError(
                f"The hub cannot be reached, and revision {self.revision} of {self.path} is not in its cache",
                allowed=f"the cached commit {commit}",
                remedy=f"Set dataset.revision={commit[:12]} to use it, or remove dataset.revision",
            )
        cached = f"the rows of {self.path} in its cache, commit {commit[:12]}"
        logger.warning("The Hugging Face hub cannot be reached: using %s.", cached)

    def _unreachable(self, config: Any, error: Exception) -> DataError:
        cache = config.HF_DATASETS_CACHE
        if config.HF_HUB_OFFLINE:
            return DataError(
                f"{self.path} is not in the cache {cache}, and HF_HUB_OFFLINE forbids downloading it",
                remedy=f"Download it once with HF_HUB_OFFLINE=0, or set HF_HOME to a cache that has it; {_OFFLINE}",
            )
        return DataError(
            f"The Hugging Face hub at {config.HF_ENDPOINT} cannot be reached, and {self.path} is not in the cache "
            f"{cache} ({_first_line(error)})",
            remedy=f"Set HF_ENDPOINT to a reachable hub, or HF_HOME to a cache that has it; {_OFFLINE}",
        )

    def _wrong_configuration(self, error: ValueError) -> DataError:
        """Return the error for a wrong configuration, which `datasets` reports only in a message, with the names in
        brackets.
        """
        from encoderlab.data.columns import listed

        bracketed = re.search(r"\[([^\]]*)\]", str(error))
        existing = re.findall(r"'([^']+)'", bracketed.group(1)) if bracketed else []
        if not existing or self.name in existing:
            return DataError(f"{self.path} cannot be read: {_first_line(error)}")
        near = closest(self.name or "", existing) or existing[0]
        what = f"has no configuration named {self.name!r}" if self.name else "has several configurations to choose from"
        return DataError(f"{self.path} {what}", allowed=listed(existing), remedy=f"Set {self.naming(near)}")

    def naming(self, configuration: str) -> str:
        """Return the setting that chooses a configuration."""
        return f"dataset.name={configuration}"

    def _split_names(self) -> dict[str, str]:
        names = {"train": self.train_split, "validation": self.validation_split, "test": self.test_split}
        further = {name: name for name in self.further_splits or ()}
        return {name: of_hub for name, of_hub in names.items() if of_hub is not None} | further

    def _rows(self, whole: datasets.DatasetDict, name: str, columns: Columns) -> Rows:
        """Return the rows of a split; texts stay where the hub's cache has them, mapped from a file."""
        import pyarrow as pa

        from encoderlab.data.columns import Rows, can_be_carried, checked, plain

        if name not in whole:
            raise self._no_split(name, [str(split) for split in whole])
        table, place = whole[name].data.table, f"{self.path}, split {name}, row"
        needed, used = columns.to_read(table.column_names, f"{self.path} (split {name})"), columns.by_setting().values()
        carried = [one for one in needed if one not in used and can_be_carried(table.schema.field(one).type)]
        batches = []
        for batch in table.select(list(dict.fromkeys(used))).to_batches():
            start = sum(map(len, batches))
            arrays = {one: batch[one] for one in batch.schema.names}
            batches.append(pa.record_batch(checked(arrays, columns, lambda row: f"{place} {start + row + 1}")[0]))  # noqa: B023
        others = (
            pa.table({one: pa.chunked_array(map(plain, table[one].chunks)) for one in carried}) if carried else None
        )
        return Rows(pa.Table.from_batches(batches), lambda row: f"{place} {row + 1}", others)

    def _no_split(self, name: str, existing: list[str]) -> DataError:
        """Return the error for a missing split. It never proposes a split that another setting uses."""
        used = self._split_names()
        wanted = next(setting for setting, of_hub in used.items() if of_hub == name)
        near = closest(name, [split for split in existing if split not in used.values()])
        if wanted not in MAIN_SPLITS:
            remedy = f"Remove {name} from dataset.further_splits"
        elif wanted == "train":
            remedy = f"Set dataset.train_split={near or existing[0]}"
        else:
            without = "to hold rows out of training" if wanted == "validation" else "to do without"
            remedy = f"Set {f'dataset.{wanted}_split={near}, or ' if near else ''}dataset.{wanted}_split=null {without}"
        return DataError(f"{self.path} has no split {name!r}", allowed=", ".join(existing), remedy=remedy)


def _patiently(action: Callable[[], Result], pauses: tuple[float, ...]) -> Result:
    """Return the result of `action`, retried after each of `pauses` (seconds) if the hub breaks off."""
    try:
        return action()
    except (ConnectionError, http_error()) as error:
        if not pauses or not _worth_another_try(error):
            raise
        time.sleep(pauses[0])
        return _patiently(action, pauses[1:])


def _worth_another_try(error: Exception) -> bool:
    """Return whether a retry may help and huggingface_hub has not already retried."""
    if {kind.__name__ for kind in type(error).__mro__} & _TRIED_AGAIN:
        return False
    answered = getattr(error, "response", None)
    return answered is None or answered.status_code >= 500


def _unreadable() -> tuple[type[Exception], ...]:
    """Return the errors raised if a file of the hub is not what its name says."""
    import pyarrow as pa
    from datasets.exceptions import DatasetGenerationError

    return pa.ArrowInvalid, DatasetGenerationError


def _class_names(feature: Any) -> list[str] | None:
    """Return the names of a ClassLabel feature, or of a list of them."""
    return getattr(getattr(feature, "feature", feature), "names", None)


def _hide_unknown(rows: dict[str, Rows], *, has_classes: bool) -> dict[str, Rows]:
    """Make labels -1 unknown, as the hub marks those of GLUE's test splits; without class names, only if no training row has it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from encoderlab.data.columns import flat, mapped

    hidden = -1.0 if pa.types.is_floating(rows["train"].labels.type) else "-1"
    if not has_classes and hidden in flat(rows["train"].labels).unique().to_pylist():
        return rows

    def shown(values: pa.Array) -> pa.Array:
        return pc.if_else(pc.equal(values, hidden), None, values)

    return {name: part.with_labels(mapped(part.labels, shown)) for name, part in rows.items()}


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
