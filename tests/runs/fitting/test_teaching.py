"""A run without a teacher contains nothing of distillation."""

from encoderlab.runs.fitting.teaching import UNTAUGHT
from encoderlab.runs.folders.folder import RunFolder


def test_without_a_teacher_nothing_is_added_to_a_run(tmp_path):
    rows = object()
    assert UNTAUGHT.prepare(None, None, rows) is rows
    UNTAUGHT.begin(None)
    UNTAUGHT.train_before(RunFolder(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert (UNTAUGHT.encoder, UNTAUGHT.fingerprints(), UNTAUGHT.seconds_before(9.0)) == (None, {}, {})
    assert UNTAUGHT.compared(None, None, RunFolder(tmp_path), "test", None) == {}
