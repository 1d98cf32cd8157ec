"""GLUE's tasks: the names of their files, and the spelling of their labels."""

import pytest

from encoderlab.reports.outputs.glue import GLUE_TASKS


def test_mnlis_test_set_is_two_files_and_its_mismatched_rows_one():
    mnli = GLUE_TASKS["mnli"]
    assert mnli.files_of("test") == {"test": "MNLI-m.tsv", "test_mismatched": "MNLI-mm.tsv"}
    assert mnli.files_of("test_mismatched") == {"test_mismatched": "MNLI-mm.tsv"}
    assert GLUE_TASKS["sst2"].files_of("test") == {"test": "SST-2.tsv"}


@pytest.mark.parametrize(
    ("task", "written"), [("qnli", "not_entailment"), ("rte", "not_entailment"), ("wnli", "1"), ("cola", "1")]
)
def test_inference_tasks_write_label_names_and_the_others_ids(task, written):
    assert GLUE_TASKS[task].spelling("not_entailment", ["entailment", "not_entailment"]) == written


def test_numbers_stay_within_the_range_of_the_task():
    spelled = [GLUE_TASKS["stsb"].spelling(number, []) for number in (-0.2, 2.75, 5.4)]
    assert spelled == ["0.0", "2.75", "5.0"]
