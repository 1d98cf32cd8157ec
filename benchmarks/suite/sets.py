"""The data sets of the suite, and the arguments that select each of them on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

MANY_ROWS = 10_000  # slow kinds of runs get one seed on sets with more training rows
ENGLISH, MORE_ENGLISH, OTHER_TASKS, LANGUAGES, WINDOWS = (
    "english",
    "more_english",
    "other_tasks",
    "languages",
    "windows",
)
GROUPS: Mapping[str, str] = {  # in the order of the page
    ENGLISH: "English classification sets of the suite",
    MORE_ENGLISH: "SST-2, Amazon and `docs`",
    OTHER_TASKS: "Several labels, numbers and names",
    LANGUAGES: "Other languages",
    WINDOWS: "Long documents in windows",
}
SECOND: Mapping[str, str] = {  # by the figure that comes first, the one shown beside it
    "accuracy": "f1_macro",
    "token_accuracy": "f1_macro",
    "f1_micro": "f1_macro",
    "f1_macro": "f1_micro",
    "pearson": "spearman",
    "entity_f1": "token_accuracy",
}
WORDS: Mapping[str, str] = {  # names of figures that people call differently
    **{"f1_macro": "macro F1", "f1_micro": "micro F1", "entity_f1": "entity F1"},
    **{"pearson": "Pearson", "spearman": "Spearman", "token_accuracy": "token accuracy"},
}


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set. `words` select it, with {suite} to be filled in; `training_rows` is the size of its training split.

    `needs` names what has to be there: suite (the folder of the data), hub (HF_ENDPOINT), or nothing. `figure` is the
    one to put first if it is not the task's own.
    """

    name: str
    group: str
    what: str
    words: tuple[str, ...]
    training_rows: int
    needs: str = "suite"
    figure: str = ""

    @property
    def has_many_rows(self) -> bool:
        """Return whether training is slow because there are many rows."""
        return self.training_rows > MANY_ROWS

    @property
    def has_classes(self) -> bool:
        """Return whether each text or word has exactly one label: not several, and not a number."""
        return not {"task=multilabel", "task=regression"} & {*self.words}


def _files(name: str, extension: str) -> tuple[str, ...]:
    return tuple(f"dataset.{split}={{suite}}/{name}/{split}.{extension}" for split in ("train", "validation", "test"))


def _texts(name: str, what: str, training_rows: int, group: str = ENGLISH) -> DataSet:
    return DataSet(
        name, group, what, ("task=classification", *_rows(name, *TEXT, "dataset.label=label")), training_rows
    )


def _rows(name: str, *columns: str) -> tuple[str, ...]:
    return ("dataset=files", *_files(name, "csv"), *columns)


def _pairs(name: str, what: str, training_rows: int) -> DataSet:
    return DataSet(
        name, ENGLISH, what, ("task=classification", *_rows(name, *PAIR, "dataset.label=label")), training_rows
    )


def _label_sets(name: str, what: str, training_rows: int, figure: str) -> DataSet:
    words = ("task=multilabel", *_rows(name, *TEXT, "dataset.label=labels"))
    return DataSet(name, OTHER_TASKS, what, words, training_rows, figure=figure)


def _numbers(name: str, what: str, training_rows: int) -> DataSet:
    return DataSet(
        name, OTHER_TASKS, what, ("task=regression", *_rows(name, *PAIR, "dataset.label=label")), training_rows
    )


def _windows(of: DataSet) -> DataSet:
    """Return the set with the same rows read whole in windows, to compare with truncation."""
    return replace(
        of, name=f"{of.name}_windows", group=WINDOWS, what=f"{of.what}, read in windows", words=(*of.words, READ_WHOLE)
    )


def _tagged(name: str, what: str, training_rows: int, group: str) -> DataSet:
    return DataSet(name, group, what, ("task=tagging", "dataset=files", *_files(name, "conll")), training_rows)


TEXT, PAIR = ("dataset.text=text",), ("dataset.text=text_a", "dataset.text_pair=text_b")
READ_WHOLE = "task.windows=mean"
_BBC = _texts("bbc_news", "news articles, 5 topics", 1_487)
_GNAD = _texts("gnad_sample", "German news articles, 9 topics", 618, LANGUAGES)
_ALL = (
    _texts("subjectivity", "objective or subjective sentences", 4_655),
    _texts("sms_spam", "text messages, ham or spam", 3_612),
    _texts("clinc150", "questions to an assistant, 150 intents", 15_000),
    _texts("tweet_offensive", "tweets, offensive or not", 11_916),
    _BBC,
    _texts("financial_phrasebank", "financial news, 3 sentiments", 2_414),
    _pairs("qqp_sample", "pairs of questions, duplicates or not", 6_094),
    _pairs("mnli_sample", "premise and hypothesis, 3 relations", 6_968),
    DataSet("sst2", MORE_ENGLISH, "phrases of film reviews, scored on validation", ("task=sst2",), 67_349, needs="hub"),
    DataSet(
        "amazon", MORE_ENGLISH, "product reviews, positive or negative", ("task=amazon_polarity",), 13_036, needs="hub"
    ),
    DataSet("docs", MORE_ENGLISH, "paragraphs of documentation, by library", ("task=intents",), 17_078, needs=""),
    _label_sets("goemotions", "comments, 28 emotions, several each", 43_410, "f1_macro"),
    _label_sets("reuters21578", "news stories, 90 topics, several each", 6_400, "f1_micro"),
    _numbers("sick_relatedness", "pairs of sentences, how related they are, 1 to 5", 4_500),
    _tagged("wnut17", "names in posts, 6 kinds", 3_394, OTHER_TASKS),
    _texts("germeval2018", "German tweets, 4 kinds of offence", 4_508, LANGUAGES),
    _GNAD,
    _tagged("ud_french_sequoia_pos", "French parts of speech, 16 labels", 2_231, LANGUAGES),
    _windows(_BBC),
    _windows(_GNAD),
)
SETS: Mapping[str, DataSet] = {one.name: one for one in _ALL}
