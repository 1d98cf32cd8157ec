"""The settings of the tasks: contradictions are refused before anything is read."""

import pytest

from encoderlab.errors import SettingError
from encoderlab.tasks.config import (
    ClassificationConfig,
    PretrainingConfig,
    PretrainingScore,
    SecondSentence,
    TeacherVectorsConfig,
)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", "a\0b"])
def test_a_tasks_name_is_a_valid_folder_name(name):
    with pytest.raises(SettingError, match="task.name"):
        ClassificationConfig(name=name)
    assert ClassificationConfig(name="größe 2").name == "größe 2"


def test_mask_and_random_probabilities_add_up_to_at_most_one():
    PretrainingConfig(name="p", mask_replace_prob=0.5, random_replace_prob=0.5)
    with pytest.raises(SettingError, match="mask_replace_prob.*random_replace_prob"):
        PretrainingConfig(name="p", mask_replace_prob=0.75, random_replace_prob=0.5)


def test_a_score_of_pairs_needs_pairs():
    with pytest.raises(SettingError, match="nsp_accuracy"):
        PretrainingConfig(name="p", second_sentence=SecondSentence.none, score=PretrainingScore.nsp_accuracy)


def test_only_pretraining_has_pairs():
    assert PretrainingConfig(name="p").paired is SecondSentence.next
    assert TeacherVectorsConfig(name="t").paired is SecondSentence.none


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("balance", "task.class_weights is balance. Allowed: balanced, or a weight for each label, such as {fraud: 5}"),
        ({"fraud": 0}, "task.class_weights gives fraud 0. Allowed: a number above 0"),
        ({"fraud": "high"}, "task.class_weights gives fraud high. Allowed: a number above 0"),
    ],
)
def test_label_weights_are_positive_numbers(weights, message):
    with pytest.raises(SettingError, match=message):
        ClassificationConfig(name="t", class_weights=weights)
