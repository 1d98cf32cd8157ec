"""Documents made of rows: their paragraphs, read any number of times, and a fingerprint of their content."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.documents import as_documents, paragraphs, refuse_lone_document
from encoderlab.data.examples import Split, Splits
from encoderlab.errors import DataError


def documents_of(**columns):
    return as_documents(Splits({"train": Split(pa.table(columns))}, [])).by_name["train"]


@settings(deadline=None)
@given(st.text(st.sampled_from("ab \t\r\n\x85\u2028"), max_size=40))
def test_paragraphs_are_the_nonblank_lines_and_nothing_else_is_lost(text):
    found = paragraphs(text)
    assert all(paragraph == paragraph.strip() != "" and not set("\r\n") & set(paragraph) for paragraph in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_a_row_is_a_document_whose_lines_are_paragraphs_followed_by_its_second_text():
    split = documents_of(text=["One.\n\n Two. ", ""], text_pair=["Three.\r\nFour.", "Five."])
    assert list(split.documents()) == [["One.", "Two.", "Three.", "Four."], ["Five."]]
    assert split.total == 2


def test_documents_can_be_reread_and_read_by_two_readers_at_once():
    split = documents_of(text=["a", "b", ""])
    first, second = split.documents(), split.documents()
    assert [next(first), next(second), next(first)] == [["a"], ["a"], ["b"]]
    assert list(split.documents()) == [["a"], ["b"], []]


def test_a_row_of_words_is_a_document_of_one_paragraph():
    assert list(documents_of(words=[["In", "Rome"], []]).documents()) == [["In Rome"], []]


def test_the_fingerprint_depends_on_the_texts_and_their_order():
    same = documents_of(text=["a", "b"])
    assert (
        documents_of(text=["a", "b"], label=[0, 1]).fingerprint == same.fingerprint
    )  # labels are no part of a document
    others = [
        documents_of(text=["b", "a"]),
        documents_of(text=["a"]),
        documents_of(text=["a", "b"], text_pair=["", ""]),
    ]
    assert len({same.fingerprint, *(other.fingerprint for other in others)}) == 4


def test_fewer_than_two_documents_are_refused():
    refuse_lone_document(2)
    for total, held in {0: "0 documents", 1: "1 document"}.items():
        with pytest.raises(DataError, match=f"^The training split holds {held}. Allowed: at least 2"):
            refuse_lone_document(total)
