"""Predictions come in the order of the examples, and do not depend on the other rows."""

import pytest

from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.runs.inference.predict import answers_of
from encoderlab.tasks.config import TaggingConfig
from tests.runs.small_assembly import LABELS, assembly_of

pytestmark = pytest.mark.usefixtures("one_thread")


def test_each_example_has_the_prediction_it_has_alone():
    assembly = assembly_of()
    assembly.model.eval()
    examples = [TextExample(text) for text in ("0123456789", "a", "", "12ab", "b" * 40)]
    together = answers_of(assembly, examples)
    for example, answer in zip(examples, together, strict=True):
        (alone,) = answers_of(assembly, [example])
        assert answer.labels == alone.labels
        assert answer.probabilities == pytest.approx(alone.probabilities, abs=1e-5)
        assert sum(answer.by_label(LABELS).values()) == pytest.approx(1)
        assert max(answer.by_label(LABELS), key=answer.by_label(LABELS).get) == answer.labels[0]


def test_each_word_has_its_own_prediction():
    assembly = assembly_of(TaggingConfig(name="digits"))
    assembly.model.eval()
    answers = answers_of(assembly, [WordsExample(("1", "2", "ab")), WordsExample(("b",))])
    assert [len(answer.labels) for answer in answers] == [3, 1]
    assert {label for answer in answers for label in answer.labels} <= set(LABELS)
