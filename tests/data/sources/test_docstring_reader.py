"""Reading docstrings: only prose, no duplicates, the names of modules, and their splits."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from encoderlab.data.sources.docstring_reader import Paragraph, prose_paragraphs, split_of, without_duplicates
from tests.data.sources.python_trees import PROSE, module, sentence


def test_prose_is_found_in_modules_classes_functions_and_branches():
    names = ["module", "class", "method", "coroutine", "branch", "fallback"]
    source = '''
"""{}"""
class Class:
    """Short.

    {}
    """
    def method(self):
        """{}"""
        def inside():
            """Nobody reads what functions inside functions say, so that this paragraph of many plain words is left out of it all."""
async def coroutine():
    """{}"""
if True:
    def branch():
        """{}"""
try:
    pass
except ImportError:
    def fallback():
        """{}"""
'''.format(*(f"{PROSE} This is the {name}." for name in names))
    assert prose_paragraphs(source.encode()) == [f"{PROSE} This is the {name}." for name in names]


def test_a_paragraph_becomes_one_line():
    lines = PROSE.replace(", and", ",\nand").replace("matrix whose", "matrix  whose")
    assert prose_paragraphs(module(lines)) == [PROSE]


@pytest.mark.parametrize(
    "block",
    [
        f">>> {PROSE}",
        f"points : array\n    {PROSE}",
        f"- {PROSE}",
        f"1. {PROSE}",
        f".. note:: {PROSE}",
        f".. [1] {PROSE}",
        f"[1] {PROSE}",
        f":param points: {PROSE}",
        f"Notes\n-----\n{PROSE}",
        f"Returns: {PROSE}",
        f"| {PROSE} |",
        f"```python\n{PROSE}\n```",
        "    " + PROSE,
        "Too short to say what it is about.",
        PROSE.removesuffix("."),
        PROSE.lower(),
        "Set x_1 = f(x_0, y_0), y_1 = g(x_0), z_1 = 0.5 and a[0] = b[1] * c[2] + 4 for i in range(10) if i % 2 == 0 else -1 where needed.",
    ],
)
def test_anything_but_prose_is_skipped(block):
    assert prose_paragraphs(module("Title.", block, PROSE)) == [PROSE]


@hypothesis_settings(max_examples=20, deadline=None)
@given(st.lists(st.text("abcdefg._", min_size=1), min_size=300, max_size=300, unique=True))
def test_about_eight_in_ten_modules_are_for_training_whatever_their_names(names):
    splits = [split_of(name) for name in names]
    assert 0.68 < splits.count("train") / len(splits) < 0.92
    assert set(splits) == {"train", "validation", "test"}


def test_one_copy_is_kept_within_a_library_and_none_of_copies_across_libraries():
    def paragraphs(*rows):
        return [Paragraph(text, library, f"{library}.{n}") for n, (library, text) in enumerate(rows)]

    own, shared = sentence(1), sentence(2)
    kept = without_duplicates(
        paragraphs(
            ("alpha", shared), ("alpha", own), ("beta", sentence(3)), ("alpha", own), ("beta", shared), ("beta", sentence(4))
        )
    )
    assert [(paragraph.module, paragraph.text) for paragraph in kept] == [
        ("alpha.1", own),
        ("beta.2", sentence(3)),
        ("beta.5", sentence(4)),
    ]


def test_copies_that_differ_only_in_code_and_numbers_are_copies():
    texts = [f"Builds a `{name}Model` with {n} layers; {PROSE}" for n, name in enumerate(["Bert", "Roberta"])]
    assert len(without_duplicates([Paragraph(text, "alpha", f"alpha.{n}") for n, text in enumerate(texts)])) == 1
