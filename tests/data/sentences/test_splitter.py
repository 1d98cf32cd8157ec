"""Sentences come from NLTK's model or, without it, from one trained on the corpus; neither loses any text."""

import threading
from pathlib import Path

import nltk
import nltk.downloader
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoderlab.data.sentences import splitter as sentences
from encoderlab.data.sentences.splitter import LANGUAGES, splitter_for
from encoderlab.errors import SettingError

NLTK_DATA = Path(__file__).resolve().parents[4] / "shared" / "nltk_data"
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
    assert capsys.readouterr().err == (
        "NLTK's punkt_tab (english) is not installed and cannot be downloaded. Sentences are split with Punkt trained on this corpus\n"
    )


def test_the_key_identifies_what_was_learned(unreachable, installed):
    def key(texts):
        return splitter_for(lambda: iter(texts), "english").key

    assert key(CORPUS) == key(CORPUS)
    assert len({key(CORPUS), key(CORPUS[:5]), key([]), installed.key}) == 4


def test_only_the_part_of_the_corpus_that_is_learned_from_is_read(unreachable, monkeypatch):
    monkeypatch.setattr(sentences, "TRAINING_CHARACTERS", 1000)
    texts = iter(CORPUS)
    splitter_for(lambda: texts, "english")
    read = CORPUS[: len(CORPUS) - len(list(texts))]
    assert sum(map(len, read[:-1])) < 1000 <= sum(map(len, read))


def test_a_corpus_without_text_can_still_be_split(unreachable):
    assert splitter_for(lambda: iter(()), "english").split("One is here. Two is there.") == [
        "One is here.",
        "Two is there.",
    ]


def test_a_server_that_never_answers_times_out(tmp_path, monkeypatch):
    released = threading.Event()
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    monkeypatch.setattr(nltk.downloader.Downloader, "download", lambda *_, **__: released.wait())
    monkeypatch.setattr(sentences, "_FETCHING_SECONDS", 0.01)
    assert splitter_for(lambda: iter(CORPUS), "english").name == "Punkt trained on this corpus"
    released.set()


def test_a_model_that_can_be_downloaded_is_used(tmp_path, monkeypatch, installed, capsys):
    def install(self, package, **_):
        assert package == "punkt_tab"
        monkeypatch.setattr(nltk.data, "path", [str(NLTK_DATA)])

    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    monkeypatch.setattr(nltk.downloader.Downloader, "download", install)
    assert splitter_for(lambda: iter(CORPUS), "english").key == installed.key
    assert capsys.readouterr().err == ""


def test_a_half_installed_model_counts_as_missing(tmp_path, unreachable):
    (tmp_path / "tokenizers" / "punkt_tab" / "english").mkdir(parents=True)
    assert splitter_for(lambda: iter(CORPUS), "english").name == "Punkt trained on this corpus"


@pytest.mark.parametrize(
    ("language", "remedy"), [("englisch", " Set task.language=english."), ("../english", ""), ("xx", "")]
)
def test_a_language_without_a_punkt_model_is_refused_with_the_available_ones(language, remedy):
    with pytest.raises(SettingError) as caught:
        splitter_for(lambda: iter(CORPUS), language)
    assert str(caught.value).startswith(f"task.language is {language!r}. Allowed: {', '.join(LANGUAGES)}.")
    assert str(caught.value).endswith(remedy)


PARAGRAPHS = st.text(st.sampled_from("abC 1.!?…\"')(,;- \t\n\x1c\xa0é"), max_size=60) | st.text(max_size=60)


@settings(deadline=None)
@given(paragraph=PARAGRAPHS)
def test_only_white_space_is_lost_and_no_sentence_is_blank(installed, paragraph):
    _holds_everything(installed, paragraph)


def test_the_trained_splitter_loses_nothing_either(trained):
    @settings(deadline=None)
    @given(paragraph=PARAGRAPHS)
    def holds(paragraph):
        _holds_everything(trained, paragraph)

    holds()


def _holds_everything(splitter, paragraph):
    found = splitter.split(paragraph)
    assert all(sentence == sentence.strip() != "" for sentence in found)
    assert "".join("".join(found).split()) == "".join(paragraph.split())
