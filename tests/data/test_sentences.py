"""Sentences: nothing is lost, Punkt's shortcuts split as NLTK does, and blocks are the same for any number of processes."""

import threading
from pathlib import Path

import nltk
import nltk.downloader
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer, PunktTokenizer, PunktTrainer

from encoderlab.data.sentences import (
    LANGUAGES,
    Preparation,
    SentenceSplitter,
    hastened,
    prepared,
    splitter_for,
)
from encoderlab.data.tokenizers import SymbolsConfig, WordPieceConfig
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
    """No model is installed and no server provides one."""
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    monkeypatch.setattr(nltk.downloader.Downloader, "download", lambda *_, **__: False)


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
    assert "punkt_tab (english) is not installed" in capsys.readouterr().err


def test_a_server_that_never_answers_times_out(tmp_path, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    monkeypatch.setattr(nltk.downloader.Downloader, "download", lambda *_, **__: released.wait())
    monkeypatch.setattr("encoderlab.data.sentences._FETCHING_SECONDS", 0.01)
    assert splitter_for(lambda: iter(CORPUS), "english").name == "Punkt trained on this corpus"
    released.set()


@pytest.mark.parametrize(
    ("language", "remedy"), [("englisch", " Set task.language=english."), ("../english", ""), ("xx", "")]
)
def test_a_language_without_a_punkt_model_is_refused_with_the_available_ones(language, remedy):
    with pytest.raises(SettingError) as caught:
        splitter_for(lambda: iter(CORPUS), language)
    assert str(caught.value).startswith(f"task.language is {language!r}. Allowed: {', '.join(LANGUAGES.values())}.")
    assert str(caught.value).endswith(remedy)


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
    block = Preparation(SPLITTER, TOKENIZER, 5, 2)([["12|345", "1|2"], [], ["123456", "1|23|456"]])
    assert block.input_ids.tolist() == [
        id_ for digits in ("12", "345", "1", "23", "456") for id_ in TOKENIZER.encode([digits])[0]
    ]
    assert block.lengths.tolist() == [2, 3, 1, 2, 3]
    assert block.document.tolist() == [0, 0, 2, 2, 2]
    assert block.paragraph.tolist() == [0, 0, 1, 1, 1]
    assert (block.documents, block.paragraphs) == (3, 2)


def test_a_sentence_without_pieces_is_skipped_and_its_paragraph_still_counts(tmp_path):
    tokenizer = WordPieceConfig(vocabulary_size=100, min_frequency=1).build(lambda: ["one two three"], tmp_path)
    block = Preparation(SPLITTER, tokenizer, 1, 1)([["one|\u200b|two", "\u200b", "three"]])
    assert block.paragraph.tolist() == [0, 0, 2]
    assert block.lengths.sum() == len(block.input_ids) and (block.lengths > 0).all()
    assert block.paragraphs == 3


PROSE = """Dr. Smith met Mr. J. Jones of St. Louis in approx. 1990. In 1991. the firm, Acme Corp. Ltd., went to No. 10 Downing St. again.
"Was it so?" he asked. (It was.) The U.S. team won, 3.5 to 2. The end... Or not? Oh no!! See p. 12, vol. 3, etc. etc. for more."""
WORDS = [
    "Dr", "approx", "St", "U.S", "J", "I", "no", "No", "1990", "12", "3.5", "-2", "1,000", "the", "The", "He", "he", "etc", "e.g", "Mr-Dr",
    "word", "Word", "ÉTÉ", "ΟΔΟΣ", "ß", "_", "a_b", "½", "²", "٣", "മാ", "é", "Ǆ", "İ", "end", "##number##", "http://a.b/c", "p.m", "x-approx",
]  # fmt: skip
MARKS = [
    ".", ".", ". ", ". ", "? ", "!", "...", ". . .", "..", ")", "(", '"', "”", "“", "’", "»", "[1]", "]", "}", ",", ";", ":", "--", "-", "%", "*", "@", "'",
]  # fmt: skip
BLANKS = [
    " ", " ", " ", " ", "\t", "\n", "\r\n", "\v", "\x1c", "\x85", "\xa0", "\u200b", "\u2003", "\u2028", "\u3000", "\U000e0001", "\u0378", "",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(WORDS + MARKS + BLANKS), max_size=25).map("".join) | st.text(max_size=60)


def trained_on(text):
    trainer = PunktTrainer()
    trainer.INCLUDE_ALL_COLLOCS = True
    trainer.train(text, finalize=False)
    return trainer.get_params()


def punkt_tab():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nltk.data, "path", [str(NLTK_DATA)])
        return PunktTokenizer("english")._params


@pytest.fixture(scope="module", params=["punkt_tab", "trained", "knows nothing"])
def nltk_parameters(request):
    """Return a function that builds a fresh copy of a model's parameters."""
    if request.param == "punkt_tab":
        if not NLTK_DATA.is_dir():
            pytest.skip("no punkt_tab: ../shared/nltk_data is not there")
        return punkt_tab
    return (lambda: trained_on(PROSE)) if request.param == "trained" else PunktParameters


@pytest.fixture(scope="module")
def both(nltk_parameters):
    return hastened(PunktSentenceTokenizer(nltk_parameters())), PunktSentenceTokenizer(nltk_parameters())


@settings(deadline=None, max_examples=400)
@given(text=TEXTS)
@example(text="")
@example(text=" . . ")
@example(text=PROSE)
@example(text='He said "no." Then he left.) ("Why?") He knew. ')
@example(text="in 1990. In 1991. in 5. (a) 6.) B")
@example(text="J. Smith and _. Word and ². Word and മ. Word")
def test_sentences_equal_nltks(both, text):
    ours, theirs = both
    assert ours.tokenize(text) == theirs.tokenize(text)


def test_processes_prepare_the_same_blocks_in_the_same_order(monkeypatch):
    monkeypatch.setattr("encoderlab.data.sentences._CHARACTERS", 200)
    documents = [[f"{number}|{number + 1}"] * (number % 7) for number in range(300)]
    prepare = Preparation(SPLITTER, TOKENIZER, 1, 1)
    several = list(prepared(documents, prepare))
    monkeypatch.setattr("encoderlab.data.sentences._MOST_WORKERS", 1)
    alone = list(prepared(documents, prepare))
    assert [block.input_ids.tolist() for block in several] == [block.input_ids.tolist() for block in alone]
    assert len(alone) > 5 and sum(block.documents for block in alone) == 300
