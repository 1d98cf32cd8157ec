"""Reading a workbook: `write` makes one of 20 columns as offices have them, `read` reads it as a dataset is read.

`read` prints the processor time of reading alone, the peak of memory, and the part of it that was there before.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
from datetime import datetime, timedelta
from pathlib import Path

from encoderlab.tables.columns import Columns
from encoderlab.tables.formats import Dialect, format_of
from encoderlab.tables.readers import read_table

WORDS = (
    "invoice",
    "router",
    "parcel",
    "seat",
    "cable",
    "slow",
    "broken",
    "never",
    "again",
    "thanks",
    "please",
    "refund",
)
KINDS = ("billing", "delivery", "other")
FIRST_DAY = datetime(2024, 1, 1)


def write_workbook(path: Path, n_rows: int) -> None:
    """Write a workbook of texts, labels, ids, dates, numbers and truth values, the same each time."""
    import xlsxwriter

    draw = random.Random(0)
    book = xlsxwriter.Workbook(str(path), {"default_date_format": "yyyy-mm-dd"})
    sheet = book.add_worksheet("Rows")
    names = "id created text label customer agent subject channel price score n is_open city note ref lang team status"
    sheet.write_row(0, 0, [*names.split(), "minutes", "tags"])
    for row in range(1, n_rows + 1):
        sheet.write_row(row, 0, _cells(row, draw))
    book.close()


def _cells(row: int, draw: random.Random) -> list[object]:
    """Return the cells of a row in the order of the columns."""
    return [
        10_000_000 + row,
        FIRST_DAY + timedelta(days=draw.randrange(700)),
        " ".join(draw.choices(WORDS, k=20)) + f" {row}",
        draw.choice(KINDS),
        f"customer {draw.randrange(30_000)}",
        f"agent {draw.randrange(50)}",
        " ".join(draw.choices(WORDS, k=5)),
        draw.choice(("mail", "phone", "web")),
        draw.randrange(10_000) / 100,
        draw.random(),
        draw.randrange(100),
        draw.random() < 0.5,
        draw.choice(("Oslo", "Bergen", "Rome")),
        " ".join(draw.choices(WORDS, k=3)),
        f"R-{row:07}",
        draw.choice(("en", "de")),
        f"team {draw.randrange(9)}",
        draw.choice(("open", "closed")),
        draw.randrange(600),
        "a,b",
    ]


def read_workbook(path: Path) -> dict[str, float]:
    """Return the cost of reading a workbook with all its columns: processor seconds, and bytes."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    rows = read_table(path, format_of(path), Columns("text", label="label", others=True), Dialect(), None)
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"rows": len(rows.table), "processor_seconds": seconds, "memory_before": before.ru_maxrss * 1024}


def main() -> None:
    """Write a workbook, or read one and print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("write", "read"), help="what to do")
    parser.add_argument("path", type=Path, help="the workbook")
    parser.add_argument("--rows", type=int, default=100_000, help="to write")
    options = parser.parse_args()
    if options.command == "write":
        write_workbook(options.path, options.rows)
    else:
        print(json.dumps(read_workbook(options.path)))


if __name__ == "__main__":
    main()
