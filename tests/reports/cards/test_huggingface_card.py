"""The section about transformers: a program for each kind of head, and a command line that opens any path."""

import ast
import shlex

import pytest
import transformers

from encoderlab.reports.cards.huggingface_card import CLASSES, READ_SEQUENCE, huggingface_card, line_that_opens
from tests.reports.cards.python_in_cards import programs_in, unknown_names

KINDS = [{"architectures": [f"Bert{end}"]} for end in CLASSES]
KINDS += [
    {"architectures": ["DistilBertForSequenceClassification"], "problem_type": kind}
    for kind in ("single_label_classification", "multi_label_classification", "regression")
]
KINDS += [{"architectures": ["BertForSequenceClassification"], "thresholds": {"yes": 0.3}}]


@pytest.mark.parametrize("fields", KINDS, ids=str)
def test_its_program_is_valid_and_opens_the_folder_with_a_class_that_exists(fields):
    card = huggingface_card(fields)
    (program,) = programs_in(card)
    assert unknown_names(program) == set()
    opened_by = CLASSES[next(end for end in CLASSES if fields["architectures"][0].endswith(end))]
    assert f"{opened_by}.from_pretrained(folder)" in card and hasattr(transformers, opened_by)


def test_thresholds_are_read_only_if_there_are_any():
    plain, with_threshold = (huggingface_card(KINDS[0] | more) for more in ({}, {"thresholds": {"yes": 0.3}}))
    assert "thresholds" not in plain and READ_SEQUENCE["two_labels"] in with_threshold


@pytest.mark.parametrize("path", ["there", "a folder", "it's", 'say "hi"', "é\\n"])
def test_the_line_that_opens_it_reads_any_path_literally(path):
    python, flag, code = shlex.split(line_that_opens({"architectures": ["BertModel"]}, path))
    (opens,) = (
        node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "from_pretrained"
    )
    assert (python, flag, ast.literal_eval(opens.args[0])) == ("python", "-c", path)
