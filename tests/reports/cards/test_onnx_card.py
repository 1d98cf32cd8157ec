"""The section about ONNX: how the graph was checked, who opens the folder, and a program."""

import pytest

from encoderlab.reports.cards.onnx_card import onnx_card
from tests.reports.cards.python_in_cards import programs_in, unknown_names

FIELDS = {
    "paired": False,
    "precision": "fp32",
    "opset": 20,
    "max_length": 64,
    "largest_difference": 2.5e-7,
    "tolerance": 1e-4,
}


def test_it_states_the_error_of_the_graph_and_its_inputs():
    card = onnx_card(FIELDS, opened=True)
    assert (
        "up to 64 tokens per row. Its outputs were compared" in card and "at most 2.5e-07 of the largest output" in card
    )
    assert "`encoderlab predict`, `eval` and `serve` open this folder" in card
    assert unknown_names(*programs_in(card)) == set()
    assert "encoderlab predict" not in onnx_card(FIELDS, opened=False)


def test_an_8_bit_graph_was_compared_before_quantization():
    assert "Before quantization, its outputs were compared" in onnx_card(FIELDS | {"precision": "int8"}, opened=True)


@pytest.mark.parametrize(
    ("paired", "shell"), [(False, 'predict.py "A text to read."'), (True, "predict.py $'A text.\\tAnd another.'")]
)
def test_a_pair_is_typed_with_a_tab(paired, shell):
    assert f"python {shell}\n" in onnx_card(FIELDS | {"paired": paired}, opened=True)
