"""Predictions for masked tokens: one mask for each row shown, its true token, and descending probabilities."""

import pytest

from encoderlab.data.sources.dataset import Pack
from encoderlab.data.token_store import memory_store
from encoderlab.runs.inference import masked_predictions
from encoderlab.runs.inference.masked_predictions import GUESSES, SHOWN, fill_masks
from encoderlab.tasks.config import PretrainingConfig
from encoderlab.tasks.sentence_rows import SentenceRows
from tests.runs.small_assembly import TOKENIZER, assembly_of

COLUMNS = {"input_ids": "uint16", "document": "uint32", "paragraph": "uint32"}


@pytest.fixture
def filled():
    def fill(n_documents=9, **task):
        assembly = assembly_of(PretrainingConfig(name="text", **task), [])
        sentences = [
            {
                "input_ids": [5 + (row + place) % 10 for place in range(4)],
                "document": (row // 3,),
                "paragraph": (row // 3,),
            }
            for row in range(3 * n_documents)
        ]
        rows = SentenceRows(memory_store(COLUMNS, sentences), assembly.task, Pack.sentences)
        return fill_masks(assembly, rows)

    return fill


def test_a_few_rows_are_shown_with_mask_true_token_and_predictions(filled):
    found = filled(mask_replace_prob=1.0, random_replace_prob=0.0)
    assert len(found) == SHOWN
    for one in found:
        assert one.pieces[one.place] == "[MASK]"
        assert one.answer in "0123456789" and len(one.guesses) == GUESSES
        chances = [chance for _, chance in one.guesses]
        assert chances == sorted(chances, reverse=True) and 0 < sum(chances) <= 1 + 1e-6


def test_they_are_the_same_each_time(filled):
    assert filled() == filled()


def test_a_row_whose_targets_are_all_shown_unmasked_is_skipped(filled):
    assert filled(mask_replace_prob=0.0, random_replace_prob=0.0) == []


def test_a_vocabulary_can_be_smaller_than_the_number_of_predictions(filled, monkeypatch):
    monkeypatch.setattr(masked_predictions, "GUESSES", 1000)
    assert {len(one.guesses) for one in filled()} == {TOKENIZER.vocabulary_size}
