"""What annotation tools export is read: labels, several people's answers, rejected ones, and spans as tags of words."""

import csv
import json
import re
from collections import Counter

import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from hypothesis import given
from hypothesis import strategies as st

from encoderlab.data.files import FilesDataset, read_unlabelled
from encoderlab.errors import DataError
from encoderlab.tables.annotations import tagged

PLACES = "In New York, Ada met Ben."


def written(path, records):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    elif path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            rows = csv.DictWriter(file, list(records[0]), quoting=csv.QUOTE_NONNUMERIC)
            rows.writeheader()
            rows.writerows(records)
    else:
        path.write_text(json.dumps(records), encoding="utf-8")
    return path


def read(path, target="label", **given):
    data = FilesDataset(**({"path": str(path), "validation_fraction": 0.0} | given)).load(path.parent, target)
    labels = data.labels
    rows = []
    for row in data.by_name["train"]:
        if hasattr(row, "words"):
            rows.append((" ".join(row.words), " ".join(labels[label] for label in row.labels)))
        elif isinstance(row.label, tuple):
            rows.append((row.text, [labels[label] for label in row.label]))
        else:
            rows.append((row.text, labels[row.label] if labels else row.label))
    return rows


def label_studio(n, text, *annotations, **further):
    """Return a task as Label Studio exports it; an annotation is what its regions hold, and further keys of its own."""
    made = []
    for values, keys in annotations:
        result = [{"from_name": "topic", "to_name": "text", "type": "choices", "value": value} for value in values]
        made.append(
            {"id": n, "completed_by": 1, "was_cancelled": False, "ground_truth": False, "result": result, **keys}
        )
    return {"id": n, "data": {"text": text, "source": "mail"}, "annotations": made, "predictions": [], **further}


def choice(*labels):
    return [{"choices": [*labels]}]


ONE_LABEL = {
    "doccano.jsonl": [
        {"id": 1, "text": "rain", "label": ["weather"], "Comments": []},
        {"id": 2, "text": "goal", "label": ["sport"], "Comments": []},
        {"id": 3, "text": "hm", "label": [], "Comments": []},
    ],
    "doccano.csv": [
        {"id": 1, "text": "rain", "label": "weather", "Comments": ""},
        {"id": 2, "text": "goal", "label": "sport", "Comments": ""},
        {"id": 3, "text": "hm", "label": "", "Comments": ""},
    ],
    "label_studio.json": [
        label_studio(1, "rain", (choice("weather"), {})),
        label_studio(2, "goal", (choice("weather"), {}), (choice("sport"), {"ground_truth": True})),
        label_studio(3, "hm", (choice("sport"), {"was_cancelled": True})),
        label_studio(4, "tie", (choice("sport"), {}), (choice("weather"), {})),
        label_studio(5, "new"),
    ],
    "label_studio_min.json": [
        {"text": "rain", "id": 1, "topic": "weather", "annotator": 1, "annotation_id": 1, "lead_time": 2.5},
        {"text": "goal", "id": 2, "topic": "sport", "annotator": 1, "annotation_id": 2, "lead_time": 2.5},
        {"text": "goal", "id": 2, "topic": "weather", "annotator": 2, "annotation_id": 3, "lead_time": 2.5},
        {"text": "goal", "id": 2, "topic": "sport", "annotator": 3, "annotation_id": 4, "lead_time": 2.5},
    ],
    "label_studio.csv": [
        {"annotation_id": 1, "annotator": "a@b.c", "id": 1, "lead_time": 2.5, "text": "rain", "topic": "weather"},
        {"annotation_id": 2, "annotator": "a@b.c", "id": 2, "lead_time": 2.5, "text": "goal", "topic": "sport"},
        {"annotation_id": 3, "annotator": "d@b.c", "id": 2, "lead_time": 2.5, "text": "goal", "topic": "sport"},
    ],
    "argilla.json": [
        {
            "id": "1",
            "fields": {"text": "rain"},
            "metadata": {},
            "suggestions": {"topic": {"value": "sport", "score": 0.9, "agent": "m"}},
            "responses": {"topic": [{"value": "weather", "user_id": "u"}, {"value": "weather", "user_id": "v"}]},
            "vectors": {},
        },
        {
            "id": "2",
            "fields": {"text": "goal"},
            "metadata": {},
            "suggestions": {},
            "responses": {"topic": [{"value": "sport", "user_id": "u"}]},
        },
        {
            "id": "3",
            "fields": {"text": "hm"},
            "suggestions": {"topic": {"value": "sport", "score": None, "agent": None}},
            "responses": {},
        },
    ],
    "argilla_1.json": [
        {
            "fields": {"text": "rain"},
            "responses": [
                {"user_id": "u", "status": "submitted", "values": {"topic": {"value": "weather"}}},
                {"user_id": "v", "status": "discarded", "values": {"topic": {"value": "sport"}}},
            ],
            "suggestions": [],
        },
        {
            "fields": {"text": "goal"},
            "responses": [{"user_id": "u", "status": "submitted", "values": {"topic": {"value": "sport"}}}],
            "suggestions": [],
        },
    ],
    "prodigy.jsonl": [
        {"text": "rain", "_input_hash": 1, "options": [], "accept": ["weather"], "answer": "accept", "meta": {"n": 1}},
        {"text": "goal", "_input_hash": 2, "options": [], "accept": ["sport"], "answer": "accept"},
        {"text": "goal", "_input_hash": 2, "accept": ["sport"], "answer": "accept", "_annotator_id": "b"},
        {"text": "hm", "_input_hash": 3, "options": [], "accept": ["sport"], "answer": "reject"},
        {"text": "eh", "_input_hash": 4, "options": [], "accept": [], "answer": "ignore"},
    ],
    "teach.jsonl": [
        {"text": "rain", "_input_hash": 1, "label": "weather", "spans": [], "answer": "accept"},
        {"text": "rain", "_input_hash": 1, "label": "sport", "spans": [], "answer": "reject"},
        {"text": "goal", "_input_hash": 2, "label": "sport", "spans": [], "answer": "accept"},
    ],
}


@pytest.mark.parametrize("name", ONE_LABEL)
def test_one_label_for_each_text(name, tmp_path, capsys):
    path = written(tmp_path / name, ONE_LABEL[name])
    given = {"label": "topic"} if name in ("label_studio.csv",) else {}
    assert read(path, **given) == [("rain", "weather"), ("goal", "sport")]
    said = capsys.readouterr().err
    assert name == "doccano.csv" or "export: " in said
    assert name != "prodigy.jsonl" or (
        "rejected answers left out: 1" in said and "cancelled answers left out: 1" in said
    )
    assert name != "label_studio.json" or "ties none: 1" in said


def test_a_question_of_yes_or_no_has_both_answers(tmp_path):
    rows = [("rain", "accept"), ("goal", "reject"), ("hm", "ignore")]
    records = [{"text": text, "label": "weather", "answer": answer} for text, answer in rows]
    assert read(written(tmp_path / "a.jsonl", records)) == [("rain", "weather"), ("goal", "not weather")]


SEVERAL = {
    "doccano.jsonl": [
        {"id": 1, "text": "rain", "label": ["sport", "weather"]},
        {"id": 2, "text": "goal", "label": ["sport"]},
        {"id": 3, "text": "hm", "label": []},
    ],
    "label_studio.json": [
        label_studio(1, "rain", (choice("sport", "weather"), {})),
        label_studio(2, "goal", (choice("sport"), {})),
        label_studio(3, "hm", ([], {})),
        label_studio(4, "unanswered"),
    ],
    "label_studio_min.json": [
        {"text": "rain", "id": 1, "label": {"choices": ["sport", "weather"]}, "annotator": 1, "annotation_id": 1}
        | {"lead_time": 1},
        {"text": "goal", "id": 2, "label": "sport", "annotator": 1, "annotation_id": 2, "lead_time": 1},
    ],
    "prodigy.jsonl": [
        {"text": "rain", "accept": ["sport", "weather"], "answer": "accept"},
        {"text": "goal", "accept": ["sport"], "answer": "accept"},
        {"text": "hm", "accept": [], "answer": "accept"},
        {"text": "eh", "accept": ["sport"], "answer": "ignore"},
    ],
    "argilla.json": [
        {"fields": {"text": "rain"}, "responses": {"q": [{"value": ["sport", "weather"]}]}, "suggestions": {}},
        {"fields": {"text": "goal"}, "responses": {"q": [{"value": ["sport"]}]}, "suggestions": {}},
    ],
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_labels_are_for_multilabel(name, tmp_path):
    path = written(tmp_path / name, SEVERAL[name])
    rows = [("rain", ["sport", "weather"]), ("goal", ["sport"]), ("hm", [])]
    assert read(path, "label_set") == rows[: 2 if name in ("label_studio_min.json", "argilla.json") else 3]
    with pytest.raises(DataError, match=r"(line|row) 1 has 2 labels.*task=multilabel"):
        read(path)


def spans(*values):
    return [{"start": start, "end": end, "label": label} for start, end, label in values]


SPANS = [(3, 11, "PLACE"), (13, 16, "WHO"), (21, 24, "WHO")]
WITH_SPANS = {
    "doccano.jsonl": [{"id": 1, "text": PLACES, "label": SPANS}, {"id": 2, "text": "Nobody.", "label": []}],
    "relations.jsonl": [
        {
            "id": 1,
            "text": PLACES,
            "entities": [{"id": 9, "start_offset": a, "end_offset": b, "label": c} for a, b, c in SPANS],
            "relations": [],
        },
        {"id": 2, "text": "Nobody.", "entities": [], "relations": []},
    ],
    "label_studio.json": [
        label_studio(1, PLACES, ([{"start": a, "end": b, "text": "", "labels": [c]} for a, b, c in SPANS], {})),
        label_studio(2, "Nobody.", ([], {})),
        label_studio(3, "Unanswered."),
    ],
    "argilla.json": [
        {"fields": {"text": PLACES}, "responses": {"names": [{"value": spans(*SPANS)}]}, "suggestions": {}},
        {"fields": {"text": "Nobody."}, "responses": {"names": [{"value": []}]}, "suggestions": {}},
    ],
    "prodigy.jsonl": [
        {"text": PLACES, "spans": spans(*SPANS), "answer": "accept"},
        {"text": "Nobody.", "spans": [], "answer": "accept"},
        {"text": "Rejected.", "spans": spans((0, 8, "WHO")), "answer": "reject"},
    ],
}


@pytest.mark.parametrize("name", WITH_SPANS)
def test_spans_become_tags_of_words(name, tmp_path):
    tags = "O B-PLACE I-PLACE O B-WHO O B-WHO O"
    path = written(tmp_path / name, WITH_SPANS[name])
    assert read(path) == [("In New York , Ada met Ben .", tags), ("Nobody .", "O O")]
    texts = [row.text for row in read_unlabelled(path, text="text", text_pair=None, words=False)]
    assert texts[:2] == [PLACES, "Nobody."], "texts to predict stay as they are"


def test_spans_that_are_no_words_are_widened_or_left_out_and_counted(tmp_path, capsys):
    values = [(3, 7, "PLACE"), (3, 16, "LONG"), (9, 10, "PART"), (11, 11, "NOTHING")]
    path = written(tmp_path / "a.jsonl", [{"id": 1, "text": PLACES, "label": values}])
    assert read(path)[0][1] == "O B-LONG I-LONG I-LONG I-LONG O O O"
    said = capsys.readouterr().err
    assert "same words: 2" in said and "no word: 1" in said


def test_tokens_of_prodigy_are_the_words(tmp_path):
    tokens = [{"text": "New York", "start": 0, "end": 8, "id": 0}, {"text": "'s", "start": 8, "end": 10, "id": 1}]
    record = {"text": "New York's", "tokens": tokens, "spans": spans((0, 8, "PLACE")), "answer": "accept"}
    assert read(written(tmp_path / "a.jsonl", [record])) == [("New York 's", "B-PLACE O")]


def test_intents_and_their_slots_are_two_columns(tmp_path):
    records = [
        {"id": n, "text": PLACES + "!" * n, "cats": [("trip", "talk")[n % 2]], "entities": SPANS} for n in range(6)
    ]
    path = written(tmp_path / "intents.jsonl", records)
    assert [label for _, label in read(path)] == ["trip", "talk"] * 3
    assert read(path, label="entities")[0][1].startswith("O B-PLACE I-PLACE O B-WHO")


def test_what_only_looks_like_an_export_is_refused_in_one_line(tmp_path):
    for name, records in {
        "a.jsonl": [{"text": "x", "accept": 5, "answer": "accept"}],
        "b.jsonl": [{"text": "x", "tokens": [{"text": "x"}], "answer": "accept", "spans": []}],
        "c.json": [{"data": {"text": "x"}, "annotations": ["?"]}],
        "d.json": [{"fields": {"text": "x"}, "responses": {"q": [5]}}],
    }.items():
        with pytest.raises(DataError, match="looks like an export of .* another shape"):
            read(written(tmp_path / name, records))


def test_words_and_their_tags_beside_the_whole_text_are_no_export(tmp_path):
    record = {"text": "Ada left.", "tokens": ["Ada", "left", "."], "labels": ["B-WHO", "O", "O"]}
    path = written(tmp_path / "a.jsonl", [record] * 3)
    assert read(path, text="tokens", label="labels") == [("Ada left .", "B-WHO O O")] * 3


def test_lines_of_fasttext(tmp_path):
    path = tmp_path / "train.txt"
    lines = ["__label__weather it rains", "__label__sport __label__weather a goal in the rain", "__label__sport a goal"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert read(path, "label_set")[1] == ("a goal in the rain", ["sport", "weather"])
    with pytest.raises(DataError, match="line 2 has 2 labels"):
        read(path)
    rows = read_unlabelled(path, text="text", text_pair=None, words=False)
    assert [row.text for row in rows] == ["it rains", "a goal in the rain", "a goal"]
    assert [row["label"] for row in rows.carried] == ["weather", "sport|weather", "sport"]


def saved(rows, **columns):
    features = Features({"text": Value("string"), "label": ClassLabel(names=["weather", "sport"]), **columns})
    return Dataset.from_list(rows, features)


def test_saved_datasets_keep_their_splits_the_names_of_classes_and_their_order(tmp_path):
    whole = saved([{"text": f"text {n}", "label": n % 2} for n in range(6)])
    parts = {"train": whole.select([5, 0]), "test": whole.select([2]), "unsupervised": whole.select([3])}
    DatasetDict(parts).save_to_disk(tmp_path / "dict")
    data = FilesDataset(path=str(tmp_path / "dict"), validation_fraction=0.0).load(tmp_path)
    assert data.labels == ["sport", "weather"] and {*data.by_name} == {"train", "test"}
    assert [(row.text, data.labels[row.label]) for row in data.by_name["train"]] == [
        ("text 5", "sport"),
        ("text 0", "weather"),
    ]
    whole.save_to_disk(tmp_path / "one")
    (file,) = (tmp_path / "one").glob("*.arrow")
    for path in (tmp_path / "one", file):
        assert len(read(path)) == 6
    texts = read_unlabelled(tmp_path / "one", text="text", text_pair=None, words=False)
    assert [row["label"] for row in texts.carried] == ["weather", "sport"] * 3
    with pytest.raises(DataError, match="3 splits"):
        read_unlabelled(tmp_path / "dict", text="text", text_pair=None, words=False)


def test_lists_of_one_label_in_a_column_of_a_saved_dataset(tmp_path):
    rows = [{"text": "rain", "topic.responses": ["weather"]}, {"text": "goal", "topic.responses": ["sport"]}]
    Dataset.from_list(rows).save_to_disk(tmp_path / "one")
    assert read(tmp_path / "one", label="topic.responses") == [("rain", "weather"), ("goal", "sport")]


def test_a_damaged_dataset_is_refused(tmp_path):
    saved([{"text": "x", "label": 0}]).save_to_disk(tmp_path / "one")
    (file,) = (tmp_path / "one").glob("*.arrow")
    file.write_bytes(file.read_bytes()[:100])
    for path in (tmp_path / "one", file):
        with pytest.raises(DataError, match="is not a readable dataset"):
            read(path)


def test_of_many_columns_those_that_hardly_any_row_has_are_left_out_unless_they_are_named(tmp_path, capsys):
    records = [
        label_studio(n, "rain", (choice("weather"), {}), data={"text": f"text {n}", f"own {n}": "x", "kept": n % 7})
        for n in range(150)
    ]
    path = written(tmp_path / "a.json", records)
    carried = read_unlabelled(path, text="text", text_pair=None, words=False).carried
    assert {*carried.column_names} == {"text", "kept", "label"} and "150 columns" in capsys.readouterr().err
    texts = [row.text for row in read_unlabelled(path, text="own 3", text_pair=None, words=False)]
    assert [row for row, text in enumerate(texts) if text] == [3]


def by_looking_at_every_word(text, spans, borders):
    """Return the tags of words, as the rule says: the first span about a word, of those the longest."""
    tags = ["O"] * len(borders)
    for start, end, label in sorted(spans, key=lambda span: (span[0], -span[1])):
        within = [index for index, (first, last) in enumerate(borders) if first < end and start < last]
        if within and all(tags[index] == "O" for index in within):
            tags[within[0]] = f"B-{label}"
            for index in within[1:]:
                tags[index] = f"I-{label}"
    return [text[first:last] for first, last in borders], tags


@given(
    st.text("ab .é", max_size=30),
    st.lists(st.tuples(st.integers(-3, 35), st.integers(-3, 35), st.sampled_from("XY")), max_size=12),
)
def test_tags_are_those_of_the_rule(text, spans):
    borders = [word.span() for word in re.finditer(r"\w+|[^\w\s]", text)]
    assert tagged(text, spans, None, Counter()) == by_looking_at_every_word(text, spans, borders)


def test_tokens_of_prodigy_that_overlap_are_refused_and_those_without_letters_are_no_words(tmp_path):
    record = {"text": "ab cd", "spans": spans((0, 2, "X")), "answer": "accept"}
    tokens = [("[CLS]", 0, 0), ("ab", 0, 2), ("cd", 3, 5), ("[SEP]", 0, 0)]
    named = [{"text": text, "start": start, "end": end} for text, start, end in tokens]
    assert read(written(tmp_path / "a.jsonl", [record | {"tokens": named}])) == [("ab cd", "B-X O")]
    whole = {"text": "ab cd", "start": 0, "end": 5}
    with pytest.raises(DataError, match="another shape"):
        read(written(tmp_path / "b.jsonl", [record | {"tokens": [whole, whole]}]))


def test_what_one_person_left_open_counts_as_nothing_applies(tmp_path):
    several = [
        label_studio(1, "rain", (choice("weather"), {}), ([], {}), ([], {})),
        label_studio(2, "goal", (choice("sport"), {}), (choice("sport"), {}), ([], {})),
        label_studio(3, "tie", (choice("sport"), {}), ([], {})),
        label_studio(4, "snow", (choice("weather"), {})),
    ]
    path = written(tmp_path / "a.json", several)
    assert read(path, "label_set") == [("rain", []), ("goal", ["sport"]), ("snow", ["weather"])]


def test_columns_of_a_first_row_that_no_other_has_are_not_multiplied(tmp_path):
    rows = [{"text": "first", **{f"own {n}": n for n in range(3000)}}, *({"text": f"text {n}"} for n in range(3000))]
    path = written(tmp_path / "a.jsonl", rows)
    with pytest.raises(DataError, match="3,001 columns"):
        read_unlabelled(path, text="text", text_pair=None, words=False)
    whole = [{"text": f"text {n}", **{f"own {m}": m for m in range(300)}} for n in range(500)]
    assert len(read_unlabelled(written(tmp_path / "b.jsonl", whole), text="text", text_pair=None, words=False)) == 500


def test_choices_of_several_labels_in_label_studios_csv_are_found_by_themselves(tmp_path):
    cells = ["pos", "neg", '{"choices":["pos","neg"]}']
    rows = [
        {"annotation_id": row, "annotator": "1", "id": row, "lead_time": 3.2, "review": f"the film of case {row}"}
        | {"sentiment": cells[row % 3], "created_at": "2026-01-01T10:00:00Z", "updated_at": "2026-01-01T10:00:00Z"}
        for row in range(24)
    ]
    with (tmp_path / "a.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), quoting=csv.QUOTE_NONNUMERIC)
        writer.writeheader()
        writer.writerows(rows)
    data = FilesDataset(path=str(tmp_path / "a.csv"), validation_fraction=0.0).load(tmp_path / "cache", "label_set")
    assert data.labels == ["neg", "pos"]
    assert [sorted(row.label) for row in data.by_name["train"]][:3] == [[1], [0], [0, 1]]
