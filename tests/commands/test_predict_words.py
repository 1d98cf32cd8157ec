"""Predictions for words, from each kind of file that has them: a label for each word of each sentence."""

import csv
import io
import json

import pytest

from encoderlab.tables.formats import Format
from tests.run_files import report_of

SENTENCES = [["1", "2", "3"], ["4", "5"], ["6", "7", "8", "9"]]
IN_ROWS = [(f"Sentence: {number}" if place == 0 else "", word) for number, words in enumerate(SENTENCES) for place, word in enumerate(words)]  # fmt: skip
FILES = {
    "rows.csv": "Sentence #,Word,Tag\n" + "".join(f"{sentence},{word},x\n" for sentence, word in IN_ROWS),
    "lines.tsv": "\n\n".join("\n".join(f"{word}\tB-x" for word in words) for words in SENTENCES) + "\n",
    "lines.conll": "\n\n".join("\n".join(f"{word} B-x" for word in words) for words in SENTENCES) + "\n",
    "texts.txt": "".join(" ".join(words) + "\n" for words in SENTENCES),
    "lists.csv": "text\n" + "".join('"{}"\n'.format(json.dumps(words).replace('"', '""')) for words in SENTENCES),
    "lists.jsonl": "".join(json.dumps({"text": words, "id": "k"}) + "\n" for words in SENTENCES),
}


@pytest.mark.parametrize("name", FILES)
def test_each_word_has_a_prediction(command, reverse_run, capsys, tmp_path, name):
    (tmp_path / name).write_text(FILES[name])
    column = ["text_column=Word"] if name == "rows.csv" else []
    command("predict", f"run={reverse_run}", name, *column)
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [len(row["predicted"].split()) for row in rows] == [3, 2, 4]
    texts = [row["Word" if column else "text"] for row in rows]
    assert texts == [" ".join(words) for words in SENTENCES]


def test_words_beyond_the_length_are_counted_beside_the_score(command, reverse_run, tmp_path):
    long = [[str(place % 10) for place in range(200)], ["1", "2"]]
    content = "\n\n".join("\n".join(f"{word} {word}" for word in words) for words in long)
    (tmp_path / "long.conll").write_text(content + "\n")
    columns = ["dataset.text=0", "dataset.label=1", f"dataset.format={Format.conll.value}"]
    command("eval", f"run={reverse_run}", "dataset=files", "dataset.path=long.conll", *columns, "run_dir=scored")
    report = report_of(tmp_path / "scored")
    (note,) = [note for note in report["notes"] if "202" in note]
    unread = int(note.partition(" of 202 words")[0].split()[-1])
    assert 0 < unread < 200 and note in report["data_notes"]
