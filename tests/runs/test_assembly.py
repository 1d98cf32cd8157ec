"""Settings left open are decided by the rows."""

import pytest

from encoderlab.data.examples import TextExample
from encoderlab.tasks.config import ClassificationConfig, Windows
from encoderlab.tasks.rows import hold_encoded
from encoderlab.training.compilation import WITH_GRAPHS
from encoderlab.training.config import Compile, TrainingConfig
from tests.runs.small_assembly import TOKENIZER, assembly_of

LONG = [TextExample("0123456789" * 6, None, row % 3) for row in range(40)]


def settled(windows):
    training = TrainingConfig(epochs=None, max_tokens=5000, max_epochs=20, accumulate=1, learning_rate=1e-3)
    assembly = assembly_of(ClassificationConfig(name="long", windows=windows), training=training)
    rows = hold_encoded(assembly.task.encode(LONG), TOKENIZER.vocabulary_size, assembly.task.heads)
    return assembly.settled(rows), rows


def test_rows_in_windows_are_read_as_often_as_truncated_rows():
    (whole, whole_rows), (cut, cut_rows) = settled(Windows.mean), settled(Windows.none)
    assert whole_rows.lengths.sum() > 5 * cut_rows.lengths.sum()
    assert whole.config.training.epochs == cut.config.training.epochs == 10


@pytest.mark.parametrize(
    ("length", "seconds"),
    [({"steps": 1000}, 1.5), ({"epochs": 50.0}, 50 * 2 * 1.5e-3), ({"budget": "10m"}, 600)],
)
def test_the_length_of_the_run_decides_what_is_compiled(length, seconds, monkeypatch):
    durations = []
    monkeypatch.setattr(
        "encoderlab.runs.assembly.compile_encoder", lambda *given: durations.append(given[-1]) or "compiled"
    )
    assembly = assembly_of(training=TrainingConfig(**{"batch_size": 32, "accumulate": 1, **length}), n_layers=1)
    assert assembly.compiled is None
    rows = hold_encoded(assembly.task.encode(LONG), TOKENIZER.vocabulary_size, assembly.task.heads)
    assert assembly.settled(rows).compiled == "compiled"
    assert durations == [pytest.approx(seconds)]


def test_a_model_for_cuda_graphs_computes_whole_batches(monkeypatch):
    monkeypatch.setattr("encoderlab.runs.assembly.compile_encoder", lambda *given: WITH_GRAPHS)
    training = TrainingConfig(steps=3, compile=Compile.cuda_graphs)
    assembly = assembly_of(training=training)
    rows = hold_encoded(assembly.task.encode(LONG), TOKENIZER.vocabulary_size, assembly.task.heads)
    assert assembly.settled(rows).model.packs is False
    windowed = assembly_of(ClassificationConfig(name="long", windows=Windows.mean), training=training)
    assert "CUDA graphs would be recorded for each number" in str(windowed.settled(rows).compiled)
