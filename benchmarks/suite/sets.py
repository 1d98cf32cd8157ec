"""The data sets of the suite, and the words that name each of them on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MANY_ROWS = 10_000  # slow kinds of runs get one seed on sets with more training rows
ENGLISH, MORE_ENGLISH, TAGGING, OTHER = "english", "more_english", "tagging", "other"
GROUPS: Mapping[str, str] = {  # in the order of the page
    ENGLISH: "English classification sets of the suite",
    MORE_ENGLISH: "SST-2, Amazon and `docs`",
    TAGGING: "English tagging",
    OTHER: "Other languages",
}


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set. `words` choose it, with {suite} to be filled in; `training_rows` is the size of its training split.

    `needs` names what has to be there: suite (the folder of the data), hub (HF_ENDPOINT), or nothing.
    """

    name: str
    group: str
    what: str
    words: tuple[str, ...]
    training_rows: int
    needs: str = "suite"

    @property
    def has_many_rows(self) -> bool:
        """Whether training is slow because there is much to train on."""
        return self.training_rows > MANY_ROWS

    @property
    def is_tagging(self) -> bool:
        """Whether each word has a label."""
        return "task=tagging" in self.words


def _files(name: str, extension: str) -> tuple[str, ...]:
    return tuple(f"dataset.{split}={{suite}}/{name}/{split}.{extension}" for split in ("train", "validation", "test"))


def _texts(name: str, what: str, training_rows: int, group: str = ENGLISH, text: str = "text", pair: str = "") -> DataSet:
    columns = (f"dataset.text={text}", *([f"dataset.text_pair={pair}"] if pair else []), "dataset.label=label")
    return DataSet(name, group, what, ("task=classification", "dataset=files", *_files(name, "csv"), *columns), training_rows)


def _pairs(name: str, what: str, training_rows: int) -> DataSet:
    return _texts(name, what, training_rows, text="text_a", pair="text_b")


def _tagged(name: str, what: str, training_rows: int, group: str) -> DataSet:
    return DataSet(name, group, what, ("task=tagging", "dataset=files", *_files(name, "conll")), training_rows)


_ALL = (
    _texts("subjectivity", "objective or subjective sentences", 4_655),
    _texts("sms_spam", "text messages, ham or spam", 3_612),
    _texts("clinc150", "questions to an assistant, 150 intents", 15_000),
    _texts("tweet_offensive", "tweets, offensive or not", 11_916),
    _texts("bbc_news", "news articles, 5 topics", 1_487),
    _texts("financial_phrasebank", "financial news, 3 sentiments", 2_414),
    _pairs("qqp_sample", "pairs of questions, duplicates or not", 6_094),
    _pairs("mnli_sample", "premise and hypothesis, 3 relations", 6_968),
    DataSet("sst2", MORE_ENGLISH, "phrases of film reviews, scored on validation", ("task=sst2",), 67_349, needs="hub"),
    DataSet("amazon", MORE_ENGLISH, "product reviews, positive or negative", ("task=amazon_polarity",), 13_036, needs="hub"),
    DataSet("docs", MORE_ENGLISH, "paragraphs of documentation, by library", ("task=docs",), 17_078, needs=""),
    _tagged("wnut17", "names in posts, 13 labels", 3_394, TAGGING),
    _texts("germeval2018", "German tweets, 4 kinds of offence", 4_508, OTHER),
    _texts("gnad_sample", "German news articles, 9 topics", 618, OTHER),
    _tagged("ud_french_sequoia_pos", "French parts of speech, 16 labels", 2_231, OTHER),
)
SETS: Mapping[str, DataSet] = {one.name: one for one in _ALL}
