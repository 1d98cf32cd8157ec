"""What annotation tools write and encoderlab does not read, by name, with the export that it reads instead."""

from __future__ import annotations

from pathlib import Path

from encoderlab.errors import DataError

_CONLL = "as CoNLL 2002 (in WebAnno and INCEpTION: Export, format CoNLL 2002)"
_BRAT = "with brat's own tools/anntoconll.py FILE.txt, and read it with dataset.text=3 dataset.label=0"
_SPACY = 'write a line of JSON for each doc: {"text": [t.text for t in doc], "label": [tags of its words]}'
_BY_SUFFIX = {
    ".ann": ("brat's standoff format", _BRAT),
    ".xmi": ("UIMA CAS XMI", _CONLL),
    ".spacy": ("spaCy's DocBin", f"In Python, {_SPACY}"),
}


def refuse_brat(path: Path) -> None:
    """Raise DataError, with the export that works, for texts beside which brat keeps their annotations."""
    if path.is_dir():
        annotated = next((entry for entry in sorted(path.iterdir()) if entry.suffix == ".ann"), None)
        if annotated is not None:
            _refuse(annotated, *_BY_SUFFIX[".ann"])
    elif path.suffix == ".txt" and path.with_suffix(".ann").is_file():
        _refuse(path, "the text of brat's standoff format", _BRAT)


def refuse_other_exports(path: Path) -> None:
    """Raise DataError, with the export that works, for what annotation tools write and nobody else reads as a table."""
    if not path.is_file():  # a folder, or a pipe, which can be read once
        return
    if path.suffix.lower() in _BY_SUFFIX:
        _refuse(path, *_BY_SUFFIX[path.suffix.lower()])
    if path.suffix.lower() not in (".tsv", ".txt", ".json", ".xml", ".conll"):
        return
    try:
        with path.open("rb") as file:
            start = file.read(2**12).lstrip(b"\xef\xbb\xbf \r\n")
    except OSError:
        return  # whoever reads it says so
    if start.startswith(b"#FORMAT=WebAnno TSV"):
        _refuse(path, "WebAnno TSV", _CONLL)
    if b"xmi:XMI" in start or start.startswith(b"{") and b'"%TYPES"' in start:
        _refuse(path, "UIMA CAS", _CONLL)


def _refuse(path: Path, name: str, remedy: str) -> None:
    way_out = remedy if remedy.startswith("In Python") else f"Export it {remedy}"
    raise DataError(f"{path} is {name}, which is not read", remedy=way_out)
