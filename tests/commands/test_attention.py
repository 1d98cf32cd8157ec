"""encoderlab attention shows where a run looks."""

import numpy as np
import pytest


def test_attention_plots_every_layer_and_saves_the_weights(command, reverse_run, tmp_path):
    command("attention", f"run={reverse_run}", "text=1 2 3 4", "run_dir=maps")
    assert {"config.yaml", "environment.json"} <= {path.name for path in (tmp_path / "maps").iterdir()}
    folder = tmp_path / "maps" / "attention" / "text"
    assert sorted(path.name for path in folder.iterdir()) == ["layer-1.png", "weights.npz"]
    arrays = np.load(folder / "weights.npz")
    assert arrays["tokens"].tolist() == ["1", "2", "3", "4"]
    assert arrays["weights"].shape == (1, 1, 4, 4)
    assert arrays["weights"].sum(-1) == pytest.approx(1, abs=1e-5)
    page = (tmp_path / "maps" / "attention.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 1 and "layer 1 of 1" in page and "head 1<" in page and "head 0<" not in page


def test_attention_takes_rows_of_a_split(command, brackets_run, tmp_path):
    command("attention", f"run={brackets_run}", "split=test", "rows=[0,2]", "run_dir=maps")
    assert sorted(path.name for path in (tmp_path / "maps" / "attention").iterdir()) == ["test-0", "test-2"]
