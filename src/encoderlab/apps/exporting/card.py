"""The README.md of an exported model: its own card, with sections on the library that opens the folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from encoderlab.reports.blocks import render
from encoderlab.reports.cards import without_use

TEMPLATES = Path(__file__).with_name("templates")
OPENED_BY = {  # the class of transformers that opens an architecture, by the end of its name
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForPreTraining": "BertForPreTraining",
    "Model": "AutoModel",
}


def export_card(
    card: str, library: str, fields: Mapping[str, Any], *, license_name: str | None = None, **about: Any
) -> str:
    """Return the card for an exported folder, with sections on its use; a card without metadata gets some.

    `library` opens it: transformers, onnx or, for a page, transformers.js; `fields` is the content of its config.json,
    or of the entry about its graph. The other arguments are those of export.md, each left out where it does not apply:
    `windows` says how the run read texts beyond `max_length` tokens, instead of truncating them, and `paired` whether
    it reads pairs. For onnx, `opened`
    tells whether encoderlab opens the folder too, and `change` what storing the graph in 8 bits changed; a page has the
    `libraries` that it names. A `license_name` replaces the one in the metadata.
    """
    from huggingface_hub import ModelCard, ModelCardData

    architecture = fields.get("architectures", [""])[0]
    opened_by = next((name for end, name in OPENED_BY.items() if architecture.endswith(end)), "")
    known = dict.fromkeys(("windows", "max_length", "opened", "change", "libraries", "paired")) | about
    known["pipeline"] = _pipeline_of_graph(fields)
    known["problem_type"] = fields.get("problem_type")
    known |= {"library": library, "fields": fields, "opened_by": opened_by}
    text = render("export.md", TEMPLATES, card=without_use(card), **known)
    read = ModelCard(text, ignore_metadata_errors=True)
    assert isinstance(read.data, ModelCardData)
    read.data.library_name = library
    if license_name is not None:
        read.data.license = license_name
    return str(read)


def _pipeline_of_graph(fields: Mapping[str, Any]) -> str:
    """Return the name of transformers' pipeline for an exported graph."""
    if fields.get("answers_for") == "words":
        return "token-classification"
    if fields.get("answers_for") == "texts" and fields.get("problem_type") is not None:
        return "text-classification"
    return "fill-mask" if "logits" in fields.get("outputs", ()) else "feature-extraction"
