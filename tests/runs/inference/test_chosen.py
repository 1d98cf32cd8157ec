"""Which examples a command uses: a typed text or rows of a split, never both."""

from types import SimpleNamespace

import pytest

from encoderlab.config.commands import AttentionConfig
from encoderlab.data.examples import TextExample
from encoderlab.data.sources.generated import BracketsDataset
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.inference.chosen import check_chosen, chosen_examples
from tests.runs.small_assembly import assembly_of


def request(tmp_path=".", **settings):
    return AttentionConfig(cache_dir=str(tmp_path), run="outputs/a", **settings)


@pytest.mark.parametrize(
    "settings",
    [{"text": "a", "split": "test"}, {"text": "a", "rows": [0]}, {"text": " "}, {"text_pair": "b"}, {"rows": []}],
)
def test_contradictory_choices_are_refused(settings):
    with pytest.raises(SettingError):
        check_chosen(request(**settings))


@pytest.mark.parametrize(
    "settings", [{}, {"text": "a"}, {"text": "a", "text_pair": "b"}, {"split": "test", "rows": [0, 7]}]
)
def test_a_text_or_rows_are_enough(settings):
    check_chosen(request(**settings))


def test_rows_are_named_by_their_split_and_missing_ones_refused(tmp_path):
    assembly = assembly_of()
    dataset = BracketsDataset(train_rows=20, validation_rows=6, test_rows=4, pairs=5)
    config = SimpleNamespace(task=assembly.config.task, dataset=dataset)
    run = SimpleNamespace(config=config, task=assembly.task, opened=assembly)
    assert list(chosen_examples(request(tmp_path), run)) == ["validation-0"]
    assert list(chosen_examples(request(tmp_path, split="test", rows=[3, 1]), run)) == ["test-3", "test-1"]
    with pytest.raises(DataError, match="0 to 3"):
        chosen_examples(request(tmp_path, split="test", rows=[4]), run)
    with pytest.raises(DataError, match="0 to 3"):
        chosen_examples(request(tmp_path, split="test", rows=[-1]), run)


def test_a_typed_text_is_the_example():
    assembly = assembly_of()
    run = SimpleNamespace(config=assembly.config, task=assembly.task, opened=SimpleNamespace(paired=False))
    assert chosen_examples(request(text="12"), run) == {"text": TextExample("12")}
    with pytest.raises(DataError, match="a pair"):
        chosen_examples(request(text="1", text_pair="2"), run)
