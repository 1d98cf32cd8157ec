"""Which labels are the same in another spelling, and which are codes for "no answer".

Labels differ in case, in how an accent is composed, in blanks, quotes, dashes and letters that look alike (a no-break
space, a Cyrillic o), in characters that are not seen (a zero-width space), in their width, in HTML's names of
characters, or in a point and a zero that a program added to whole numbers.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Collection, Mapping

from encoderlab.tables.columns import has_decimal_commas, is_number, number_with_comma

WHOLE = re.compile(r"([+-]?[0-9]{1,40})(\.0+)?")
# Quotes, dashes, and letters of Cyrillic and Greek, with what they look like.
_LOOKS_LIKE = str.maketrans(
    "‘’ʼ“”‐‑‒–—−" + "аеорсухіАВЕКМНОРСТХ" + "οΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",  # noqa: RUF001
    "'''\"\"------" + "aeopcyxiABEKMHOPCTX" + "oABEZHIKMNOPTYX",
)
_VARIATIONS = re.compile("[\ufe00-\ufe0f]")  # of an emoji
_CODES = frozenset(
    {"n/a", "na", "n.a.", "#n/a", "<na>", "nan", "null", "none", "(none)", "nil", "-", "--", "?", ".", "\\n", "[]"}
    | {"missing", "refused", "skip", "skipped", "tbd", "undefined", "unknown", "unclear", "unspecified", "(blank)"}
    | {"don't know", "dk", "not sure", "prefer not to say", "prefer not to answer", "unrated", "k. a.", "k.a."}
)
# No answer given, not screened, unlabelled.
_SAYS_NO_ANSWER = re.compile(
    r"no[tn]?[ -](answer|response|label|rat|applic|available|screen|provid|specif|stated|assess|review|annotat).*"
    r"|un(labell?ed|annotated|answered|reviewed)|keine? (antwort|angabe)|weiß nicht|no (sabe|contesta)|sans réponse"
)
_HIGH_CODES = frozenset({"77", "88", "97", "98", "99", "777", "888", "997", "998", "999", "8888", "9998", "9999"})
_MOST_HIGH_CODES = 3
_FAR_BELOW = 7  # so far below zero no scale begins
_CODES_OF_NUMBERS = frozenset({9.0, 99.0, 999.0, 9999.0, 98.0, 998.0, 9998.0, 88.0, 888.0, 8888.0, 99999.0})


def form(label: str) -> str:
    """Return what the spellings of a label share. Single letters keep their case: both cases may be labels."""
    composed = unicodedata.normalize("NFKC", html.unescape(label)).translate(_LOOKS_LIKE)
    seen = "".join(letter for letter in composed if unicodedata.category(letter) != "Cf")
    shared = " ".join(_VARIATIONS.sub("", seen).split())
    return shared.casefold() if len(shared) > 1 else shared


def one_spelling(counts: Mapping[str, int], fixed: Collection[str] = ()) -> dict[str, str]:
    """Return the spelling to use for each label that has another one, given how often each occurs.

    Of several spellings of a label, a `fixed` one is used, otherwise the most frequent that people type. At least two
    labels remain.
    """
    are_whole = all(map(WHOLE.fullmatch, counts))
    by_form: dict[str, list[str]] = {}
    order = sorted(counts, key=lambda value: (not _is_plain(value), -counts[value], value.swapcase()))
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
    typed = unicodedata.normalize("NFKC", " ".join(value.split())) == value and value.isprintable()
    mixes_scripts = value.translate(_LOOKS_LIKE) != value and re.search("[A-Za-z]", value) is not None
    return typed and not mixes_scripts and html.unescape(value) == value


def spelled_out(value: str, other: str) -> str:
    """Return a label for a message, by code point where it looks like the `other` one."""
    if form(value) == form(other) and value.casefold() != other.casefold():
        differing = [letter for letter in value if letter not in other and not letter.isascii()]
        points = " ".join(f"U+{ord(letter):04X}" for letter in dict.fromkeys(differing))
        return f"{value!r} ({points})" if points else repr(value)
    return repr(value)


def same_numbers(values: Collection[str]) -> list[tuple[str, str]]:
    """Return the pairs of labels that are the same number, such as 7 and 007, 1.5 and 1.50, and are not one label."""
    with_comma = has_decimal_commas(values)
    by_number: dict[float, str] = {}
    pairs = []
    for value in sorted(values):
        if is_number(value) or (with_comma and value):
            first = by_number.setdefault(number_with_comma(value) if with_comma else float(value), value)
            if first != value:
                pairs.append((first, value))
    return pairs


def codes_for_no_answer(counts: Mapping[str, int]) -> list[str]:
    """Return the labels that probably mean that there is no answer, given how often each label occurs."""
    others = [value for value in counts if not re.fullmatch(r"-[0-9]+(\.0+)?", value)]
    codes = [value for value in others if _says_no_answer(value)]

    # A single negative number beside others, or some that are far below zero.
    negative = [value for value in counts if value not in others]
    are_far = min((abs(float(value)) for value in negative), default=0) >= _FAR_BELOW
    if (len(negative) == 1 or are_far) and len(others) > 1:
        codes += negative

    # Numbers such as 98 and 99 beside small ones, or beside words.
    high = [value for value in others if value.removesuffix(".0") in _HIGH_CODES]
    numbers = [float(value) for value in others if re.fullmatch(r"[0-9]+(\.0+)?", value) and value not in high]
    words = [value for value in others if not is_number(value) and value not in codes]
    least = min(map(float, high), default=0)
    if len(numbers) + len(words) > 1 and len(high) <= _MOST_HIGH_CODES and max(numbers, default=0) < 0.6 * least:
        codes += high
    return codes if len(codes) < len(counts) else []


def codes_among_numbers(values: Collection[float]) -> list[float]:
    """Return the numbers that probably mean that there is no answer: -99 or 999, far from all the others."""
    codes = [value for value in {*values} if abs(value) in _CODES_OF_NUMBERS]
    others = [value for value in values if value not in codes]
    reach = max(map(abs, others), default=0)
    outside = [code for code in codes if abs(code) > 2 * reach or (code < 0 <= min(others, default=0) and code <= -9)]
    return sorted(outside) if len({*others}) > 1 else []


def _says_no_answer(value: str) -> bool:
    folded = form(value)
    return folded in _CODES or value.strip().casefold() in _CODES or bool(_SAYS_NO_ANSWER.fullmatch(folded))
