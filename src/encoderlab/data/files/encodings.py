"""The character encoding of a text file: set by the user, or found from its bytes."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from encoderlab.data.files.text_files import BROKEN, ENCODINGS, UTF_8, bytes_of, marked_lines, place, readable
from encoderlab.errors import DataError, SettingError, one_line

AUTO, SETTING = "auto", "dataset.encoding"
_WESTERN = "cp1252"
_BLOCK = 2**20
_OTHERS = {  # the kind of a file that begins with these bytes, and what to do
    b"\x1f\x8b": ("compressed", "Rename it to {}.gz"),
    b"\x28\xb5\x2f\xfd": ("compressed", "Rename it to {}.zst"),
    b"PK\x03\x04": ("an Excel workbook or a zip file", "Rename it to .xlsx, or unpack it"),
    b"\xd0\xcf\x11\xe0": ("an old Excel or Word file", "Save it as .xlsx, .csv or .txt"),
    b"PAR1": ("a parquet file", "Rename it to .parquet"),
}
_SHOWN = 40  # characters of the first line that is not UTF-8, around the first that shows it


def with_encodings(files: Iterable[Path], chosen: str = AUTO) -> Iterator[tuple[Path, str]]:
    """Yield each of many files with its encoding, as `encoding_of` finds it; only the first in Windows-1252 is named."""
    named = more = 0
    for file in files:
        encoding, warning = _found(file, chosen, SETTING)
        if warning and not named:
            print(warning, file=sys.stderr)
        more += bool(warning and named)
        named += bool(warning)
        yield file, encoding
    if more:
        print(f"encoderlab: {more:,} more files are read as Windows-1252", file=sys.stderr)


def encoding_of(path: Path, chosen: str = AUTO, setting: str = SETTING) -> str:
    """Return Python's name of the encoding of a text file; `setting` is where it was `chosen`.

    With `auto` it is UTF-16 if the file begins with its byte-order mark, otherwise UTF-8, otherwise Windows-1252, with
    a warning that shows how the first such line reads. Raises DataError if the bytes are none of these, or the file
    cannot be read.
    """
    encoding, warning = _found(path, chosen, setting)
    if warning:
        print(warning, file=sys.stderr)
    return encoding


def _found(path: Path, chosen: str, setting: str) -> tuple[str, str]:
    """Return the encoding, and a warning or nothing. The whole file is decoded once."""
    if chosen != AUTO:
        return _decodable(path, UTF_8 if codecs.lookup(chosen).name == "utf-8" else chosen, setting), ""
    with readable(path, UTF_8, setting):
        with bytes_of(path) as stream:
            mark = stream.read1(4)
        if mark[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return _decodable(path, "utf-16", setting), ""
        return (UTF_8, "") if _is_utf_8(path, "strict") else (_WESTERN, _western(path, mark, setting))


def _decodable(path: Path, encoding: str, setting: str) -> str:
    """Return the encoding. Raises DataError unless the file can be decoded in it."""
    with readable(path, encoding, setting):
        _decode(path, encoding, "strict")
    return encoding


def _is_utf_8(path: Path, errors: str) -> bool:
    try:
        _decode(path, "utf-8", errors)
    except UnicodeDecodeError:
        return False
    return True


def _decode(path: Path, encoding: str, errors: str) -> None:
    """Raise UnicodeError if a file is not in this encoding. One that unpacks without end is left to its reader, which
    says so.
    """
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    with bytes_of(path) as stream, suppress(DataError):
        for block in iter(partial(stream.read1, _BLOCK), b""):
            decoder.decode(block)
        decoder.decode(b"", final=True)


def refuse_unknown(encoding: str, setting: str) -> None:
    """Raise SettingError if Python has no encoding of that name."""
    try:
        known = encoding == AUTO or codecs.lookup(encoding)._is_text_encoding  # not bytes to bytes, such as hex
    except (LookupError, ValueError):
        known = False
    if not known:
        raise SettingError(
            f"{setting}={encoding} is not an encoding", allowed="auto, utf-8, utf-16, cp1252, latin-1, shift_jis, ..."
        )


def _western(path: Path, mark: bytes, setting: str) -> str:
    """Return the warning for a file in Windows-1252. Raises DataError if it is neither, or if other lines are UTF-8."""
    line, in_utf_8 = 0, _is_utf_8(path, "surrogatepass")  # lone surrogates (U+D800 to U+DFFF) are not valid UTF-8
    for number, text in marked_lines(path, "utf-8"):
        line = line or (number if BROKEN in text else 0)
        in_utf_8 = in_utf_8 or not text.replace(BROKEN, "").isascii()
    for beginning, (what, remedy) in _OTHERS.items():
        if mark.startswith(beginning):
            raise DataError(f"{path} is {what}", remedy=remedy.format(path.name))
    if in_utf_8:
        raise DataError(
            f"{place(path, line)} cannot be decoded as UTF-8, but other lines can",
            allowed=ENCODINGS,
            remedy=f"Correct the line, or set {setting} to the encoding of the file",
        )
    shown = ""
    for number, text in marked_lines(path, _WESTERN):
        if BROKEN in text:
            raise DataError(
                f"{place(path, number)} is neither UTF-8 nor Windows-1252",
                allowed=ENCODINGS,
                remedy=f"Set {setting} to the encoding it was written in",
            )
        if not shown and not text.isascii():
            shown = f"line {number} as {_around_first_special(one_line(text.strip()))!r}"
    return f"encoderlab: {path} is not UTF-8 and is read as Windows-1252, {shown}. If that is wrong, set {setting}."


def _around_first_special(text: str) -> str:
    """Return a few words of the text, the first character beyond ASCII in their middle."""
    first = next(place for place, character in enumerate(text) if not character.isascii())
    start = max(0, min(first - _SHOWN // 2, len(text) - _SHOWN))
    return text[start : start + _SHOWN]
