"""The batch size that suits a peer best."""

from __future__ import annotations

from collections.abc import Callable, Mapping


def fastest(seconds_of: Mapping[int, Callable[[], float]], texts: int) -> tuple[int, dict[int, float]]:
    """Run each batch size on `texts` texts; return the fastest one, and the texts per second of each."""
    tried = {size: round(texts / run(), 1) for size, run in seconds_of.items()}
    return max(tried, key=lambda size: tried[size]), tried
