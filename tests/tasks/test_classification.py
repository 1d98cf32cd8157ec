"""Sequence classification: each text keeps its own label and pair, and a prediction is a label with probabilities."""

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.batch import Batch, HeadSizes, Prediction
from encoderlab.data.examples import TextExample
from encoderlab.data.tokenizers import SymbolsConfig, WordPieceConfig
from encoderlab.errors import SettingError
from encoderlab.tasks.config import ClassificationConfig, ClassificationScore
from encoderlab.tasks.texts import Classification

TOKENIZER = SymbolsConfig().build(lambda: [], Path())
LABELS = ["bad", "middling", "good"]


def task_of(tokenizer=TOKENIZER, max_length=16, labels=LABELS, **settings):
    return Classification(ClassificationConfig(name="test", **settings), tokenizer, labels, max_length)


def batch_of(labels):
    ids = torch.ones(len(labels), 3, dtype=torch.long)
    empty = torch.empty(0, dtype=torch.long)
    return Batch(ids, ids, None, torch.arange(len(labels)), empty, torch.tensor(labels), None, 3 * len(labels))


texts = st.text("0123456789()", max_size=20)
examples = st.builds(TextExample, texts, st.one_of(st.none(), texts), st.one_of(st.none(), st.integers(0, 2)))


@settings(max_examples=50, deadline=None)
@given(rows=st.lists(examples, max_size=12))
def test_a_row_is_encoded_the_same_alone_and_among_others_with_and_without_pairs(rows):
    task = task_of()
    together = task.encode(rows)
    assert together == [task.encode([row])[0] for row in rows]
    assert [encoded.label for encoded in together] == [row.label for row in rows]
    assert [sum(encoded.token_type_ids) > 0 for encoded in together] == [row.text_pair is not None for row in rows]
    assert all(len(encoded.input_ids) <= 16 for encoded in together)


def test_both_texts_of_a_pair_are_read_in_their_order():
    one, other = (task_of().encode([TextExample(*pair)])[0].input_ids for pair in [("12", "3"), ("3", "12")])
    assert TOKENIZER.pieces(one) == ["[CLS]", "1", "2", "[SEP]", "3", "[SEP]"]
    assert TOKENIZER.pieces(other) == ["[CLS]", "3", "[SEP]", "1", "2", "[SEP]"]


def test_special_tokens_in_a_users_text_have_no_effect(tmp_path):
    tokenizer = WordPieceConfig(vocabulary_size=100).build(lambda: ["a sep film", "a cls film", "[ ]"] * 3, tmp_path)
    ids = task_of(tokenizer, 40).encode([TextExample("a [SEP] film [CLS] [PAD]")])[0].input_ids
    assert (ids.count(tokenizer.cls_id), ids.count(tokenizer.sep_id), ids.count(tokenizer.pad_id)) == (1, 1, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_prediction_is_the_likeliest_label_with_all_probabilities_in_the_batchs_order(dtype):
    logits = torch.tensor([[0.0, 0.0, 3.0], [5.0, -5.0, 0.0], [1.0, 2.0, 1.0]], dtype=dtype)
    answers = task_of().answers(Prediction(logits), batch_of([0, 0, 0]))
    assert [answer.labels for answer in answers] == [("good",), ("bad",), ("middling",)]
    for answer, row in zip(answers, logits, strict=True):
        assert answer.probabilities == pytest.approx(row.double().softmax(-1).tolist(), abs=1e-6)
        assert sum(answer.probabilities) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("score", ClassificationScore)
def test_every_score_that_can_choose_the_checkpoint_is_a_figure_of_its_metrics(score):
    task = task_of(score=score, labels=LABELS[:2])
    metrics = task.metrics()
    metrics.add(Prediction(torch.eye(2)[[0, 1, 0]]), batch_of([0, 1, 1]))
    assert 0 < metrics.scores().figures[task.score] < 1
    assert task.score == score.name


def test_the_score_comes_first_and_f1_is_that_of_the_positive_label():
    task = task_of(score=ClassificationScore.f1_macro, labels=["fraud", "ham"], positive_label="fraud")
    metrics = task.metrics()
    metrics.add(Prediction(torch.eye(2)[[1, 1, 1]]), batch_of([0, 1, 1]))
    scores = metrics.scores()
    assert (scores.main, scores.positive_label, scores.figures["f1"]) == ("f1_macro", "fraud", 0.0)


@pytest.mark.parametrize(
    ("labels", "settings", "message"),
    [
        (
            ["fraud", "ham"],
            {"positive_label": "frod"},
            r"positive_label names 'frod'.*Allowed: fraud, ham. Did you mean fraud",
        ),
        (
            LABELS,
            {"positive_label": "good"},
            "positive_label=good needs two labels, but the data has 3. Remove it, or set task=multilabel",
        ),
        (
            LABELS,
            {"score": ClassificationScore.f1},
            "score=f1 needs two labels, but the data has 3. Set task.score=f1_macro",
        ),
    ],
)
def test_a_positive_label_needs_two_labels_and_must_be_one_of_them(labels, settings, message):
    with pytest.raises(SettingError, match=message):
        task_of(labels=labels, **settings)


@pytest.mark.parametrize(("threshold", "answer"), [(None, "ham"), (0.3, "fraud"), (0.45, "ham"), ("f1", "ham")])
def test_the_positive_label_is_predicted_from_its_threshold_on(threshold, answer):
    task = task_of(labels=["fraud", "ham"], positive_label="fraud", threshold=threshold)
    (found,) = task.answers_of(torch.tensor([[0.4, 0.6]]).log())
    assert found.labels == (answer,) and found.probabilities == pytest.approx((0.4, 0.6))


def test_scores_and_predictions_agree_on_the_threshold():
    task = task_of(labels=["ham", "fraud"], threshold=0.2)
    logits = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    metrics = task.metrics()
    metrics.add(Prediction(logits), batch_of([0, 1] * 20))
    scores = metrics.scores()
    assert [task.labels[id_] for id_ in scores.predicted] == [answer.labels[0] for answer in task.answers_of(logits)]
    assert scores.as_dict()["threshold"] == 0.2 and scores.figures["f1"] == scores.per_class["fraud"]["f1"]


@pytest.mark.parametrize("threshold", ["precision:2", "precision:0", "recall:0.9", "F1", 1.5, -0.1, True])
def test_a_threshold_is_a_probability_or_names_what_it_optimises(threshold):
    with pytest.raises(
        SettingError, match=f"task.threshold is {threshold}. Allowed: a probability from 0 to 1, f1, or precision"
    ):
        task_of(labels=["ham", "fraud"], threshold=threshold)


def test_a_threshold_needs_two_labels():
    with pytest.raises(
        SettingError, match="task.threshold=f1 needs two labels, but the data has 3.*set task=multilabel"
    ):
        task_of(threshold="f1")


def test_the_model_gets_one_class_for_each_label_and_no_token_head():
    assert task_of().heads == HeadSizes(sequence_classes=3)


def test_cached_rows_are_found_only_by_the_same_task():
    others = [task_of(SymbolsConfig(symbols="01").build(lambda: [], Path())), task_of(max_length=17)]
    assert task_of().key == task_of().key
    assert task_of().key not in [other.key for other in others]
