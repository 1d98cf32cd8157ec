"""Settings left open are decided by the rows."""

import pytest

from encoderlab.data.examples import TextExample
from encoderlab.errors import SettingError
from encoderlab.runs import assembly
from encoderlab.runs.assembly import resolve_training
from encoderlab.tasks.config import ClassificationConfig, Windows
from encoderlab.tasks.rows import hold_encoded
from encoderlab.training.config import TrainingConfig
from tests.runs.small_assembly import TOKENIZER, assembly_of

LONG = [TextExample("0123456789" * 6, None, row % 3) for row in range(40)]


def settled(windows=Windows.none, validation=0, **training):
    """Return an assembly after its open settings were decided by 40 long rows, and these rows."""
    task = ClassificationConfig(name="long", windows=windows)
    assembly = assembly_of(task, training=TrainingConfig(**training), n_layers=1)
    rows = hold_encoded(assembly.task.encode(LONG), TOKENIZER.vocabulary_size, assembly.task.heads)
    few = hold_encoded(assembly.task.encode(LONG[:validation]), TOKENIZER.vocabulary_size, assembly.task.heads)
    return resolve_training(assembly, {"train": rows} | ({"validation": few} if validation else {})), rows


def test_rows_in_windows_are_read_as_often_as_truncated_rows():
    open_ = {"epochs": None, "max_tokens": 5000, "max_epochs": 20}
    (whole, whole_rows), (cut, cut_rows) = (settled(windows, **open_) for windows in (Windows.mean, Windows.none))
    assert whole_rows.lengths.sum() > 5 * cut_rows.lengths.sum()
    assert whole.config.training.epochs == cut.config.training.epochs == 10


def test_too_few_validation_rows_choose_no_checkpoint():
    training = settled(validation=5, patience=3, min_validation_rows=6)[0].config.training
    assert (training.keep.value, training.patience) == ("last", None)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_a_model_larger_than_the_memory_is_refused_with_its_size(error, command, monkeypatch):
    def full(*_):
        raise error

    monkeypatch.setattr(assembly, "EncoderWithHeads", full)
    with pytest.raises(SettingError, match=r"A model of [0-9,]{5,} parameters does not fit .* model.d_model="):
        command("train", "task=brackets", "model=tiny", "training=smoke", "dataset.limit=300")
