"""Which labels are the same in another spelling, and which are codes for "no answer".

Labels differ in case, in how an accent is composed, in blanks that look alike (a no-break space), in characters that
are not seen (a zero-width space), in their width, or in a point and a zero that a program added to whole numbers.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping

WHOLE = re.compile(r"([+-]?[0-9]{1,40})(\.0+)?")
_CODES = frozenset(
    {"n/a", "na", "n.a.", "#n/a", "nan", "null", "none", "nil", "-", "--", "?", ".", "\\n"}
    | {"missing", "no answer", "not answered", "no response", "refused", "not applicable", "don't know", "unlabeled"}
    | {"unlabelled", "not labeled", "not labelled", "not screened", "(blank)", "unclear", "prefer not to say"}
)
_HIGH_CODES = frozenset({"99", "999", "9999", "77", "88", "777", "888"})  # as SPSS and Stata users write them


def form(label: str) -> str:
    """Return what the spellings of a label share. Single letters keep their case: both cases may be labels."""
    composed = unicodedata.normalize("NFKC", label)
    seen = "".join(letter for letter in composed if unicodedata.category(letter) != "Cf")
    shared = " ".join(seen.split())
    return shared.casefold() if len(shared) > 1 else shared


def one_spelling(counts: Mapping[str, int], fixed: Collection[str] = ()) -> dict[str, str]:
    """Return the spelling to use for each label that has another one, given how often each occurs.

    Of several spellings of a label, a `fixed` one is used, otherwise the most frequent. At least two labels remain.
    """
    are_whole = all(map(WHOLE.fullmatch, counts))
    by_form: dict[str, list[str]] = {}
    order = sorted(counts, key=lambda value: (-counts[value], not _is_plain(value), value.swapcase()))
    for value in dict.fromkeys([*fixed, *order]):
        whole = WHOLE.fullmatch(value) if are_whole else None
        by_form.setdefault(whole[1] if whole else form(value), []).append(value)
    if len(by_form) < 2:
        return {}
    spelling_of = {}
    for shared, values in by_form.items():
        stated = [value for value in values if value in fixed]
        if len(stated) > 1:
            continue
        common = stated[0] if stated else values[0]
        if are_whole and not stated:
            common = shared
        spelling_of |= {value: common for value in values if value != common and value in counts}
    return spelling_of


def whole_number(value: str) -> str | None:
    """Return a whole number without a point and zeros behind it; None for anything else."""
    whole = WHOLE.fullmatch(value)
    return whole[1] if whole else None


def _is_plain(value: str) -> bool:
    """Return whether a label is spelled as people type it."""
    return unicodedata.normalize("NFKC", " ".join(value.split())) == value and value.isprintable()


def shown(value: str, other: str) -> str:
    """Return a label for a message, by code point where it looks like the `other` one."""
    if form(value) == form(other) and value.casefold() != other.casefold():
        differing = [letter for letter in value if letter not in other and not letter.isascii()]
        points = " ".join(f"U+{ord(letter):04X}" for letter in dict.fromkeys(differing))
        return f"{value!r} ({points})" if points else repr(value)
    return repr(value)


def same_numbers(values: Collection[str]) -> list[tuple[str, str]]:
    """Return the pairs of labels that are the same whole number, such as 7 and 007, and are not one label."""
    by_number: dict[int, str] = {}
    pairs = []
    for value in sorted(values):
        if re.fullmatch(r"[0-9]{1,40}", value):
            first = by_number.setdefault(int(value), value)
            if first != value:
                pairs.append((first, value))
    return pairs


def codes_for_no_answer(counts: Mapping[str, int]) -> list[str]:
    """Return the labels that probably mean that there is no answer, given how often each label occurs."""
    others = [value for value in counts if not re.fullmatch(r"-[0-9]+(\.0+)?", value)]
    negative = [value for value in counts if value not in others]
    codes = [value for value in others if value.strip().casefold() in _CODES]
    if len(negative) == 1 and len(others) > 1:
        codes += negative
    numbers = [float(value) for value in others if re.fullmatch(r"[0-9]+(\.0+)?", value)]
    for value in others:
        is_far = value.removesuffix(".0") in _HIGH_CODES and sum(number >= 60 for number in numbers) == 1
        if is_far and len(numbers) == len(others) > 2:
            codes.append(value)
    return codes if len(codes) < len(counts) else []
