"""The part of a model card about compact storage: the sizes, the change, and the hash of each file."""

from __future__ import annotations

from collections.abc import Mapping

from encoderlab.runs.models.compact_model import SENTENCES, Change


def megabytes(n_bytes: int) -> str:
    """Return a size in words, such as 9.4 MB."""
    return f"{n_bytes / 1e6:.1f} MB"


def change_in_words(change: Change) -> str:
    """Return how much the model has changed, as a half sentence."""
    words = f"on {len(SENTENCES)} sentences a vector changes by at most {change.vector:.2%} of its length"
    return words if change.probability is None else f"{words}, a probability by at most {change.probability:.4f}"


def compact_card(before: int, after: int, change: Change, hashes: Mapping[str, str]) -> str:
    """Return the section: bytes of the weights `before` and `after`, and the SHA-256 of each file by name."""
    rows = "".join(f"| {name} | `{sha256}` |\n" for name, sha256 in hashes.items())
    return (
        "## Storage\n\nThe token embeddings are stored as 8-bit integers with a scale for each row, all other weights as 16-bit "
        "floats, or as 32-bit floats if a value exceeds 65,504: "
        f"{megabytes(after)} instead of {megabytes(before)}. encoderlab opens them as 32-bit floats. "
        f"Compared with the original weights, {change_in_words(change)}.\n\n| file | SHA-256 |\n|---|---|\n{rows}"
    )
