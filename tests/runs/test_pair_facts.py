"""Facts about a pretraining run's pairs before training, and the scores of baselines on them."""

import numpy as np
import pytest

from encoderlab.runs.corpus import guessed_pairs, guessed_tokens, pair_facts
from encoderlab.tasks.config import SecondSentence
from tests.runs.small_documents import documents_in, task_of


def test_pairs_are_counted_before_training(tmp_path):
    corpus = documents_in(tmp_path)
    rows = corpus.rows("train", task_of(corpus))
    facts = pair_facts(rows, corpus)
    assert [facts[name] for name in ("documents", "paragraphs", "sentences", "pairs")] == [3, 4, 16, 12]
    assert facts["labels"] == {"follows": 6, "random": 6}
    assert facts["truncated"] == 0
    assert guessed_pairs(rows, rows) == {"majority": {"nsp_accuracy": 0.5}}
    alone = documents_in(tmp_path, second_sentence=SecondSentence.none)
    single = alone.rows("train", task_of(alone))
    assert guessed_pairs(single, single) == {} and "labels" not in pair_facts(single, alone)


def test_the_most_frequent_token_is_counted_in_training_and_named(tmp_path):
    corpus = documents_in(tmp_path)
    rows = corpus.rows("train", task_of(corpus))
    full_stop = rows.task.tokenizer.encode(["."])[0][0]
    targets = np.array([full_stop, full_stop, rows.task.tokenizer.encode(["six"])[0][0]])
    found = guessed_tokens(rows, targets)
    assert found["most_frequent_token"] == {"mlm_accuracy": pytest.approx(2 / 3), "token_id": full_stop, "token": "."}
    pieces, size = list(rows.store["input_ids"].values), rows.task.tokenizer.vocabulary_size
    shares = [(pieces.count(id_) + 1) / (len(pieces) + size) for id_ in targets]
    assert found["unigram"]["mlm_loss"] == pytest.approx(-np.log(shares).mean())
