"""A folder per label: each example is a .txt file in the sub-folder named after its label."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from encoderlab.data.files.encodings import with_encodings
from encoderlab.data.files.text_files import whole_text
from encoderlab.data.grouping import grouped
from encoderlab.data.sources.columns import Rows, Wanted
from encoderlab.data.spool import Spool
from encoderlab.errors import DataError, SettingError

_SPLITS = ("train", "validation", "test")
_CHARACTERS_PER_BATCH = 4_000_000
_LAYOUT = "one sub-folder per label with a .txt file per example"


def split_folders(path: Path) -> dict[str, Path]:
    """Return each split's folder: those named train, validation and test inside `path`, or `path` itself as the
    training split.

    Raises DataError if there is anything else next to a split folder.
    """
    folders = {folder.name: folder for folder in _subfolders(path)}
    if not (folders.get("train") and _subfolders(folders["train"])):
        return {"train": path}
    stranger = next((name for name in folders if name not in _SPLITS), None)
    if stranger:
        raise DataError(f"{path} has a folder {stranger!r} next to its training split", allowed=", ".join(_SPLITS))
    return {name: folders[name] for name in _SPLITS if name in folders}


def read_folder(path: Path, wanted: Wanted, encoding: str, spool: Spool) -> Rows:
    """Return the texts of a folder by label and name; `encoding` is auto or that of all files.

    Raises DataError if a file is not a .txt file or is outside the label folders.
    """
    if wanted.text_pair is not None:
        raise SettingError(
            f"dataset.text_pair={wanted.text_pair} is set, but a file in a folder is one text",
            remedy="Set dataset.text_pair=null",
        )
    stray = next((entry for entry in _visible(path) if entry.suffix == ".txt"), None)
    if stray:
        raise DataError(f"{stray} is not in a label folder", allowed=_LAYOUT, remedy="Move it into one of them")
    files = [file for folder in _subfolders(path) for file in _visible(folder)]
    wrong = next((file for file in files if file.suffix != ".txt" or file.is_dir()), None)
    if wrong:
        raise DataError(f"{wrong} is not a .txt file", allowed=_LAYOUT, remedy="Rename it or remove it")
    if not files:
        table = next(
            (entry for entry in _visible(path) if entry.suffix in (".csv", ".tsv", ".jsonl", ".parquet", ".xlsx")), None
        )
        remedy = f"For the tables in it, set 'dataset.path={path}/*{table.suffix}'" if table else ""
        raise DataError(f"{path} has no examples", allowed=_LAYOUT, remedy=remedy)
    texts = ((whole_text(file, found), file.parent.name) for file, found in with_encodings(files, encoding))
    for batch in grouped(texts, lambda row: len(row[0]), _CHARACTERS_PER_BATCH):
        spool.add(
            pa.record_batch([pa.array(column, pa.string()) for column in zip(*batch, strict=True)], ["text", "label"])
        )
    table = pa.Table.from_batches(spool.finish())
    names = ["text"] if wanted.label is None else ["text", "label"]
    return Rows({name: table.column(name) for name in names}, lambda row: str(files[row]))


def _visible(folder: Path) -> list[Path]:
    return sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))


def _subfolders(folder: Path) -> list[Path]:
    return [entry for entry in _visible(folder) if entry.is_dir()]
