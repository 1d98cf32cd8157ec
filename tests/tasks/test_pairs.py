"""Sentence pairs: neighbours or strangers from another document, half and half, and nothing but the text tells which."""

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from encoderlab.data.dataset import Pack
from encoderlab.data.token_store import memory_store
from encoderlab.tasks.config import SecondSentence
from encoderlab.tasks.pairs import Sentences, draw_pairs, windows
from encoderlab.tasks.sequences import longest_first, longest_first_of_many

COLUMNS = {"input_ids": "uint16", "document": "uint32", "paragraph": "uint32"}

# a corpus: documents of paragraphs of sentences, each given by its number of tokens
corpora = st.lists(
    st.lists(st.lists(st.integers(1, 12), min_size=1, max_size=5), min_size=1, max_size=4), min_size=2, max_size=6
)


def sentences_of(corpus):
    rows, paragraph = [], 0
    for document, paragraphs in enumerate(corpus):
        for lengths in paragraphs:
            rows += [{"input_ids": [5] * n, "document": (document,), "paragraph": (paragraph,)} for n in lengths]
            paragraph += 1
    return Sentences.of(memory_store(COLUMNS, rows))


def drawn(corpus, second=SecondSentence.next, pack=Pack.sentences, room=20, seed=(0, 0)):
    sentences = sentences_of(corpus)
    found = windows(sentences, pack, room, paired=second is not SecondSentence.none)
    if len(np.unique(found.document)) < 2:
        reject()  # refused by the corpus: there are no strangers
    return sentences, found, draw_pairs(found, sentences, second, pack, room, list(seed))


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


@given(corpus=corpora, pack=st.sampled_from(Pack))
@settings(deadline=None)
def test_swapped_pairs_are_the_same_two_texts_in_reverse_order(corpus, pack):
    _, _, pairs = drawn(corpus, second=SecondSentence.swapped, pack=pack)
    negative = pairs.labels == 1
    assert (pairs.second_stop[negative] == pairs.first_start[negative]).all()
    assert (pairs.first_stop[~negative] == pairs.second_start[~negative]).all()


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
    assert (
        often.reshape(-1, 4)[:, 0] == 0
    ).all()  # a paragraph's first sentence never follows anything, so it is no stranger either
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


@given(first=st.integers(0, 90), second=st.integers(0, 90), room=st.integers(1, 80))
@settings(deadline=None)
def test_many_pairs_are_truncated_like_a_single_one(first, second, room):
    kept = longest_first_of_many(np.array([first]), np.array([second]), room)
    assert (int(kept[0][0]), int(kept[1][0])) == longest_first(first, second, room)
