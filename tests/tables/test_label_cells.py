"""How a cell of a label column becomes labels, as pandas, forms and annotation tools write it."""

import pytest

from encoderlab.tables.label_cells import CellKind, cell_format, doubts, list_items, vector_length


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("['billing', 'refund']", ["billing", "refund"]),
        ('["billing", "it\'s late"]', ["billing", "it's late"]),
        ("['a' 'b']", ["a", "b"]),  # NumPy
        ("array(['a', 'b'], dtype=object)", ["a", "b"]),
        ("('a',)", ["a"]),
        ("{'a', 'b'}", ["a", "b"]),
        ("[billing, customer service]", ["billing", "customer service"]),
        ("[]", []),
        ("[1 0 1]", ["1", "0", "1"]),
        ("{bug,customer service}", ["bug", "customer service"]),  # Postgres
        ('c("a", "b")', ["a", "b"]),  # R
        ("[np.str_('a'), np.str_('b')]", ["a", "b"]),  # NumPy 2
        ('[{"name": "bug"}, {"name": "ui"}]', ["bug", "ui"]),  # GitHub
        ('"bug","ui"', ["bug", "ui"]),
        ("{'a': 1}", None),
        ("(see below)", None),
        ("[a] and [b]", None),
        ("billing", None),
    ],
)
def test_lists_are_read_as_programs_write_them(cell, labels):
    assert list_items(cell) == labels


@pytest.mark.parametrize(
    ("cells", "kind", "labels"),
    [
        (["['a', 'b']", "['a']", "[]"], CellKind.list, {"a", "b"}),
        (["['a', 'b']", "c", "nan"], CellKind.list, {"a", "b", "c"}),
        (["{'joy': 1, 'anger': 0}", '{"joy": true, "anger": true}'], CellKind.marks, {"joy", "anger"}),
        (["<python><pandas>", "<c#>"], CellKind.tags, {"python", "pandas", "c#"}),
        (["#bug #ui", "#docs"], CellKind.hashtags, {"bug", "ui", "docs"}),
        (["bug\nui", "docs"], CellKind.separated, {"bug", "ui", "docs"}),
        (["R&D, legal; Sales", "Sales"], CellKind.separated, {"R&D, legal", "Sales"}),
        (["a,b", "c,d"], CellKind.separated, {"a", "b", "c", "d"}),
        (["Slow", "Slow, Dear", "Dear, Rude", "Rude"], CellKind.separated, {"Slow", "Dear", "Rude"}),
        (["Food, drink", "R&D, legal", "Sales"], CellKind.one, {"Food, drink", "R&D, legal", "Sales"}),
        (["not urgent", "urgent"], CellKind.one, {"not urgent", "urgent"}),
    ],
)
def test_a_separator_needs_evidence(cells, kind, labels):
    format = cell_format(cells)
    assert format.kind is kind
    assert {label for cell in cells for label in format.labels_of(cell)} == labels


def test_a_separator_that_is_set_decides():
    assert cell_format(["Food, drink", "Sales"], ",").labels_of("Food, drink") == ["Food", "drink"]


def test_what_may_be_misread_is_named():
    together = ["Slow", "Slow, Dear, even so", "Rude, Dear, even so", "Rude, Slow", "Rude"]
    assert any("Dear" in note and "even so" in note for note in doubts(together, cell_format(together)))
    mixed = ["a;b", "a", "b", "a, b;c"]
    assert any("'a, b'" in note for note in doubts(mixed, cell_format(mixed)))
    for cells in (["python pandas", "r", "python"], ["bug / ui", "docs"], ["a + b", "c"]):
        assert any(repr(cells[0]) in note for note in doubts(cells, cell_format(cells)))
    with_commas = ["Food, drink", "R&D, legal", "Sales"]
    assert any("label_separator" in note for note in doubts(with_commas, cell_format(with_commas)))


def test_vectors_of_0_and_1_are_recognised():
    assert vector_length(["[1, 0, 0]", "[0, 1, 1]", ""]) == 3
    assert vector_length(["[1, 0]", "[0, 1, 1]"]) == 0
    assert vector_length(["['1', 'b']"]) == 0
    assert vector_length(["1,0,1", "0,1,0"]) == vector_length(["1 0 1", "0 1 0"]) == 3
    assert vector_length(["1,0", "0", "1,0,1"]) == 0
