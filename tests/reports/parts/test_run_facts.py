"""run_facts: how to repeat a run, what differs from the defaults, and on what machine it was made."""

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
def test_a_run_is_repeated_by_what_was_typed_in_a_folder_of_its_own(overrides, line):
    assert repeat_line({"command": "train", "overrides": overrides}) == line
    assert repeat_line({"command": "train"}) is None  # an older run's record


def test_settings_are_told_apart_by_their_defaults(folder):
    facts = run_facts(folder, "train")
    assert ("training.learning_rate", "0.005", "0.001") in facts["changed"]
    assert ("dataset.path", "owner/name", "") in facts["changed"]
    assert ("training.batching", "length", "length") in facts["other"]
    assert ("dataset", "hub", "") in facts["changed"]
    assert not any(name in ("cache_dir", "training") for name, _, _ in [*facts["changed"], *facts["other"]])


def test_what_is_not_known_of_the_machine_is_left_out_and_long_values_are_cut(tmp_path, records):
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
