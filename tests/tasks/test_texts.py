"""Tasks on texts: each text keeps its target, a prediction is a label, a set of labels or a number; and of a text's words,
each has its target at its first token and a label of its own.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.batch import Batch, Prediction
from encoderlab.data.dataset import Pack
from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.token_store import as_blocks, memory_store
from encoderlab.data.tokenizers import SymbolsConfig, WordPieceConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.task import build_task
from encoderlab.tasks.config import (
    ClassificationConfig,
    ClassificationScore,
    Decoding,
    MultilabelConfig,
    MultilabelScore,
    PretrainingConfig,
    RegressionConfig,
    RegressionScore,
    TaggingConfig,
    TaggingScore,
    Windows,
)
from encoderlab.tasks.rows import hold_encoded
from encoderlab.tasks.sentence_rows import SentenceRows
from encoderlab.tasks.texts import Encoding, EncodingConfig, Tagging
from encoderlab.training.loss import losses
from tests.runs.small_assembly import assembly_of

TOKENIZER = SymbolsConfig().build(lambda: [], Path())
LABELS = ["bad", "middling", "good"]
SETTINGS = {
    ClassificationConfig: {},
    MultilabelConfig: {},
    RegressionConfig: {"mean": 100.0, "deviation": 20.0},
}
TARGETS = {ClassificationConfig: 1, MultilabelConfig: (0, 2), RegressionConfig: 140.0}


def task_of(config=ClassificationConfig, labels=LABELS, max_length=16, **settings):
    return build_task(config(name="test", **SETTINGS[config] | settings), TOKENIZER, labels, max_length)


def batch_of(task, *targets):
    examples = [TextExample("12", "3", target) for target in targets]
    rows = hold_encoded(task.encode(examples), TOKENIZER.vocabulary_size, task.heads)
    return rows.gather(np.arange(len(targets)), TOKENIZER.pad_id)


def scores_of(task, logits, *targets):
    metrics = task.metrics()
    prediction = Prediction(sequence_logits=torch.as_tensor(logits, dtype=torch.float32))
    return metrics.scores([metrics.columns(prediction, batch_of(task, *targets))])


texts = st.text("0123456789()", max_size=20)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.tuples(texts, st.one_of(st.none(), texts), st.booleans()), max_size=8))
@pytest.mark.parametrize("config", TARGETS)
def test_a_row_is_encoded_the_same_alone_and_among_others_with_and_without_pairs(config, rows):
    task = task_of(config)
    examples = [TextExample(text, pair, TARGETS[config] if known else None) for text, pair, known in rows]
    together = task.encode(examples)
    assert together == [task.encode([row])[0] for row in examples]
    assert [encoded.label is None for encoded in together] == [row.label is None for row in examples]
    assert [sum(encoded.token_type_ids) > 0 for encoded in together] == [row.text_pair is not None for row in examples]
    plain = Encoding(EncodingConfig(name="encoder"), TOKENIZER, [], 16).encode(examples)
    assert [encoded.input_ids for encoded in plain] == [encoded.input_ids for encoded in together]


def test_special_tokens_in_a_users_text_have_no_effect(tmp_path):
    tokenizer = WordPieceConfig(vocabulary_size=100).build(lambda: ["a sep film", "a cls film", "[ ]"] * 3, tmp_path)
    task = build_task(ClassificationConfig(name="t"), tokenizer, LABELS, 40)
    ids = task.encode([TextExample("a [SEP] film [CLS] [PAD]")])[0].input_ids
    assert (ids.count(tokenizer.cls_id), ids.count(tokenizer.sep_id), ids.count(tokenizer.pad_id)) == (1, 1, 0)


@pytest.mark.parametrize("config", TARGETS)
def test_sequences_of_words_are_refused(config):
    with pytest.raises(DataError, match="task=tagging"):
        task_of(config).encode([TextExample("1"), WordsExample(("1", "2"), (0, 1))])


@pytest.mark.parametrize(
    ("config", "targets", "labels", "logits", "loss"),
    [
        (ClassificationConfig, (2, 0), [2, 0], torch.zeros(2, 3), 2 * np.log(3)),
        (MultilabelConfig, ((0, 2), ()), [[1, 0, 1], [0, 0, 0]], torch.zeros(2, 3), 2 * np.log(2)),
        (RegressionConfig, (100.0, 140.0), [0, 2], torch.tensor([[1.0], [0.5]]), 1 + 1.5**2),
    ],
)
def test_targets_and_their_loss(config, targets, labels, logits, loss):
    task = task_of(config)
    batch = batch_of(task, *targets)
    assert batch.labels.tolist() == labels
    assert float(losses(Prediction(sequence_logits=logits), batch)["sequence"]) == pytest.approx(loss)
    assert batch_of(task, targets[0], None).labels is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_prediction_is_the_likeliest_label_with_all_probabilities(dtype):
    logits = torch.tensor([[0.0, 0.0, 3.0], [5.0, -5.0, 0.0], [1.0, 2.0, 1.0]], dtype=dtype)
    answers = task_of().predictions(Prediction(logits), batch_of(task_of(), 0, 0, 0))
    assert [answer.labels for answer in answers] == [("good",), ("bad",), ("middling",)]
    for answer, row in zip(answers, logits, strict=True):
        assert answer.probabilities == pytest.approx(row.double().softmax(-1).tolist(), abs=1e-6)


def test_a_number_is_predicted_in_the_units_of_the_rows():
    (answer,) = task_of(RegressionConfig).predictions_of(torch.tensor([[2.0]]))
    assert answer.number == pytest.approx(140) and answer.labels == () and answer.in_words() == "140"


def test_every_label_of_a_set_is_predicted_from_its_threshold_on_by_default_a_half():
    task = task_of(MultilabelConfig, thresholds={"bad": 0.9, "middling": 0.2})
    (answer,) = task.predictions_of(torch.logit(torch.tensor([[0.8, 0.3, 0.6]])))
    assert answer.labels == ("middling", "good") and answer.in_words() == "middling, good"
    assert answer.probabilities == pytest.approx((0.8, 0.3, 0.6), abs=1e-6)


def test_scoring_fits_thresholds_and_keeps_the_known_ones():
    task = task_of(MultilabelConfig, thresholds={"bad": 0.9, "middling": 0.4})
    logits = torch.logit(torch.tensor([0.9, 0.8, 0.7, 0.6, 0.5, 0.2]))[:, None].expand(6, 3)
    scores = scores_of(task, logits, (2,), (2,), (), (2,), (), ())
    assert scores.thresholds.tolist() == [0.9, 0.4, pytest.approx(0.75)]


@pytest.mark.parametrize(("threshold", "label"), [(None, "ham"), (0.3, "fraud"), (0.45, "ham"), ("f1", "ham")])
def test_the_positive_label_is_predicted_from_its_threshold_on(threshold, label):
    task = task_of(labels=["fraud", "ham"], positive_label="fraud", threshold=threshold)
    (answer,) = task.predictions_of(torch.tensor([[0.4, 0.6]]).log())
    assert answer.labels == (label,) and answer.probabilities == pytest.approx((0.4, 0.6))


def test_scores_and_predictions_agree_on_the_threshold_and_f1_is_of_the_positive_label():
    task = task_of(labels=["ham", "fraud"], threshold=0.2)
    logits = torch.randn(40, 2, generator=torch.Generator().manual_seed(0))
    scores = scores_of(task, logits, *[0, 1] * 20)
    assert [task.labels[id_] for id_ in scores.predicted] == [
        answer.labels[0] for answer in task.predictions_of(logits)
    ]
    assert scores.as_dict()["threshold"] == 0.2 and scores.values["f1"] == scores.per_class["fraud"]["f1"]
    other = task_of(labels=["fraud", "ham"], positive_label="fraud", score=ClassificationScore.f1_macro)
    scores = scores_of(other, torch.eye(2)[[1, 1, 1]], 0, 1, 1)
    assert (scores.main_score, scores.positive_label, scores.values["f1"]) == ("f1_macro", "fraud", 0.0)


@pytest.mark.parametrize(
    ("config", "labels", "settings", "fragment"),
    [
        (ClassificationConfig, ["fraud", "ham"], {"positive_label": "frod"}, "positive_label.*Did you mean fraud"),
        (ClassificationConfig, LABELS, {"positive_label": "good"}, "positive_label=good needs two labels"),
        (ClassificationConfig, LABELS, {"score": ClassificationScore.f1}, "score=f1 needs two labels"),
        (ClassificationConfig, LABELS, {"threshold": "f1"}, "threshold=f1 needs two labels"),
        (ClassificationConfig, ["a", "b"], {"threshold": "precision:2"}, "task.threshold is precision:2"),
        (ClassificationConfig, ["a", "b"], {"threshold": 1.5}, "task.threshold is 1.5"),
        (ClassificationConfig, ["a", "b"], {"threshold": True}, "task.threshold is True"),
        (ClassificationConfig, ["a", "b"], {"class_weights": "balance"}, "task.class_weights is balance"),
        (ClassificationConfig, ["a", "b"], {"class_weights": {"a": 0}}, "task.class_weights is"),
        (MultilabelConfig, LABELS, {"thresholds": {"goo": 0.5}}, "names 'goo'.*Did you mean good"),
        (MultilabelConfig, LABELS, {"thresholds": {"good": 1.5}}, "task.thresholds is"),
        (MultilabelConfig, LABELS, {"thresholds": {"good": "precision:9"}}, "task.thresholds is"),
    ],
)
def test_settings_that_do_not_fit_the_labels_are_refused(config, labels, settings, fragment):
    with pytest.raises(SettingError, match=fragment):
        task_of(config, labels, **settings)


@pytest.mark.parametrize(
    "make",
    [
        lambda: PretrainingConfig(name="p", mask_replace_prob=0.75, random_replace_prob=0.5),
        *(lambda name=name: ClassificationConfig(name=name) for name in ("", ".", "..", "a/b", "a\\b", "a\0b")),
    ],
)
def test_contradictory_settings_are_refused(make):
    with pytest.raises(SettingError, match=r"task\."):
        make()


@pytest.mark.parametrize("config", TARGETS)
def test_long_texts_are_read_in_windows_on_request_but_not_pairs(config):
    task, truncating = (task_of(config, max_length=8, windows=windows) for windows in (Windows.max, Windows.none))
    example = TextExample("123456789", None, TARGETS[config])
    (encoded,) = task.encode([example])
    assert len(encoded.window_starts) == 2 and not encoded.truncated and encoded.label is not None
    assert task.heads.window_pooling == "max" and truncating.heads.window_pooling is None
    assert len(truncating.encode([example])[0].input_ids) == 8
    with pytest.raises(DataError, match="Set task.windows=none"):
        task.encode([TextExample("12", "34", TARGETS[config])])


def test_cached_rows_are_found_only_by_the_same_task():
    keys = [
        task_of().key,
        task_of(max_length=17).key,
        task_of(windows=Windows.max).key,
        task_of(MultilabelConfig).key,
        task_of(RegressionConfig).key,
        task_of(RegressionConfig, mean=99.0).key,
        build_task(
            ClassificationConfig(name="t"), SymbolsConfig(symbols="01").build(lambda: [], Path()), LABELS, 16
        ).key,
    ]
    assert len(set(keys)) == len(keys) and task_of().key == keys[0]


ENTITIES = ["O", "B-place", "I-place"]
SCORED = {
    ClassificationScore: (ClassificationConfig, LABELS[:2], [0, 1, 0, 1]),
    MultilabelScore: (MultilabelConfig, LABELS[:2], [(0,), (1,), (0,), (1,)]),
    RegressionScore: (RegressionConfig, [], [0.0, 1.0, 2.0, 3.0]),
}


def evaluated(config, labels, examples):
    assembly = assembly_of(config, labels)
    rows = hold_encoded(assembly.task.encode(examples), assembly.tokenizer.vocabulary_size, assembly.task.heads)
    return assembly.evaluate(rows).values.keys()


@pytest.mark.parametrize("scores", SCORED)
def test_every_score_of_the_settings_is_measured(scores):
    config, labels, targets = SCORED[scores]
    examples = [TextExample(text, None, target) for text, target in zip(("012", "9a", "b", "77"), targets, strict=True)]
    assert {score.value for score in scores} - {"auto"} <= evaluated(
        config(name="t", **SETTINGS[config]), labels, examples
    )


def test_every_score_of_tagging_and_pretraining_is_measured():
    examples = [WordsExample(tuple(text), tuple(range(len(text)))) for text in ("012", "9a", "b", "77")]
    assert {score.value for score in TaggingScore} - {"auto"} <= evaluated(TaggingConfig(name="t"), ENTITIES, examples)
    assembly = assembly_of(PretrainingConfig(name="t"), [])
    sentences = [{"input_ids": [5, 6, 7, 8], "document": (row // 3,), "paragraph": (row // 3,)} for row in range(12)]
    columns = {"input_ids": "uint16", "document": "uint32", "paragraph": "uint32"}
    store = memory_store(columns, as_blocks(sentences, columns))
    figures = assembly.evaluate(SentenceRows(store, assembly.task, Pack.sentences)).values
    assert {"mlm_accuracy", "nsp_accuracy"} <= figures.keys()


WORD_LABELS = ["noun", "verb", "other"]


def tagging_of(tokenizer=TOKENIZER, max_length=16, labels=WORD_LABELS, **settings):
    return Tagging(TaggingConfig(name="test", **settings), tokenizer, labels, max_length)


def words_batch(positions, rows, length, labels=None):
    ids = torch.ones(rows, length, dtype=torch.long)
    answers = None if labels is None else torch.tensor(labels)
    return Batch(
        ids, ids, None, torch.arange(rows), torch.tensor(positions, dtype=torch.long), None, answers, rows * length
    )


words_and_labels = st.lists(st.tuples(st.text("0123456789(!", min_size=1, max_size=4), st.integers(0, 2)), max_size=12)


@settings(deadline=None)
@given(row=words_and_labels, max_length=st.integers(3, 40), special_tokens=st.booleans())
def test_every_word_whose_first_piece_fits_has_one_target_at_that_piece(row, max_length, special_tokens):
    words, labels = tuple(word for word, _ in row), tuple(label for _, label in row)
    encoded = tagging_of(max_length=max_length, special_tokens=special_tokens).encode([WordsExample(words, labels)])[0]
    before = after = int(special_tokens)
    expected, place = {}, before
    for word, label in row:
        if place < max_length - after:
            expected[place] = label
        place += len(word)
    assert encoded.token_labels == expected
    assert list(encoded.token_labels) == sorted(encoded.token_labels)
    firsts = TOKENIZER.encode([word[0] for word in words[: len(expected)]])
    assert [[encoded.input_ids[place]] for place in encoded.token_labels] == firsts
    assert len(encoded.input_ids) == min(place + after, max_length)
    assert encoded.truncated == (place + after > max_length)
    assert encoded.label is None


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(words_and_labels, max_size=5))
def test_a_row_of_words_is_encoded_the_same_alone_and_among_others(rows):
    examples = [WordsExample(tuple(word for word, _ in row), tuple(label for _, label in row)) for row in rows]
    assert tagging_of().encode(examples) == [tagging_of().encode([example])[0] for example in examples]


def test_a_word_of_several_pieces_has_its_target_at_the_first(tmp_path):
    tokenizer = WordPieceConfig(vocabulary_size=100).build(lambda: ["unwanted wanted ant"] * 3 + ["xyz"] * 2, tmp_path)
    words = ("unwantedant", "  ", "xyzxyz", "ant")
    encoded = tagging_of(tokenizer, 60).encode([WordsExample(words, (0, 1, 2, 0))])[0]
    assert list(encoded.token_labels.values()) == [0, 1, 2, 0]
    first_pieces = tokenizer.pieces(encoded.input_ids[place] for place in encoded.token_labels)
    assert [word.startswith(piece) or piece == "[UNK]" for word, piece in zip(words, first_pieces, strict=True)] == [
        True
    ] * 4
    others = set(range(1, len(encoded.input_ids) - 1)) - set(encoded.token_labels)
    assert others
    assert all(piece.startswith("##") for piece in tokenizer.pieces(encoded.input_ids[place] for place in others))


def test_predictions_are_a_label_for_each_word_read_row_by_row():
    batch = words_batch(
        [0, 2, 7, 8], rows=4, length=3
    )  # two words in row 0, none in row 1, two in row 2, none in row 3
    answers = tagging_of().predictions(Prediction(token_logits=torch.eye(3)[[1, 2, 0, 0]]), batch)
    assert [answer.labels for answer in answers] == [("verb", "other"), (), ("noun", "noun"), ()]
    assert all(answer.probabilities is None for answer in answers)


BIO = ["O", "B-x", "I-x"]


def test_predicted_and_scored_entities_are_valid_sequences():
    logits = torch.tensor([[1.0, 0.9, 0.0], [0.0, 0.5, 2.0], [0.0, 2.0, 1.0]])  # word by word: O I-x, and B-x
    batch = words_batch([0, 2, 4], rows=2, length=3, labels=[1, 2, 1])
    task = tagging_of(labels=BIO)
    answers = task.predictions(Prediction(token_logits=logits), batch)
    assert [answer.labels for answer in answers] == [("B-x", "I-x"), ("B-x",)]
    chances = logits.softmax(-1)
    assert answers[0].word_confidences == pytest.approx([chances[0, 1].item(), chances[1, 2].item()])
    metrics = task.metrics()
    kept = metrics.columns(Prediction(token_logits=logits), batch)
    assert metrics.scores([kept]).values["entity_f1"] == 1
    plain = tagging_of(labels=BIO, decoding=Decoding.argmax).predictions(Prediction(token_logits=logits), batch)
    assert plain[0].labels == ("O", "I-x")
