"""Facts about a run: how to repeat it, what differs from the defaults, and its machine."""

import pytest

from encoderlab.reports.parts.run_facts import repeat_line, run_facts


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ([], "encoderlab train"),
        (["task=sst2", "text=two words"], "encoderlab train task=sst2 'text=two words'"),
        (["run_dir=a", "seed=1", "resume=auto", "+training.steps=3"], "encoderlab train seed=1 +training.steps=3"),
        (None, None),
    ],
)
def test_a_run_is_repeated_with_its_command_line_in_a_new_folder(overrides, line):
    assert repeat_line({"command": "train", "overrides": overrides}) == line
    assert repeat_line({"command": "train"}) is None  # an older run's record


def test_settings_are_compared_with_their_defaults(folder):
    facts = run_facts(folder, "train")
    assert ("training.learning_rate", "0.005", "0.001") in facts["changed"]
    assert ("dataset.path", "owner/name", "") in facts["changed"]
    assert ("training.batching", "length", "length") in facts["other"]
    assert ("dataset", "hub", "") in facts["changed"]
    assert not any(name in ("cache_dir", "training") for name, _, _ in [*facts["changed"], *facts["other"]])


def test_unknown_facts_of_the_machine_are_omitted_and_long_values_shortened(tmp_path, records):
    dataset = {"origin": {"files": "x" * 400}, "splits": {}}
    facts = run_facts(records(tmp_path, dataset=dataset, continued=[{}, {}]), "train")
    machine = dict(facts["machine"])
    assert machine["versions"] == "python 3.11.7, torch 2.13.0"
    assert "device name" not in machine
    assert machine["resumed"].startswith("2 time")
    assert facts["data"]["origin"] == [("files", "x" * 300 + "… (400 characters)")]
    assert facts["language"] is None


def test_the_language_is_the_datasets(tmp_path, records):
    config = "dataset: {schema: wikipedia, language: de}\nseed: 1\n"
    assert run_facts(records(tmp_path, config=config), "pretrain")["language"] == "de"
