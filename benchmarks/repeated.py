"""Write files with any amount of data: the built-in corpus, repeated as rows or documents, or made-up reviews."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from benchmarks.synthetic import reviews
from encoderlab.data.built_in import IntentsDataset
from encoderlab.data.sources.docstrings import DocsDataset

VALIDATION = 300  # rows or documents, the same however often the others are repeated
DOCUMENTS = 1_000
REVIEWS = 36_000  # a hundredth of Amazon's
NAMES = {"rows": "parquet", "documents": "txt", "reviews": "parquet"}


def main() -> None:
    """Write the files, and print the settings with which encoderlab reads them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=NAMES, required=True, help="rows with labels, documents, or reviews")
    parser.add_argument("--times", type=int, default=1, help="how many times to repeat them")
    parser.add_argument(
        "--limit", type=int, help="this many rows or documents before repetition, or reviews per repetition"
    )
    parser.add_argument("--output", type=Path, required=True, help="new folder")
    options = parser.parse_args()
    options.output.mkdir()
    cache = Path(os.environ.get("ENCODERLAB_CACHE", "~/.cache/encoderlab")).expanduser()
    write = {"rows": _write_rows, "documents": _write_documents, "reviews": _write_reviews}[options.kind]
    count = write(options.output, cache, options.times, options.limit)
    files = {name: options.output / f"{name}.{NAMES[options.kind]}" for name in ("train", "validation")}
    task = "pretraining" if options.kind == "documents" else "classification"
    overrides = [f"task={task}", "dataset=files", *(f"dataset.{name}={path}" for name, path in files.items())]
    command = "pretrain" if options.kind == "documents" else "train"
    print(json.dumps({"command": command, "overrides": overrides, "rows": count}))


def _write_rows(folder: Path, cache: Path, times: int, limit: int | None) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    splits = IntentsDataset(limit=limit).load(cache)
    for name, repeats in (("train", times), ("validation", 1)):
        rows = [{"text": row.text, "label": splits.labels[row.label]} for row in splits.by_name[name]]
        rows = pa.Table.from_pylist(rows if name == "train" else rows[:VALIDATION])
        with pq.ParquetWriter(folder / f"{name}.parquet", rows.schema) as file:
            for _ in range(repeats):
                file.write_table(rows)
    return times * len(splits.by_name["train"])


def _write_reviews(folder: Path, cache: Path, times: int, limit: int | None) -> int:
    """Write reviews that all differ: the seed of each batch is its number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = limit or REVIEWS
    for name, seeds, rows in (("train", range(1, times + 1), size), ("validation", [0], VALIDATION)):
        with pq.ParquetWriter(
            folder / f"{name}.parquet", pa.schema({"text": pa.string(), "label": pa.string()})
        ) as file:
            for texts, labels in (reviews(rows, seed) for seed in seeds):
                file.write_table(pa.table({"text": texts, "label": labels}))
    return times * size


def _write_documents(folder: Path, cache: Path, times: int, limit: int | None) -> int:
    documents = DocsDataset(limit=limit or DOCUMENTS).documents(cache).by_name
    count = 0
    for name, repeats in (("train", times), ("validation", 1)):
        texts = ["\n".join(paragraphs) for paragraphs in documents[name].documents() if paragraphs]
        texts = texts if name == "train" else texts[:VALIDATION]
        count += repeats * len(texts) if name == "train" else 0
        with (folder / f"{name}.txt").open("w", encoding="utf-8") as file:
            for _ in range(repeats):
                file.writelines(f"{text}\n\n" for text in texts)
    return count


if __name__ == "__main__":
    main()
