"""What the model card of the encoder that a run starts from says about it: its licence, language and base model."""

from __future__ import annotations

from pathlib import Path

from encoderlab.errors import UserError
from encoderlab.reports.card_metadata import HUB_NAME, stated_metadata
from encoderlab.runs.model_folder import model_folder
from encoderlab.shipped import shipped_names

CARD = "README.md"


def start_metadata(init_from: str | None) -> dict[str, str]:
    """Return the metadata that a trained model takes over; {} without an encoder or a card.

    A shipped encoder is the base model itself; that of a folder is the one that its card names.
    """
    if not init_from:
        return {}
    card = _card_of(init_from)
    stated: dict[str, str] = {}
    if card is not None and card.is_file():
        stated = stated_metadata(card.read_text(encoding="utf-8", errors="replace"))
    if init_from in shipped_names():
        stated["base_model"] = init_from
    return stated


def _card_of(init_from: str) -> Path | None:
    """Return where the card of an encoder is; for a name of the hub, in the cache."""
    if HUB_NAME.fullmatch(init_from) and not Path(init_from).exists():
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(init_from, CARD)
        return Path(cached) if isinstance(cached, str) else None
    try:
        return model_folder(init_from, "init_from") / CARD
    except UserError:  # it was moved while the run trained
        return None
