"""A user's own files as a dataset: tables, one text per line, sentences in CoNLL columns, a folder per label, or
documents.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.data.dataset import ColumnDataset
from encoderlab.data.documents import (
    Documents,
    DocumentStream,
    StreamSettings,
    document_rows,
    documents_in,
    paragraphs,
    refuse_lone_document,
    stream_of_files,
)
from encoderlab.data.examples import Split, Splits
from encoderlab.data.formats import (
    Dialect,
    Format,
    OnMissing,
    Quoting,
    absolute,
    format_of,
    paths_of,
    refuse_unknown,
    refuse_unusable,
)
from encoderlab.errors import DataError, SettingError
from encoderlab.settings import setting

if TYPE_CHECKING:
    from encoderlab.batch import TargetKind
    from encoderlab.data.columns import RawRows

_SPLITS = ("train", "validation", "test")
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
        Format.auto,
        "auto (by the name): .csv, .tsv, .jsonl, .json, .parquet, .xlsx, .txt, .conll, or a folder.",
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
        separate = [name for name in _SPLITS if getattr(self, name) is not None]
        remedy = "Set dataset.path=FILE, or dataset.train=FILE (with dataset.validation=FILE, dataset.test=FILE)"
        if self.path is not None and separate:
            raise SettingError(f"Both dataset.path and dataset.{separate[0]} are set", remedy=remedy)
        if self.path is None and self.train is None:
            only = f"only dataset.{separate[0]} is set" if separate else "neither dataset.path nor dataset.train is set"
            raise SettingError(f"dataset=files has no rows to train on: {only}", remedy=remedy)
        refuse_unusable(self.delimiter, "dataset.delimiter")
        refuse_unknown(self.encoding, "dataset.encoding")
        for name in ("path", *separate):
            if (path := getattr(self, name)) is not None:  # absolute, because a run may be reopened from any folder
                setattr(self, name, absolute(path, f"dataset.{name}"))

    @property
    def dialect(self) -> Dialect:
        """Return how the files are to be read."""
        return Dialect(self.quoting, self.delimiter, self.encoding, self.sheet)

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Splits:
        """Read the files; nothing outlasts the process in `cache_dir`, because reading a copy would take as long."""
        from encoderlab.data.columns import MissingColumnError

        self.refuse_stream()
        files = self._files(of_labels=True)
        try:
            rows = self._rows_of(files, cache_dir, target)
        except MissingColumnError as error:
            guesses = self._guessed_columns(files["train"][0], target, error)
            guessed = replace(self, **guesses)
            rows = guessed._rows_of(files, cache_dir, target)
            return replace(guessed.splits(rows, _origin(files), target=target), guessed=guesses)
        return self.splits(rows, _origin(files), target=target)

    def _guessed_columns(self, path: Path, target: TargetKind, error: DataError) -> dict[str, str]:
        """Return the columns of the file that stand for the defaults of `text` and `label` it lacks, and say so.

        Raises `error` if a column was named that is missing, another DataError if there is a doubt.
        """
        from encoderlab.data.columns import Columns, guess_label, guess_text
        from encoderlab.data.tables import read_batches

        kind = format_of(path, self.format)
        if kind in (Format.txt, Format.conll, Format.folder):
            raise error
        _, arrays = next(read_batches(path, kind, Columns((), others=None), self.dialect), (0, {}))
        cells = {name: [str(value or "") for value in array.to_pylist()] for name, array in arrays.items()}
        parts = [self.text] if isinstance(self.text, str) else self.text
        has_text = set(parts) <= set(cells)
        if not (has_text or self.text == "text") or self.label not in ("label", None, *cells):
            raise error
        guesses: dict[str, str] = {}
        if not has_text:
            texts = {name: one for name, one in cells.items() if name not in (self.text_pair, self.label)}
            guesses["text"] = guess_text(texts, str(path))
        if self.label is not None and self.label_columns is None and self.label not in cells:
            taken = (*guesses.values(), *parts, self.text_pair)
            others = {name: one for name, one in cells.items() if name not in taken}
            guesses["label"] = guess_label(others, target, str(path))
        if not guesses:
            raise error  # of another split's file
        named = [f"{setting}s are read from {name!r} (dataset.{setting})" for setting, name in guesses.items()]
        print(f"encoderlab: {path}: {', '.join(named)}", file=sys.stderr)
        return guesses

    def _rows_of(self, files: dict[str, list[Path]], cache_dir: Path, target: TargetKind) -> dict[str, RawRows]:
        """Return the rows of each split."""
        from encoderlab.data.columns import concatenated

        parts = {name: [self._rows(path, cache_dir, target) for path in paths] for name, paths in files.items()}
        return {name: concatenated(some) for name, some in parts.items()}

    def _rows(self, path: Path, cache_dir: Path, target: TargetKind = "label") -> RawRows:
        from encoderlab.data.labels import refuse_missing_labels
        from encoderlab.data.tables import read_table

        columns = replace(self.columns(target), drop=self.on_missing is OnMissing.drop)
        rows = read_table(path, format_of(path, self.format), columns, self.dialect, cache_dir)
        if self.label is not None and target == "label":
            refuse_missing_labels(rows, self.label)
        return rows

    def read_documents(self, cache_dir: Path) -> Documents:
        """Return each row as a document; with `streaming`, the run reads them during training."""
        if not self.streaming:
            return super().read_documents(cache_dir)
        self.refuse_limit(self.limit)
        files = {
            name: [file for path in paths for file in _text_files(path)]
            for name, paths in self._files(of_labels=False).items()
        }
        fractions = {name: share for name, share in self.held_out.items() if name not in files}
        documents = self._stream(files["train"], fractions).as_documents(_origin(files))
        separate = {name: self._stream(paths, {}) for name, paths in files.items() if name != "train"}
        by_name = {name: stream.as_documents({}).by_name["train"] for name, stream in separate.items()}
        return replace(documents, by_name=documents.by_name | by_name)

    def _stream(self, paths: list[Path], fractions: dict[str, float]) -> DocumentStream:
        stream = stream_of_files(paths, self._documents)
        return DocumentStream(
            stream, _fingerprints(paths), self.window, seed=self.split_seed, **dict[str, Any](fractions)
        )

    def _documents(self, path: Path) -> Iterator[list[str]]:
        """Yield the documents of a file, each as the list of its paragraphs; in a table, each row is one."""
        from encoderlab.data.tables import read_batches

        kind = format_of(path, self.format)
        if kind is Format.txt:
            yield from (document for _, document in documents_in(path, self.encoding))
            return
        columns = replace(self, label=None, label_columns=None, carry=[], group=None).columns()
        for _, arrays in read_batches(path, kind, columns, self.dialect):
            for texts in zip(*(arrays[name].to_pylist() for name in columns.texts()), strict=True):
                yield [paragraph for text in texts for paragraph in paragraphs(text)]

    def read_document_rows(self, cache_dir: Path) -> Splits:
        """Return all splits with a document in each row: .txt files hold documents, not a text per line."""
        from encoderlab.data.columns import concatenated

        files = self._files(of_labels=False)
        rows = {
            name: concatenated([self._document_rows(path, cache_dir) for path in paths])
            for name, paths in files.items()
        }
        if len(rows["train"].table) == 1:
            rows["train"] = _lines_as_documents(rows["train"])
        refuse_lone_document(len(rows["train"].table))
        return self.splits(rows, _origin(files))

    def _document_rows(self, path: Path, cache_dir: Path) -> RawRows:
        from encoderlab.data.columns import concatenated

        if format_of(path, self.format) not in (Format.txt, Format.folder):
            return self._rows(path, cache_dir)
        if self.text_pair is not None:
            raise DataError(f"{path} holds documents, which have no column dataset.text_pair={self.text_pair}")
        return concatenated([document_rows(file, self.encoding, cache_dir) for file in _text_files(path)])

    def _files(self, *, of_labels: bool) -> dict[str, list[Path]]:
        """Return the files of each split. A folder may have a sub-folder for each of them, `of_labels` or documents."""
        if self.path is None:
            named = {name: getattr(self, name) for name in _SPLITS}
            return {name: paths_of(path, f"dataset.{name}") for name, path in named.items() if path is not None}
        paths = paths_of(self.path, "dataset.path")
        if len(paths) > 1 or format_of(paths[0], self.format) is not Format.folder:
            return {"train": paths}
        folder, names = paths[0], {entry.name for entry in paths[0].iterdir() if not entry.name.startswith(".")}
        train = folder / "train"
        if not train.is_dir() or (of_labels and not any(entry.is_dir() for entry in train.iterdir())):
            return {"train": [folder]}
        if strangers := sorted(names - {*_SPLITS}):
            raise DataError(f"{folder / strangers[0]} is next to the training split", allowed=", ".join(_SPLITS))
        return {name: [folder / name] for name in _SPLITS if name in names}


def _lines_as_documents(lone: RawRows) -> RawRows:
    """Return each paragraph of the only document as one, and say so."""
    import pyarrow as pa

    paragraphs = lone.table["text"][0].as_py().split("\n")
    if len(paragraphs) > 1:
        print(
            f"encoderlab: {lone.where(0)}: no blank line follows, so each line is a document. If lines are single "
            "sentences, set task.second_sentence=none task.min_sentences=1",
            file=sys.stderr,
        )
    table = pa.table({"text": pa.array(paragraphs, pa.large_string())})
    return replace(lone, table=table, where=lambda row: f"{lone.where(0)}, paragraph {row + 1}")


def _text_files(path: Path) -> list[Path]:
    """Return the file, or all .txt files (.txt.gz, .txt.zst) in a folder, at any depth, by name.

    Raises DataError if the folder has none.
    """
    if not path.is_dir():
        return [path]
    files = sorted(one for one in path.rglob("*.txt*") if one.is_file() and not one.name.startswith("."))
    if not files:
        raise DataError(f"{path} has no .txt files", remedy="Choose a folder with some")
    return files


def _fingerprints(paths: list[Path]) -> dict[str, str]:
    """Return a fingerprint of each file, from its size and both ends, by its path in the folder that
    contains them all.
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


def read_unlabelled(
    path: Path,
    *,
    text: str | Sequence[str],
    text_pair: str | None,
    words: bool,
    dialect: Dialect | None = None,
    cache_dir: Path | None = None,
) -> Split:
    """Return the texts of a file in order, with every label unknown. Without a `cache_dir`, all of them stay in memory.

    `words` asks for sequences of words: lists of them as they are, texts split at white space. In a .txt file each line
    is a text, blank lines too, and `text` is ignored. Raises DataError as `FilesDataset.load` does, with the settings
    of `predict`.
    """
    import pyarrow as pa

    from encoderlab.data.columns import Columns, is_list
    from encoderlab.data.labels import as_split
    from encoderlab.data.tables import read_table

    kind = format_of(path)
    if kind is Format.folder:
        raise DataError(f"{path} is a folder", allowed="a file", remedy="Choose a file inside it")
    if text_pair is not None and kind in (Format.txt, Format.conll):
        allowed = "csv, tsv, jsonl or parquet, because the run was trained on pairs"
        raise DataError(f"{path} holds no pairs of texts", allowed=allowed)
    columns = Columns(text, text_pair, setting="{}_column", others=None)
    rows = read_table(path, kind, columns, dialect or Dialect(), cache_dir)
    column = rows.table["text"]
    if words and not is_list(column):
        split = [pa.array([one.split() for one in chunk.to_pylist()], pa.list_(pa.string())) for chunk in column.chunks]
        rows = replace(rows, table=pa.table({"text": pa.chunked_array(split)}))
    elif is_list(column) and not words:
        raise DataError(f"{path} holds lists of words", allowed="texts, because the run predicts for whole texts")
    return as_split(rows, None)
