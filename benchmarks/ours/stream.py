"""Our side of reading a stream: every window of some shards once, in one process or in several under torchrun."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from itertools import islice
from pathlib import Path

import torch

from encoderlab.data.files.files import FilesDataset
from encoderlab.data.tokenizers.config import WordPieceConfig
from encoderlab.runs.corpora.document_corpus import DocumentCorpus
from encoderlab.runs.models.task import build_task
from encoderlab.system.device import peak_memory
from encoderlab.system.processes import connect, processes_of_torchrun
from encoderlab.tasks.config import PretrainingConfig
from encoderlab.tasks.stream import StreamedRows

LENGTH, BATCH, SEED = 128, 64, 0
VOCABULARY_TEXTS = 1000  # paragraphs to train the tokenizer on, which is not measured


def main() -> None:
    """Read all documents; the first process prints the speed and memory of all processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", required=True, help="pattern of the shards")
    parser.add_argument("--documents", type=int, required=True, help="how many they hold")
    parser.add_argument("--cache", type=Path, required=True, help="folder of the tokenizer")
    parser.add_argument("--window", type=int, required=True, help="characters of a window")
    options = parser.parse_args()
    torch.set_num_threads(1)
    processes = connect(processes_of_torchrun())
    config = PretrainingConfig(name="pretraining")
    dataset = FilesDataset(
        path=options.path, streaming=True, window=options.window, validation_fraction=0.0, encoding="utf-8"
    )
    with processes.main_process_first():
        corpus = DocumentCorpus.load(dataset, config, options.cache)
        tokenizer = WordPieceConfig().build(lambda: islice(corpus.training_texts(), VOCABULARY_TEXTS), options.cache)
    task = build_task(config, tokenizer, [], LENGTH)
    processes.all_reduce_sum([1])
    started, used = time.perf_counter(), time.process_time()
    rows = corpus.training_rows(task, SEED)
    assert isinstance(rows, StreamedRows)
    rows.share_with(processes)
    documents = windows = tokens = 0
    for _, drawn, _ in rows.windows(SEED, BATCH, 0):
        sentences = drawn.rows.sentences
        documents, windows = documents + int(sentences.document[-1]) + 1, windows + 1
        tokens += int(sentences.offsets[-1])
        if documents >= options.documents:
            break
    mine = {"processor_seconds": time.process_time() - used, "peak_memory": peak_memory(torch.device("cpu"))}
    every = processes.gather(mine)
    if every is not None:
        counts = {
            "documents": documents,
            "windows": windows,
            "tokens": tokens,
            "seconds": round(time.perf_counter() - started, 2),
        }
        used = round(sum(one["processor_seconds"] for one in every), 2)
        print(json.dumps(counts | {"processor_seconds": used, "peak_memory": max(one["peak_memory"] for one in every)}))
    sys.stdout.flush()
    os._exit(0)  # as Processes.end does


if __name__ == "__main__":
    main()
