"""The scores that can be chosen are figures that the task's metrics have."""

import pytest

from encoderlab.data.dataset import Pack
from encoderlab.data.examples import TextExample, WordsExample
from encoderlab.data.token_store import memory_store
from encoderlab.tasks.config import (
    ClassificationConfig,
    ClassificationScore,
    MultilabelConfig,
    MultilabelScore,
    PretrainingConfig,
    PretrainingScore,
    RegressionConfig,
    RegressionScore,
    TaggingConfig,
    TaggingScore,
    TeacherScore,
)
from encoderlab.tasks.rows import hold_encoded
from encoderlab.tasks.sentence_rows import SentenceRows
from tests.metrics.test_teacher_vectors import added
from tests.runs.small_assembly import assembly_of

TEXTS = ["012", "9a", "b", "77"]
NAMES = ["no", "yes"]
ENTITIES = ["O", "B-place", "I-place"]
EXAMPLES = {
    ClassificationScore: (ClassificationConfig(name="t", positive_label="yes"), NAMES, [TextExample(text, None, row % 2) for row, text in enumerate(TEXTS)]),
    MultilabelScore: (MultilabelConfig(name="t"), NAMES, [TextExample(text, None, (row % 2,)) for row, text in enumerate(TEXTS)]),
    RegressionScore: (
        RegressionConfig(name="t", mean=0.0, deviation=1.0), [], [TextExample(text, None, float(row)) for row, text in enumerate(TEXTS)]
    ),
    TaggingScore: (TaggingConfig(name="t"), ENTITIES, [WordsExample(tuple(text), tuple(range(len(text)))) for text in TEXTS]),
}  # fmt: skip


@pytest.mark.parametrize("choices", EXAMPLES)
def test_every_score_is_a_figure_of_its_task(choices):
    config, labels, examples = EXAMPLES[choices]
    assembly = assembly_of(config, labels)
    rows = hold_encoded(assembly.task.encode(examples), assembly.tokenizer.vocabulary_size, assembly.task.heads)
    assert {choice.value for choice in choices} - {"auto"} <= assembly.evaluate(rows).figures.keys()


def test_scores_of_pretraining_are_figures_of_masked_tokens_and_pairs():
    assembly = assembly_of(PretrainingConfig(name="t"), [])
    sentences = [{"input_ids": [5, 6, 7, 8], "document": (row // 3,), "paragraph": (row // 3,)} for row in range(12)]
    store = memory_store({"input_ids": "uint16", "document": "uint32", "paragraph": "uint32"}, sentences)
    figures = assembly.evaluate(SentenceRows(store, assembly.task, Pack.sentences)).figures
    assert {choice.value for choice in PretrainingScore} <= figures.keys()


def test_scores_of_a_teachers_vectors_are_their_cosines():
    from encoderlab.metrics.pretraining import TeacherVectorsMetrics

    assert {choice.value for choice in TeacherScore} <= added(TeacherVectorsMetrics(), [0, 1]).scores().figures.keys()
