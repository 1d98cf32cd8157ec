"""The rows of a stream: windows of documents, the same for any number of processes, and resumed exactly."""

from functools import partial
from itertools import islice

import numpy as np
import pytest

from encoderlab.data.dataset import Pack
from encoderlab.data.documents import DocumentStream, stream_of_files
from encoderlab.data.sentences import block_of
from encoderlab.data.tokenizer_config import SymbolsConfig
from encoderlab.errors import DataError
from encoderlab.system.processes import Processes
from encoderlab.tasks.pretraining import PretrainingConfig
from encoderlab.tasks.stream import StreamedRows

BATCH = 4
NAMES = [f"{shard:02}" for shard in range(7)]


class FullStops:
    def split(self, paragraph):
        return [sentence.strip() for sentence in paragraph.split(".") if sentence.strip()]


def read(name):
    """Yield documents of 3 to 6 sentences that differ in their digits."""
    for number in range(12):
        yield [". ".join(f"{name}{number:02}{part}" for part in range(3 + (int(name) + number) % 4))]


@pytest.fixture(scope="module")
def task():
    tokenizer = SymbolsConfig().build(tuple, None)
    return PretrainingConfig(name="test", min_characters=1, min_sentences=1).build(tokenizer, [], 32)


@pytest.fixture(autouse=True)
def three_readers(monkeypatch):
    monkeypatch.setattr("encoderlab.data.documents.READERS", 3)


def streamed(task, read=read, names=NAMES):
    documents = DocumentStream(stream_of_files(names, read), dict.fromkeys(names, ""), 150, validation=0.1)
    return StreamedRows(documents, partial(block_of, FullStops(), task.tokenizer, 1, 1), task, Pack.sentences, 5)


def first_windows(rows, count, after=0):
    """Return the texts of each window's rows, with its number and how many of its steps have been taken."""
    sep = bytes([rows.task.tokenizer.sep_id])
    windows = []
    for number, drawn, done in islice(rows.epochs(5, BATCH, after), count):
        ids = drawn.gather(np.arange(len(drawn.pairs.labels)), rows.task.tokenizer.pad_id).input_ids.tolist()
        windows.append((number, [tuple(bytes(row[1:]).split(sep)[:2]) for row in ids], done))
    return windows


def test_successive_windows_contain_different_documents(task):
    windows = first_windows(streamed(task), 6)
    assert [number for number, _, _ in windows] == list(range(6))
    assert all(len(texts) > BATCH for _, texts, _ in windows)
    assert not {text for pair in windows[0][1] for text in pair} & {text for pair in windows[1][1] for text in pair}


def test_a_stream_resumes_at_any_step_and_reproduces_earlier_ones(task):
    rows = streamed(task)
    whole = first_windows(rows, 9)
    steps = np.cumsum([0, *(-(-len(texts) // BATCH) for _, texts, _ in whole)])
    for window, done in ((0, 1), (3, 0), (4, 2), (7, 1)):
        step = int(steps[window]) + done
        resumed = streamed(task)
        resumed.resume(rows.position(step))
        found = first_windows(resumed, 9 - window, after=step)
        assert [one[:2] for one in found] == [one[:2] for one in whole[window:]] and found[0][2] == done
    assert [one[:2] for one in first_windows(rows, 3, after=int(steps[1]) - 1)] == [one[:2] for one in whole[:3]]


def test_a_position_of_another_number_of_readers_is_refused(task):
    position = streamed(task).position(0)
    with pytest.raises(ValueError, match="the checkpoint was reading 3 shards at once"):
        streamed(task, names=NAMES[:2]).resume(position)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_processes_share_the_readers_and_get_the_same_windows(task, monkeypatch, size):
    whole = streamed(task)
    every, exchanged = [streamed(task) for _ in range(size)], []

    def collected(gathered, mine, group):
        exchanged.append(mine)
        gathered[:] = exchanged if len(exchanged) == size else [{}]

    monkeypatch.setattr("torch.distributed.new_group", lambda backend: None)
    monkeypatch.setattr("torch.distributed.all_gather_object", collected)
    for rank, rows in enumerate(every):
        rows.share_with(Processes(rank=rank, size=size))
    positions = whole._current.positions
    for _ in range(4):
        exchanged.clear()
        alone, after = whole._shares(positions)
        *_, (together, later) = [rows._shares(positions) for rows in every]
        assert all(later_one == one for later_one, one in zip(later, after, strict=True))
        ids = [[block.input_ids.tolist() for block in blocks] for blocks in (alone, together)]
        assert ids[0] == ids[1]
        positions = after


def test_shards_without_a_document_to_train_on_are_refused(task):
    with pytest.raises(DataError, match=r"^None of the 7 shards has two documents to train on\."):
        streamed(task, read=lambda name: iter(()))
