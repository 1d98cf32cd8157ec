"""What annotation tools import: rows to label, as Label Studio and doccano read them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TextIO

from encoderlab.apps.labelling.settings import SelectFormat
from encoderlab.models.row_files import Row
from encoderlab.reports.predictions import in_json
from encoderlab.tables.columns import joined_columns


def _write_label_studio(file: TextIO, rows: Iterator[Row], text_columns: Sequence[str]) -> None:
    """Write the tasks that Label Studio imports, whose data are the cells that hold something."""
    before = "[\n"
    for row in rows:
        data = {name: value for name, value in row.items() if value is not None}
        file.write(before + json.dumps({"data": data}, ensure_ascii=False, default=in_json))
        before = ",\n"
    file.write("\n]\n")


def _write_doccano(file: TextIO, rows: Iterator[Row], text_columns: Sequence[str]) -> None:
    """Write the lines that doccano imports: the text, its labels, of which there are none, and metadata."""
    for row in rows:
        text = joined_columns(str(row[name]) for name in text_columns)
        others = {name: value for name, value in row.items() if name not in text_columns and value is not None}
        line = {**others, "text": text, "label": []}
        file.write(json.dumps(line, ensure_ascii=False, default=in_json) + "\n")


TOOLS = {SelectFormat.label_studio: _write_label_studio, SelectFormat.doccano: _write_doccano}
