"""Sentences: nothing is lost, and blocks are the same for any number of processes."""

from functools import partial
from pathlib import Path

import nltk
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.sentences import (
    SentenceSplitter,
    block_of,
    prepared,
    splitter_for,
)
from encoderlab.data.tokenizer_config import SymbolsConfig, WordPieceConfig
from encoderlab.errors import SettingError

NLTK_DATA = Path(__file__).resolve().parents[3] / "shared" / "nltk_data"
CORPUS = [
    f"The {place} opened in {1900 + year}. Its owner, approx. {year} years old, met the mayor. Prices rose approx. {year} percent there."
    for year, place in enumerate(
        ["theatre", "library", "market", "station", "harbour", "museum", "school", "castle"] * 5
    )
]


@pytest.fixture(scope="module")
def installed():
    """Return the splitter of punkt_tab."""
    if not NLTK_DATA.is_dir():
        pytest.skip("no punkt_tab: ../shared/nltk_data is not there")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nltk.data, "path", [str(NLTK_DATA)])
        return splitter_for(lambda: iter(()), "english")


@pytest.fixture
def unreachable(tmp_path, monkeypatch):
    """No model is installed."""
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])


@pytest.fixture
def trained(unreachable):
    return splitter_for(lambda: iter(CORPUS), "english")


def test_the_installed_model_knows_abbreviations_absent_from_the_corpus(installed, capsys):
    assert installed.split(" Dr. Smith met Mr. Jones in Rome. It rained! ") == [
        "Dr. Smith met Mr. Jones in Rome.",
        "It rained!",
    ]
    assert installed.name == "punkt_tab (english)"
    assert capsys.readouterr().err == ""


def test_without_a_model_punkt_learns_abbreviations_from_the_corpus_and_says_so(unreachable, capsys):
    trained = splitter_for(lambda: iter(CORPUS), "english")
    assert trained.split("It grew by approx. 3 metres. Nobody knew why.") == [
        "It grew by approx. 3 metres.",
        "Nobody knew why.",
    ]
    assert trained.name == "Punkt trained on this corpus"
    assert "punkt_tab is not installed" in capsys.readouterr().err


@pytest.mark.parametrize("language", ["englisch", "../english", "xx"])
def test_a_language_without_a_punkt_model_is_refused_with_the_available_ones(language):
    with pytest.raises(SettingError, match=r"task\.language.*dutch, english"):
        splitter_for(lambda: iter(CORPUS), language)


PARAGRAPHS = st.text(st.sampled_from("abC 1.!?…\"')(,;- \t\n\x1c\xa0é"), max_size=60) | st.text(max_size=60)


@settings(deadline=None)
@given(paragraph=PARAGRAPHS)
def test_only_white_space_is_lost_and_no_sentence_is_blank(installed, paragraph):
    found = installed.split(paragraph)
    assert all(sentence == sentence.strip() != "" for sentence in found)
    assert "".join("".join(found).split()) == "".join(paragraph.split())


class Lines:
    """Split at vertical bars."""

    def tokenize(self, paragraph):
        return paragraph.split("|")


SPLITTER = SentenceSplitter(Lines(), "bars", "bars 1")
TOKENIZER = SymbolsConfig(symbols="0123456789").build(list, None)


def test_sentences_of_long_paragraphs_are_numbered_by_document_and_paragraph():
    block = block_of(SPLITTER, TOKENIZER, 5, 2, [["12|345", "1|2"], [], ["123456", "1|23|456"]])
    assert block.input_ids.tolist() == [
        id_ for digits in ("12", "345", "1", "23", "456") for id_ in TOKENIZER.encode([digits])[0]
    ]
    assert block.lengths.tolist() == [2, 3, 1, 2, 3]
    assert block.document.tolist() == [0, 0, 2, 2, 2]
    assert block.paragraph.tolist() == [0, 0, 1, 1, 1]
    assert (block.documents, block.paragraphs) == (3, 2)


def test_a_sentence_without_pieces_is_skipped_and_its_paragraph_still_counts(tmp_path):
    tokenizer = WordPieceConfig(vocabulary_size=100, min_frequency=1).build(lambda: ["one two three"], tmp_path)
    block = block_of(SPLITTER, tokenizer, 1, 1, [["one|\u200b|two", "\u200b", "three"]])
    assert block.paragraph.tolist() == [0, 0, 2]
    assert block.lengths.sum() == len(block.input_ids) and (block.lengths > 0).all()
    assert block.paragraphs == 3


@pytest.mark.slow
def test_processes_prepare_the_same_blocks_in_the_same_order(monkeypatch):
    monkeypatch.setattr("encoderlab.data.sentences._CHARACTERS", 200)
    documents = [[f"{number}|{number + 1}"] * (number % 7) for number in range(300)]
    prepare = partial(block_of, SPLITTER, TOKENIZER, 1, 1)
    several = list(prepared(documents, prepare))
    monkeypatch.setattr("encoderlab.data.sentences._MOST_WORKERS", 1)
    alone = list(prepared(documents, prepare))
    assert [block.input_ids.tolist() for block in several] == [block.input_ids.tolist() for block in alone]
    assert len(alone) > 5 and sum(block.documents for block in alone) == 300
