"""Tables with a word in each row, as Kaggle and pandas have them: sentences, or texts where they are none."""

import pandas as pd
import pytest

from encoderlab.data.files import FilesDataset, read_unlabelled
from encoderlab.errors import DataError
from encoderlab.tables.sentence_tables import sentence_column

SENTENCES = [
    (("Anna", "saw", "Rome"), ["B-PER", "O", "B-LOC"]),
    (("Bob", "Smith", "ran"), ["B-PER", "I-PER", "O"]),
    (("Rome", "slept"), ["B-LOC", "O"]),
]
WORDS = [
    (number, word, tag) for number, (words, tags) in enumerate(SENTENCES) for word, tag in zip(words, tags, strict=True)
]


def read(path, **given):
    data = FilesDataset(path=str(path), validation_fraction=0.0, **given).load(path.parent / "cache", "words")
    return [(row.words, [data.labels[label] for label in row.labels]) for row in data.by_name["train"]]


def table(name, sentence):
    return pd.DataFrame(
        {name: [sentence(place) for place in range(len(WORDS))], "Word": [row[1] for row in WORDS]}
        | {"Tag": [row[2] for row in WORDS]}
    )


def below_the_first(place):
    number = WORDS[place][0]
    return f"Sentence: {number + 1}" if place == 0 or WORDS[place - 1][0] != number else None


@pytest.mark.parametrize("ending", ["csv", "tsv", "xlsx"])
@pytest.mark.parametrize(
    ("name", "sentence"),
    [("Sentence #", below_the_first), ("sentence_id", lambda place: WORDS[place][0]), ("Sent_ID", below_the_first)],
)
def test_rows_of_words_are_sentences(name, sentence, ending, tmp_path, capsys):
    path = tmp_path / f"a.{ending}"
    frame = table(name, sentence)
    if ending == "xlsx":
        frame.to_excel(path, index=False)
    else:
        frame.to_csv(path, index=False, sep="\t" if ending == "tsv" else ",")
    assert read(path) == SENTENCES and name in capsys.readouterr().err
    new = read_unlabelled(path, text="Word", text_pair=None, words=True)
    assert [row.words for row in new] == [words for words, _ in SENTENCES]


def test_several_columns_of_tags_are_asked_for(tmp_path):
    frame = table("Sentence #", below_the_first).assign(POS="NN")
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(DataError, match="dataset.text=Word dataset.label="):
        read(tmp_path / "a.csv")
    assert read(tmp_path / "a.csv", text="Word", label="Tag") == SENTENCES


@pytest.mark.parametrize(
    "rows",
    [
        [{"sentence": "the soup was warm", "label": "a", "id": "x"}] * 3,
        [{"sentence_id": str(n), "word": "a", "tag": "b"} for n in range(3)],  # each row is a sentence
        [{"number": "1", "word": "a", "tag": "b"}] * 3,
        [{"sentence_id": "1", "word": "a"}] * 3,
    ],
)
def test_other_tables_stay_as_they_are(rows):
    assert sentence_column(rows) is None
