"""Rows of pretraining: neighbours or strangers, half and half, truncated, masked and counted; and a teacher's vectors."""

import numpy as np
import pytest
import torch
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from encoderlab.batch import Batch, Prediction, TeacherOutputs
from encoderlab.data.dataset import Pack
from encoderlab.data.examples import TextExample
from encoderlab.data.token_store import tokenize_examples
from encoderlab.data.tokenizer_config import SymbolsConfig, WordPieceConfig
from encoderlab.data.tokenizers import Tokenizer
from encoderlab.errors import DataError, SettingError
from encoderlab.tasks.pretraining import PAIR_LABELS, PretrainingConfig, SecondSentence
from encoderlab.tasks.sentence_rows import SentenceRows, Sentences, draw_pairs, passages_of
from encoderlab.tasks.vectors import TeacherVectorsConfig
from tests.tasks.small_rows import sentence_store

# a corpus: documents of paragraphs of sentences, each given by its number of tokens
corpora = st.lists(
    st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=5), min_size=1, max_size=4), min_size=2, max_size=6
)


def sentences_of(corpus):
    rows, paragraph = [], 0
    for document, paragraphs in enumerate(corpus):
        for lengths in paragraphs:
            rows += [([5] * n, document, paragraph) for n in lengths]
            paragraph += 1
    return Sentences(sentence_store(rows))


def drawn(corpus, second=SecondSentence.next, pack=Pack.sentences, room=20, seed=(0, 0)):
    sentences = sentences_of(corpus)
    paired = second is not SecondSentence.none
    found = passages_of(sentences, pack, room, paired=paired)
    if len(np.unique(found.document)) < 2:
        reject()  # refused by the corpus: there are no strangers
    return sentences, found, draw_pairs(found, sentences, pack, room, list(seed), paired=paired)


@given(corpus=corpora, pack=st.sampled_from(Pack), seed=st.integers(0, 5))
@settings(deadline=None)
def test_negative_pairs_come_from_another_document_and_positive_ones_are_neighbours(corpus, pack, seed):
    sentences, found, pairs = drawn(corpus, pack=pack, seed=(seed, 0))
    first, second = sentences.document[pairs.first_start], sentences.document[pairs.second_start]
    negative = pairs.labels == 1
    assert (first[negative] != second[negative]).all()
    assert (pairs.second_start[~negative] == pairs.first_stop[~negative]).all()
    assert (first[~negative] == second[~negative]).all()
    assert abs(int(negative.sum()) - int((~negative).sum())) <= 1
    for start, stop in ((pairs.first_start, pairs.first_stop), (pairs.second_start, pairs.second_stop)):
        assert (stop > start).all()
        assert (sentences.document[start] == sentences.document[stop - 1]).all()  # no text spans two documents


@given(corpus=corpora)
@settings(deadline=None)
def test_single_sentences_are_paired_within_their_paragraph_each_neighbour_once(corpus):
    sentences, found, pairs = drawn(corpus)
    expected = sum(len(lengths) - 1 for document in corpus for lengths in document)
    assert len(found.start) == expected
    assert (found.stop - found.start == 2).all()
    assert (sentences.paragraph[found.start] == sentences.paragraph[found.start + 1]).all()
    assert (pairs.first_stop - pairs.first_start == 1).all() and (pairs.second_stop - pairs.second_start == 1).all()


@given(corpus=corpora, room=st.integers(4, 40))
@settings(deadline=None)
def test_segments_fill_the_length_with_whole_sentences_of_one_document(corpus, room):
    sentences, found, pairs = drawn(corpus, pack=Pack.segments, room=room)
    long = sentences.tokens(found.start, found.stop) > room
    assert (found.stop[long] - found.start[long] == 2).all()  # only two sentences may be longer than the room
    could_go_on = ~long & (found.stop < found.end)
    assert (sentences.tokens(found.start[could_go_on], found.stop[could_go_on] + 1) > room).all()
    assert (sentences.document[found.start] == sentences.document[found.stop - 1]).all()
    assert (found.start[1:] >= found.stop[:-1]).all()
    total = sentences.tokens(pairs.first_start, pairs.first_stop) + sentences.tokens(
        pairs.second_start, pairs.second_stop
    )
    single = (pairs.first_stop - pairs.first_start == 1) | (pairs.second_stop - pairs.second_start == 1)
    assert (total[~single] <= room).all()


@given(corpus=corpora, room=st.integers(1, 40), pack=st.sampled_from(Pack))
@settings(deadline=None)
def test_plain_masking_reads_every_sentence_once(corpus, room, pack):
    sentences, found, pairs = drawn(corpus, second=SecondSentence.none, pack=pack, room=room)
    read = np.concatenate([np.arange(a, b) for a, b in zip(pairs.first_start, pairs.first_stop, strict=True)])
    assert read.tolist() == list(range(len(sentences.document)))
    assert (pairs.second_start == pairs.second_stop).all() and not pairs.labels.any()


def test_pairs_are_a_function_of_seed_and_epoch_and_differ_between_epochs():
    corpus = [[[3] * 8] * 3] * 20
    facts = [drawn(corpus, seed=seed)[2] for seed in ((1, 0), (1, 0), (1, 1), (2, 0))]
    same = [np.array_equal(facts[0].second_start, other.second_start) for other in facts[1:]]
    assert same == [True, False, False]


def test_every_second_sentence_is_equally_likely_to_be_a_negative():
    corpus = [[[3] * 4] * 2] * 12  # in each paragraph three of four sentences follow another
    often = np.zeros(12 * 8)
    for epoch in range(300):
        pairs = drawn(corpus, seed=(0, epoch))[2]
        np.add.at(often, pairs.second_start[pairs.labels == 1], 1)
    assert (often.reshape(-1, 4)[:, 0] == 0).all()  # a paragraph's first sentence never follows anything
    others = often.reshape(-1, 4)[:, 1:]
    assert others.min() > 0.7 * others.mean() and others.max() < 1.3 * others.mean()


def test_position_and_length_do_not_reveal_the_label_of_a_pair():
    draw = np.random.default_rng(0)
    corpus = [[draw.integers(4, 40, draw.integers(3, 9)).tolist() for _ in range(4)] for _ in range(150)]
    for pack in Pack:
        sentences, found, pairs = drawn(corpus, pack=pack, room=61)
        labels = pairs.labels
        lengths = [
            sentences.tokens(a, b)
            for a, b in ((pairs.first_start, pairs.first_stop), (pairs.second_start, pairs.second_stop))
        ]
        n = len(labels)
        for feature in (np.arange(n), lengths[0], lengths[0] + lengths[1], found.document):
            assert abs(np.corrcoef(feature, labels)[0, 1]) < 3.5 / n**0.5 + 0.1 * (pack is Pack.segments)
        runs = int((np.diff(labels) != 0).sum())
        assert runs == pytest.approx((n - 1) / 2, abs=4 * n**0.5 / 2)


WORDS = ["under overtaken windows and understated overlays we wander"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return WordPieceConfig(vocabulary_size=100).build(lambda: iter(WORDS * 20), tmp_path_factory.mktemp("tokenizers"))


def rows_of(tokenizer, max_length=24, pack=Pack.segments, **task):
    draw = np.random.default_rng(0)
    sentences = []
    for number in range(200):
        ids = draw.integers(0, tokenizer.vocabulary_size, draw.integers(1, 15)).tolist()
        sentences.append((ids, number // 9, number // 3))
    built = PretrainingConfig(name="test", **task).build(tokenizer, [], max_length)
    return SentenceRows(sentence_store(sentences), built, pack)


@given(
    second=st.sampled_from(SecondSentence),
    pack=st.sampled_from(Pack),
    epoch=st.integers(0, 3),
    max_length=st.integers(5, 40),
    chosen=st.integers(0, 2**32 - 1),
)
@settings(deadline=None, max_examples=40)
def test_a_batch_has_the_announced_length_and_number_of_targets(tokenizer, second, pack, epoch, max_length, chosen):
    rows = rows_of(tokenizer, max_length, pack, second_sentence=second)
    drawn = rows.epoch(1, epoch)
    some = np.random.default_rng(chosen).integers(0, len(rows), 7)
    batch = drawn.gather(some, tokenizer.pad_id)
    real = (
        batch.input_ids.shape[1] * np.ones(7) if batch.attention_mask is None else batch.attention_mask.sum(1).numpy()
    )
    assert real.tolist() == drawn.lengths[some].tolist()
    assert batch.n_tokens == real.sum() and batch.input_ids.shape[1] <= max_length
    masked = drawn.prepare(batch)
    assert batch.n_targets == len(masked.target_positions)


TOKENIZER = SymbolsConfig(symbols="0123").build(list, None)
IDS = torch.zeros(2, 3, dtype=torch.long)
BATCH = Batch(IDS, IDS, None, torch.arange(2), torch.zeros(0, dtype=torch.long), None, None, 6)


def task_of(second=SecondSentence.next, tokenizer=TOKENIZER, max_length=12):
    return PretrainingConfig(name="text", second_sentence=second).build(tokenizer, [], max_length)


def test_new_texts_are_read_whole_without_masks_or_targets():
    one, pair = (
        task_of().rows(tokenize_examples([example], TOKENIZER)).gather(np.array([0]), TOKENIZER.pad_id)
        for example in (TextExample("012"), TextExample("0", "12"))
    )
    assert TOKENIZER.pieces(one.input_ids[0].tolist()) == ["[CLS]", "0", "1", "2", "[SEP]"]
    assert one.token_labels is None and not len(one.target_positions)
    assert pair.token_type_ids.tolist() == [[0, 0, 0, 1, 1, 1]] and pair.labels is None


def test_the_more_probable_relation_of_a_pair_is_predicted():
    first, other = task_of().predictions(Prediction(sequence_logits=torch.tensor([[2.0, 0.0], [0.0, 3.0]])), BATCH)
    assert (first.labels[0], other.labels[0]) == tuple(PAIR_LABELS)
    assert first.probabilities[0] > 0.5 and sum(other.probabilities) == pytest.approx(1)


def test_without_pairs_nothing_is_predicted_for_a_text():
    with pytest.raises(
        DataError, match=r"task\.second_sentence=none and predicts nothing for a whole text.*encoderlab finetune"
    ):
        task_of(SecondSentence.none).predictions(Prediction(), BATCH)


def test_a_tokenizer_without_a_mask_and_a_length_without_room_are_refused():
    specials = {role: text for role, text in TOKENIZER.specials.items() if role != "mask_token"}
    with pytest.raises(DataError, match="The tokenizer has no mask token"):
        task_of(tokenizer=Tokenizer(TOKENIZER._backend, specials))
    with pytest.raises(SettingError, match=r"model\.max_length=4 leaves no room.*at least 5"):
        task_of(max_length=4)


MASK = torch.tensor([[True, True, False], [True, True, True]])


def vectors(**settings):
    return TeacherVectorsConfig(name="vectors", teacher_width=4, **settings).build(TOKENIZER, [], 8)


def batch(mask):
    ids = torch.full((2, 3), 5)
    none = torch.zeros(0, dtype=torch.long)
    return Batch(ids, ids * 0, mask, torch.arange(2), none, None, None, 6 if mask is None else int(mask.sum()))


@pytest.mark.parametrize(("mask", "positions"), [(None, [0, 1, 2, 3, 4, 5]), (MASK, [0, 1, 3, 4, 5])])
def test_the_teacher_computes_every_real_token(mask, positions):
    learned = vectors()
    learned.teacher = lambda given: TeacherOutputs(token_vectors=torch.zeros(len(given.target_positions), 4))
    found = learned.with_targets(batch(mask), 0)
    assert found.target_positions.tolist() == positions
    assert found.teacher.token_vectors.shape == (len(positions), 4)


def test_without_its_teacher_a_run_cannot_be_scored():
    with pytest.raises(DataError, match="encoderlab embed"):
        vectors().with_targets(batch(None), 0)
