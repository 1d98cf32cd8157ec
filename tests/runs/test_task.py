"""From settings to a task: every kind that a config can name, and what each takes from the training rows."""

from types import SimpleNamespace

import pytest
import torch

from encoderlab.batch import HeadSizes
from encoderlab.errors import SettingError
from encoderlab.model.config import ModelConfig
from encoderlab.model.heads import EncoderWithHeads
from encoderlab.runs.corpus import Corpus
from encoderlab.runs.task import label_weights_of, resolve_task, start_from_frequencies, uneven_note
from encoderlab.tasks.config import ClassificationConfig, ClassificationScore, MultilabelConfig, TaggingConfig


def corpus_of(rows=None, **labels):
    train = SimpleNamespace(labels=labels, rows=rows or sum(labels.values()), numbers=None)
    splits = SimpleNamespace(by_name={"train", "validation"})
    members = {"labels": list(labels), "survey": {"train": train}, "splits": splits}
    return object.__new__(type("CorpusOfCounts", (Corpus,), members))


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        ({"ham": 90, "spam": 10}, "spam"),
        ({"fraud": 10, "ok": 90}, "fraud"),
        ({"bad": 50, "good": 50}, "good"),
        ({"a": 1, "b": 2, "c": 3}, None),
    ],
)
def test_the_rarer_of_two_labels_is_the_positive_one_unless_one_is_named(labels, positive):
    assert resolve_task(ClassificationConfig(name="t"), corpus_of(**labels)).positive_label == positive
    named = ClassificationConfig(name="t", positive_label="ham")
    assert resolve_task(named, corpus_of(ham=90, spam=10)).positive_label == "ham"


@pytest.mark.parametrize(
    ("labels", "score", "threshold", "weights"),
    [
        ({"ham": 90, "spam": 10}, "accuracy", None, None),
        ({"ham": 97, "spam": 3}, "f1", "f1", "balanced"),
        ({"a": 95, "b": 3, "c": 2}, "f1_macro", None, "balanced"),
    ],
)
def test_a_label_of_nearly_all_rows_changes_what_is_learned_and_fitted_unless_a_score_is_set(
    labels, score, threshold, weights
):
    corpus = corpus_of(**labels)
    task = resolve_task(ClassificationConfig(name="t"), corpus)
    assert (task.score.value, task.threshold, task.class_weights) == (score, threshold, weights)
    assert resolve_task(task, corpus) == task  # as when a run is resumed
    note = uneven_note(task, corpus)
    assert (note is not None) == (weights is not None) and (note is None or note.startswith("9"))
    corpus.splits.by_name.remove("validation")
    assert resolve_task(ClassificationConfig(name="t"), corpus).threshold is None, "there are no rows to fit it on"
    mine = ClassificationConfig(name="t", score=ClassificationScore.matthews)
    assert resolve_task(mine, corpus).class_weights is None


@pytest.mark.parametrize("config", [ClassificationConfig, TaggingConfig])
def test_balanced_classes_have_equal_total_weight_and_rows_weight_one_on_average(config):
    weights = label_weights_of(config(name="t", class_weights="balanced"), corpus_of(a=80, b=15, c=5))
    assert torch.allclose(weights * torch.tensor([80.0, 15, 5]), torch.full((3,), 100 / 3))
    assert label_weights_of(config(name="t"), corpus_of(a=80, b=20)) is None


def test_given_weights_keep_their_ratios_and_must_name_known_labels():
    weights = label_weights_of(ClassificationConfig(name="t", class_weights={1: 5}), corpus_of(**{"0": 90, "1": 10}))
    assert (weights[1] / weights[0]).item() == pytest.approx(5)
    assert (weights * torch.tensor([90.0, 10])).sum().item() == pytest.approx(100)
    with pytest.raises(SettingError, match=r"task.class_weights names 'frud'.*Did you mean fraud"):
        label_weights_of(ClassificationConfig(name="t", class_weights={"frud": 5}), corpus_of(fraud=1, ok=2))


def test_a_balanced_label_of_a_set_starts_at_probability_one_half():
    corpus = corpus_of(rows=100, rare=4, frequent=60, never=0)
    heads = HeadSizes(sequence_classes=3, sequence_target="label_set")
    model = EncoderWithHeads(ModelConfig(n_layers=1, d_model=8, n_heads=2, max_length=8), 10, 0, heads)
    balanced = label_weights_of(MultilabelConfig(name="t", class_weights="balanced"), corpus)
    assert balanced.tolist() == pytest.approx([97 / 5, 41 / 61, 101])
    start_from_frequencies(model, heads, corpus, balanced)
    assert torch.allclose(model.sequence_head.bias, torch.zeros(3), atol=1e-5)
    start_from_frequencies(model, heads, corpus, None)
    assert torch.allclose(model.sequence_head.bias.sigmoid(), torch.tensor([5.0, 61, 1]) / 102)
