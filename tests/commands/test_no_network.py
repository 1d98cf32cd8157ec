"""Without a network the built-in task trains."""

import pytest


@pytest.mark.slow
def test_training_on_the_built_in_task_needs_no_network(command, no_network, tmp_path):
    tiny = ("model=tiny", "model.n_layers=1", "model.d_model=8", "model.n_heads=1", "model.max_length=16")
    smoke = ("training=smoke", "training.steps=1", "training.threads=1", "baselines=false")
    command("train", *tiny, *smoke, "dataset.limit=200", "tokenizer.vocabulary_size=300", "run_dir=run")
    assert (tmp_path / "run" / "report.json").is_file()
