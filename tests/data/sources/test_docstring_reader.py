"""Reading docstrings: only prose, no duplicates, the names of modules, and their splits."""

import gc

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from encoderlab.data.sources.docstring_reader import (
    Paragraph,
    no_garbage_collection,
    prose_paragraphs,
    python_files,
    split_of,
    without_duplicates,
)
from tests.data.sources.python_trees import PROSE, module, sentence, write_tree


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
            ("alpha", shared),
            ("alpha", own),
            ("beta", sentence(3)),
            ("alpha", own),
            ("beta", shared),
            ("beta", sentence(4)),
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


def test_modules_are_named_as_they_are_imported_and_tests_and_installed_packages_are_skipped(tmp_path):
    files = [
        "b.py",
        "a/__init__.py",
        "a/deep/c.py",
        "a/data.txt",
        "a/tests/test_c.py",
        "site-packages/other.py",
        "a/__pycache__/c.py",
    ]
    write_tree(tmp_path, dict.fromkeys(files, b""))
    found = python_files(tmp_path)
    assert found == [
        ("a", tmp_path / "a" / "__init__.py"),
        ("a.deep.c", tmp_path / "a" / "deep" / "c.py"),
        ("b", tmp_path / "b.py"),
    ]
    assert [name for name, _ in python_files(tmp_path, "lib")] == ["lib.a", "lib.a.deep.c", "lib.b"]


@pytest.mark.parametrize("ending", [b'\nprint "old"', b"\n\0", b"\n\xff", b"\n    (", b"\nx = 'open"])
def test_a_file_that_is_not_valid_python_has_no_paragraphs(ending):
    assert prose_paragraphs(module(PROSE)) == [PROSE]
    assert prose_paragraphs(module(PROSE) + ending) == []


@pytest.mark.parametrize("enabled", [True, False])
def test_garbage_collection_is_as_it_was_afterwards(enabled):
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    try:
        with pytest.raises(KeyError), no_garbage_collection():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
