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
            raise self._not_an_id()

    def _not_an_id(self) -> SettingError:
        return SettingError(
            f"dataset.path={self.path} is not the id of a dataset on the hub",
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

        line = str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__
        if isinstance(error, DatasetNotFoundError):
            return DataError(line, remedy=f"Check {self.found_by}; a private or gated one needs hf auth login")
        fetching = isinstance(error, (ConnectionError, http_error())) or isinstance(error.__cause__, OSError)
        if not reachable or fetching:
            cache = f"{self.path} is not in the cache {config.HF_DATASETS_CACHE}"
            reason = "HF_HUB_OFFLINE is set" if config.HF_HUB_OFFLINE else f"{config.HF_ENDPOINT} cannot be reached"
            remedy = f"Set HF_ENDPOINT to a reachable hub, or HF_HOME to a cache that has it; {_OFFLINE}"
            return DataError(f"{cache}, and {reason} ({line})", remedy=remedy)
        listed = re.search(r"\[([^\]]*)\]", str(error))  # `datasets` names the configurations in a message only
        names = re.findall(r"'([^']+)'", listed[1]) if listed and isinstance(error, ValueError) else []
        if names and self.name not in names:
            near = closest(self.name or "", names) or names[0]
            has = f"has no configuration {self.name!r}" if self.name else "has several configurations"
            return DataError(f"{self.path} {has}", allowed=", ".join(names[:20]), remedy=f"Set {self.naming(near)}")
        words = (
            f"{self.path} cannot be read from the hub at {config.HF_ENDPOINT}: {line.rpartition(' Hub either: ')[2]}"
        )
        return DataError(
            words, remedy=f"Check for a login page or a proxy in between, try later, or offline: {_OFFLINE}"
        )

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

        # `datasets` would also read a folder of that name, or take "csv" for a format whose files are missing.
        if Path(self.path).exists() or (
            self.path.isidentifier() and find_spec(f"datasets.packaged_modules.{self.path}") is not None
        ):
            raise self._not_an_id()
        builder = datasets.load_dataset_builder(self.path, self.name, revision=self.revision)
        if type(builder).__module__.endswith(".cache"):
            commit = builder.hash or ""
            if self.revision is not None and not commit.startswith(self.revision):
                raise DataError(
                    f"The hub cannot be reached, and revision {self.revision} of {self.path} is not in its cache",
                    allowed=f"the cached commit {commit}",
                    remedy=f"Set dataset.revision={commit[:12]} to use it, or remove dataset.revision",
                )
            cached = f"the rows of {self.path} in its cache, commit {commit[:12]}"
            logger.warning("The Hugging Face hub cannot be reached: using %s.", cached)
        return builder

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
        ours = next(one for one, of_hub in used.items() if of_hub == name)
        if ours not in MAIN_SPLITS:
            remedy = f"Remove {name} from dataset.further_splits"
        else:
            near = closest(name, [split for split in existing if split not in used.values()]) or existing[0]
            remedy = f"Set dataset.{ours}_split={near if ours == 'train' else f'{near}, or to null to do without'}"
        return DataError(f"{self.path} has no split {name!r}", allowed=", ".join(existing), remedy=remedy)


def _patiently(action: Callable[[], Result], pauses: tuple[float, ...]) -> Result:
    """Return the result of `action`, retried after each of `pauses` (seconds) if the hub breaks off."""
    try:
        return action()
    except (ConnectionError, http_error()) as error:
        response = getattr(error, "response", None)
        if not pauses or (response is not None and response.status_code < 500):
            raise
        time.sleep(pauses[0])
        return _patiently(action, pauses[1:])


def _unreadable() -> tuple[type[Exception], ...]:
    """Return the errors raised if a file of the hub is not what its name says."""
    import pyarrow as pa
    from datasets.exceptions import DatasetGenerationError

    return pa.ArrowInvalid, DatasetGenerationError


def _class_names(feature: Any) -> list[str] | None:
    """Return the names of a ClassLabel feature, or of a list of them."""
    return getattr(getattr(feature, "feature", feature), "names", None)


def _hide_unknown(rows: dict[str, Rows], *, has_classes: bool) -> dict[str, Rows]:
    """Make labels -1 unknown, as the hub marks those of GLUE's test splits; without class names, only if no training
    row has it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    from encoderlab.data.columns import flat, mapped

    hidden = -1.0 if pa.types.is_floating(rows["train"].labels.type) else "-1"
    if not has_classes and hidden in flat(rows["train"].labels).unique().to_pylist():
        return rows

    def shown(values: pa.Array) -> pa.Array:
        return pc.if_else(pc.equal(values, hidden), None, values)

    return {name: part.with_labels(mapped(part.labels, shown)) for name, part in rows.items()}
