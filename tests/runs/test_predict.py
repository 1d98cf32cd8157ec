"""Predictions, vectors and filled-in masks belong to their row and do not depend on the other rows."""

import numpy as np
import pytest

from encoderlab.commands.pretrain import FILLED_ROWS, FILLINGS, fill_masks
from encoderlab.config.commands import VectorPooling
from encoderlab.data.dataset import Pack
from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.token_store import as_blocks, memory_store
from encoderlab.runs.predict import encoded_rows, predictions_of, vectors_of
from encoderlab.tasks.config import PretrainingConfig, TaggingConfig
from encoderlab.tasks.sentence_rows import SentenceRows
from tests.runs.small_assembly import LABELS, assembly_of

pytestmark = pytest.mark.usefixtures("one_thread")
TEXTS = ["0123456789", "a", "12ab"]


@pytest.fixture(scope="module")
def assembly():
    small = assembly_of()
    small.model.eval()
    return small


def vectors(assembly, texts, pooling, **options):
    rows = encoded_rows(assembly, [TextExample(text) for text in texts])
    of_rows = dict(vectors_of(assembly, rows, pooling, **options))
    return [of_rows[row] for row in range(len(texts))]


def test_each_example_has_the_prediction_it_has_alone(assembly):
    examples = [TextExample(text) for text in (*TEXTS, "", "b" * 40)]
    for example, answer in zip(examples, predictions_of(assembly, examples), strict=True):
        (alone,) = predictions_of(assembly, [example])
        assert answer.labels == alone.labels
        assert answer.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
        assert sum(answer.by_label(LABELS).values()) == pytest.approx(1)
        assert max(answer.by_label(LABELS), key=answer.by_label(LABELS).get) == answer.labels[0]


def test_each_word_has_its_own_prediction():
    tagger = assembly_of(TaggingConfig(name="digits"))
    tagger.model.eval()
    answers = predictions_of(tagger, [WordsExample(("1", "2", "ab")), WordsExample(("b",))])
    assert [len(answer.labels) for answer in answers] == [3, 1]


@pytest.mark.parametrize("pooling", [*VectorPooling, None])
def test_a_rows_vectors_are_those_it_has_alone(assembly, pooling):
    for text, together in zip(TEXTS, vectors(assembly, TEXTS, pooling), strict=True):
        np.testing.assert_allclose(together, vectors(assembly, [text], pooling)[0], atol=1e-5)


def test_a_text_has_one_vector_or_one_per_token_and_can_be_normalized(assembly):
    means, of_tokens = vectors(assembly, TEXTS, VectorPooling.mean), vectors(assembly, TEXTS, None)
    assert [part.shape for part in means] == [(1, 8)] * 3
    assert [part.shape for part in of_tokens] == [(12, 8), (3, 8), (6, 8)]  # [CLS], the symbols, [SEP]
    np.testing.assert_allclose(of_tokens[2].mean(0), means[2][0], atol=1e-5)
    for plain, normalized in zip(means, vectors(assembly, TEXTS, VectorPooling.mean, normalize=True), strict=True):
        np.testing.assert_allclose(normalized, plain / np.linalg.norm(plain), atol=1e-5)


def test_masks_are_filled_with_the_true_token_and_descending_probabilities():
    def fill(**task):
        sentences = [
            {"input_ids": [5 + (row + n) % 10 for n in range(4)], "document": (row // 3,), "paragraph": (row // 3,)}
            for row in range(27)
        ]
        columns = {"input_ids": "uint16", "document": "uint32", "paragraph": "uint32"}
        store = memory_store(columns, as_blocks(sentences, columns))
        pretrained = assembly_of(PretrainingConfig(name="text", **task), [])
        return fill_masks(pretrained, SentenceRows(store, pretrained.task, Pack.sentences))

    shown = fill(mask_replace_prob=1.0, random_replace_prob=0.0)
    assert len(shown) == FILLED_ROWS and shown == fill(mask_replace_prob=1.0, random_replace_prob=0.0)
    for one in shown:
        assert one.pieces[one.place] == "[MASK]"
        assert one.answer in "0123456789" and len(one.guesses) == FILLINGS
        probabilities = [probability for _, probability in one.guesses]
        assert probabilities == sorted(probabilities, reverse=True) and 0 < sum(probabilities) <= 1 + 1e-6
    assert fill(mask_replace_prob=0.0, random_replace_prob=0.0) == []  # every target is shown unmasked
