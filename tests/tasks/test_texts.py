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
from encoderlab.data.token_store import tokenize_examples
from encoderlab.data.tokenizer_config import SymbolsConfig, WordPieceConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.tasks.classification import ClassificationConfig, ClassificationScore
from encoderlab.tasks.multilabel import MultilabelConfig, MultilabelScore
from encoderlab.tasks.pretraining import PretrainingConfig
from encoderlab.tasks.regression import RegressionConfig, RegressionScore
from encoderlab.tasks.sentence_rows import SentenceRows
from encoderlab.tasks.tagging import Decoding, TaggingConfig, TaggingScore
from encoderlab.tasks.task import Windows
from encoderlab.tasks.vectors import EncodingConfig
from encoderlab.training.loss import losses
from tests.runs.small_model import model_of
from tests.tasks.small_rows import sentence_store

TOKENIZER = SymbolsConfig().build(lambda: [], Path())
LABELS = ["bad", "middling", "good"]
SETTINGS = {
    ClassificationConfig: {},
    MultilabelConfig: {},
    RegressionConfig: {"mean": 100.0, "deviation": 20.0},
}
TARGETS = {ClassificationConfig: 1, MultilabelConfig: (0, 2), RegressionConfig: 140.0}


def task_of(config=ClassificationConfig, labels=LABELS, max_length=16, **settings):
    return config(name="test", **SETTINGS[config] | settings).build(TOKENIZER, labels, max_length)


def rows_of(task, examples):
    """Return examples as rows, with the targets that they have."""
    targets = [example.labels if isinstance(example, WordsExample) else example.label for example in examples]
    return task.rows(tokenize_examples(examples, task.tokenizer), targets)


def read(task, examples):
    """Return all examples as one batch."""
    return rows_of(task, examples).gather(np.arange(len(examples)), task.tokenizer.pad_id)


def tokens_of(batch):
    """Return the ids of each row of a batch, with their segments, without padding."""
    mask = torch.ones_like(batch.input_ids) if batch.attention_mask is None else batch.attention_mask
    lengths = mask.sum(1).tolist()
    rows = zip(batch.input_ids.tolist(), batch.token_type_ids.tolist(), lengths, strict=True)
    return [(ids[:length], segments[:length]) for ids, segments, length in rows]


def batch_of(task, *targets):
    return read(task, [TextExample("12", "3", target) for target in targets])


def scores_of(task, logits, *targets):
    metrics = task.metrics()
    prediction = Prediction(sequence_logits=torch.as_tensor(logits, dtype=torch.float32))
    return metrics.scores([metrics.columns(prediction, batch_of(task, *targets))])


texts = st.text("0123456789()", max_size=20)


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(st.tuples(texts, texts, st.booleans()), min_size=1, max_size=8), paired=st.booleans())
@pytest.mark.parametrize("config", TARGETS)
def test_a_row_is_read_the_same_alone_and_among_others_with_and_without_pairs(config, rows, paired):
    task = task_of(config)
    examples = []
    for text, pair, known in rows:
        examples.append(TextExample(text, pair if paired else None, TARGETS[config] if known else None))
    together = rows_of(task, examples)
    batch = together.gather(np.arange(len(examples)), TOKENIZER.pad_id)
    alone = [read(task, [example]) for example in examples]
    assert tokens_of(batch) == [tokens_of(one)[0] for one in alone]
    assert together.lengths.tolist() == [one.n_tokens for one in alone]
    assert [one.labels is None for one in alone] == [example.label is None for example in examples]
    assert (batch.labels is None) == any(example.label is None for example in examples)
    assert all((sum(segments) > 0) == paired for _, segments in tokens_of(batch))
    assert tokens_of(read(EncodingConfig(name="encoder").build(TOKENIZER, [], 16), examples)) == tokens_of(batch)


def test_special_tokens_in_a_users_text_have_no_effect(tmp_path):
    tokenizer = WordPieceConfig(vocabulary_size=100).build(lambda: ["a sep film", "a cls film", "[ ]"] * 3, tmp_path)
    task = ClassificationConfig(name="t").build(tokenizer, LABELS, 40)
    [ids] = read(task, [TextExample("a [SEP] film [CLS] [PAD]")]).input_ids.tolist()
    assert (ids.count(tokenizer.cls_id), ids.count(tokenizer.sep_id), ids.count(tokenizer.pad_id)) == (1, 1, 0)


@pytest.mark.parametrize("config", TARGETS)
def test_sequences_of_words_are_refused(config):
    with pytest.raises(DataError, match="task=tagging"):
        rows_of(task_of(config), [WordsExample(("1", "2"), (0, 1))])


def test_texts_are_refused_by_a_task_on_words():
    with pytest.raises(DataError, match="task=classification"):
        tagging_of().rows(tokenize_examples([TextExample("1")], TOKENIZER))


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
        (ClassificationConfig, LABELS, {"beta": 2.0}, "beta=2.0 needs two labels"),
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
    rows = rows_of(task, [example])
    batch = rows.gather(np.array([0]), TOKENIZER.pad_id)
    assert len(batch.input_ids) == 2 and not rows.truncated().any() and batch.labels is not None
    assert task.heads.window_pooling == "max" and truncating.heads.window_pooling is None
    assert read(truncating, [example]).input_ids.shape == (1, 8)
    with pytest.raises(DataError, match="Set task.windows=none"):
        rows_of(task, [TextExample("12", "34", TARGETS[config])])


ENTITIES = ["O", "B-place", "I-place"]
SCORED = {
    ClassificationScore: (ClassificationConfig, LABELS[:2], [0, 1, 0, 1]),
    MultilabelScore: (MultilabelConfig, LABELS[:2], [(0,), (1,), (0,), (1,)]),
    RegressionScore: (RegressionConfig, [], [0.0, 1.0, 2.0, 3.0]),
}


def evaluated(config, labels, examples):
    model = model_of(config, labels)
    return model.evaluate(rows_of(model.task, examples)).values.keys()


@pytest.mark.parametrize("scores", SCORED)
def test_every_score_of_the_settings_is_measured(scores):
    config, labels, targets = SCORED[scores]
    examples = [TextExample(text, None, target) for text, target in zip(("012", "9a", "b", "77"), targets, strict=True)]
    assert {score.value for score in scores} - {"auto"} <= evaluated(
        config(name="t", **SETTINGS[config] | ({"beta": 2.0} if scores is ClassificationScore else {})),
        labels,
        examples,
    )


def test_every_score_of_tagging_and_pretraining_is_measured():
    examples = [WordsExample(tuple(text), tuple(range(len(text)))) for text in ("012", "9a", "b", "77")]
    assert {score.value for score in TaggingScore} - {"auto"} <= evaluated(TaggingConfig(name="t"), ENTITIES, examples)
    model = model_of(PretrainingConfig(name="t"), [])
    store = sentence_store([([5, 6, 7, 8], row // 3, row // 3) for row in range(12)])
    scores = model.evaluate(SentenceRows(store, model.task, Pack.sentences)).values
    assert {"mlm_accuracy", "nsp_accuracy"} <= scores.keys()


WORD_LABELS = ["noun", "verb", "other"]


def tagging_of(tokenizer=TOKENIZER, max_length=16, labels=WORD_LABELS, **settings):
    return TaggingConfig(name="test", **settings).build(tokenizer, labels, max_length)


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
    words = tuple(word for word, _ in row)
    labels = tuple(label for _, label in row)
    task = tagging_of(max_length=max_length, special_tokens=special_tokens)
    rows = rows_of(task, [WordsExample(words, labels)])
    batch = rows.gather(np.array([0]), TOKENIZER.pad_id)
    before = after = int(special_tokens)
    expected, place = {}, before
    for word, label in row:
        if place < max_length - after:
            expected[place] = label
        place += len(word)
    places = batch.target_positions.tolist()
    assert dict(zip(places, batch.token_labels.tolist(), strict=True)) == expected
    assert places == sorted(places)
    assert rows.n_targets().tolist() == [len(places)]
    firsts = TOKENIZER.encode([word[0] for word in words[: len(expected)]])
    assert [[batch.input_ids[0, place].item()] for place in places] == firsts
    assert batch.n_tokens == rows.lengths[0] == min(place + after, max_length)
    assert rows.truncated()[0] == (place + after > max_length)
    assert batch.labels is None


@settings(max_examples=30, deadline=None)
@given(rows=st.lists(words_and_labels, min_size=1, max_size=5))
def test_a_row_of_words_is_read_the_same_alone_and_among_others(rows):
    examples = [WordsExample(tuple(word for word, _ in row), tuple(label for _, label in row)) for row in rows]
    batch = read(tagging_of(), examples)
    alone = [read(tagging_of(), [example]) for example in examples]
    assert tokens_of(batch) == [tokens_of(one)[0] for one in alone]
    places = np.concatenate([one.target_positions.numpy() + i * 16 for i, one in enumerate(alone)])
    row, place = np.divmod(batch.target_positions.numpy(), batch.input_ids.shape[1])
    assert (row * 16 + place).tolist() == places.tolist()
    assert batch.token_labels.tolist() == [label for one in alone for label in one.token_labels.tolist()]


def test_a_word_of_several_pieces_has_its_target_at_the_first(tmp_path):
    tokenizer = WordPieceConfig(vocabulary_size=100).build(lambda: ["unwanted wanted ant"] * 3 + ["xyz"] * 2, tmp_path)
    words = ("unwantedant", "  ", "xyzxyz", "ant")
    batch = read(tagging_of(tokenizer, 60), [WordsExample(words, (0, 1, 2, 0))])
    [ids] = batch.input_ids.tolist()
    places = batch.target_positions.tolist()
    assert batch.token_labels.tolist() == [0, 1, 2, 0]
    first_pieces = tokenizer.pieces(ids[place] for place in places)
    assert [word.startswith(piece) or piece == "[UNK]" for word, piece in zip(words, first_pieces, strict=True)] == [
        True
    ] * 4
    others = set(range(1, len(ids) - 1)) - set(places)
    assert others
    assert all(piece.startswith("##") for piece in tokenizer.pieces(ids[place] for place in others))


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
