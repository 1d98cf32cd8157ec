"""encoderlab select: which texts to label next, round after round, in the files that people keep them in."""

import csv
import io
import json
import shlex

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from encoderlab.errors import DataError, SettingError

TOPICS = {
    "money": ["pay my bill", "send money to my bank", "what is my balance", "open a savings account"],
    "weather": ["will it rain", "how hot is it", "is there snow outside", "what is the weather like"],
    "music": ["play some jazz", "turn up the song", "who sings this", "skip this track"],
}
WHEN = ["", " today", " right now", " please", " for me"]
TEXTS = [(f"{text}{when}", topic) for when in WHEN for topic, texts in TOPICS.items() for text in texts]
LABEL_OF = dict(TEXTS)


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def read(path):
    return rows_of(path.read_text(encoding="utf-8"))


def write(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def labelled_by_hand(path, text="text"):
    """Fill in the label of each row that was chosen."""
    write(path, [row | {"label": row["label"] or (row["selected"] and LABEL_OF[row[text]])} for row in read(path)])


@pytest.fixture
def texts(tmp_path):
    """A file without labels, with an id and another column, a blank text and one that occurs twice."""
    rows = [{"id": str(10 + n), "text": text, "source": "phone"} for n, (text, _) in enumerate(TEXTS)]
    write(tmp_path / "texts.csv", [*rows, {"id": "98", "text": " ", "source": "mail"}, rows[0] | {"id": "99"}])
    return tmp_path / "texts.csv"


def test_without_labels_typical_texts_are_chosen_with_their_columns_in_the_order_of_the_file(command, texts, capsys):
    command("select", "texts.csv", "n=6", "output=to_label.csv")
    chosen = read(texts.with_name("to_label.csv"))
    assert [*chosen[0]] == ["id", "text", "source", "label", "selected"]
    ids = [int(row["id"]) for row in chosen]
    assert ids == sorted({*ids}) and len(ids) == 6 and not {98, 99} & {*ids}
    assert {row["selected"] for row in chosen} == {"typical"} and {row["label"] for row in chosen} == {""}
    assert {LABEL_OF[row["text"]] for row in chosen} == {*TOPICS}  # far from each other
    capsys.readouterr()
    command("select", "texts.csv", "n=6")
    assert rows_of(capsys.readouterr().out) == chosen


def test_three_rounds_in_files_of_their_own(command, texts):
    files = []
    for name, kinds in (("one.csv", {"typical": 8}), ("two.csv", {"unsure": 6, "random": 2})):
        labelled = [f"labelled=[{','.join(files)}]"] if files else []
        command("select", "texts.csv", "n=8", f"output={name}", *labelled)
        chosen = read(texts.with_name(name))
        assert {kind: sum(row["selected"] == kind for row in chosen) for kind in kinds} == kinds
        labelled_by_hand(texts.with_name(name))
        files.append(name)
    earlier = {row["text"] for name in files for row in read(texts.with_name(name))}
    assert len(earlier) == 16
    command("select", "texts.csv", "labelled=[one.csv,two.csv]", "n=4", "rows=all", "output=pool.csv")
    rows = read(texts.with_name("pool.csv"))
    assert [row["id"] for row in rows] == [row["id"] for row in read(texts)]
    by_text = {row["text"]: row for row in reversed(rows)}
    assert {text for text, row in by_text.items() if row["label"]} == earlier
    assert all(by_text[text]["label"] == LABEL_OF[text] for text in earlier)
    assert sum(row["selected"] != "" for row in rows) == 20


def test_rounds_in_one_file_keep_every_label_and_mark(command, texts):
    command("select", "texts.csv", "n=8", "rows=all", "output=1.csv")
    labelled_by_hand(texts.with_name("1.csv"))
    before = read(texts.with_name("1.csv"))
    before[-3]["label"] = "a label of my own"
    write(texts.with_name("1.csv"), before)
    command("select", "1.csv", "n=8", "rows=all", "output=2.csv")
    after = read(texts.with_name("2.csv"))
    assert [*after[0]] == ["id", "text", "source", "label", "selected"]
    for old, new in zip(before, after, strict=True):
        assert {**new, "selected": ""} == {**old, "selected": ""}
        assert new["selected"] == old["selected"] or not old["selected"]
    assert sum(row["selected"] != "" for row in after) == 16


def test_a_label_in_the_file_wins_over_that_of_another_file(command, texts):
    rows = read(texts)
    write(texts, [row | {"label": "mine" if row["id"] == "10" else ""} for row in rows])
    write(texts.with_name("other.csv"), [{"text": row["text"], "label": "theirs"} for row in rows[:2]])
    command("select", "texts.csv", "labelled=other.csv", "n=1", "rows=all", "output=out.csv")
    assert [row["label"] for row in read(texts.with_name("out.csv"))][:3] == ["mine", "theirs", ""]


def test_workbooks_keep_numbers_and_new_labels(command, tmp_path):
    book = openpyxl.Workbook()
    book.active.append(["nr", "text", "category"])
    for number, (text, topic) in enumerate(TEXTS):
        book.active.append([number, text, topic if number < 12 else None])
    book.create_sheet("notes").append(["remark"])
    book.save(tmp_path / "pool.xlsx")
    command("select", "pool.xlsx", "n=4", "rows=all", "output=next.xlsx")
    header, *rows = openpyxl.load_workbook(tmp_path / "next.xlsx").active.values
    assert header == ("nr", "text", "category", "selected")
    assert [row[:3] for row in rows] == [(n, text, topic if n < 12 else None) for n, (text, topic) in enumerate(TEXTS)]
    assert sorted(row[3] for row in rows if row[3]) == ["random", "unsure", "unsure", "unsure"]


def test_tables_of_other_formats(command, tmp_path, capsys):
    records = [{"n": n, "text": text, "label": topic if n < 12 else None} for n, (text, topic) in enumerate(TEXTS)]
    pq.write_table(pa.Table.from_pylist(records), tmp_path / "pool.parquet")
    (tmp_path / "pool.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    pd.DataFrame(records).to_csv(tmp_path / "pool.tsv", sep="\t", index=False)
    command("select", "pool.parquet", "n=4", "rows=all", "output=next.parquet")
    table = pq.read_table(tmp_path / "next.parquet")
    assert table.schema.field("n").type == pa.int64()
    assert table.drop_columns("selected").to_pylist() == records
    chosen = {row["n"] for row in table.to_pylist() if row["selected"]}
    for name in ("pool.jsonl", "pool.tsv"):
        capsys.readouterr()
        command("select", name, "n=4", "format=jsonl")
        assert {int(json.loads(line)["n"]) for line in capsys.readouterr().out.splitlines()} == chosen


def test_rounds_in_label_studio_and_doccano(command, texts, capsys):
    command("select", "texts.csv", "n=6", "output=a.json", "format=label_studio")
    tasks = json.loads(texts.with_name("a.json").read_text())
    assert len(tasks) == 6 and tasks[0]["data"].keys() == {"id", "text", "source", "selected"}
    for task in tasks:
        choice = {"from_name": "topic", "to_name": "t", "type": "choices"}
        task["annotations"] = [{"result": [choice | {"value": {"choices": [LABEL_OF[task["data"]["text"]]]}}]}]
    texts.with_name("a.json").write_text(json.dumps(tasks))

    command("select", "texts.csv", "labelled=a.json", "n=8", "output=b.jsonl", "format=doccano")
    lines = [json.loads(line) for line in texts.with_name("b.jsonl").read_text().splitlines()]
    assert all(line["label"] == [] for line in lines) and any(line["selected"] == "random" for line in lines)
    labelled = [{**line, "label": [LABEL_OF[line["text"]]]} for line in lines]
    texts.with_name("b.jsonl").write_text("".join(json.dumps(line) + "\n" for line in labelled))

    capsys.readouterr()
    command("select", "texts.csv", "labelled=[a.json,b.jsonl]", "n=4", "output=c.csv")
    assert "14 of 62 texts have a label" in capsys.readouterr().err
    with pytest.raises(SettingError, match="Remove rows"):
        command("select", "texts.csv", "output=d.json", "format=label_studio", "rows=all")


def test_lines_of_text(command, tmp_path, capsys):
    (tmp_path / "lines.txt").write_text("\n".join(text for text, _ in TEXTS), encoding="utf-8")
    command("select", "lines.txt", "n=3")
    rows = rows_of(capsys.readouterr().out)
    assert [*rows[0]] == ["text", "label", "selected"] and len(rows) == 3


def test_a_column_of_the_users_own_is_not_overwritten(command, texts, capsys):
    write(texts, [row | {"selected": "yes"} for row in read(texts)])
    command("select", "texts.csv", "n=3")
    (row, *_) = rows_of(capsys.readouterr().out)
    assert (row["input_selected"], row["selected"]) == ("yes", "typical")


def test_few_texts_are_all_chosen(command, tmp_path, capsys):
    (tmp_path / "lines.txt").write_text("a film\na song\na film\n", encoding="utf-8")
    command("select", "lines.txt", "n=50")
    assert [row["text"] for row in rows_of(capsys.readouterr().out)] == ["a film", "a song"]


def test_a_run_chooses_what_it_is_unsure_of(command, brackets_run, tmp_path, capsys):
    texts = ["()" * n for n in range(1, 8)] + [")(" * n for n in range(1, 8)] + ["(" * n for n in range(1, 8)]
    (tmp_path / "lines.txt").write_text("\n".join(texts), encoding="utf-8")
    command("predict", f"run={brackets_run}", "lines.txt", "format=jsonl", "probabilities=all")
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    margins = {row["text"]: abs(2 * max(row["probabilities"].values()) - 1) for row in answers}
    command("select", f"run={brackets_run}", "lines.txt", "n=20", "random_share=0")
    chosen = rows_of(capsys.readouterr().out)
    assert {row["selected"] for row in chosen} == {"unsure"}
    (left,) = {*texts} - {row["text"] for row in chosen}
    assert margins[left] > min(margins.values())


@pytest.mark.slow
def test_the_lines_of_the_next_round_run(command, texts, capsys):
    line = ["select", "texts.csv", "n=8", "output=one.csv"]
    for name in ("one.csv", "next-1.csv"):
        command(*line)
        labelled_by_hand(texts.with_name(name))
        _, _, following = capsys.readouterr().err.partition(" then encoderlab ")
        more, _, train = following.strip().partition(", or encoderlab ")
        line = shlex.split(more)
    *_, last = line
    assert last == "output=next-2.csv"
    command(*shlex.split(train), "training.steps=1", "baselines=false", "run_dir=run")
    environment = json.loads((texts.with_name("run") / "environment.json").read_text(encoding="utf-8"))
    assert sum(split["rows"] for split in environment["dataset"]["splits"].values()) == 16


def test_objects_stand_for_labels_by_their_names(command, tmp_path, capsys):
    rows = [
        {"text": text, "label": {"name": topic, "id": 1} if n % 2 else None} for n, (text, topic) in enumerate(TEXTS)
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command("select", "a.jsonl", "n=4", "output=o.csv")
    shown = capsys.readouterr().err
    assert all(f"{topic} " in shown for topic in TOPICS) and "{" not in shown
    with pytest.raises(DataError, match="label.name"):
        command("select", "a.jsonl", "n=4", "output=p.csv", "label_column=label.name")
