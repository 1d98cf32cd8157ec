"""The rows of a stream: windows of documents, the same for any number of processes, and resumed exactly."""

from contextlib import suppress
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from encoderlab.data.sentences.blocks import Preparation
from encoderlab.data.shards import Fractions, OnDamaged, Shards
from encoderlab.data.sources.dataset import Pack
from encoderlab.data.tokenizers.config import SymbolsConfig
from encoderlab.errors import DataError
from encoderlab.system.processes import Processes
from encoderlab.tasks import stream
from encoderlab.tasks.config import PretrainingConfig
from encoderlab.tasks.pretraining import Pretraining
from encoderlab.tasks.stream import StreamedRows

BATCH = 4


class FullStops:
    def split(self, paragraph):
        return [sentence.strip() for sentence in paragraph.split(".") if sentence.strip()]


def read(shard, start):
    """Yield documents of 3 to 6 sentences that differ in their digits."""
    for number in range(start, 12):
        if shard == 99:
            raise DataError("it is torn")
        yield [". ".join(f"{shard:02}{number:02}{part}" for part in range(3 + (shard + number) % 4))]


def shards_of(n_shards=7, window=150, **settings):
    names = {f"shard {shard}": str(shard) for shard in range(n_shards)}
    return replace(Shards(names, read, Fractions(0.1, 0), window, 3, OnDamaged.error), **settings)


@pytest.fixture(scope="module")
def task():
    tokenizer = SymbolsConfig().build(tuple, None)
    return Pretraining(PretrainingConfig(name="test", min_characters=1, min_sentences=1), tokenizer, [], 32)


def streamed(task, shards=None, seed=5):
    return StreamedRows(
        shards or shards_of(), Preparation(FullStops(), task.tokenizer, 1, 1), task, Pack.sentences, seed
    )


def first_windows(rows, count, after=0):
    """Return the texts of each window's rows, with its number and how many of its steps have been taken."""
    return [
        (number, [tuple(map(bytes, pair)) for pair in drawn.texts(np.arange(len(drawn.pairs.labels)))], done)
        for number, drawn, done in islice(rows.epochs(5, BATCH, after), count)
    ]


def test_successive_windows_contain_different_documents(task):
    windows = first_windows(streamed(task), 6)
    assert [number for number, _, _ in windows] == list(range(6))
    assert all(len(texts) > BATCH for _, texts, _ in windows)
    assert len({tuple(texts) for _, texts, _ in windows}) == 6
    assert not {text for pair in windows[0][1] for text in pair} & {text for pair in windows[1][1] for text in pair}


def test_a_stream_resumes_at_any_step_and_reads_from_its_window_on(task):
    rows = streamed(task)
    whole = first_windows(rows, 9)
    opened = []

    def noted(shard, start):
        opened.append((shard, start))
        return read(shard, start)

    steps = np.cumsum([0, *(-(-len(texts) // BATCH) for _, texts, _ in whole)])
    for window, done in ((0, 1), (3, 0), (4, 2), (7, 1)):
        step = int(steps[window]) + done
        resumed = streamed(task, shards_of(read=noted))
        resumed.resume(rows.position(step))
        opened.clear()
        found = first_windows(resumed, 9 - window, after=step)
        assert [(number, texts) for number, texts, _ in found] == [
            (number, texts) for number, texts, _ in whole[window:]
        ]
        assert found[0][2] == done
        started = {start for _, start in opened if start}  # in mid-shard: the others are begun
        assert started == {document for _, _, document in rows.position(step)["places"] if document}


def test_steps_before_the_newest_window_are_reproduced(task):
    rows = streamed(task)
    whole = first_windows(rows, 4)
    steps = -(-len(whole[0][1]) // BATCH)
    again = first_windows(rows, 3, after=steps - 1)
    assert [(number, texts) for number, texts, _ in again] == [(number, texts) for number, texts, _ in whole[:3]]
    assert again[0][2] == steps - 1


def test_a_position_of_another_number_of_readers_is_refused(task):
    position = streamed(task).position(0)
    with pytest.raises(ValueError, match="the checkpoint was reading 3 shards at once"):
        streamed(task, shards_of(at_once=2)).resume(position)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_processes_share_the_readers_and_get_the_same_windows(task, monkeypatch, size):
    whole = first_windows(streamed(task), 5)
    every = [streamed(task) for _ in range(size)]
    exchange = []

    def gatherer(processes):
        return lambda mine: exchange.append(mine) or list(exchange)

    monkeypatch.setattr(stream, "_all_gatherer", gatherer)
    for rank, rows in enumerate(every):
        rows.share_with(Processes(rank=rank, size=size))
    places = [rows._current.places for rows in every][0]
    for _, texts, _ in whole[1:]:
        exchange.clear()
        for rows in every[:-1]:  # the last one finds what all have handed in
            with suppress(KeyError):
                rows._shares(places)
        shares = every[-1]._shares(places)
        store = stream._store([share.block for share in shares], "uint16")
        places = tuple(share.place for share in shares)
        ids = {
            tuple(store["input_ids"].values[begin:end])
            for begin, end in zip(store["input_ids"].offsets, store["input_ids"].offsets[1:], strict=False)
        }
        assert {tuple(np.frombuffer(text, np.uint16)) for pair in texts for text in pair} <= ids


def test_a_damaged_shard_is_skipped_reported_and_counted(task, capsys):
    names = {"a": "a", "b": "b", "torn": "torn"}
    shards = Shards(
        names, lambda shard, start: read(99 if shard == 2 else shard, start), Fractions(0, 0), 10**6, 8, OnDamaged.skip
    )
    rows = streamed(task, shards)
    first_windows(rows, 3)
    assert rows.note() == "1 of 3 shards is damaged, and the rest of it was skipped: torn (it is torn)"
    assert capsys.readouterr().err == "encoderlab: the rest of shard torn is skipped: it is torn\n"
    resumed = streamed(task, shards)
    capsys.readouterr()
    resumed.resume(rows.position(3))
    first_windows(resumed, 2, after=3)
    assert resumed.note() == rows.note() and capsys.readouterr().err == ""


def test_shards_without_a_document_to_train_on_are_refused(task):
    def nothing(shard, start):
        yield from ()

    with pytest.raises(DataError, match=r"^None of the 7 shards has two documents to train on\."):
        streamed(task, shards_of(read=nothing))

    def torn(shard, start):
        raise DataError("it is torn")
        yield

    with pytest.raises(DataError, match=r"^All 7 shards are damaged: it is torn\."):
        streamed(task, shards_of(read=torn, on_damaged=OnDamaged.skip))
