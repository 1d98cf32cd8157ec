"""How the lines of a CoNLL file are read, decided once from its first ones: comments, columns, words and labels.

The shared tasks, and the programs that write their format, agree on little more than a word per line. CoNLL-2003 has
the word first and its label last; GermEval 2014 and CoNLL-U count the words of a sentence in a column before them;
MultiCoNER's comments have as many fields as its words; brat's converter writes the label first. CoNLL-2012 (OntoNotes)
encloses entities in brackets: (GPE* and *) for two words, (PERSON) for one, * outside.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from encoderlab.errors import DataError
from encoderlab.tables.columns import Columns, listed

LINES_LOOKED_AT = 5000
_DOCSTART = "-DOCSTART-"  # begins a document in CoNLL-2003; its other fields mean nothing
_RANGE = re.compile(r"[0-9]+[-.][0-9]+")  # in CoNLL-U: a token of several words (1-2), or an empty node (2.1)
_CONLLU = 10  # columns
_CONLLU_LABELS = {3: "UPOS", 4: "XPOS", 7: "DEPREL"}
_INDEX_PLACES = 3  # an index stands in one of the first columns; in CoNLL-2012 it is the third
_MANY_LABELS = 10  # more labels than that, and more than words, are probably the words
_HEADER = frozenset(
    "word words token tokens form text lemma tag tags label labels ner ner_tag ner_tags pos pos_tag upos xpos chunk "  # noqa: SIM905
    "iob bio id index entity".split()
)
_TAG = re.compile(r"[BIESLUMW]-.+|O", re.DOTALL)
_BRACKETS = re.compile(r"\*\)?|\([^()*\s]+(\*|\))|\([^()*\s]+\*\)")
_CONLL_2012 = 12  # columns, or more: one for each verb is between that of entities and the last
_ENTITIES_OF_2012 = 10

Sentence = list[list[str]]  # the cells of each word


@dataclass(frozen=True)
class ConllLayout:
    """How the lines of a CoNLL file are read.

    `separator` is a tab, or None for any blanks; `width` is how many columns a word has, and `index` the one that
    counts the words of a sentence. `header` names columns in the first row, and `comments` are the first fields of
    lines that are comments although they have as many columns as words. `labels` are those of the first words, which
    may be entities in brackets.
    """

    separator: str | None
    width: int
    index: int | None
    at: dict[str, int]  # the column that each setting names
    header: list[str] | None = None
    comments: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)

    def cells(self, line: str) -> list[str]:
        """Return the cells of a line; empty ones at its end count only up to the width."""
        cells = _cells(line, self.separator)
        while len(cells) > self.width and not cells[-1]:
            cells.pop()
        return cells

    def is_comment(self, cells: Sequence[str], *, begins: bool) -> bool:
        """Return whether the cells are those of a comment; `begins` tells that no word of the sentence is before it."""
        if not cells[0].startswith("#"):
            return False
        if len(cells) != self.width or self.index == 0:
            return True
        label = cells[self.at.get("label", self.width - 1)]
        is_label = label in self.labels or (_has_prefixes(self.labels) and bool(_TAG.fullmatch(label)))
        return begins and cells[0] in self.comments and not is_label

    @property
    def has_brackets(self) -> bool:
        """Return whether labels enclose entities in brackets."""
        return are_brackets(self.labels)

    def is_several_words(self, cells: Sequence[str]) -> bool:
        """Return whether the cells are a multiword token of CoNLL-U, whose words follow."""
        return self.has_ranges and "-" in cells[0] and bool(_RANGE.fullmatch(cells[0]))

    def is_empty_node(self, cells: Sequence[str]) -> bool:
        """Return whether the cells are an empty node of CoNLL-U, a word that is not in the text."""
        return self.has_ranges and "." in cells[0] and bool(_RANGE.fullmatch(cells[0]))

    @property
    def has_ranges(self) -> bool:
        return self.index == 0 or self.width == _CONLLU

    def begins_sentence(self, cells: Sequence[str], before: Sequence[str]) -> bool:
        """Return whether the index of words begins again after the word `before`."""
        if self.index is None or cells[self.index] not in ("0", "1"):
            return False
        return before[self.index] != "0" or cells[self.index] == "0"


def are_brackets(labels: Collection[str]) -> bool:
    """Return whether labels are those of CoNLL-2012, which enclose entities in brackets."""
    return "*" in labels and all(map(_BRACKETS.fullmatch, labels))


def tags_of_brackets(labels: Sequence[str]) -> list[str]:
    """Return a BIO tag for each word of a sentence.

    >>> tags_of_brackets(["(PERSON)", "*", "(GPE*", "*)"])
    ['B-PERSON', 'O', 'B-GPE', 'I-GPE']
    """
    tags = []
    kind = ""
    for label in labels:
        begins = label.startswith("(")
        kind = label.strip("()*") if begins else kind
        tags.append(f"{'B' if begins else 'I'}-{kind}" if kind else "O")
        kind = "" if label.endswith(")") else kind
    return tags


def is_document_start(line: str) -> bool:
    """Return whether a line begins a document, and is no word."""
    return _DOCSTART in line and _DOCSTART in line.split()[:2]  # an index may be before it


def layout_of(lines: Sequence[str], columns: Columns, path: Path) -> ConllLayout:
    """Return how a file with these first `lines` is read.

    Raises DataError if it has no column that a setting names, or if the columns of words and labels cannot be told
    apart and the settings do not name them.
    """
    filled = [line for line in lines if line.strip(" \t")]
    words = [line for line in filled if not line.startswith("#") and not is_document_start(line)] or filled
    separator, width = _separator_and_width(words)
    sentences = _sentences(lines, separator, width)
    header = _header(sentences)
    if header:
        sentences[0] = sentences[0][1:]
        sentences = [sentence for sentence in sentences if sentence]

    # Which columns are read.
    wants_label = "label" in columns.by_setting()
    index = _index_of(sentences, width, least=3 if wants_label else 2)
    at, notes = _places(columns, sentences, width, index, path)

    # Which lines are comments, although they have as many columns as the words.
    label = at.get("label", width - 1)
    labels = frozenset(cells[label] for sentence in sentences for cells in sentence)
    comments = _comments(lines, separator, width)
    return ConllLayout(separator, width, index, at, header, comments, labels, notes)


def _cells(line: str, separator: str | None) -> list[str]:
    if separator:
        return [cell.strip(" ") for cell in line.split(separator)]
    return re.split(r"[ \t]+", line.strip(" \t"))  # other white space, such as a no-break space, may be a word


def _separator_and_width(words: Sequence[str]) -> tuple[str | None, int]:
    """Return what separates the columns of most lines, and how many columns most of them have."""
    found: dict[str | None, tuple[int, int]] = {}
    for separator in ("\t", None):
        counts = Counter(len(_without_empty_end(_cells(line, separator))) for line in words)
        width, n_lines = counts.most_common(1)[0] if counts else (1, 0)
        found[separator] = (n_lines, width)
    by_tab = found["\t"]
    separator = "\t" if by_tab[1] > 1 and by_tab[0] >= found[None][0] else None
    return separator, found[separator][1]


def _without_empty_end(cells: list[str]) -> list[str]:
    while len(cells) > 1 and not cells[-1]:
        cells = cells[:-1]
    return cells


def _sentences(lines: Sequence[str], separator: str | None, width: int) -> list[Sentence]:
    """Return the words of the first sentences, without any line that may be something else."""
    sentences = []
    for is_filled, group in groupby(lines, lambda line: bool(line.strip(" \t"))):
        if not is_filled:
            continue
        words = [line for line in group if not line.startswith("#") and not is_document_start(line)]
        rows = [_cells(line, separator) for line in words]
        rows = [row[:width] for row in rows if len(row) >= width]
        if rows:
            sentences.append(rows)
    return sentences


def _header(sentences: Sequence[Sentence]) -> list[str] | None:
    """Return the first row if it names the columns, such as Word, POS and Tag."""
    if not sentences or len(sentences[0]) < 2 and len(sentences) < 2:
        return None
    first = sentences[0][0]
    return first if len(first) > 1 and {cell.lower() for cell in first} <= _HEADER else None


def _index_of(sentences: Sequence[Sentence], width: int, *, least: int) -> int | None:
    """Return the column that counts the words of each sentence, if the rows have `least` columns or more."""
    if width < least or not any(len(sentence) > 1 for sentence in sentences):
        return None
    for place in range(min(_INDEX_PLACES, width - 1)):
        columns = [[row[place] for row in sentence] for sentence in sentences]
        numbers = {cell for cells in columns for cell in cells}
        if {"1", "2"} <= numbers and all(map(_counts_words, columns)):
            return place
    return None


def _counts_words(cells: Sequence[str]) -> bool:
    """Return whether cells count from 0 or 1, perhaps several times; ranges and empty nodes of CoNLL-U are no words."""
    numbers = [cell for cell in cells if not _RANGE.fullmatch(cell)]
    if not numbers or not all(number.isdecimal() and number.isascii() for number in numbers):
        return False
    before = None
    for number in map(int, numbers):
        if number != (before if before is not None else -1) + 1 and number not in (0, 1):
            return False
        before = number
    return True


def _places(
    columns: Columns, sentences: Sequence[Sentence], width: int, index: int | None, path: Path
) -> tuple[dict[str, int], list[str]]:
    """Return the column that each setting names, or means where it is left open, and what to say of these.

    Raises DataError for a column that does not exist, or if it is not clear which one holds the labels.
    """
    named = columns.by_setting()
    is_open = [setting for setting in ("text", "label") if named.get(setting) == setting]
    at = {}
    for setting, name in named.items():
        if setting not in is_open:
            at[setting] = _number(path, setting, name, width, columns)
    if "text" in is_open:
        at["text"] = 0 if index is None else index + 1
    if "label" in is_open:
        asks = _LabelColumn(path, columns, sentences, width, index, at.get("text", 0), swaps="text" in is_open)
        at["label"] = asks.place()

    notes = []
    if index is not None and is_open:
        kinds = {"text": "words", "label": "labels"}
        read = " and ".join(f"{kinds[setting]} from column {at[setting]}" for setting in is_open)
        settings = ", ".join(columns.setting.format(setting) for setting in is_open)
        notes.append(f"column {index} counts the words of a sentence; {read} are read ({settings})")
    return {setting: at[setting] for setting in named}, notes


def _number(path: Path, setting: str, name: str, width: int, columns: Columns) -> int:
    """Return the index of the column that a setting names. Raises DataError if there is none."""
    if not re.fullmatch(r"-?[0-9]+", name) or not -width <= int(name) < width:
        problem = f"{path} has no column {name!r} ({columns.setting.format(setting)})"
        raise DataError(problem, allowed=f"a number from 0 to {width - 1}, or -1 for the last")
    return int(name) % width


@dataclass(frozen=True)
class _LabelColumn:
    """Which column holds the labels, if no setting says it: the last, unless another one is more likely to.

    `word` is the column of the words, which is open too if it `swaps` with that of the labels.
    """

    path: Path
    columns: Columns
    sentences: Sequence[Sentence]
    width: int
    index: int | None
    word: int
    swaps: bool

    def place(self) -> int:
        """Return the column. Raises DataError, with each candidate, in doubt."""
        if self.width < (2 if self.index is None else self.index + 3):
            problem = f"{self.path} has words and no labels"
            raise DataError(problem, allowed="two columns or more", remedy="Choose a file with a label for each word")
        if self.index == 0 and self.width == _CONLLU:
            return self._of_conllu()
        brackets = [place for place in range(self.width) if are_brackets(self._values(place))]
        if self.width >= _CONLL_2012 and _ENTITIES_OF_2012 in brackets:
            return _ENTITIES_OF_2012
        if len(brackets) > 1:
            raise self._asked(f"{self.path} has several columns of brackets, as CoNLL-2012 writes them", brackets)
        if brackets:
            return brackets[0]

        # The last column, as in CoNLL-2003; where words are counted, any of the others may hold the labels.
        last = self.width - 1
        others = [place for place in range(last) if place != self.index]
        tags = [place for place in others if self._holds_tags(place)]
        if self._holds_tags(last):
            if self.index is None or not tags:
                return last
            raise self._asked(f"{self.path} has several columns of tags", [*tags, last])
        if tags:
            raise self._asked(f"{self.path} has no tags in its last column, but in another", tags)

        # No tags such as B-PER: there are fewer labels than words.
        n_labels = len(self._values(last))
        if self.swaps and n_labels > _MANY_LABELS and n_labels > 2 * len(self._values(self.word)):
            raise self._asked(f"{self.path} has more labels than words: its columns may be swapped", [self.word])
        return last

    def _of_conllu(self) -> int:
        filled = [place for place in _CONLLU_LABELS if self._values(place) != {"_"}]
        if len(filled) == 1:
            return filled[0]
        tags = [place for place in (self.width - 1,) if self._holds_tags(place)]
        raise self._asked(f"{self.path} is CoNLL-U, which has several kinds of labels", [*filled, *tags])

    def _values(self, place: int) -> set[str]:
        return {cells[place] for sentence in self.sentences for cells in sentence if not _RANGE.fullmatch(cells[0])}

    def _holds_tags(self, place: int) -> bool:
        """Return whether a column holds the tags of entities, such as B-PER, I-PER and O."""
        from encoderlab.metrics.entities import entity_labels

        return entity_labels(sorted(self._values(place) - {""})) is not None

    def _asked(self, problem: str, places: Sequence[int]) -> DataError:
        """Return the error that asks which column holds the labels, with what the candidates hold."""
        held = []
        for place in places:
            name = f"{place} ({_CONLLU_LABELS[place]})" if self.width == _CONLLU and place in _CONLLU_LABELS else place
            held.append(f"column {name} holds {listed(sorted(self._values(place)), most=4)}")
        label = self.columns.setting.format("label")
        text = self.columns.setting.format("text")
        first = places[0]
        word = self.word if first != self.word else self.width - 1
        settings = [f"{text}={word}", f"{label}={first}"] if self.swaps else [f"{label}={first}"]
        return DataError(problem, allowed="; ".join(held), remedy=f"Set {shlex.join(settings)}")


def _comments(lines: Sequence[str], separator: str | None, width: int) -> frozenset[str]:
    """Return the first fields of lines as wide as words that may be comments: #, and what else begins sentences."""
    begins: Counter[str] = Counter()
    is_first = True
    for line in lines:
        if not line.strip(" \t"):
            is_first = True
            continue
        cells = _cells(line, separator)
        if line.startswith("#") and len(cells) == width and is_first:
            begins[cells[0]] += 1
        is_first = is_first and line.startswith("#")
    return frozenset({"#"} | {name for name, count in begins.items() if count > 1})


def _has_prefixes(labels: Collection[str]) -> bool:
    """Return whether labels are tags such as B-PER."""
    return any(label[:2] in ("B-", "I-") for label in labels)
