"""Settings left open are decided by facts: the labels and lengths of the rows, the starting encoder, the machine."""

from dataclasses import fields, replace
from enum import Enum
from functools import reduce

import numpy as np
import pytest

from encoderlab.config.commands import RunConfig
from encoderlab.config.schemas import settings_to_dict
from encoderlab.data.built_in import BracketsDataset
from encoderlab.data.files import FilesDataset
from encoderlab.data.survey import SplitSurvey
from encoderlab.data.tokenizer_config import SymbolsConfig, WordPieceConfig
from encoderlab.errors import SettingError
from encoderlab.network.config import AsPretrained, ModelConfig, Pairs
from encoderlab.runs.settle import Facts, settle, too_few_to_hold_out
from encoderlab.settings import flat_settings
from encoderlab.tasks.classification import ClassificationConfig, ClassificationScore
from encoderlab.tasks.multilabel import MultilabelConfig
from encoderlab.tasks.pretraining import PretrainingConfig
from encoderlab.tasks.regression import RegressionConfig
from encoderlab.tasks.sequences import SequenceFormat
from encoderlab.tasks.tagging import TaggingConfig
from encoderlab.tasks.task import Windows
from encoderlab.tasks.vectors import TeacherVectorsConfig
from encoderlab.training.config import Batching, Keep, Optimizer, TrainingConfig
from tests.runs.small_model import TOKENIZER

TEXTS = ClassificationConfig(name="texts")
START = ModelConfig(n_layers=8, d_model=256, n_heads=4, max_length=512)
# As in finetuning, nothing is decided by the settings themselves.
OPEN = {
    "epochs": None,
    "min_steps": 1000,
    "max_epochs": 20,
    "evaluations": 10,
    "learning_rate": None,
    "layer_decay": None,
    "batching": None,
    "freeze_layers": None,
    "contrast_weight": None,
    "patience": 4,
    "min_validation_rows": 50,
}


def survey_of(labels, numbers=None, rows=None):
    """Return the statistics of training rows with so many rows of each label."""
    known = {"rows": rows or sum(labels.values()), "labels": labels, "numbers": numbers, "fingerprint": "f"}
    rest = {field.name: 0 for field in fields(SplitSurvey) if field.name not in known}
    return SplitSurvey(**known, **rest)


def facts_of(labels=None, lengths=20, validation=None, numbers=None, **known):
    """Return the facts about labelled texts: how many rows each label has, and how many tokens each text."""
    labels = {"no": 3000, "yes": 3000} if labels is None else labels
    survey = survey_of(labels, numbers)
    texts = np.array(lengths) if isinstance(lengths, list) else np.full(survey.rows, lengths)

    def row_lengths(task, max_length):
        windows = task.windowing
        return SequenceFormat.of(TOKENIZER, max_length, windows).lengths(texts)

    n_rows = {"train": survey.rows}
    if validation is not None:
        n_rows["validation"] = validation
    defaults = {"has_validation": validation is not None, "n_undivided": survey.rows}
    return Facts(row_lengths, n_rows, list(labels), {"train": survey}, **defaults | known)


def settled(facts, task=TEXTS, model=None, dataset=None, tokenizer=None, **training):
    model = model or (AsPretrained() if facts.start_shape else replace(START, max_length=None))
    config = RunConfig(
        "cache",
        task,
        dataset or BracketsDataset(),
        tokenizer or SymbolsConfig(),
        model,
        TrainingConfig(**OPEN | training),
    )
    return settle(config, facts)


def value(config, name):
    """Return a setting by its name, as a user writes it."""
    setting = reduce(getattr, name.split("."), config)
    return setting.value if isinstance(setting, Enum) else setting


FEW = {"a": 100, "b": 100}
RARE = {"objective": 1455, "subjective": 45}
TABLE = [
    # What was decided while the rows were read and tokenised.
    (
        "dataset",
        {"dataset": FilesDataset(train="a.csv")},
        {"decided": {"validation_fraction": 0.0}},
        {"dataset.validation_fraction": 0.0},
    ),
    ("texts lose their case", {"tokenizer": WordPieceConfig()}, {}, {"tokenizer.lowercase": True}),
    (
        "words keep it",
        {"tokenizer": WordPieceConfig(), "task": TaggingConfig(name="t")},
        {},
        {"tokenizer.lowercase": False},
    ),
    ("case as set", {"tokenizer": WordPieceConfig(lowercase=False)}, {}, {"tokenizer.lowercase": False}),
    # The task.
    ("the rarer label is positive", {}, {"labels": {"ham": 900, "spam": 600}}, {"task.positive_label": "spam"}),
    ("of equal labels the last", {}, {"labels": {"a": 900, "b": 900}}, {"task.positive_label": "b"}),
    (
        "mean and deviation",
        {"task": RegressionConfig(name="r")},
        {"labels": {}, "numbers": {"mean": 3.0, "deviation": 2.0}, "lengths": [5] * 60},
        {"task.mean": 3.0, "task.deviation": 2.0},
    ),
    (
        "equal numbers",
        {"task": RegressionConfig(name="r")},
        {"labels": {}, "numbers": {"mean": 3.0, "deviation": 0.0}, "lengths": [5] * 60},
        {"task.deviation": 1.0},
    ),
    # The length: at least 32, enough for 99% of the rows, as far as the encoder reads.
    ("short rows", {}, {"lengths": 3}, {"model.max_length": 32}),
    ("with [CLS] and [SEP]", {}, {"lengths": 40}, {"model.max_length": 42}),
    ("a hundredth is longer", {}, {"lengths": [40] * 199 + [400]}, {"model.max_length": 42}),
    ("half are longer", {}, {"lengths": [40] * 50 + [400] * 50}, {"model.max_length": 402}),
    ("from scratch at most 512", {}, {"lengths": 900}, {"model.max_length": 512}),
    (
        "as far as the encoder reads",
        {},
        {"lengths": 400, "start_shape": replace(START, max_length=128)},
        {"model.max_length": 128},
    ),
    (
        "an encoder of few positions",
        {},
        {"lengths": 10, "start_shape": replace(START, max_length=20)},
        {"model.max_length": 20},
    ),
    ("a length that was set", {"model": replace(START, max_length=77)}, {"lengths": 10}, {"model.max_length": 77}),
    # Few rows, of an encoder to finetune.
    (
        "few rows",
        {},
        {"labels": FEW, "start_shape": START},
        {"training.freeze_layers": 2, "training.batching": "random"},
    ),
    ("many rows", {}, {"start_shape": START}, {"training.freeze_layers": 0, "training.batching": "length"}),
    ("few rows from scratch", {}, {"labels": FEW}, {"training.freeze_layers": 0, "training.batching": "length"}),
    (
        "few rows of words",
        {"task": TaggingConfig(name="t")},
        {"labels": FEW, "start_shape": START},
        {"training.freeze_layers": 0, "training.batching": "length"},
    ),
    (
        "held-out rows count",
        {},
        {"labels": {"a": 230, "b": 230}, "validation": 50, "start_shape": START, "n_undivided": 510},
        {"training.freeze_layers": 0},
    ),
    (
        "a separate validation split does not",
        {},
        {"labels": {"a": 230, "b": 230}, "validation": 50, "start_shape": START},
        {"training.freeze_layers": 2},
    ),
    (
        "two validation rows per label",
        {},
        {"labels": {f"{n:02}": 10 for n in range(77)}, "start_shape": START},
        {"training.freeze_layers": 2},
    ),
    (
        "as set",
        {"freeze_layers": 1, "batching": Batching.length},
        {"labels": FEW, "start_shape": START},
        {"training.freeze_layers": 1, "training.batching": "length"},
    ),
    # Whether the rows of a batch are compared: few rows of few labels.
    ("few rows are compared", {}, {"labels": FEW, "start_shape": START}, {"training.contrast_weight": 0.5}),
    ("many rows are not", {}, {"start_shape": START}, {"training.contrast_weight": 0.0}),
    ("few rows from scratch are not", {}, {"labels": FEW}, {"training.contrast_weight": 0.0}),
    (
        "of many labels a batch hardly has two rows",
        {},
        {"labels": {f"{n:02}": 10 for n in range(50)}, "start_shape": START},
        {"training.contrast_weight": 0.0},
    ),
    (
        "few pairs are not compared",
        {},
        {"labels": FEW, "start_shape": START, "paired": True},
        {"training.contrast_weight": 0.0},
    ),
    (
        "several processes would compare only their own rows",
        {},
        {"labels": FEW, "start_shape": START, "processes": 2},
        {"training.contrast_weight": 0.0},
    ),
    (
        "compared as set",
        {"contrast_weight": 0.1},
        {"labels": FEW, "start_shape": START},
        {"training.contrast_weight": 0.1},
    ),
    # Rare labels: 45 positives of 1,500 rows.
    (
        "45 positives of 1,500 rows",
        {},
        {"labels": RARE, "validation": 150, "start_shape": START},
        {
            "training.freeze_layers": 2,
            "training.batching": "random",
            "task.score": "f1",
            "task.class_weights": "balanced",
            "task.threshold": "f1",
            "task.positive_label": "subjective",
            "training.keep": "best",
        },
    ),
    (
        "450 positives of 1,500 rows",
        {},
        {"labels": {"objective": 1050, "subjective": 450}, "validation": 150, "start_shape": START},
        {
            "training.freeze_layers": 0,
            "training.batching": "length",
            "task.score": "accuracy",
            "task.class_weights": None,
        },
    ),
    (
        "many rare rows",
        {},
        {"labels": {"objective": 14550, "subjective": 600}, "validation": 150, "start_shape": START},
        {"training.freeze_layers": 0, "task.score": "f1"},
    ),
    ("no rows to fit a threshold on", {}, {"labels": RARE}, {"task.score": "f1", "task.threshold": None}),
    (
        "rare labels of three",
        {},
        {"labels": {"a": 950, "b": 30, "c": 20}, "validation": 90},
        {"task.score": "f1_macro", "task.threshold": None, "task.class_weights": "balanced"},
    ),
    (
        "a score that was set",
        {"task": replace(TEXTS, score=ClassificationScore.matthews)},
        {"labels": RARE},
        {"task.score": "matthews", "task.class_weights": None},
    ),
    # Epochs and evaluations: few rows are read often, many once; long rows less often.
    ("3,000 rows", {}, {"labels": {"a": 1500, "b": 1500}}, {"training.epochs": 11.0, "training.evaluate_every": 104}),
    ("200 rows", {}, {"labels": FEW}, {"training.epochs": 20.0, "training.evaluate_every": 14}),
    ("300,000 rows", {}, {"labels": {"a": 150_000, "b": 150_000}}, {"training.epochs": 1.0}),
    (
        "long rows",
        {"max_tokens": 2_000_000},
        {"labels": {"a": 1500, "b": 1500}, "lengths": 198},
        {"training.epochs": 3.0},
    ),
    (
        "sets of labels",
        {"task": MultilabelConfig(name="t"), "max_epochs": 99},
        {"labels": {"a": 1500, "b": 1500}},
        {"training.epochs": 43.0},
    ),
    (
        "many labels",
        {"many_labels_passes": 2},
        {"labels": {f"{n:02}": 150 for n in range(60)}},
        {"training.epochs": 7.0},
    ),
    (
        "many labels, each with few rows",
        {"many_labels_passes": 2},
        {"labels": {f"{n:02}": 50 for n in range(60)}},
        {"training.epochs": 11.0},
    ),
    (
        "many labels, no more than ten epochs",
        {"many_labels_passes": 2},
        {"labels": {f"{n:02}": 70 for n in range(60)}},
        {"training.epochs": 10.0},
    ),
    (
        "fewer than fifty labels",
        {"many_labels_passes": 2},
        {"labels": {f"{n:02}": 150 for n in range(40)}},
        {"training.epochs": 5.0},
    ),
    ("steps", {"steps": 70}, {}, {"training.epochs": None, "training.evaluate_every": 7}),
    ("epochs that were set", {"epochs": 2.0}, {}, {"training.epochs": 2.0}),
    # The learning rate.
    ("from scratch", {}, {}, {"training.learning_rate": 5e-4, "training.layer_decay": 1.0}),
    ("from scratch by Muon", {"optimizer": Optimizer.muon}, {}, {"training.learning_rate": 1e-3}),
    (
        "width 256",
        {},
        {"start_shape": START},
        {"training.learning_rate": 3e-4, "training.layer_decay": 0.9},
    ),
    (
        "width 768",
        {},
        {"start_shape": ModelConfig(n_layers=2, d_model=768, n_heads=12)},
        {"training.learning_rate": 3.3e-5},
    ),
    (
        "pairs, read separately",
        {},
        {"start_shape": replace(START, pairs=Pairs.separate), "paired": True},
        {"training.learning_rate": 1e-4, "model.pairs": "separate"},
    ),
    (
        "single texts",
        {},
        {"start_shape": replace(START, pairs=Pairs.separate)},
        {"training.learning_rate": 3e-4, "model.pairs": "joint"},
    ),
    (
        "49 labels",
        {},
        {"start_shape": START, "labels": {f"{n:02}": 100 for n in range(49)}},
        {"training.learning_rate": 3e-4},
    ),
    (
        "50 labels",
        {},
        {"start_shape": START, "labels": {f"{n:02}": 100 for n in range(50)}},
        {"training.learning_rate": 5e-4},
    ),
    ("a rate that was set", {"learning_rate": 2e-4}, {}, {"training.learning_rate": 2e-4}),
    ("a decay that was set", {"layer_decay": 0.5}, {"start_shape": START}, {"training.layer_decay": 0.5}),
    # Validation.
    ("49 validation rows", {}, {"validation": 49}, {"training.keep": "last", "training.patience": None}),
    ("50 validation rows", {}, {"validation": 50}, {"training.keep": "best", "training.patience": 4}),
    (
        "50 validation rows of 40 labels",
        {},
        {"labels": {f"{n:02}": 150 for n in range(40)}, "validation": 50},
        {"training.keep": "last"},
    ),
    ("no validation rows", {}, {}, {"training.keep": "best", "training.patience": 4}),
    ("however few", {"min_validation_rows": 0}, {"validation": 1}, {"training.keep": "best", "training.patience": 4}),
    # Micro-batches: on a CPU as many as its memory suggests, on a GPU one until its memory runs out.
    ("a batch of short rows", {"batch_size": 128}, {"start_shape": START}, {"training.accumulate": 1}),
    ("a batch of long rows", {"batch_size": 128}, {"lengths": 900, "start_shape": START}, {"training.accumulate": 2}),
    (
        "shared by two processes",
        {"batch_size": 128},
        {"lengths": 900, "start_shape": START, "processes": 2},
        {"training.accumulate": 1},
    ),
    (
        "on a GPU",
        {"batch_size": 128},
        {"lengths": 900, "start_shape": START, "device": "cuda"},
        {"training.accumulate": 1},
    ),
    ("micro-batches that were set", {"accumulate": 5}, {"lengths": 900}, {"training.accumulate": 5}),
]


@pytest.mark.parametrize(("settings", "facts", "decided"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_each_rule_decides_its_setting_and_leaves_what_was_set(settings, facts, decided):
    described = facts_of(**facts)
    config, _ = settled(described, **settings)
    assert {name: value(config, name) for name in decided} == decided
    again, _ = settle(config, described)
    assert again == config, "a resumed run, whose settings were decided, decides the same"


# What a user is told of the decisions.
NOTES = [
    ({}, {"lengths": 40}, "model.max_length=42"),
    ({}, {"start_shape": START}, "training.learning_rate=0.0003"),
    ({}, {"labels": RARE}, "97% of the training rows are 'objective', hence task.score=f1"),
    ({}, {"labels": RARE, "validation": 150, "start_shape": START}, "2 of 8 layers stay as pretrained"),
    ({}, {"labels": FEW, "start_shape": START}, "200 training rows are few: none are held out"),
    ({}, {"labels": FEW, "start_shape": START}, "training.contrast_weight=0.5"),
    ({}, {"validation": 49}, "49 validation rows are too few to choose a checkpoint"),
]


@pytest.mark.parametrize(("settings", "facts", "note"), NOTES)
def test_a_decision_that_a_user_may_want_to_know_has_a_note(settings, facts, note):
    _, notes = settled(facts_of(**facts), **settings)
    assert len([one for one in notes if note in one]) == 1
    fixed = {"learning_rate": 1e-3, "keep": Keep.last, "patience": None, "freeze_layers": 0}
    task = replace(TEXTS, score=ClassificationScore.accuracy)
    _, notes = settled(facts_of(labels={"a": 3000, "b": 3000}), task, START, **fixed)
    assert notes == []


def test_rows_in_windows_are_read_as_often_as_truncated_rows():
    facts = facts_of(labels={"up": 20, "down": 20}, lengths=60)
    model = replace(START, max_length=12)
    of_windows = replace(TEXTS, windows=Windows.mean)
    assert facts.row_lengths(of_windows, 12).sum() > 5 * facts.row_lengths(TEXTS, 12).sum()
    for task in (TEXTS, of_windows):
        config, _ = settled(facts, task, model, max_tokens=5000, max_epochs=20)
        assert config.training.epochs == 10


def test_documents_are_read_in_sequences_of_128_tokens_or_as_the_encoder_to_start_from_reads_them():
    facts = Facts(lambda task, max_length: np.full(400, max_length), {})
    for start, length in ((None, 128), (replace(START, max_length=200), 200)):
        config, _ = settled(
            replace(facts, start_shape=start), PretrainingConfig(name="p"), replace(START, max_length=None)
        )
        assert config.model.max_length == length


def test_a_student_of_vectors_learns_as_many_features_as_its_teacher_has():
    facts = Facts(lambda task, max_length: np.full(400, max_length), {}, teacher_width=384)
    config, _ = settled(facts, TeacherVectorsConfig(name="v"), START)
    assert config.task.teacher_width == 384


def test_comparing_rows_is_refused_for_a_task_that_compares_none():
    with pytest.raises(SettingError, match=r"training\.contrast_weight=0\.1 would have no effect"):
        settled(facts_of(labels=FEW, start_shape=START), TaggingConfig(name="t"), contrast_weight=0.1)


def test_settings_that_contradict_the_encoder_to_start_from_are_refused():
    with pytest.raises(SettingError, match=r"model\.d_model is 64, but 256 in the pretrained encoder"):
        settled(facts_of(start_shape=START), model=replace(START, d_model=64))


def test_no_setting_is_left_open():
    config, _ = settled(facts_of(start_shape=START, validation=100))
    stays_open = {"steps", "budget", "max_tokens", "checkpoint_every", "threads"}  # of these, null is a value
    training = dict(flat_settings(settings_to_dict(config)["training"]))
    assert {name for name, setting in training.items() if setting is None} <= stays_open
    assert isinstance(config.model, ModelConfig) and config.model.max_length is not None


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_a_model_larger_than_the_memory_is_refused_with_its_size(error, command, monkeypatch):
    def full(*_):
        raise error

    monkeypatch.setattr("encoderlab.models.model.EncoderWithHeads", full)
    with pytest.raises(SettingError, match=r"A model of [0-9,]{5,} parameters does not fit .* model.d_model="):
        command("train", "task=brackets", "model=tiny", "training=smoke", "dataset.limit=300")


@pytest.mark.parametrize(
    ("n_rows", "least", "all_trained_on"),
    [(12, 50, True), (49, 50, True), (50, 50, False), (12, 0, False)],
    ids=["12 rows", "one row less", "enough for a tenth", "never"],
)
def test_of_very_few_rows_none_are_held_out(n_rows, least, all_trained_on):
    assert too_few_to_hold_out(TrainingConfig(min_validation_rows=least), n_rows) == all_trained_on


@pytest.mark.parametrize("is_tested", [True, False])
def test_folds_are_proposed_where_nothing_is_tested(is_tested):
    _, notes = settled(facts_of({"a": 6, "b": 6}, start_shape=START, is_tested=is_tested))
    assert any("folds=5" in note for note in notes) != is_tested
