"""Prose paragraphs from the docstrings in a folder of Python files: read with `ast`, never imported, always in the same
order.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import os
import re
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

READER_VERSION = 1  # part of the cache key: increase it whenever the same files would give other paragraphs

LEAST_WORDS, MOST_WORDS = 20, 200
LEAST_PLAIN = 0.7  # share of a paragraph's words that are plain words, not code, numbers or formulas
SPLIT_SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}

_LEFT_OUT_FOLDERS = {"tests", "test", "idle_test", "site-packages", "dist-packages", "__pycache__"}
_DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (ast.If, ast.Try, ast.ExceptHandler, ast.With)
_NO_PROSE = re.compile(
    r"""^(?: \s                                         # indented: code, or what belongs to a parameter, a list or a note
          | \.\.[ ] | :[a-z] | @ | [-*+•][ ] | \d+[.)][ ] # directives, field lists, lists
          | [|] | \+- | \[\d | [#<{$]                   # tables, references, markup
          | >>> | \.\.\. | [=\-~^*+`"']{3,}[ ]*$        # doctests, underlines
          | (?:Args?|Arguments|Parameters|Returns?|Yields?|Raises|Example|Examples|Attributes|Usage|See\ Also)[ ]?:
        )""",
    re.MULTILINE | re.VERBOSE,
)
_PLAIN_WORD = re.compile(r"[(\"']?[A-Za-z][a-z]*(?:['’-][a-z]+)*[.,;:!?)\"']*")
_BLANK_LINES = re.compile(r"\n\s*\n")
_CODE_SPAN = re.compile(r"`+[^`]*`+")
_LOWER_WORD = re.compile(r"\b[A-Za-z]?[a-z]+\b")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph of prose, the library it documents, and the dotted name of its module."""

    text: str
    library: str
    module: str

    @property
    def split(self) -> str:
        """Return the split of the whole module, a function of its name alone."""
        return split_of(self.module)


def python_files(root: Path, package: str = "") -> list[tuple[str, Path]]:
    """Return the dotted module name and path of every Python file under `root`, sorted by name.

    Names start with `package`. Test folders are skipped, and so are packages installed inside the standard library's
    folder.
    """
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in _LEFT_OUT_FOLDERS]
        for path in (Path(folder, file) for file in files if file.endswith(".py")):
            parts = path.relative_to(root).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            found.append((".".join(filter(None, (package, *parts))), path))
    return sorted(found)


def prose_paragraphs(source: bytes) -> list[str]:
    """Return the paragraphs of prose in the docstrings of one file's `source`, each on one line; none if it is not
    valid Python.
    """
    if b'"""' not in source and b"'''" not in source:
        return []
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(source)
    except (SyntaxError, ValueError):  # files for another version of Python, templates
        return []
    blocks = (block for docstring in _docstrings(tree) for block in _BLANK_LINES.split(docstring))
    return [" ".join(block.split()) for block in blocks if is_prose(block)]


def is_prose(block: str) -> bool:
    """Return whether a block of lines without blank lines is prose: not code, a list, table, heading, formula or
    reference.
    """
    words = block.split()
    if not LEAST_WORDS <= len(words) <= MOST_WORDS or _NO_PROSE.search(block):
        return False
    if not (words[0][0].isupper() or words[0][0] in "`\"'*(") or block.rstrip()[-1] not in ".!?:)":
        return False
    return sum(_PLAIN_WORD.fullmatch(word) is not None for word in words) >= LEAST_PLAIN * len(words)


def without_duplicates(paragraphs: Iterable[Paragraph]) -> list[Paragraph]:
    """Return the paragraphs without repetitions, in order: the first of each within a library, and none that two
    libraries share.

    Paragraphs count as the same if they differ only in code, numbers, punctuation, names with inner capitals, and case,
    as texts copied from one module to the next do.
    """
    paragraphs = list(paragraphs)
    libraries = defaultdict(set)
    first: dict[str, Paragraph] = {}
    for paragraph in paragraphs:
        words = _words(paragraph.text)
        libraries[words].add(paragraph.library)
        first.setdefault(words, paragraph)
    return [paragraph for words, paragraph in first.items() if len(libraries[words]) == 1]


def split_of(module: str) -> str:
    """Return the split of a module: a hash of its dotted name, in [0, 1), mapped to the splits' shares."""
    place = int.from_bytes(hashlib.sha256(module.encode()).digest()[:6], "big") / 2**48
    for split, share in SPLIT_SHARES.items():
        if place < share:
            return split
        place -= share
    return "test"


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Disable garbage collection: syntax trees have no cycles, and searching for them takes a fifth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _docstrings(node: ast.AST) -> Iterator[str]:
    """Yield docstrings of modules, classes and functions, in the file's order; inner functions document nothing public."""
    if isinstance(node, (ast.Module, *_DEFINITIONS)) and (docstring := ast.get_docstring(node)):
        yield docstring
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return
    for name in ("body", "handlers", "orelse", "finalbody"):
        for child in getattr(node, name, ()):
            if isinstance(child, _DEFINITIONS + _BRANCHES):
                yield from _docstrings(child)


def _words(text: str) -> str:
    return " ".join(_LOWER_WORD.findall(_CODE_SPAN.sub(" ", text))).casefold()
