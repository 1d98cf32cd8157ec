"""The labels of a dataset's rows: which are refused, their order and ids, and the split built from rows and labels."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from encoderlab.data.examples import Split
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics.entities import EntityLabels, entity_labels, repaired
from encoderlab.settings import typed_list
from encoderlab.system.messages import say
from encoderlab.tables.checks import missing
from encoderlab.tables.columns import CARRIED, are_numbers, has_decimal_commas, is_number, listed, number_with_comma
from encoderlab.tables.label_cells import NOT_IN_NAMES, SEPARATORS
from encoderlab.tables.label_columns import file_of
from encoderlab.tables.raw_rows import RawRows, flat, is_list, mapped
from encoderlab.tables.spellings import codes_among_numbers

_FRACTION = re.compile(r"\s*[+-]?[0-9]*[.,][0-9]*[1-9][0-9]*\s*")
_THOUSANDS = re.compile(r"\s*[+-]?[0-9]{1,3},[0-9]{3}\s*")
_OUTSIDE_SIGNS = ("-", "0", "o")  # what stands for O in some files of tagged words
_HALF = re.compile(r"\s*[+-]?[0-9]+,[05]0*\s*")
_MOST_STEPS = 20  # distinct decimal numbers that may still be classes, such as half stars


@dataclass(frozen=True)
class Labels:
    """The names of labels in the order of their ids, and the id of each value in the data."""

    names: list[str]
    id_of: dict[str, int]

    @classmethod
    def of(cls, names: list[str], values: Iterable[str] | None = None) -> Labels:
        """Return labels that stand in the data by name, or as `values` in the same order."""
        return cls(names, {value: id_ for id_, value in enumerate(names if values is None else values)})

    def ids(self, rows: RawRows) -> pa.ChunkedArray:
        """Return the id of each label; null stays null. Raises DataError at a label whose id is not known."""
        known = pa.array(list(self.id_of), pa.string())
        known_ids = pa.array(self.id_of.values(), pa.int64())
        ids = mapped(rows.labels, lambda values: known_ids.take(pc.index_in(values, value_set=known)))
        if flat(ids).null_count > flat(rows.labels).null_count:
            for row, label in enumerate(rows.labels.to_pylist()):
                for value in label if isinstance(label, list) else [label]:
                    if value is not None and value not in self.id_of:
                        raise self._unknown(value, rows.where(row))
        if is_list(ids) and not is_list(rows.table["text"]) and len(self.names) < len(self.id_of):
            sets = [row and [*dict.fromkeys(row)] for row in ids.to_pylist()]  # two labels may have become one
            ids = pa.chunked_array([pa.array(sets, ids.type)])
        return ids

    def _unknown(self, value: str, place: str) -> DataError:
        problem = f"{place} has the label {value!r}, which neither dataset.label_names nor training has"
        alike = [name for name in self.id_of if name.casefold() == value.casefold()]
        remedy = "Correct the row, or name its label in dataset.label_names"
        if alike:
            remedy = f"Write it as {' or '.join(map(repr, alike))}"
        return DataError(problem, allowed=listed(self.id_of), remedy=remedy)


def as_split(rows: RawRows, labels: Labels | None) -> Split:
    """Return the rows as a split; without `labels`, targets are numbers if the rows have some, otherwise unknown."""
    words = is_list(rows.table["text"])
    if labels is not None:
        targets = labels.ids(rows)
    elif "label" in rows.table.column_names and pa.types.is_floating(rows.labels.type):
        targets = rows.labels
    else:
        targets = pa.nulls(len(rows.table), pa.list_(pa.int64()) if words else pa.int64())
    texts = rows.table.select([name for name in ("text", "text_pair") if name in rows.table.column_names])
    further = [name for name in rows.table.column_names if name.startswith(CARRIED)]
    carried = rows.table.select(further).rename_columns([name.removeprefix(CARRIED) for name in further])
    if words:
        texts = texts.rename_columns(["words"])
    return Split(texts.append_column("labels" if words else "label", targets), rows.where, carried if further else None)


def refuse_missing_labels(rows: RawRows, name: str) -> None:
    """Raise DataError if rows have an empty label, with their number and the first of them."""
    lacking = _without_label(rows)
    if not lacking.any():
        return
    n_lacking = int(lacking.sum())
    others = f", and so do {n_lacking - 1:,} more rows" if n_lacking > 1 else ""
    problem = f"{rows.where(int(lacking.argmax()))} has no label in column {name!r}{others}"
    remedy = "Fill it in, or set dataset.on_missing=drop to drop such rows"
    if lacking.all():
        remedy = "Choose the column of the labels with dataset.label=COLUMN, or label some rows"
    values = [] if is_list(rows.labels) else rows.labels.unique().drop_null().to_pylist()
    several = _several_labels(values)
    if several is not None:
        remedy = f"Other rows have several labels, such as {several!r}: use task=multilabel, where a row may have none"
    raise DataError(problem, remedy=remedy)


def labelled_rows(rows: RawRows, name: str) -> tuple[RawRows, Split | None]:
    """Return the rows that have a label, and the others as a split (None: there are none), and say how many have none.

    Raises DataError if no row has one, or if words lack theirs, or if cells hold several labels.
    """
    lacking = _without_label(rows)
    if not lacking.any():
        return rows, None
    if is_list(rows.labels) or lacking.all() or _several_labels(rows.labels.unique().drop_null().to_pylist()):
        refuse_missing_labels(rows, name)
    n_rows = len(lacking)
    n_lacking = int(lacking.sum())
    first = rows.where(int(lacking.argmax())).removeprefix(f"{file_of(rows)}, ")
    words = f"{n_lacking:,} of {n_rows:,} rows have no label in column {name!r} and are left out, the first at {first}"
    say(f"{file_of(rows)}: {words} (dataset.on_missing=error refuses them)")
    unlabelled = _some(rows, lacking)
    return _some(rows, ~lacking), as_split(RawRows(unlabelled.table.drop_columns("label"), unlabelled.where), None)


def _some(rows: RawRows, chosen: np.ndarray) -> RawRows:
    """Return the chosen rows, given as bool [rows]."""
    kept = np.flatnonzero(chosen)
    return RawRows(rows.table.filter(pa.array(chosen)), lambda row: rows.where(int(kept[row])))


def _without_label(rows: RawRows) -> np.ndarray:
    """Return which rows have no label, or of whose words one has none: bool [rows]."""
    if is_list(rows.labels):
        return np.array([row is None or not all(row) for row in rows.labels.to_pylist()], bool)
    return missing(rows.labels)


def with_unknown_labels(rows: RawRows) -> RawRows:
    """Return the rows with null as the label of each that has an empty one."""
    if is_list(rows.labels):
        return rows
    labels = pc.if_else(pa.array(missing(rows.labels)), None, rows.labels)
    return rows.with_labels(labels if isinstance(labels, pa.ChunkedArray) else pa.chunked_array([labels]))


def refuse_other_targets(train: RawRows, name: str) -> None:
    """Raise DataError if the labels of whole texts are measurements, or if a cell holds several labels."""
    if is_list(train.labels):
        return
    values = train.labels.unique().drop_null().to_pylist()
    fraction = next((value for value in values if _FRACTION.fullmatch(value)), None)
    if len(values) > _MOST_STEPS and fraction and are_numbers(values):
        place = f"{train.where(train.labels.to_pylist().index(fraction))} has {fraction!r} in column {name!r}"
        remedy = "Use task=regression, or list the classes in dataset.label_names"
        raise DataError(f"{place}, which holds {len(values)} different numbers", allowed="classes", remedy=remedy)
    several = _joined_numbers(values) if are_numbers(values) else _several_labels(values)
    if several is not None:
        first = train.where(train.labels.to_pylist().index(several))
        problem = f"{first} has the label {several!r}, whose parts are labels of other rows"
        remedy = "Use task=multilabel, or list the labels in dataset.label_names"
        raise DataError(problem, allowed="one label in each row", remedy=remedy)


def _joined_numbers(values: list[str]) -> str | None:
    """Return the first of numbers with a comma that is several labels, such as 2,14 beside 2; halves are decimals."""
    single = {value for value in values if "," not in value}
    joined = [value for value in values if "," in value]
    if all(map(_HALF.fullmatch, joined)):
        return None
    return next((value for value in joined if {*value.split(",")} & single), None)


def _several_labels(values: list[str]) -> str | None:
    """Return the first value that consists of several labels: its parts are values, or parts of others."""
    for separator in SEPARATORS:
        joined = [value for value in values if separator in value]
        single = {value for value in values if separator not in value}
        counts = Counter(part.strip() for value in joined for part in {*value.split(separator)})
        for value in joined:
            parts = {part.strip() for part in value.split(separator)}
            is_shared = separator in NOT_IN_NAMES and any(counts[part] > 1 or part in single for part in parts)
            if parts <= single or is_shared:
                return value
    return None


def with_numbers(rows: Mapping[str, RawRows], name: str) -> dict[str, RawRows]:
    """Return the rows of each split with numbers as targets: float64. `name` is their column.

    Decimals have a point, or all of them a comma, which is said. Raises DataError at the first row without a number,
    and for numbers such as 1,234 whose comma may also separate thousands.
    """
    by_split = {split: part.labels.to_pylist() for split, part in rows.items()}
    values = {cell for cells in by_split.values() for cell in cells if cell is not None}
    with_comma = has_decimal_commas(values)
    if with_comma:
        commas = sorted(value for value in values if "," in value)
        shown = commas[0].strip()
        if all(map(_THOUSANDS.fullmatch, commas)) and not any("." in value for value in values):
            problem = f"Column {name!r} has {shown!r}: its comma may come before decimals or separate thousands"
            raise DataError(problem, remedy="Write numbers with a decimal point, and thousands without a separator")
        file = file_of(next(iter(rows.values())))
        note = f"numbers in column {name!r} have decimal commas: {shown} is read as {number_with_comma(shown):g}"
        say(f"{file}: {note}")
    number_of = number_with_comma if with_comma else float
    if not with_comma:
        _say_codes(rows["train"], by_split["train"], name)
    with_targets = {}
    for split, part in rows.items():
        cells = by_split[split]
        if not with_comma:
            _refuse_other_than_numbers(part, cells, name)
        numbers = [None if cell is None else number_of(cell) for cell in cells]
        with_targets[split] = part.with_labels(pa.chunked_array([pa.array(numbers, pa.float64())]))
    return with_targets


def _say_codes(train: RawRows, cells: list[str | None], name: str) -> None:
    """Say which numbers are probably codes for "no answer", such as -99."""
    numbers = [float(cell) for cell in cells if cell is not None and is_number(cell)]
    codes = codes_among_numbers(numbers)
    if codes:
        times = listed(f"{code:g} ({numbers.count(code):,} times)" for code in codes)
        setting = shlex.quote(f"dataset.no_answer={typed_list(f'{code:g}' for code in codes)}")
        say(f"{file_of(train)}: column {name!r} has the number {times}. If that means no answer, set {setting}")


def _refuse_other_than_numbers(rows: RawRows, cells: list[str | None], name: str) -> None:
    """Raise DataError at the first row whose target is not a number."""
    for row, cell in enumerate(cells):
        if cell is not None and not is_number(cell):
            problem = f"{rows.where(row)} has {cell[:60]!r} in column {name!r}, which is not a number"
            remedy = (
                "Correct it (decimals have a point, or all of them a comma), or use task=classification if these are "
                "classes"
            )
            raise DataError(problem, allowed="a number in each row", remedy=remedy)


def name_labels(
    train: RawRows, label_names: list[str] | dict[str, str] | None, class_names: list[str] | None
) -> Labels:
    """Return the labels of a dataset, in order.

    `class_names` names values 0, 1, ... if the source knows names. The user's `label_names` put values in order, name
    values 0, 1, ..., or map values (or class names) to names; without them, whole numbers are sorted as numbers and
    anything else as strings. Raises DataError if training has fewer than two labels, SettingError if `label_names` do
    not fit.
    """
    if isinstance(label_names, dict):
        return _mapped_labels(label_names, class_names)
    values = sorted(flat(train.labels).unique().drop_null().to_pylist())
    if label_names is not None:
        return _listed_labels(values, label_names, class_names)
    if len(values) < 2:
        has = f"only the label {values[0]!r}" if values else "no labels"
        raise DataError(f"The training rows have {has}", remedy="At least two are needed: check dataset.label")
    if class_names is not None:
        return Labels.of(class_names, _numbered(class_names))
    if all(re.fullmatch(r"-?[0-9]{1,40}", value) for value in values):
        return Labels.of(sorted(values, key=int))
    if are_numbers(values) and not has_decimal_commas(values):
        return Labels.of(sorted(values, key=float))
    return Labels.of(values)


def _mapped_labels(name_of: dict[str, str], class_names: list[str] | None) -> Labels:
    """Return the labels that the user's mapping from values, or from all class names, gives; several may become one."""
    if class_names and set(name_of) <= set(class_names):
        name_of = {str(class_names.index(name)): new for name, new in name_of.items()}
    names = list(dict.fromkeys(name_of.values()))
    return Labels(names, {value: names.index(name) for value, name in name_of.items()})


def _listed_labels(values: list[str], label_names: list[str], class_names: list[str] | None) -> Labels:
    """Return the labels of the user's list: the values themselves in order, or names for the values 0, 1, ..."""
    if class_names is None:
        by_name = set(values) <= set(label_names) or not values[0].isdecimal()
        return Labels.of(label_names, None if by_name else _numbered(label_names))
    if len(label_names) != len(class_names):
        problem = f"dataset.label_names=[{listed(label_names)}] does not name the labels in the data"
        raise SettingError(problem, allowed=f"all of {listed(class_names)}, in any order")
    if sorted(label_names) == sorted(class_names):
        return Labels.of(label_names, [str(class_names.index(name)) for name in label_names])
    return Labels.of(label_names, _numbered(label_names))


def _numbered(names: list[str]) -> list[str]:
    """Return the values 0, 1, ... of as many labels as there are names."""
    return [str(number) for number in range(len(names))]


def with_valid_entities(rows: dict[str, RawRows], labels: Labels) -> tuple[dict[str, RawRows], Labels]:
    """Return the rows with valid BIO or BIOES labels, and the labels; labels that are not entities stay as they are.

    Invalid sequences, such as IOB1's, are read as conlleval reads them, with a line on standard error.
    """
    if not is_list(rows["train"].table["text"]):
        return rows, labels
    rows, labels = _with_outside(rows, labels)
    entities = entity_labels(labels.names)
    if entities is None:
        _say_what_entities_lack(labels.names)
        return rows, labels
    valid = {name: _with_valid_entities(part, labels, entities) for name, part in rows.items()}
    values = {value for part in valid.values() for value in flat(part.labels).unique().to_pylist()}
    names = [*labels.names, *sorted(values - {*labels.names, None})]
    names = sorted(names) if labels.names == sorted(labels.names) else names
    return valid, Labels.of(names)


def _with_outside(rows: dict[str, RawRows], labels: Labels) -> tuple[dict[str, RawRows], Labels]:
    """Return the rows with O where tags of entities have another sign for it, and the labels, which is said.

    spaCy (3.8.7, `offsets_to_biluo_tags`) writes - for words of entities that end within a word; a zero is a misprint.
    """
    signs = [name for name in labels.names if name in _OUTSIDE_SIGNS]
    tags = sorted({*labels.names, "O"} - {*signs})
    if len(signs) != 1 or {*labels.id_of} != {*labels.names} or entity_labels(tags) is None:
        return rows, labels
    say(f"{file_of(rows['train'])}: the label {signs[0]!r} is read as 'O', since the others are tags of entities")

    def outside(values: pa.Array) -> pa.Array:
        return pc.if_else(pc.equal(values, signs[0]), "O", values)

    by_split = {name: part.with_labels(mapped(part.labels, outside)) for name, part in rows.items()}
    return by_split, Labels.of(tags)


def _say_what_entities_lack(names: Sequence[str]) -> None:
    """Say how labels of words that are probably entities are scored as such."""
    if all(name.isdecimal() for name in names):
        setting = shlex.quote(f"dataset.label_names=[{','.join(f'NAME_{number}' for number in names)}]")
        say(f"the labels of words are the numbers {listed(names)}; {setting} names them: entities need B-, I- and O")
    elif "O" in names and len(names) > 1:
        say("labels are scored word by word; for entities, write O, B-TYPE and I-TYPE, or I-TYPE alone")


def _is_iob1(entities: EntityLabels, ids: np.ndarray, lengths: np.ndarray) -> bool:
    """Return whether each B follows a word of its own type, as in IOB1; none may be a B (IO)."""
    prefixes = np.array([*entities.prefixes, "O"])[ids]
    kinds = np.array([*map(str, entities.types_of), ""])[ids]
    begins = np.flatnonzero(prefixes == "B")
    starts = np.cumsum(lengths) - lengths
    return bool((~np.isin(begins, starts)).all() and (kinds[begins - 1] == kinds[begins]).all())


def _with_valid_entities(rows: RawRows, labels: Labels, entities: EntityLabels) -> RawRows:
    column = pa.concat_arrays(labels.ids(rows).chunks)
    lengths = np.asarray(pc.list_value_length(column).fill_null(0), np.int64)
    ids = np.asarray(pc.list_flatten(column).fill_null(-1), np.int64)
    valid = repaired(entities, ids, lengths)
    changed = [word for word, name in enumerate(valid) if ids[word] >= 0 and labels.names[ids[word]] != name]
    if changed:
        row = int(np.searchsorted(np.cumsum(lengths), changed[0], side="right"))
        first = f"the first, {labels.names[ids[changed[0]]]!r} at {rows.where(row)}, as {valid[changed[0]]!r}"
        if not entities.bioes and _is_iob1(entities, ids, lengths):
            say(f"labels are IOB1, in which B only separates entities of one type, and are read as BIO; {first}")
        else:
            say(f"{len(changed)} labels cannot follow those before them and are read as conlleval reads them; {first}")
    return rows.with_labels(mapped(pa.chunked_array([column]), lambda _: pa.array(valid, pa.string())))
