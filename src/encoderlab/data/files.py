"""A user's own files as a dataset: tables, one text per line, CoNLL columns, a folder per label, or documents."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.data.data import Data
from encoderlab.data.dataset import MAIN_SPLITS, ColumnDataset, DatasetConfig
from encoderlab.data.documents import Documents, DocumentStream, StreamSettings, paragraphs, stream_of_files
from encoderlab.data.examples import Split
from encoderlab.errors import DataError, SettingError
from encoderlab.settings import setting, typed, typed_list
from encoderlab.system.messages import say, say_once
from encoderlab.tables import formats
from encoderlab.tables.formats import Dialect, Format, OnMissing, Quoting, format_of, saved_splits
from encoderlab.tables.markup import without_html
from encoderlab.tables.remote import is_url, source_of, without_query

if TYPE_CHECKING:
    from encoderlab.network.config import TargetKind
    from encoderlab.tables.columns import Columns
    from encoderlab.tables.raw_rows import RawRows

_END = 2**16  # bytes
_ROWS_LOOKED_AT = 200  # to tell texts from other columns


@dataclass
class FilesDataset(ColumnDataset, StreamSettings):
    """Your own files: one file or folder for all splits, or one for each split."""

    # Each is a name, a pattern or a list; OmegaConf has no such union.
    path: Any = setting(
        None,
        "File, folder or URL with all rows, or several: a pattern (data/*.csv) or a list; other splits come from it.",
    )
    train: Any = setting(None, "The training file, or several, if each split has its own files.")
    validation: Any = setting(None, "The validation file, or several; without it, rows are taken from training.")
    test: Any = setting(None, "The test file, or several.")
    format: Format = setting(
        Format.auto,
        "auto (by the name): .csv, .tsv, .jsonl, .json, .parquet, .xlsx, .ods, .arrow, .txt, .conll, .ris, .sav, .dta, "
        "a folder.",
    )
    quoting: Quoting = setting(
        Quoting.auto,
        "What a double quote means in csv and tsv: auto (by the file), double (it encloses; inside it is doubled), "
        "backslash (inside it follows a backslash), literal.",
    )
    header: str = setting(
        "auto",
        "The row of a csv file or a sheet with the names of the columns: auto (by the first rows), a number, or none.",
    )
    encoding: str = setting(
        "auto", "auto (UTF-8, UTF-16 by its byte-order mark, else Windows-1252), or a name such as latin-1."
    )
    on_missing: OnMissing = setting(
        OnMissing.leave,
        "A training row without a label: leave (train on the others, and say how many it left), error (refuse the "
        "file), drop (also rows without text; they are listed), or keep (for task=contrastive, which reads them too).",
    )
    sheet: str | None = setting(None, "The sheet of an Excel file; null: the only one with the columns.")

    def __post_init__(self) -> None:
        super().__post_init__()
        separate = [name for name in MAIN_SPLITS if getattr(self, name) is not None]
        remedy = "Set dataset.path=FILE, or dataset.train=FILE (with dataset.validation=FILE, dataset.test=FILE)"
        if self.path is not None and separate:
            raise SettingError(f"Both dataset.path and dataset.{separate[0]} are set", remedy=remedy)
        if self.path is None and self.train is None:
            only = f"only dataset.{separate[0]} is set" if separate else "neither dataset.path nor dataset.train is set"
            raise SettingError(f"dataset=files has no rows to train on: {only}", remedy=remedy)
        formats.refuse_unknown(self.encoding, "dataset.encoding")
        formats.refuse_other_headers(self.header, "dataset.header")
        for name in ("path", *separate):
            path = getattr(self, name)
            if path is not None:  # absolute, because a run may be reopened from any folder
                setattr(self, name, formats.absolute(path, f"dataset.{name}"))

    @property
    def dialect(self) -> Dialect:
        """Return how the files are to be read."""
        return Dialect(self.quoting, self.encoding, self.sheet, self.header)

    @property
    def is_stream(self) -> bool:
        return self.streaming

    @property
    def first_file(self) -> str | None:
        files = self.path or self.train
        first = files if isinstance(files, str) else next(iter(files or []), None)
        return first if first is None or not is_url(first) else without_query(first)

    @property
    def drops_missing(self) -> bool:
        return self.on_missing is OnMissing.drop

    def as_one_file(self, trained: DatasetConfig | None, labels: list[str] | None) -> FilesDataset | None:
        """Return the settings of the file with the sheet and without the markup that a model was trained on."""
        if not self.path:
            return None
        strip_html = self.strip_html or (isinstance(trained, ColumnDataset) and trained.strip_html)
        as_trained: dict[str, Any] = {}
        if isinstance(trained, ColumnDataset):  # what labels mean is as in training, unless it is set
            for name in ("no_answer", "label_separator"):
                as_trained[name] = getattr(self, name) if getattr(self, name) is not None else getattr(trained, name)
        if isinstance(trained, FilesDataset):
            as_trained["sheet"] = self.sheet or trained.sheet
            as_trained["quoting"] = self.dialect.completed_by(trained.dialect).quoting
        label_names: Any = labels
        named = [one.label_names for one in (self, trained) if isinstance(one, ColumnDataset)]
        mapping = next((names for names in named if isinstance(names, dict)), None)
        if labels and mapping:  # from what the file has to the model's labels, which it may have too
            label_names = {label: label for label in labels} | mapping
        return replace(
            self,
            **as_trained,
            strip_html=strip_html,
            validation_fraction=0.0,
            test_fraction=0.0,
            label_names=label_names,
        )

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Data:
        """Read the files; of them only copies of URLs outlast the process in `cache_dir`."""
        from encoderlab.data.guesses import guessed_columns
        from encoderlab.data.labels import labelled_rows
        from encoderlab.tables.columns import MissingColumnError

        files = self._files(cache_dir, labelled=True)
        if target == "words" and self.format is Format.auto and self._has_word_per_line(files["train"]):
            data = replace(self, format=Format.conll).read(cache_dir, target)
            return replace(data, decided=data.decided | {"format": Format.conll})

        def read_with(decided: dict[str, str]) -> tuple[FilesDataset, dict[str, RawRows]]:
            dataset = replace(self, **decided)
            return dataset, dataset._rows_of(files, dataset.columns(target), cache_dir)

        try:
            decided = self._decided_sheet(files, self.columns(target))
            dataset, rows = read_with(decided)
        except MissingColumnError as error:
            first = files["train"][0]
            decided = guessed_columns(self, first, format_of(first, self.format), target, error)
            dataset, rows = read_with(decided)
        if self.text == "text" and self.text_pair is None and target != "words":
            _name_texts_not_read(rows["train"], dataset.text, files["train"][0])
        origin = _origin(files)
        left_out = None
        if dataset._leaves_unlabelled(target):
            rows["train"], left_out = labelled_rows(rows["train"], str(dataset.label))
            origin |= {"rows_without_label": len(left_out)} if left_out else {}
        data = dataset.build_splits(rows, origin, target=target, decided=decided)
        data.unlabelled = left_out
        data.origin["reading"] = dataset._reading(
            files["train"][0], rows["train"], target, data.origin.get("reading", {})
        )
        return data

    def _reading(self, path: Path, rows: RawRows, target: TargetKind, labels: dict[str, Any]) -> dict[str, Any]:
        """Return how the first training file is read, given what its `labels` decided."""
        from encoderlab.tables.columns import CARRIED
        from encoderlab.tables.reading import reading_of

        carried = [name.removeprefix(CARRIED) for name in rows.table.column_names if name.startswith(CARRIED)]
        decided = labels | {"no_answer": self.no_answer or []}
        kind = format_of(path, self.format)
        return reading_of(path, kind, self.columns(target), self.dialect, carried, decided).as_json()

    def _has_word_per_line(self, paths: list[Path]) -> bool:
        """Return whether files are CoNLL's by another name, such as .tsv, and say so. DataError for those of brat."""
        from encoderlab.tables.foreign_files import refuse_brat
        from encoderlab.tables.word_files import has_word_per_line

        for path in paths:
            refuse_brat(path)
            if not has_word_per_line(path, format_of(path, self.format), self.encoding):
                return False
        say(f"{paths[0]} has a word in each line and is read as CoNLL's columns (dataset.format=conll)")
        return True

    def _leaves_unlabelled(self, target: TargetKind) -> bool:
        """Return whether training rows without a label are left out; of a set of labels, none may apply."""
        return self.on_missing is OnMissing.leave and self.label is not None and target in ("label", "number")

    def _decided_sheet(self, files: dict[str, list[Path]], columns: Columns) -> dict[str, str]:
        """Return the sheet to read, and say so, if a workbook has several and one that all files share has the columns.

        Raises DataError if several sheets of a workbook have them, MissingColumnError if none has.
        """
        from encoderlab.tables.workbooks import quoted, sheet_names, sheet_of

        titles = []
        others: list[str] = []
        for path in [path for paths in files.values() for path in paths]:
            if self.sheet is None and format_of(path, self.format) is Format.excel:
                names = sheet_names(path)
                title = names[0] if len(names) == 1 else sheet_of(path, None, columns)
                titles.append(title)
                others += [name for name in names if name != title]
        if not others or len({*titles}) > 1:
            return {}
        read = f"the sheet {titles[0]!r} is read (dataset.sheet), and not {quoted(dict.fromkeys(others))}"
        say(f"{files['train'][0]}: {read}")
        return {"sheet": titles[0]}

    def _rows_of(self, files: dict[str, list[Path]], columns: Columns, cache_dir: Path) -> dict[str, RawRows]:
        """Return the rows of each split. Raises DataError if one has no label, but is to have one."""
        from encoderlab.data.labels import refuse_missing_labels, with_unknown_labels
        from encoderlab.tables.columns import MissingColumnError
        from encoderlab.tables.label_columns import without_codes, without_labels
        from encoderlab.tables.raw_rows import concatenated
        from encoderlab.tables.readers import read_table

        by_name = {}
        for name, paths in files.items():
            parts = []
            for path in paths:
                try:
                    rows = read_table(path, format_of(path, self.format), columns, self.dialect, cache_dir)
                except MissingColumnError as error:
                    if name == "train" or error.setting != "label":
                        raise
                    raise without_labels(error.wrong, name) from error
                parts.append(without_codes(rows, self.no_answer or ()))
            may_lack = name == "train" and self._leaves_unlabelled(columns.target)
            if columns.label is not None and columns.target in ("label", "words") and not may_lack:
                for part in parts:
                    if self.on_missing is not OnMissing.keep:
                        refuse_missing_labels(part, columns.label)
            by_name[name] = concatenated(parts)
            if columns.label is not None and self.on_missing is OnMissing.keep:
                by_name[name] = with_unknown_labels(by_name[name])
        return by_name

    def read_documents(self, cache_dir: Path) -> Documents:
        """Return each row as a document; with `streaming`, the run reads them during training."""
        if not self.streaming:
            return super().read_documents(cache_dir)
        files = self._files(cache_dir, labelled=False)
        fractions = {name: share for name, share in self.held_out.items() if name not in files}
        streamed: dict[str, Documents] = {}
        for name, paths in files.items():
            for path in paths:
                format_of(path, self.format)  # refuses what is missing or unknown before the run begins
            held_out = dict[str, Any](fractions if name == "train" else {})
            source = stream_of_files(paths, self._documents)
            stream = DocumentStream(source, _fingerprints(paths), self.window, seed=self.split_seed, **held_out)
            streamed[name] = stream.as_documents(_origin(files))
        separate = {name: documents.by_name["train"] for name, documents in streamed.items()}
        train = streamed["train"]
        return replace(train, by_name=separate | train.by_name)

    def _documents(self, path: Path) -> Iterator[list[str]]:
        """Yield the documents of a file, each as the list of its paragraphs; in a table, each row is one."""
        from encoderlab.tables.readers import read_batches

        columns = self._document_columns(others=False)
        for _, arrays in read_batches(path, format_of(path, self.format), columns, self.dialect):
            for texts in zip(*(arrays[name].to_pylist() for name in columns.texts()), strict=True):
                shown = map(without_html, texts) if self.strip_html else texts
                yield [paragraph for text in shown for paragraph in paragraphs(text)]

    def read_document_rows(self, cache_dir: Path) -> Data:
        """Return all splits with a document in each row: .txt files hold documents, not a text per line."""
        files = self._files(cache_dir, labelled=False)
        others = self.group is not None
        rows = self._rows_of(files, self._document_columns(others=others), cache_dir)
        if len(rows["train"].table) == 1 and format_of(files["train"][0], self.format) is Format.txt:
            note = f"{files['train'][0]}: no blank line ends a document, so each line is one"
            say(f"{note}. For single sentences set task.second_sentence=none task.min_sentences=1")
            by_line = self._document_columns(others=others, one_per_line=True)
            rows |= self._rows_of({"train": files["train"]}, by_line, cache_dir)
        return self.build_splits(rows, _origin(files))

    def _document_columns(self, *, others: bool, one_per_line: bool = False) -> Columns:
        from encoderlab.tables.columns import Columns

        return Columns(
            self.text,
            self.text_pair,
            others=others,
            drop=self.drops_missing or one_per_line,
            strip_html=self.strip_html,
            documents=not one_per_line,
        )

    def _files(self, cache_dir: Path, *, labelled: bool) -> dict[str, list[Path]]:
        """Return the files of each split; for documents, those within folders.

        A folder may have a sub-folder for each split, with one for each label if the files are `labelled`.
        """
        if self.path is None:
            named = [name for name in MAIN_SPLITS if getattr(self, name) is not None]
            files = {name: formats.paths_of(getattr(self, name), f"dataset.{name}", cache_dir) for name in named}
        else:
            files = {"train": formats.paths_of(self.path, "dataset.path", cache_dir)}
            folder = files["train"][0]
            train = folder / "train"
            saved = saved_splits(folder) if folder.is_dir() else []
            if saved:
                files = _files_of_saved(folder, saved)
            elif train.is_dir() and (not labelled or any(entry.is_dir() for entry in train.iterdir())):
                names = {entry.name for entry in folder.iterdir() if not entry.name.startswith(".")}
                others = sorted(names - {*MAIN_SPLITS})
                if others:
                    problem = f"{folder / others[0]} is next to the training split"
                    raise DataError(problem, allowed=", ".join(MAIN_SPLITS))
                files = {name: [folder / name] for name in MAIN_SPLITS if name in names}
        if labelled:
            return files

        # Documents are the .txt files within folders, however deep.
        for name, paths in files.items():
            within: list[Path] = []
            for path in paths:
                is_folder = format_of(path, self.format) is Format.folder
                within += sorted(path.rglob("[!.]*.txt*")) if is_folder else [path]
            if not within:
                raise DataError(f"{paths[0]} has no .txt files", remedy="Choose a folder with some")
            files[name] = within
        return files


def _files_of_saved(folder: Path, splits: Sequence[str]) -> dict[str, list[Path]]:
    """Return the folder of each split of a saved DatasetDict, and say which are not read. DataError without train."""
    others = [name for name in splits if name not in MAIN_SPLITS]
    if "train" not in splits:
        remedy = f"Set dataset.train={folder / splits[0]}"
        raise DataError(f"{folder} has no split train", allowed=", ".join(splits), remedy=remedy)
    if others:
        say_once(f"{folder}: the splits {', '.join(others)} are not read")
    return {name: [folder / name] for name in MAIN_SPLITS if name in splits}


def _name_texts_not_read(rows: RawRows, text: str, path: Path) -> None:
    """Say on standard error which other columns hold texts, and how they are read."""
    from encoderlab.data.guesses import as_cell
    from encoderlab.tables.columns import CARRIED, texts_not_read

    head = rows.table.slice(0, _ROWS_LOOKED_AT)
    columns = {}
    for name in head.column_names:
        if name.startswith(CARRIED):
            cells = head[name].to_pylist()
            columns[name.removeprefix(CARRIED)] = ["" if cell is None else as_cell(cell) for cell in cells]
    others = [name for name in texts_not_read(columns) if not text.startswith(f"{name}.")]  # the object around it
    if not others:
        return
    pair = typed("dataset.text_pair", others[0])
    joined = shlex.quote(f"dataset.text={typed_list([text, *others])}")
    left_out = f"{', '.join(map(repr, others))} {'is' if len(others) == 1 else 'are'} not read"
    say(f"{path}: {left_out}. Set {pair} for pairs of texts, {joined} to join them")


def _fingerprints(paths: list[Path]) -> dict[str, str]:
    """Return a fingerprint of each file, from its size and both ends, by its path in the folder of them all."""
    folder = Path(os.path.commonpath([path.parent.absolute() for path in paths]))
    fingerprints = {}
    for path in paths:
        stated = path / "state.json" if path.is_dir() else path  # a saved dataset has its own fingerprint there
        size = stated.stat().st_size
        digest = hashlib.sha256()
        with stated.open("rb") as file:
            for start in (0, max(size - _END, 0)):
                file.seek(start)
                digest.update(b"%d " % size + file.read(_END))
        fingerprints[path.absolute().relative_to(folder).as_posix()] = digest.hexdigest()[:16]
    return fingerprints


def _origin(files: dict[str, list[Path]]) -> dict[str, Any]:
    names = {name: [source_of(path) for path in paths] for name, paths in files.items()}
    return {"source": "files", "files": {name: paths[0] if len(paths) == 1 else paths for name, paths in names.items()}}


def format_of_texts(path: Path, encoding: str, *, words: bool) -> Format:
    """Return the format of a file of new texts, CoNLL's if its `words` stand in a line each, which is said."""
    from encoderlab.tables.word_files import has_word_per_line

    kind = format_of(path)
    if words and has_word_per_line(path, kind, encoding):
        say_once(f"{path} has a word in each line and is read as CoNLL's columns")
        return Format.conll
    return kind


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
    is a text, blank lines too. Raises DataError that names the settings of `predict`.
    """
    from encoderlab.data.labels import as_split
    from encoderlab.tables.columns import Columns
    from encoderlab.tables.raw_rows import is_list
    from encoderlab.tables.readers import read_table

    dialect = dialect or Dialect()
    kind = format_of_texts(path, dialect.encoding, words=words)
    if kind is Format.folder or (text_pair is not None and kind in (Format.txt, Format.conll)):
        allowed = "a table with a column for each text" if text_pair else "a file"
        raise DataError(f"{path} holds no {'pairs of ' if text_pair else ''}texts", allowed=allowed)
    columns = Columns(text, text_pair, setting="{}_column", target="words" if words else "label", others=True)
    rows = read_table(path, kind, columns, dialect, cache_dir)
    if is_list(rows.table["text"]) and not words:
        raise DataError(f"{path} holds lists of words", allowed="texts, because the run predicts for whole texts")
    return as_split(rows, None)
