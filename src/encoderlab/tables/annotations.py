"""What annotation tools export, as rows of a table: a row for each text, and a column for each question about it.

Where several people answered about a text, it has the answer that most of them gave, and in a tie none. Spans become
tags of words.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from encoderlab.errors import DataError
from encoderlab.metrics.comparison import SEPARATOR
from encoderlab.system.messages import say_once
from encoderlab.tables.annotation_tools import (
    DOCCANO,
    LABEL,
    SPANS,
    TOOLS,
    AnnotatedText,
    Record,
    Span,
    Tool,
    sorted_answer,
    spans_of,
)
from encoderlab.tables.columns import Columns, listed
from encoderlab.tables.formats import FASTTEXT_LABEL, text_lines

_FASTTEXT_LABELS = re.compile(rf"(?:^|\s){FASTTEXT_LABEL}(\S+)")
_LOOKED_AT = 100  # rows that show the shape of a file
_MANY_COLUMNS = 100  # from which on those are left out that hardly any row has
_LEAST_SHARE = 0.02  # of the rows, that have such a column
_LONGEST_TAG = 200  # characters of a label that each of many words may get
_WORD = re.compile(r"\w+|[^\w\s]")  # as BERT splits a text before its pieces: punctuation is apart


def tabulated(records: Iterator[Record], columns: Columns, path: Path, place: Callable[[int], str]) -> Iterator[Record]:
    """Return the records as they are, or as rows with a text and labels if an annotation tool has exported them.

    Says once what they were read as, and what was left out. Raises DataError for a row of another shape, or with
    several labels where one is needed.
    """
    first, records = _with_first(records)
    tool = next((tool for tool in TOOLS if any(tool.has_written(record) for _, record in first)), None)
    if tool is None:
        return records
    reads_words = any(isinstance(record.get(part), list) for part in columns.parts for _, record in first)
    if reads_words or columns.label == "answer":  # columns that a tool does not write as such
        return records
    has_lists = any(isinstance(value, list) and value for _, record in first for value in record.values())
    if tool.name == DOCCANO and not has_lists:
        return records  # such as Rasa's, whose examples may all lack entities
    has_spans = any(spans_of(value) for _, record in first for value in record.values())
    if tool.name == DOCCANO and not has_spans and columns.target == "label_set":
        return records  # its lists of labels are what is needed
    return _rows(tool, records, columns, path, place)


def _with_first(records: Iterator[Record]) -> tuple[list[Record], Iterator[Record]]:
    """Return the first records, which show the shape of a file, and all of them."""
    first = list(islice(records, _LOOKED_AT))
    return first, chain(first, records)


def _rows(
    tool: Tool, records: Iterator[Record], columns: Columns, path: Path, place: Callable[[int], str]
) -> Iterator[Record]:
    """Yield the rows of an export; see `tabulated`."""
    counts: Counter[str] = Counter()
    first, records = _with_first(records)
    number = first[0][0]
    try:
        if tool.needs_all:
            texts = known = list(tool.texts(records, counts))
        else:
            texts = tool.texts(records, counts)
            known = list(tool.texts(first, Counter()))
        for text in known:
            for question, answers in text.answers.items():
                text.answers[question] = _agreed(answers, text.n_asked - len(answers), counts)
        table = _Table(known, columns)
        _say_as_what(path, tool, table, counts)
        is_first = True  # which shows all columns; other rows show what they have
        for text in texts:
            number = text.number
            row = table.row(text, columns, place(number), counts)
            if row is not None:
                names = table.names if is_first else table.names.keys() & row.keys()
                yield number, {name: row.get(name) for name in names}
                is_first = False
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        problem = f"{path} looks like an export of {tool.name}, but {place(number)} or a row after it has another shape"
        raise DataError(problem, remedy="Export it again, or save a table with the columns text and label") from error
    if table.is_for_training:
        _say_counts(path, counts, ("unanswered", "widened", "overlapping", "outside"))


class _Table:
    """The columns of an export: those of its texts, and one for each question, of which some are answered by spans.

    Of many columns, `names` lacks those that hardly any row has, unless they are to be read: otherwise a table whose
    rows name their own columns would grow with the square of its rows.
    """

    def __init__(self, texts: Sequence[AnnotatedText], columns: Columns) -> None:
        self.text_columns: Counter[str] = Counter()
        questions: Counter[str] = Counter()
        self.span_questions: set[str] = set()
        for text in texts:
            self.text_columns.update(text.columns.keys())
            questions.update(text.answers.keys())
            self.span_questions |= {name for name, answers in text.answers.items() if any(map(spans_of, answers))}
        self.is_for_training = columns.setting.startswith("dataset.")
        self.column_of = {name: name for name in questions}
        if len(questions) == 1 and columns.label not in questions:
            only = next(iter(questions))
            usual = SPANS if only in self.span_questions and not self.is_for_training else LABEL
            self.column_of[only] = only if usual in self.text_columns else usual
        self.question_of = {column: question for question, column in self.column_of.items()}

        # Which columns there are in all.
        n_rows = dict(self.text_columns) | {column: questions[name] for name, column in self.column_of.items()}
        named = {*columns.by_setting().values()}
        least = _LEAST_SHARE * len(texts) if len(n_rows) > _MANY_COLUMNS else 0
        self.names = {name: None for name, count in n_rows.items() if count >= least or name in named}
        self.n_left_out = len(n_rows) - len(self.names)

    def row(self, text: AnnotatedText, columns: Columns, where: str, counts: Counter[str]) -> dict[str, Any] | None:
        """Return the columns of a text; None if it is left out."""
        if text.is_left_out and self.is_for_training:
            return None
        row = {name: value for name, value in text.columns.items() if name not in self.question_of}
        for question, answers in text.answers.items():
            if question in self.column_of:
                row[self.column_of[question]] = _as_cell(next(iter(answers), None))
        if columns.label not in self.question_of:
            return row

        # The answer to learn from: as a label, or as a tag for each word.
        question = self.question_of[columns.label]
        nothing = [[]] if text.n_asked else []
        answer = next(iter(text.answers.get(question, nothing)), None)
        if answer is None and (question in self.span_questions or columns.target == "label_set"):
            counts["unanswered"] += 1  # an empty list would say that nothing applies
            return None
        name = columns.parts[0]
        content = row.get(name)
        if question in self.span_questions and isinstance(content, str):
            row[name], row[columns.label] = tagged(content, spans_of(answer) or [], text.words, counts)
        else:
            row[columns.label] = label_of(answer, columns, where)
        return row


def fasttext_rows(path: Path, encoding: str, columns: Columns) -> Iterator[Record]:
    """Yield the text and the labels of each line that fastText reads. Raises DataError as `tabulated` does."""
    say_once(f"{path}: read as lines of fastText, each with a text and its labels")
    text_column = next(iter(columns.parts), "text")
    for number, line in enumerate(text_lines(path, encoding), start=1):
        labels = _FASTTEXT_LABELS.findall(line)
        text = _FASTTEXT_LABELS.sub("", line).strip()
        label = label_of(labels, columns, f"{path}, line {number}")
        if line.strip():
            yield number, {text_column: text, columns.label or LABEL: label}


def label_of(answer: Any, columns: Columns, where: str) -> Any:
    """Return an answer as a cell of the label column, or of any column if there is none to learn from.

    Raises DataError for several labels where one is needed.
    """
    if columns.label is None:
        return _as_cell(answer)
    if columns.target == "label_set":
        return [answer] if isinstance(answer, str) else answer
    if not isinstance(answer, list) or not all(isinstance(label, str) for label in answer):
        return answer
    if len(answer) > 1:
        problem = f"{where} has {len(answer)} labels ({listed(answer, 3)})"
        raise DataError(problem, allowed="one label per text", remedy="Use task=multilabel for several")
    return answer[0] if answer else None


def _as_cell(answer: Any) -> Any:
    """Return an answer as a single value: several labels in one text."""
    is_labels = isinstance(answer, list) and all(isinstance(label, str) for label in answer)
    return (SEPARATOR.join(answer) or None) if is_labels else answer


def tagged(
    text: str, spans: Sequence[Span], borders: list[tuple[int, int]] | None, counts: Counter[str]
) -> tuple[list[str], list[str]]:
    """Return the words of a text, and a BIO tag for each. The `borders` of words are in order and do not overlap.

    A span that begins or ends within a word is widened to it. Of two spans about one word, the first is taken, of two
    that begin together the longer one. Both are counted. Raises ValueError for a label too long to repeat.

    >>> tagged("In New York.", [(3, 11, "PLACE")], None, Counter())
    (['In', 'New', 'York', '.'], ['O', 'B-PLACE', 'I-PLACE', 'O'])
    """
    if borders is None:
        borders = [word.span() for word in _WORD.finditer(text)]
    firsts = [first for first, _ in borders]
    lasts = [last for _, last in borders]
    tags = ["O"] * len(borders)
    n_tagged = 0  # words up to the end of the last span that was taken: no later span begins before that one
    for start, end, label in sorted(spans, key=lambda span: (span[0], -span[1])):
        # The words that the span touches are neighbours.
        word = bisect_right(lasts, start)
        after = bisect_left(firsts, end)
        if after <= word:
            counts["outside"] += 1
            continue
        if word < n_tagged:
            counts["overlapping"] += 1
            continue
        if len(label) > _LONGEST_TAG:
            raise ValueError(f"a label of {len(label):,} characters")
        counts["widened"] += firsts[word] < start or end < lasts[after - 1]
        tags[word:after] = [f"B-{label}", *[f"I-{label}"] * (after - word - 1)]
        n_tagged = after
    return [text[first:last] for first, last in borders], tags


def _agreed(answers: Sequence[Any], n_blank: int, counts: Counter[str]) -> list[Any]:
    """Return the answer that most people gave, alone; nothing if nobody answered, or in a tie.

    `n_blank` further people say that nothing applies.
    """
    number_of = Counter(map(sorted_answer, answers))
    answer_of = dict(zip(map(sorted_answer, reversed(answers)), reversed(answers), strict=True))
    if n_blank > 0:
        number_of[sorted_answer([])] += n_blank
        answer_of.setdefault(sorted_answer([]), [])
    votes = number_of.most_common(2)
    if len(votes) > 1:
        counts["disagreements"] += 1
    if len(votes) > 1 and votes[0][1] == votes[1][1]:
        counts["ties"] += 1
        return []
    return [answer_of[vote] for vote, _ in votes[:1]]


def _say_as_what(path: Path, tool: Tool, table: _Table, counts: Counter[str]) -> None:
    """Say what a file was read as, and which answers are left out."""
    article = "an" if tool.name[0] in "AEIOU" else "a"
    say_once(f"{path}: read as {article} {tool.name} export: {listed(table.names, 8)}")
    if table.n_left_out:
        say_once(
            f"{path}: {table.n_left_out:,} columns that fewer than {_LEAST_SHARE:.0%} of the rows have are left out"
        )
    _say_counts(path, counts, ("rejected", "ignored", "suggested", "not", "disagreements"))


def _say_counts(path: Path, counts: Counter[str], names: Sequence[str]) -> None:
    """Say how many answers or spans were left out or changed, by why."""
    words = {
        "rejected": "rejected answers left out: {n}",
        "ignored": "ignored or cancelled answers left out: {n}",
        "suggested": "texts with suggestions alone, which stay without a label: {n}",
        "not": "rejections read as a second label, because all are about one: {n}",
        "disagreements": "texts on which people disagree, which get the most common answer: {n}, in ties none: {ties}",
        "unanswered": "texts without an answer left out: {n}",
        "widened": "spans that begin or end within a word, widened to it: {n}",
        "overlapping": "spans left out, because another one has the same words: {n}",
        "outside": "spans left out, because they hold no word: {n}",
    }
    said = [words[name].format(n=f"{counts[name]:,}", ties=f"{counts['ties']:,}") for name in names if counts[name]]
    if said:
        say_once(f"{path}: {'; '.join(said)}")
