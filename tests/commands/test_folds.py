"""folds=N: a run for each fold in one folder, a prediction for every row, and the figures over all folds, for every
task.
"""

import csv
import random

import pytest

from encoderlab.apps.comparing.finished_runs import read_predictions, read_run
from encoderlab.errors import DataError, SettingError
from encoderlab.system.processes import Interrupted
from tests.run_files import report_of

pytestmark = pytest.mark.slow

TINY = ("model=tiny", "model.n_layers=1", "model.d_model=16", "model.n_heads=2", "tokenizer.vocabulary_size=100")
QUICK = (*TINY, "training.epochs=1", "training.batch_size=8", "training.learning_rate=3e-3", "training.threads=1")
LEARNING = (*TINY, "training.epochs=8", "training.batch_size=8", "training.learning_rate=1e-2", "training.threads=1")
WORDS = {"good": ("fine", "nice", "warm"), "bad": ("cold", "grim", "dull")}


def write_rows(path, rows=60):
    generator = random.Random(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["id", "author", "review", "verdict", "price", "marks"])
        for row in range(rows):
            verdict = ("good", "bad")[row // 3 % 2]
            words = [*generator.choices(WORDS[verdict], k=3), f"n{row}"]
            table.writerow(
                [f"r{row}", f"a{row % 10}", " ".join(words), verdict, 10 + row % 7, "x|y" if row % 3 else "x"]
            )


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def files(label, *more):
    return ("dataset=files", "dataset.path=rows.csv", "dataset.text=review", f"dataset.label={label}", *more)


def test_a_stopped_cross_validation_keeps_its_finished_folds_and_reports_all_of_them(
    command, stop_after, tmp_path, capsys
):
    write_rows(tmp_path / "rows.csv")
    line = ("train", "task=classification", *files("verdict", "dataset.group=author"), *QUICK, "folds=3", "run_dir=all")
    stop_after(3)
    with pytest.raises(Interrupted):
        command(*line)
    stop_after(-1)
    assert "Resume with: encoderlab train resume=all" in capsys.readouterr().err
    stop_after(5)
    with pytest.raises(Interrupted):
        command("train", "resume=all")  # the printed line resumes
    stop_after(-1)
    command(*line)  # and so does the same one
    report = report_of(tmp_path / "all")
    folds, scores = report["folds"], report["splits"]["out_of_fold"]
    assert sum(fold["n"] for fold in folds) == scores["n"] == 60
    assert scores["accuracy"] == pytest.approx(sum(fold["accuracy"] for fold in folds) / 3)
    assert scores["accuracy_ci95"][0] <= scores["accuracy"] <= scores["accuracy_ci95"][1] <= 1
    assert (
        set(report["baselines"]) == {"majority", "tfidf_logreg", "frozen_encoder_logreg"}
        and "Over the folds" in report["verdict"]["sentence"]
    )
    rows = rows_of(tmp_path / "all" / "predictions.csv")
    assert [row["id"] for row in rows] == [f"r{row}" for row in range(60)] and [
        int(row["line"]) for row in rows
    ] == list(range(2, 62))
    assert len({(row["author"], row["fold"]) for row in rows}) == 10
    of_first = rows_of(tmp_path / "all" / "fold-1" / "predictions.csv")
    assert [row["text"] for row in rows if row["fold"] == "1"] == [row["text"] for row in of_first]
    page = (tmp_path / "all" / "report.html").read_text(encoding="utf-8")
    assert "fold-3" in page and "label_errors.csv" in page
    errors = rows_of(tmp_path / "all" / "label_errors.csv")
    assert report["label_errors"] == {"n": len(errors), "of": 60}
    for error in errors:
        row = rows[int(error["line"]) - 2]
        assert row["label"] == error["label"] != error["predicted"] and row["text"] == error["text"]
    with pytest.raises(SettingError, match="is finished"):
        command(*line)
    with pytest.raises(DataError, match=r"Its folds have models: run=all/fold-1"):
        command("predict", "run=all", "text=fine")
    (answers,) = read_predictions([read_run(tmp_path / "all")])  # so that compare holds two side by side
    assert len(answers.labels) == 60


def test_a_dry_run_covers_the_first_fold_and_makes_no_folder(command, tmp_path, capsys):
    write_rows(tmp_path / "rows.csv")
    command("train", "task=classification", *files("verdict"), *QUICK, "folds=3", "dry_run=true")
    printed = capsys.readouterr()
    assert (
        "3 folds take 3 runs like this one" in printed.err
        and "40 train" not in printed.out
        and "20 test" in printed.out
    )
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    ("arguments", "figure"),
    [
        (("task=regression", *files("price")), "pearson"),
        (("task=reverse", "dataset.limit=40", *TINY[:-1]), "token_accuracy"),
    ],
)
def test_every_task_answers_every_row_once(command, tmp_path, arguments, figure):
    write_rows(tmp_path / "rows.csv", 40)
    quick = [one for one in QUICK if "task=reverse" not in arguments or not one.startswith("tokenizer")]
    command("train", *arguments, *quick, "folds=2", "run_dir=all", "baselines=false")
    report = report_of(tmp_path / "all")
    assert report["main_score"] == figure and report["splits"]["out_of_fold"]["n"] == 40
    rows = rows_of(tmp_path / "all" / "predictions.csv")
    assert len(rows) == 40 and "label_errors" not in report and not (tmp_path / "all" / "label_errors.csv").exists()


def test_flipped_labels_of_sets_are_found(command, tmp_path, capsys):
    """Each topic has its own words; a topic of one row in ten is removed or added."""
    generator = random.Random(0)
    lines, flipped = ["text,topics"], set()
    for row in range(300):
        topics = [topic for topic in WORDS if generator.random() < 0.5]
        text = " ".join(
            [*(generator.choice(WORDS[topic]) for topic in topics for _ in range(2)), "film", f"n{row % 7}"]
        )
        if row % 10 == 0:
            changed = generator.choice(list(WORDS))
            flipped.add((row + 2, f"{'remove' if changed not in topics else 'add'} {changed}"))
            topics = [topic for topic in WORDS if (topic in topics) != (topic == changed)]
        lines.append(f"{text},{'|'.join(topics)}")
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    data = ("task=multilabel", "dataset=files", "dataset.path=rows.csv", "dataset.label=topics")
    command("train", *data, *LEARNING, "folds=2", "run_dir=all", "baselines=false")
    report = report_of(tmp_path / "all")
    errors = rows_of(tmp_path / "all" / "label_errors.csv")
    assert report["main_score"] == "f1_micro" and report["label_errors"] == {"n": len(errors), "of": 300}
    found = [(int(error["line"]), error["change"]) for error in errors]
    assert len(flipped & set(found)) >= 0.7 * len(flipped) and len(flipped & set(found[:15])) >= 12
    assert f"{len(errors)} labels to check, of 300 rows" in capsys.readouterr().err


def test_more_folds_than_groups_are_refused(command, tmp_path):
    write_rows(tmp_path / "rows.csv")
    with pytest.raises(DataError, match="folds=11 cannot be made: there are 10"):
        command("train", "task=classification", *files("verdict", "dataset.group=author"), "folds=11")
    assert not (tmp_path / "outputs").exists()


def test_rows_that_were_drawn_at_random_have_an_accuracy_of_their_own(command, tmp_path):
    write_rows(tmp_path / "rows.csv")
    rows = [
        row | {"selected": ("typical", "unsure", "random")[n % 3]}
        for n, row in enumerate(rows_of(tmp_path / "rows.csv"))
    ]
    with (tmp_path / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows([*rows, rows[0] | {"verdict": "", "review": "not labelled yet"}])
    command("train", "task=classification", *files("verdict"), *QUICK, "folds=3", "run_dir=all")
    drawn = [row for row in rows_of(tmp_path / "all" / "predictions.csv") if row["selected"] == "random"]
    found = report_of(tmp_path / "all")["drawn_at_random"]
    assert found["n"] == len(drawn) == 20
    assert found["accuracy"] == pytest.approx(sum(row["label"] == row["predicted"] for row in drawn) / 20)
    assert found["accuracy_ci95"][0] <= found["accuracy"] <= found["accuracy_ci95"][1]
