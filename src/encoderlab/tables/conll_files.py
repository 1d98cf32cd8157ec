"""Files of labelled words, as CoNLL's shared tasks have them: a word per line, blank lines between sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from pathlib import Path

from encoderlab.errors import DataError
from encoderlab.system.messages import say_once
from encoderlab.tables.annotation_tools import Record
from encoderlab.tables.columns import Columns
from encoderlab.tables.conll_layout import LINES_LOOKED_AT, ConllLayout, is_document_start, layout_of, tags_of_brackets
from encoderlab.tables.formats import text_lines

_ENDLESS = 200  # words of a sentence, in a file that has only one


def conll_sentences(path: Path, encoding: str, columns: Columns) -> Iterator[Record]:
    """Yield the sentences of a file: for each column that is read, a list with a cell for each word.

    Columns go by number: 0 is the first, -1 the last. Where the settings leave them open, the first lines decide (see
    conll_layout.py). Says once what is not obvious, and what was left out. Raises DataError for a line that has fewer
    or more columns than the others, or no label.
    """
    lines = text_lines(path, encoding)
    head = list(islice(lines, LINES_LOOKED_AT))
    layout = layout_of(head, columns, path)
    named = columns.by_setting()
    counts = _Counts(path)
    first = 0
    sentence: list[list[str]] = []
    for number, cells in _words(chain(head, lines), layout, counts, path):
        if sentence and (cells is None or layout.begins_sentence(cells, sentence[-1])):
            counts.sentence(len(sentence))
            yield first, {named[setting]: _column(sentence, setting, layout) for setting in layout.at}
            sentence = []
        if cells is not None:
            first = first if sentence else number
            sentence.append(cells)
    counts.say(layout)


def _column(sentence: list[list[str]], setting: str, layout: ConllLayout) -> list[str]:
    """Return the cells of a column that a setting names, labels in brackets as tags."""
    cells = [word[layout.at[setting]] for word in sentence]
    return tags_of_brackets(cells) if setting == "label" and layout.has_brackets else cells


def _words(
    lines: Iterable[str], layout: ConllLayout, counts: _Counts, path: Path
) -> Iterator[tuple[int, list[str] | None]]:
    """Yield the number of each line with a word, and its cells; None for the cells where a sentence ends."""
    ends = True  # whether a sentence has ended, and no word has followed
    header = layout.header
    number = 0
    for number, line in enumerate(lines, start=1):
        if not line.strip(" \t") or is_document_start(line):  # a no-break space or a form feed is a word
            ends = True
            yield number, None
            continue
        cells = layout.cells(line)
        if layout.is_comment(cells, begins=ends):
            counts.comment(number, is_wide=len(cells) == layout.width)
        elif layout.is_several_words(cells):
            counts.n_multiword += 1
        elif layout.is_empty_node(cells):
            counts.n_empty_nodes += 1
        elif header is not None:
            header = None  # only the first row names the columns
        else:
            _refuse_incomplete(cells, layout, path, number)
            counts.word(number, is_empty=not cells[layout.at.get("text", 0)])
            ends = False
            yield number, cells
    yield number, None


def _refuse_incomplete(cells: list[str], layout: ConllLayout, path: Path, number: int) -> None:
    """Raise DataError unless a line has all columns, and a label."""
    if len(cells) != layout.width:
        n_columns = f"{len(cells)} column{'s' * (len(cells) != 1)}"
        raise DataError(f"{path}, line {number} has {n_columns}", allowed=f"{layout.width}, like most words")
    label = layout.at.get("label")
    if label is not None and not cells[label]:
        raise DataError(
            f"{path}, line {number} has no label in column {label}", remedy="Write O for a word without one"
        )


class _Counts:
    """What was read from a file and what was left out of it, to be said when all of it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.n_sentences = 0
        self.longest = 0
        self.n_multiword = 0
        self.n_empty_nodes = 0
        self.n_empty_words = 0
        self.first_empty_word = 0
        self.n_wide_comments = 0
        self.first_wide_comment = 0

    def sentence(self, n_words: int) -> None:
        self.n_sentences += 1
        self.longest = max(self.longest, n_words)

    def comment(self, number: int, *, is_wide: bool) -> None:
        """Count a comment; one that is as wide as words may be a word, and is said."""
        if is_wide:
            self.first_wide_comment = self.first_wide_comment or number
            self.n_wide_comments += 1

    def word(self, number: int, *, is_empty: bool) -> None:
        if is_empty:
            self.first_empty_word = self.first_empty_word or number
            self.n_empty_words += 1

    def say(self, layout: ConllLayout) -> None:
        """Print a line for each thing that is not obvious."""
        notes = list(layout.notes)
        if layout.header:
            notes.append(f"the first row, {' '.join(layout.header)}, names the columns and is left out")
        if self.n_wide_comments:
            as_wide = f"{self.n_wide_comments:,} lines that begin with # have as many columns as words"
            notes.append(f"{as_wide} and are read as comments, the first at line {self.first_wide_comment}")
        if self.n_multiword or self.n_empty_nodes:
            left_out = f"{self.n_multiword:,} multiword tokens and {self.n_empty_nodes:,} empty nodes are left out"
            notes.append(f"{left_out}: syntactic words are read, while texts to predict for have surface words")
        if self.n_empty_words:
            notes.append(
                f"{self.n_empty_words:,} words are empty and are read as unknown, the first at line "
                f"{self.first_empty_word}"
            )
        if self.n_sentences == 1 and self.longest >= _ENDLESS:
            notes.append(f"no blank line ends a sentence, so all {self.longest:,} words are one")
        for note in notes:
            say_once(f"{self.path}: {note}")
