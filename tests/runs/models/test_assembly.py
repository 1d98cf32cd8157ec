"""What the settings leave open is decided by the rows."""

from encoderlab.data.examples import TextExample
from encoderlab.tasks.config import ClassificationConfig, Windows
from encoderlab.tasks.rows import hold_encoded
from encoderlab.training.config import TrainingConfig
from tests.runs.small_assembly import TOKENIZER, assembly_of

LONG = [TextExample("0123456789" * 6, None, row % 3) for row in range(40)]


def settled(windows):
    training = TrainingConfig(epochs=None, max_tokens=5000, max_epochs=20, accumulate=1, learning_rate=1e-3)
    assembly = assembly_of(ClassificationConfig(name="long", windows=windows), training=training)
    rows = hold_encoded(assembly.task.encode(LONG), TOKENIZER.vocabulary_size, assembly.task.heads)
    return assembly.settled(rows), rows


def test_rows_in_windows_are_read_as_often_as_rows_that_are_cut():
    (whole, whole_rows), (cut, cut_rows) = settled(Windows.mean), settled(Windows.none)
    assert whole_rows.lengths.sum() > 5 * cut_rows.lengths.sum()
    assert whole.config.training.epochs == cut.config.training.epochs == 10
    assert whole.step_memory(whole_rows).row > 5 * cut.step_memory(cut_rows).row
