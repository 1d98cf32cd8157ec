"""The built-in corpus: paragraphs of the installed libraries' documentation, labelled with the library they document."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import platform
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from encoderlab.data.documents import Documents, DocumentSplit, fingerprint
from encoderlab.data.examples import Split, Splits
from encoderlab.data.sources.dataset import DatasetConfig
from encoderlab.data.sources.docstring_reader import (
    READER_VERSION,
    SPLIT_SHARES,
    Paragraph,
    no_garbage_collection,
    prose_paragraphs,
    python_files,
    without_duplicates,
)
from encoderlab.errors import DataError
from encoderlab.system.files import atomic_write

if TYPE_CHECKING:
    import pyarrow

    from encoderlab.batch import TargetKind

STANDARD_LIBRARY = "python"
# The name it is installed under, which is its label, and the name it is imported under. Each is a direct or indirect
# dependency of encoderlab.
PACKAGES = {
    "matplotlib": "matplotlib",
    "networkx": "networkx",
    "pandas": "pandas",
    "scikit-learn": "sklearn",
    "scipy": "scipy",
    "sympy": "sympy",
    "torch": "torch",
    "transformers": "transformers",
}


@dataclass(frozen=True, slots=True)
class Library:
    """An installed library: its label, the package prefix of its modules ("" for none), its version and its folder."""

    label: str
    package: str
    version: str
    root: Path


@dataclass
class DocsDataset(DatasetConfig):
    """Which library does a paragraph of documentation belong to?

    The paragraphs are the prose in the docstrings of the libraries installed with encoderlab, and of Python's standard
    library.
        Library names stay in them, as in any text about a library. Every module is wholly in one split. The result
        depends on the installed versions, which `Splits.origin` records.
    """

    def read(self, cache_dir: Path, target: TargetKind = "label") -> Splits:
        """Read the paragraphs, from the cache or, once per set of versions, from the installed files.

        Raises DataError if fewer than two libraries are installed with their source.
        """
        libraries = installed_libraries()
        table = _cached(libraries, cache_dir)
        labels = sorted(set(table["label"].to_pylist()))
        if len(labels) < 2:
            raise DataError(
                f"dataset=docs found the documentation of {len(labels)} libraries: {', '.join(labels) or 'none'}",
                allowed="at least 2 libraries installed with their Python files",
                remedy=f"Run pip install {' '.join(PACKAGES)}",
            )
        return Splits(
            {split: _split(table, split, labels) for split in SPLIT_SHARES}, labels, _origin(libraries, table)
        )

    def read_documents(self, cache_dir: Path) -> Documents:
        """Return each module as a document, with its paragraphs in order."""
        libraries = installed_libraries()
        table = _cached(libraries, cache_dir)
        by_name = {split: self._modules(table, split, _key(libraries)) for split in SPLIT_SHARES}
        return Documents(by_name, _origin(libraries, table))

    def _modules(self, table: pyarrow.Table, split: str, key: str) -> DocumentSplit:
        import pyarrow.compute

        rows = table.filter(pyarrow.compute.equal(table["split"], split))
        names = list(zip(rows["label"].to_pylist(), rows["module"].to_pylist(), strict=True))
        # Paragraphs of a module are adjacent, so a module begins where the name changes.
        starts = [row for row, name in enumerate(names) if row == 0 or names[row - 1] != name]
        chosen = self.evenly(len(starts))
        texts = rows["text"].combine_chunks()

        def read() -> Iterator[list[str]]:
            ends = [*starts[1:], len(texts)]
            return (texts[starts[module] : ends[module]].to_pylist() for module in chosen)

        return DocumentSplit(read, len(chosen), fingerprint(f"{key} {split} {chosen.tolist()}".encode()))


def installed_libraries() -> list[Library]:
    """Return the standard library and those of `PACKAGES` that are installed, sorted by label; nothing is imported."""
    found = [Library(STANDARD_LIBRARY, "", platform.python_version(), Path(sysconfig.get_path("stdlib")))]
    for label, package in PACKAGES.items():
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.submodule_search_locations:
            found.append(Library(label, package, metadata.version(label), Path(spec.submodule_search_locations[0])))
    return sorted(found, key=lambda library: library.label)


def read_corpus(libraries: list[Library]) -> list[Paragraph]:
    """Return all paragraphs of prose that document `libraries`, none twice, sorted by library, module and position.

    Prints a progress bar on standard error, or one line if that is not a terminal.
    """
    from tqdm import tqdm

    if not sys.stderr.isatty():
        print(f"Reading the docstrings of {len(libraries)} libraries: first use, about half a minute", file=sys.stderr)
    files = [(library.label, *file) for library in libraries for file in python_files(library.root, library.package)]
    paragraphs = []
    with no_garbage_collection():
        for label, module, path in tqdm(
            files, desc="Reading docstrings (first use)", unit=" files", disable=None, leave=False
        ):
            paragraphs += [Paragraph(text, label, module) for text in prose_paragraphs(path.read_bytes())]
    return without_duplicates(paragraphs)


def _cached(libraries: list[Library], cache_dir: Path) -> pyarrow.Table:
    import pyarrow.parquet

    path = cache_dir / "docs" / f"{_key(libraries)}.parquet"
    if path.exists():
        return pyarrow.parquet.read_table(path)
    names = {"text": "text", "label": "library", "module": "module", "split": "split"}
    paragraphs = read_corpus(libraries)
    table = pyarrow.table(
        {column: pyarrow.array([getattr(p, name) for p in paragraphs], "string") for column, name in names.items()}
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        pyarrow.parquet.write_table(table, temporary)
    return table


def _key(libraries: list[Library]) -> str:
    made_from = [READER_VERSION, [(library.label, library.version) for library in libraries]]
    return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:16]


def _split(table: pyarrow.Table, split: str, labels: list[str]) -> Split:
    import pyarrow.compute

    rows = table.filter(pyarrow.compute.equal(table["split"], split))
    ids = [labels.index(label) for label in rows["label"].to_pylist()]
    return Split(pyarrow.table({"text": rows["text"], "label": ids}))


def _origin(libraries: list[Library], table: pyarrow.Table) -> dict[str, Any]:
    counts = Counter(zip(table["label"].to_pylist(), table["split"].to_pylist(), strict=True))
    return {
        "source": "docstrings of the installed libraries",
        "reader_version": READER_VERSION,
        "versions": {library.label: library.version for library in libraries},
        "paragraphs": {
            library.label: {split: counts[library.label, split] for split in SPLIT_SHARES} for library in libraries
        },
        "words": sum(len(text.split()) for text in table["text"].to_pylist()),
    }
