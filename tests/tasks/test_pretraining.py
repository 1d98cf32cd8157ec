"""The pretraining task: new texts are read without masks, and pairs predicted in the labels' order."""

import pytest
import torch

from encoderlab.batch import Batch, Prediction
from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.tokenizers import SymbolsConfig, Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.tasks.config import PretrainingConfig, SecondSentence
from encoderlab.tasks.pretraining import PAIR_LABELS, Pretraining

TOKENIZER = SymbolsConfig(symbols="0123").build(list, None)
IDS = torch.zeros(2, 3, dtype=torch.long)
BATCH = Batch(IDS, IDS, None, torch.arange(2), torch.zeros(0, dtype=torch.long), None, None, 6)


def task_of(second=SecondSentence.next, tokenizer=TOKENIZER, max_length=12):
    return Pretraining(PretrainingConfig(name="text", second_sentence=second), tokenizer, [], max_length)


@pytest.mark.parametrize("second", SecondSentence)
def test_it_has_a_head_for_tokens_and_one_for_pairs_if_there_are_any(second):
    task = task_of(second)
    assert task.labels == PAIR_LABELS[second] and task.heads.vocabulary
    assert task.heads.sequence_classes == (None if second is SecondSentence.none else 2)


def test_new_texts_are_read_whole_without_masks_or_targets():
    one, pair = task_of().encode([TextExample("012"), TextExample("0", "12")])
    assert TOKENIZER.pieces(one.input_ids) == ["[CLS]", "0", "1", "2", "[SEP]"] and one.token_labels == {}
    assert pair.token_type_ids == [0, 0, 0, 1, 1, 1] and pair.label is None


def test_sequences_of_words_are_refused():
    with pytest.raises(DataError, match="reads texts, but these are sequences of words"):
        task_of().encode([WordsExample(("0", "1"))])


@pytest.mark.parametrize("second", [SecondSentence.next, SecondSentence.swapped])
def test_the_more_probable_relation_of_a_pair_is_predicted(second):
    first, other = task_of(second).answers(Prediction(sequence_logits=torch.tensor([[2.0, 0.0], [0.0, 3.0]])), BATCH)
    assert (first.labels[0], other.labels[0]) == tuple(PAIR_LABELS[second])
    assert first.probabilities[0] > 0.5 and sum(other.probabilities) == pytest.approx(1)


def test_without_pairs_nothing_is_predicted_for_a_text():
    with pytest.raises(
        DataError, match=r"task\.second_sentence=none and predicts nothing for a whole text.*encoderlab finetune"
    ):
        task_of(SecondSentence.none).answers(Prediction(), BATCH)


def test_a_tokenizer_without_a_mask_and_a_length_without_room_are_refused():
    specials = {role: text for role, text in TOKENIZER.specials.items() if role != "mask_token"}
    with pytest.raises(DataError, match="The tokenizer has no mask token"):
        task_of(tokenizer=Tokenizer(TOKENIZER._backend, specials))
    with pytest.raises(SettingError, match=r"model\.max_length=4 leaves no room.*at least 5"):
        task_of(max_length=4)


def test_special_tokens_are_not_ordinary():
    assert task_of().is_ordinary.sum() == 4
