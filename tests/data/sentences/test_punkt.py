"""Punkt without NLTK's overhead splits every text as NLTK does."""

import pickle
from pathlib import Path

import nltk
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer, PunktTokenizer, PunktTrainer

from encoderlab.data.sentences.punkt import Punkt

NLTK_DATA = Path(__file__).resolve().parents[4] / "shared" / "nltk_data"
CORPUS = """Dr. Smith met Mr. J. Jones of St. Louis in approx. 1990. In 1991. the firm, Acme Corp. Ltd., went to No. 10 Downing St. again.
"Was it so?" he asked. (It was.) The U.S. team won, 3.5 to 2. The end... Or not? Oh no!! See p. 12, vol. 3, etc. etc. for more."""
WORDS = [
    "Dr", "approx", "St", "U.S", "J", "I", "no", "No", "1990", "12", "3.5", "-2", "1,000", "the", "The", "He", "he", "etc", "e.g", "Mr-Dr",
    "word", "Word", "ÉTÉ", "ΟΔΟΣ", "ß", "_", "a_b", "½", "²", "٣", "മാ", "é", "Ǆ", "İ", "end", "##number##", "http://a.b/c", "p.m", "x-approx",
]  # fmt: skip
MARKS = [
    ".",
    ".",
    ". ",
    ". ",
    "? ",
    "!",
    "...",
    ". . .",
    "..",
    ")",
    "(",
    '"',
    "”",
    "“",
    "’",
    "»",
    "[1]",
    "]",
    "}",
    ",",
    ";",
    ":",
    "--",
    "-",
    "%",
    "*",
    "@",
    "'",
]
BLANKS = [
    " ",
    " ",
    " ",
    "  ",
    "\t",
    "\n",
    "\r\n",
    "\v",
    "\x1c",
    "\x85",
    "\xa0",
    "\u200b",
    "\u2003",
    "\u2028",
    "\u3000",
    "\U000e0001",
    "\u0378",
    "",
]
TEXTS = st.lists(st.sampled_from(WORDS + MARKS + BLANKS), max_size=25).map("".join) | st.text(max_size=60)


def trained_on(text):
    trainer = PunktTrainer()
    trainer.INCLUDE_ALL_COLLOCS = True
    trainer.train(text, finalize=False)
    return trainer.get_params()


def knowing(abbreviations, collocations, starters, contexts):
    found = PunktParameters()
    found.abbrev_types, found.collocations, found.sent_starters = set(abbreviations), set(collocations), set(starters)
    found.ortho_context.update(contexts)
    return found


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
    return (lambda: trained_on(CORPUS)) if request.param == "trained" else PunktParameters


@pytest.fixture(scope="module")
def both(nltk_parameters):
    return Punkt(PunktSentenceTokenizer(nltk_parameters())), PunktSentenceTokenizer(nltk_parameters())


@settings(deadline=None, max_examples=400)
@given(text=TEXTS)
@example(text="")
@example(text=" . . ")
@example(text=CORPUS)
@example(text='He said "no." Then he left.) ("Why?") He knew. ')
@example(text="in 1990. In 1991. in 5. (a) 6.) B")
@example(text="J. Smith and _. Word and ². Word and മ. Word")
def test_sentences_equal_nltks(both, text):
    ours, theirs = both
    assert ours.tokenize(text) == theirs.tokenize(text)


LOWER = st.sampled_from([word.lower() for word in WORDS] + ["."])


@settings(deadline=None, max_examples=200)
@given(
    abbreviations=st.lists(LOWER, max_size=5),
    collocations=st.lists(st.tuples(LOWER, LOWER), max_size=5),
    starters=st.lists(LOWER, max_size=5),
    contexts=st.dictionaries(LOWER, st.integers(0, 127), max_size=10),
    text=TEXTS,
)
def test_whatever_was_learned_the_sentences_equal_nltks(abbreviations, collocations, starters, contexts, text):
    theirs = PunktSentenceTokenizer(knowing(abbreviations, collocations, starters, contexts))
    ours = Punkt(PunktSentenceTokenizer(knowing(abbreviations, collocations, starters, contexts)))
    assert ours.tokenize(text) == theirs.tokenize(text)


def test_learned_parameters_can_be_sent_to_another_process():
    punkt = Punkt(PunktSentenceTokenizer(trained_on(CORPUS)))
    assert pickle.loads(pickle.dumps(punkt)).tokenize(CORPUS) == punkt.tokenize(CORPUS)


def test_unknown_words_are_not_stored():
    """NLTK's table would gain an entry for each, and memory would grow with the corpus."""
    punkt = Punkt(PunktSentenceTokenizer(trained_on(CORPUS)))
    known = len(punkt._nltk._params.ortho_context)
    for number in range(100):
        punkt.tokenize(f"Meet J. Name{number} at 10. Word{number}\x1c is approx. Thing{number} there.")
    assert len(punkt._nltk._params.ortho_context) == known
