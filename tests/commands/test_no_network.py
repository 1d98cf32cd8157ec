"""Without a network the built-in task trains, and whatever needs the hub says in one line what to do."""

import pytest

from encoderlab.errors import DataError


@pytest.mark.slow
def test_training_on_the_built_in_task_needs_no_network(command, no_network, tmp_path):
    tiny = ("model=tiny", "model.n_layers=1", "model.d_model=8", "model.n_heads=1", "model.max_length=16")
    smoke = ("training=smoke", "training.steps=1", "training.threads=1", "baselines=false")
    command("train", *tiny, *smoke, "dataset.limit=200", "tokenizer.vocabulary_size=300", "run_dir=run")
    assert (tmp_path / "run" / "report.json").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["train", "task=classification", "dataset=hub", "dataset.path=me/rows"],
            "dataset=files needs no network",
        ),
        (
            ["train", "tokenizer=pretrained", "tokenizer.name=me/tokenizer"],
            "or set tokenizer=wordpiece, which needs neither",
        ),
        (["finetune", "init_from=me/model"], "or set HF_HOME to a cache that has it"),
    ],
)
def test_a_missing_hub_is_reported_with_alternatives(command, no_network, tmp_path, arguments, message):
    with pytest.raises(DataError) as refused:
        command(*arguments)
    assert message in str(refused.value) and str(refused.value).isprintable()
    assert list(tmp_path.iterdir()) == []
