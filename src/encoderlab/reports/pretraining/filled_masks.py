"""Masks filled in by the encoder, for people: the text around the mask, the true token, and the most probable
predictions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from encoderlab.runs.inference.masked_predictions import Filled

MASK = "[MASK]"
HIDDEN = "___"  # another mask in the same text
CHARACTERS = 200
_NO_TEXT = {"[CLS]", "[SEP]", "[PAD]", "<s>", "</s>", "<pad>"}
_NO_SPACE_BEFORE, _NO_SPACE_AFTER = set(".,;:!?)]}%"), set("([{")


def readable(filled: Filled) -> dict[str, Any]:
    """Return `text`, `answer` and `guesses` (each with `token` and `probability`), as report.json holds them.

    The text is shortened to about 200 characters around the mask, which is written [MASK] whatever the tokenizer calls
    it; the other masks are ___. Other tokens are joined as printed. Of the special tokens, only those between two texts
    are kept.
    """
    words, place = _words(filled.pieces, filled.place)
    guesses = [{"token": token, "probability": round(float(chance), 4)} for token, chance in filled.guesses]
    return {"text": _around(words, place), "answer": filled.answer, "guesses": guesses}


def _words(pieces: Sequence[str], target: int) -> tuple[list[str], int]:
    """Return the blank-separated words, and the index of the one with the mask at `target` in the tokens."""
    texts = [place for place, piece in enumerate(pieces) if piece not in _NO_TEXT]
    mask, words, before, at = pieces[target], [], None, 0
    for place in range(texts[0], texts[-1] + 1):
        piece = pieces[place]
        masked = MASK if place == target else HIDDEN if piece == mask else None
        shown = masked or piece.removeprefix("##") or piece
        if before is not None and _closes_up(before, piece):
            words[-1] += shown
        else:
            words.append(shown)
        before = None if piece in _NO_TEXT else shown
        at = len(words) - 1 if place == target else at
    return words, at


def _closes_up(before: str, piece: str) -> bool:
    """Return whether `piece` follows the text `before` it without a blank."""
    return before in _NO_SPACE_AFTER or piece in _NO_SPACE_BEFORE or (piece.startswith("##") and len(piece) > 2)


def _around(words: Sequence[str], place: int) -> str:
    """Return as many whole words around the mask as fit, nearest first, with an ellipsis where text is omitted."""
    low, high, room = place, place + 1, CHARACTERS - len(words[place])
    while True:
        sides = [(place - low + 1, low - 1)] * (low > 0) + [(high - place, high)] * (high < len(words))
        fitting = [(distance, side) for distance, side in sides if len(words[side]) < room]
        if not fitting:
            break
        side = min(fitting)[1]
        room -= len(words[side]) + 1
        low, high = min(low, side), max(high, side + 1)
    return " ".join(["…"] * (low > 0) + list(words[low:high]) + ["…"] * (high < len(words)))
