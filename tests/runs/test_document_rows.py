"""The rows of a pretraining run: sentences stored once, counted by document, refused if nothing can be paired, and the
scores of baselines on them.
"""

from functools import partial

import numpy as np
import pytest
from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

from encoderlab.data.dataset import Pack
from encoderlab.data.sentences import SentenceSplitter
from encoderlab.data.tokenizer_config import SymbolsConfig
from encoderlab.errors import DataError
from encoderlab.runs.finish import guessed_pairs, guessed_tokens
from encoderlab.runs.load_data import pair_facts
from encoderlab.tasks.pretraining import SecondSentence
from tests.runs.small_documents import DOCUMENTS, LONG, documents_of, rows_in, tokenizer_of


@pytest.fixture
def rows_of(tmp_path):
    return partial(rows_in, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_store_equals_one_built_sentence_by_sentence_in_any_process(tmp_path, monkeypatch, workers):
    """Compare with the plainest way to build it, which reads like the store's description."""
    monkeypatch.setattr("encoderlab.data.sentences._CHARACTERS", 200)
    monkeypatch.setattr("encoderlab.data.sentences._MOST_WORKERS", workers)
    splitter = SentenceSplitter(PunktSentenceTokenizer(PunktParameters()), "Punkt", "Punkt 1")
    documents = [[f"{LONG} Number {number}. (It is so.) \u200b!", "Too short.", LONG[number:]] for number in range(40)]
    tokenizer = tokenizer_of(documents_of(documents), tmp_path)
    ids, document, paragraph = [], [], []
    kept = [(number, text) for number, paragraphs in enumerate(documents) for text in paragraphs if len(text) >= 50]
    for place, (number, text) in enumerate(kept):
        encoded = [pieces for pieces in tokenizer.encode(splitter.split(text)) if pieces]
        ids, document, paragraph = ids + encoded, document + [number] * len(encoded), paragraph + [place] * len(encoded)
    store = rows_in(tmp_path, documents, tokenizer=tokenizer, splitter=splitter).store
    assert store["input_ids"].values.tolist() == [id_ for pieces in ids for id_ in pieces]
    assert store["input_ids"].lengths().tolist() == [len(pieces) for pieces in ids]
    assert store["document"].values.tolist() == document
    assert store["paragraph"].values.tolist() == paragraph
    assert store["document"].offsets.tolist() == store["paragraph"].offsets.tolist() == list(range(len(ids) + 1))


@pytest.mark.parametrize("pack", Pack)
@pytest.mark.parametrize("second", SecondSentence)
def test_a_batch_has_two_texts_with_their_segments_or_one(rows_of, second, pack):
    rows = rows_of(second_sentence=second, pack=pack, max_length=16)
    task = rows.task
    drawn = rows.epoch(3, 1)
    batch = drawn.gather(np.arange(len(rows)), task.tokenizer.pad_id)
    stored, offsets, pairs = rows.store["input_ids"].values, rows.sentences.offsets, drawn.pairs
    for row in range(len(rows)):
        n = int(drawn.lengths[row])
        ids, segments = batch.input_ids[row].tolist(), batch.token_type_ids[row].tolist()
        ends = [place for place, id_ in enumerate(ids) if id_ == task.tokenizer.sep_id]
        first = stored[offsets[pairs.first_start[row]] : offsets[pairs.first_stop[row]]]
        second_text = stored[offsets[pairs.second_start[row]] : offsets[pairs.second_stop[row]]]
        assert ids[0] == task.tokenizer.cls_id and ends[-1] == n - 1 <= 15
        assert ids[1 : ends[0]] == first[: ends[0] - 1].tolist()
        if second is SecondSentence.none:
            assert len(ends) == 1 and not any(segments) and batch.labels is None
        else:
            assert ids[ends[0] + 1 : n - 1] == second_text[: n - ends[0] - 2].tolist()
            assert segments == [0] * (ends[0] + 1) + [1] * (n - ends[0] - 1) + [0] * (len(ids) - n)


def test_the_store_is_built_once_for_all_lengths_and_again_if_its_inputs_change(rows_of, tmp_path):
    for max_length in (32, 16):
        rows_of(max_length=max_length)
    stores = tmp_path / "sentences"
    assert len(list(stores.iterdir())) == 1
    rows_of(min_sentences=2)
    rows_of(documents=DOCUMENTS[::-1])
    assert len(list(stores.iterdir())) == 3


@pytest.mark.parametrize(
    ("documents", "settings", "message"),
    [
        (
            [["short."], ["also short."]],
            {},
            "no paragraph is long enough.*task.min_characters=50 task.min_sentences=3",
        ),
        ([[LONG], ["short."]], {}, "Only one of the 2 documents of train.*task.second_sentence=none"),
        ([["a b c d. e f g h."], [LONG]], {"min_sentences": 9}, "task.min_sentences=9"),
    ],
)
def test_documents_that_cannot_be_paired_are_refused(rows_of, documents, settings, message):
    with pytest.raises(DataError, match=message):
        rows_of(documents=documents, **settings)


def test_a_tokenizer_that_knows_no_word_of_the_documents_is_refused(rows_of):
    tokenizer = SymbolsConfig(symbols="0123456789").build(list, None)
    with pytest.raises(DataError, match="knows no word of the train documents.*Set tokenizer=wordpiece"):
        rows_of(tokenizer=tokenizer)


def test_pairs_are_counted_before_training(tmp_path):
    rows = rows_in(tmp_path)
    facts = pair_facts(rows, documents_of())
    assert [facts[name] for name in ("documents", "paragraphs", "sentences", "pairs")] == [3, 4, 16, 12]
    assert facts["labels"] == {"follows": 6, "random": 6}
    assert facts["truncated"] == 0
    assert guessed_pairs(rows, rows) == {"majority": {"nsp_accuracy": 0.5}}
    single = rows_in(tmp_path, second_sentence=SecondSentence.none)
    assert guessed_pairs(single, single) == {} and "labels" not in pair_facts(single, documents_of())


def test_the_most_frequent_token_is_counted_in_training_and_named(tmp_path):
    rows = rows_in(tmp_path)
    full_stop = rows.task.tokenizer.encode(["."])[0][0]
    targets = np.array([full_stop, full_stop, rows.task.tokenizer.encode(["six"])[0][0]])
    found = guessed_tokens(rows, targets)
    assert found["most_frequent_token"] == {"mlm_accuracy": pytest.approx(2 / 3), "token_id": full_stop, "token": "."}
    pieces, size = list(rows.store["input_ids"].values), rows.task.tokenizer.vocabulary_size
    shares = [(pieces.count(id_) + 1) / (len(pieces) + size) for id_ in targets]
    assert found["unigram"]["mlm_loss"] == pytest.approx(-np.log(shares).mean())
