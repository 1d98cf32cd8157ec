"""A user's own files as a dataset: tables, texts by line, sentences in CoNLL columns, a folder per label; or documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.data.documents import refuse_lone_document
from encoderlab.data.examples import Split, Splits
from encoderlab.data.files.formats import Format, Quoting, format_of
from encoderlab.data.sources.column_dataset import ColumnDataset
from encoderlab.errors import DataError, SettingError
from encoderlab.settings import setting

if TYPE_CHECKING:
    from encoderlab.batch import TargetKind
    from encoderlab.data.sources.columns import Rows, Wanted


@dataclass
class FilesDataset(ColumnDataset):
    """Rows of the user's own files: one file or folder for all, or one for each split."""

    path: str | None = setting(None, "One file (or folder) with all rows; validation and test are taken from it.")
    train: str | None = setting(None, "The training file, where each split has its own.")
    validation: str | None = setting(None, "The validation file; without it, rows are taken from training.")
    test: str | None = setting(None, "The test file.")
    format: Format = setting(Format.auto, "auto goes by the name's end: .csv, .tsv, .jsonl, .parquet, .txt, .conll, or a folder.")
    quoting: Quoting = setting(Quoting.auto, "What a double quote means in csv and tsv: auto, double (it encloses), literal.")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_paths()
        for name in ("path", "train", "validation", "test"):
            if (path := getattr(self, name)) is not None:  # absolute, for a run is opened again from any folder
                setattr(self, name, str(Path(path).expanduser().absolute()))

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Splits:
        """Read the files; nothing is kept in `cache_dir`, for reading a copy would take as long."""
        from encoderlab.data.files.folders import split_folders

        files = self._files(split_folders)
        rows = {name: self._rows(path, target) for name, path in files.items()}
        return self.splits(rows, self._origin(files), target=target)

    def read_document_rows(self, cache_dir: Path) -> Splits:
        """See `ColumnDataset.read_document_rows`; .txt files, alone or in folders, hold documents and not a text per line."""
        from encoderlab.data.files.document_files import split_folders

        files = self._files(split_folders)
        rows = {name: self._document_rows(path, cache_dir) for name, path in files.items()}
        refuse_lone_document(len(rows["train"].columns["text"]))
        return self.splits(rows, self._origin(files))

    def _document_rows(self, path: Path, cache_dir: Path) -> Rows:
        from encoderlab.data.files.document_files import read_document_files, text_files

        found = format_of(path, self.format)
        if found not in (Format.txt, Format.folder):
            return self._rows(path)
        if self.text_pair is not None:
            raise DataError(
                f"{path} holds documents, but dataset.text_pair={self.text_pair} is asked for", remedy="Set dataset.text_pair=null"
            )
        return read_document_files(path, text_files(path) if found is Format.folder else [path], cache_dir)

    def _files(self, split_folders: Callable[[Path], dict[str, Path]]) -> dict[str, Path]:
        if self.path is None:
            named = {"train": self.train, "validation": self.validation, "test": self.test}
            return {name: _seen_from_here(path) for name, path in named.items() if path is not None}
        path = _seen_from_here(self.path)
        return split_folders(path) if format_of(path, self.format) is Format.folder else {"train": path}

    def _origin(self, files: dict[str, Path]) -> dict[str, Any]:
        return {"source": "files", "files": {name: str(path.absolute()) for name, path in files.items()}}

    def _rows(self, path: Path, target: TargetKind = "label") -> Rows:
        from encoderlab.data.sources.labels import refuse_missing_labels

        rows = _read(path, format_of(path, self.format), self.wanted(target), self.quoting)
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


def _seen_from_here(path: str) -> Path:
    """The path relative to the working folder where it lies inside, so that messages are short."""
    absolute, here = Path(path), Path.cwd()
    return absolute.relative_to(here) if absolute.is_relative_to(here) else absolute


def read_unlabelled(path: Path, *, text: str, text_pair: str | None, words: bool, quoting: Quoting = Quoting.auto) -> Split:
    """The texts of a file in its order, every label unknown.

    `words` asks for sequences of words: lists of them as they are, texts split at white space. In a .txt file each line is a text,
    blank lines too, and `text` names nothing. Raises DataError as `FilesDataset.load` does, with the settings of `predict`.
    """
    from encoderlab.data.sources.columns import Wanted, is_words, split_into_words
    from encoderlab.data.sources.labels import as_split

    found = format_of(path, Format.auto)
    if found is Format.folder:
        raise DataError(f"{path} is a folder", allowed="a file", remedy="Name a file inside it")
    if text_pair is not None and found in (Format.txt, Format.conll):
        raise DataError(f"{path} holds no pairs of texts", allowed="csv, tsv, jsonl or parquet, for the run answers for pairs")
    rows = _read(path, found, Wanted(text, text_pair, None, typed="{}_column"), quoting)
    if words and not is_words(rows.columns["text"]):
        rows = split_into_words(rows)
    elif is_words(rows.columns["text"]) and not words:
        raise DataError(f"{path} holds lists of words", allowed="texts, for the run answers for whole texts")
    return as_split(rows, None)


def _read(path: Path, found: Format, wanted: Wanted, quoting: Quoting) -> Rows:
    from encoderlab.data.files import conll, folders, tables
    from encoderlab.data.sources.columns import checked

    readers = {
        Format.csv: lambda: tables.read_separated(path, wanted, ",", quoting),
        Format.tsv: lambda: tables.read_separated(path, wanted, "\t", quoting),
        Format.jsonl: lambda: tables.read_jsonl(path, wanted),
        Format.parquet: lambda: tables.read_parquet(path, wanted),
        Format.txt: lambda: tables.read_txt(path, wanted),
        Format.conll: lambda: conll.read_conll(path, wanted),
        Format.folder: lambda: folders.read_folder(path, wanted),
    }
    return checked(readers[found](), wanted)
