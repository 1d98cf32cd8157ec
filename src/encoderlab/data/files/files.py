"""A user's own files as a dataset: tables, one text per line, sentences in CoNLL columns, a folder per label, or
documents.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.data.documents import (
    Documents,
    DocumentStream,
    StreamSettings,
    refuse_limit,
    refuse_lone_document,
    refuse_stream,
    stream_of_files,
)
from encoderlab.data.examples import Split, Splits
from encoderlab.data.files.delimiters import refuse_unusable
from encoderlab.data.files.encodings import encoding_of, refuse_unknown
from encoderlab.data.files.formats import (
    AS_IT_SHOWS,
    BINARY,
    Dialect,
    Format,
    OnMissing,
    Quoting,
    absolute,
    format_of,
    paths_of,
)
from encoderlab.data.sources.column_dataset import ColumnDataset
from encoderlab.errors import DataError, SettingError
from encoderlab.settings import setting

if TYPE_CHECKING:
    from encoderlab.batch import TargetKind
    from encoderlab.data.sources.columns import Rows, Wanted
    from encoderlab.data.spool import Spool

_END = 2**16  # bytes


@dataclass
class FilesDataset(ColumnDataset, StreamSettings):
    """Your own files: one file or folder for all splits, or one for each split."""

    # Each is a name, a pattern or a list; OmegaConf has no such union.
    path: Any = setting(
        None,
        "File or folder with all rows, or several: a pattern (data/*.csv) or a list; other splits are taken from it.",
    )
    train: Any = setting(None, "The training file, or several, if each split has its own files.")
    validation: Any = setting(None, "The validation file, or several; without it, rows are taken from training.")
    test: Any = setting(None, "The test file, or several.")
    format: Format = setting(
        Format.auto, "auto (by the name): .csv, .tsv, .jsonl, .parquet, .arrow, .xlsx, .txt, .conll, or a folder."
    )
    quoting: Quoting = setting(
        Quoting.auto, "What a double quote means in csv and tsv: auto, double (it encloses), literal."
    )
    delimiter: str = setting(
        "auto", "What separates cells in csv and tsv: auto, comma, semicolon, tab, pipe, or one character."
    )
    encoding: str = setting(
        "auto", "auto (UTF-8, UTF-16 by its byte-order mark, else Windows-1252), or a name such as latin-1."
    )
    on_missing: OnMissing = setting(
        OnMissing.error,
        "A row without a label: error (refuse the file), or drop (also rows without text; they are listed).",
    )
    sheet: str | None = setting(None, "The sheet of an Excel file; null: the one that has the columns.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_paths()
        refuse_unusable(self.delimiter, "dataset.delimiter")
        refuse_unknown(self.encoding, "dataset.encoding")
        for name in ("path", "train", "validation", "test"):
            if (path := getattr(self, name)) is not None:  # absolute, because a run may be reopened from any folder
                setattr(self, name, absolute(path, f"dataset.{name}"))

    @property
    def is_stream(self) -> bool:
        """See `DatasetConfig.is_stream`."""
        return self.streaming

    @property
    def dialect(self) -> Dialect:
        """Return how the files are to be read."""
        return Dialect(self.quoting, self.delimiter, self.encoding, self.sheet)

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Splits:
        """Read the files; nothing outlasts the process in `cache_dir`, because reading a copy would take as long."""
        from encoderlab.data.files.folders import split_folders
        from encoderlab.data.sources.whole_rows import joined
        from encoderlab.data.spool import Spool

        refuse_stream(self.streaming)
        files = self._files(split_folders)
        spool = Spool(cache_dir)
        rows = {name: joined([self._rows(path, spool, target) for path in paths]) for name, paths in files.items()}
        return self.splits(rows, _origin(files), target=target)

    def read_documents(self, cache_dir: Path) -> Documents:
        """See `ColumnDataset.read_documents`; with `streaming`, the run reads them during training."""
        from encoderlab.data.files.document_files import split_folders

        if not self.streaming:
            return super().read_documents(cache_dir)
        refuse_limit(self.limit)
        files = {name: _shard_files(paths) for name, paths in self._files(split_folders).items()}
        fractions = {"validation": self.validation_fraction, "test": self.test_fraction}
        fractions = {name: share for name, share in fractions.items() if name not in files}
        documents = self._stream(files["train"], fractions).as_documents(_origin(files))
        separate = {name: self._stream(paths, {}) for name, paths in files.items() if name != "train"}
        by_name = {name: stream.as_documents({}).by_name["train"] for name, stream in separate.items()}
        return replace(documents, by_name=documents.by_name | by_name)

    def _stream(self, paths: list[Path], fractions: dict[str, float]) -> DocumentStream:
        stream = stream_of_files(paths, self._documents)
        return DocumentStream(stream, _fingerprints(paths), self.window, seed=self.split_seed, **fractions)

    def _documents(self, path: Path) -> Iterator[list[str]]:
        from encoderlab.data.files.document_files import shard_documents

        return shard_documents(
            path,
            replace(self, label=None, label_columns=None, carry=[], group=None).wanted(),
            self.format,
            self.dialect,
        )

    def read_document_rows(self, cache_dir: Path) -> Splits:
        """See `ColumnDataset.read_document_rows`. Text files, alone or in folders, hold documents rather than a text
        per line.
        """
        from encoderlab.data.files.document_files import split_folders
        from encoderlab.data.sources.whole_rows import joined
        from encoderlab.data.spool import Spool

        files, spool = self._files(split_folders), Spool(cache_dir)
        rows = {name: joined([self._document_rows(path, spool) for path in paths]) for name, paths in files.items()}
        refuse_lone_document(len(rows["train"].columns["text"]))
        return self.splits(rows, _origin(files))

    def _document_rows(self, path: Path, spool: Spool) -> Rows:
        from encoderlab.data.files.document_files import read_document_files, text_files

        found = format_of(path, self.format)
        if found not in (Format.txt, Format.folder):
            return self._rows(path, spool)
        if self.text_pair is not None:
            raise DataError(
                f"{path} holds documents, which have no column dataset.text_pair={self.text_pair}",
                remedy="Set dataset.text_pair=null",
            )
        return read_document_files(path, text_files(path) if found is Format.folder else [path], spool, self.encoding)

    def _files(self, split_folders: Callable[[Path], dict[str, Path]]) -> dict[str, list[Path]]:
        if self.path is None:
            named = {"train": self.train, "validation": self.validation, "test": self.test}
            return {name: paths_of(given, f"dataset.{name}") for name, given in named.items() if given is not None}
        paths = paths_of(self.path, "dataset.path")
        if len(paths) > 1 or format_of(paths[0], self.format) is not Format.folder:
            return {"train": paths}
        return {name: [folder] for name, folder in split_folders(paths[0]).items()}

    def _rows(self, path: Path, spool: Spool, target: TargetKind = "label") -> Rows:
        from encoderlab.data.sources.columns import checked
        from encoderlab.data.sources.labels import refuse_missing_labels

        drop = self.on_missing is OnMissing.drop
        wanted = replace(self.wanted(target), nulls=drop)
        rows = _read(path, format_of(path, self.format), wanted, self.dialect, spool)
        rows = checked(_dropped(path, rows, wanted, spool) if drop else rows, wanted)
        if self.label is not None and target != "label_set":
            refuse_missing_labels(rows, self.label)
        return rows

    def _refuse_paths(self) -> None:
        separate = {"train": self.train, "validation": self.validation, "test": self.test}
        given = [name for name, path in separate.items() if path is not None]
        remedy = "Set dataset.path=FILE for one file, or dataset.train=FILE (with dataset.validation=FILE, dataset.test=FILE)"
        if self.path is not None and given:
            raise SettingError(f"Both dataset.path and dataset.{given[0]} are set", remedy=remedy)
        if self.path is None and self.train is None:
            only = f"only dataset.{given[0]} is set" if given else "neither dataset.path nor dataset.train is set"
            raise SettingError(f"dataset=files has no rows to train on: {only}", remedy=remedy)


def _shard_files(paths: list[Path]) -> list[Path]:
    """Return the files among `paths`, and the .txt files in the folders among them."""
    from encoderlab.data.files.document_files import text_files

    return [file for path in paths for file in (text_files(path) if path.is_dir() else [path])]


def _fingerprints(paths: list[Path]) -> dict[str, str]:
    """Return a fingerprint of each file, from its size and both ends, by its path in the folder that contains all of
    them.
    """
    folder = Path(os.path.commonpath([path.parent.absolute() for path in paths]))
    return {path.absolute().relative_to(folder).as_posix(): _fingerprint(path) for path in paths}


def _fingerprint(path: Path) -> str:
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            ends = file.read(_END)
            file.seek(max(size - _END, 0))
            return hashlib.sha256(b"%d " % size + ends + file.read(_END)).hexdigest()[:16]
    except OSError:  # the error is raised when it is read
        return "cannot be read"


def _origin(files: dict[str, list[Path]]) -> dict[str, Any]:
    names = {name: [str(path.absolute()) for path in paths] for name, paths in files.items()}
    return {"source": "files", "files": {name: paths[0] if len(paths) == 1 else paths for name, paths in names.items()}}


def _dropped(path: Path, rows: Rows, wanted: Wanted, spool: Spool) -> Rows:
    """Return the rows with text and label, and list the others on standard error. Raises DataError if none is left."""
    from encoderlab.data.sources.columns import listed
    from encoderlab.data.sources.whole_rows import without_missing

    total = len(rows.columns["text"])
    left, lacking = without_missing(rows, wanted, spool)
    n_left = len(left.columns["text"])
    if n_left < total:
        places = {
            setting: listed(rows.where(int(row)).removeprefix(f"{path}, ") for row in found)
            for setting, found in lacking.items()
        }
        reasons = "; ".join(f"{len(lacking[setting])} without {setting} ({places[setting]})" for setting in lacking)
        print(f"encoderlab: {path}: {total - n_left} of {total} rows were dropped: {reasons}", file=sys.stderr)
    if not n_left:
        raise DataError(f"{path} has no row with both text and label", remedy="Check dataset.text and dataset.label")
    return left


def read_unlabelled(
    path: Path,
    *,
    text: str,
    text_pair: str | None,
    words: bool,
    dialect: Dialect = AS_IT_SHOWS,
    cache_dir: Path | None = None,
) -> Split:
    """Return the texts of a file in order, with every label unknown. Without a `cache_dir`, all of them stay in memory.

    `words` asks for sequences of words: lists of them as they are, texts split at white space. In a .txt file each line
    is a text, blank lines too, and `text` is ignored. Raises DataError as `FilesDataset.load` does, with the settings
    of `predict`.
    """
    from encoderlab.data.sources.columns import Wanted, checked, is_words, split_into_words
    from encoderlab.data.sources.labels import as_split
    from encoderlab.data.spool import Spool

    found = format_of(path, Format.auto)
    if found is Format.folder:
        raise DataError(f"{path} is a folder", allowed="a file", remedy="Choose a file inside it")
    if text_pair is not None and found in (Format.txt, Format.conll):
        raise DataError(
            f"{path} holds no pairs of texts",
            allowed="csv, tsv, jsonl or parquet, because the run was trained on pairs",
        )
    wanted = Wanted(text, text_pair, None, typed="{}_column", others=None)
    rows = checked(_read(path, found, wanted, dialect, Spool(cache_dir)), wanted)
    if words and not is_words(rows.columns["text"]):
        rows = split_into_words(rows)
    elif is_words(rows.columns["text"]) and not words:
        raise DataError(f"{path} holds lists of words", allowed="texts, because the run predicts for whole texts")
    return as_split(rows, None)


def _read(path: Path, found: Format, wanted: Wanted, dialect: Dialect, spool: Spool) -> Rows:
    from encoderlab.data.files import columnar, conll, folders, spreadsheets, tables

    if found not in BINARY:  # each file of a folder has its own
        dialect = replace(dialect, encoding=encoding_of(path, dialect.encoding, wanted.named("encoding")))
    if found is Format.txt and wanted.label is not None and conll.holds_columns(path, dialect.encoding):
        found = Format.conll
    readers = {
        Format.csv: lambda: tables.read_separated(path, wanted, ",", dialect, spool),
        Format.tsv: lambda: tables.read_separated(path, wanted, "\t", dialect, spool),
        Format.jsonl: lambda: tables.read_jsonl(path, wanted, dialect.encoding, spool),
        Format.parquet: lambda: columnar.read_parquet(path, wanted, spool),
        Format.arrow: lambda: columnar.read_arrow(path, wanted, spool),
        Format.excel: lambda: spreadsheets.read_excel(path, wanted, dialect.sheet, spool),
        Format.txt: lambda: tables.read_txt(path, wanted, dialect.encoding, spool),
        Format.conll: lambda: conll.read_conll(path, wanted, dialect.encoding, spool),
        Format.folder: lambda: folders.read_folder(path, wanted, dialect.encoding, spool),
    }
    return readers[found]()
