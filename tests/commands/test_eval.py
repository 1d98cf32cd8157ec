"""encoderlab eval scores a run again."""

import pytest

from encoderlab.errors import DataError, SettingError
from tests.run_files import report_of


def test_eval_reproduces_the_scores_of_the_training(command, brackets_run, tmp_path):
    command("eval", f"run={brackets_run}", "split=validation", "run_dir=scored", "threads=1")
    trained = report_of(brackets_run)
    scored = report_of(tmp_path / "scored")
    assert scored["command"] == "eval"
    first, again = (report["splits"]["validation"] for report in (trained, scored))
    for scores in (first, again):  # the temperature is in the weights now
        for fitted in ("temperature", "ece_uncalibrated", "loss_uncalibrated", "uncalibrated"):
            scores["calibration"].pop(fitted, None)
    assert again == first
    assert scored["checkpoint"] == trained["checkpoint"]
    assert (tmp_path / "scored" / "predictions.csv").is_file()


COLUMNS = ("dataset.text=title", "dataset.text_pair=body", "dataset.label=way")


def test_a_users_file_is_scored_whole_even_with_a_single_class(command, pairs_run, tmp_path):
    rows = "\n".join(f"title {n},body {n},up" for n in range(100, 140))
    (tmp_path / "more.csv").write_text(f"title,body,way\n{rows}\n")
    command("eval", f"run={pairs_run}", "dataset=files", "dataset.path=more.csv", *COLUMNS, "run_dir=scored")
    report = report_of(tmp_path / "scored")
    assert report["splits"]["all"]["n"] == 40
    assert report["splits"]["all"]["per_class"]["up"]["support"] == 40
    assert any(note.startswith("Too few rows of all to score 'down' (0)") for note in report["notes"])
    assert report["splits"]["all"]["matthews"] is None and "matthews" in report["splits"]["all"]["undefined"]
    written = (tmp_path / "scored" / "predictions.csv").read_text(encoding="utf-8").splitlines()
    assert [line.partition(",")[0] for line in written] == ["line", *map(str, range(2, 42))]


def test_a_split_of_another_dataset_did_not_choose_the_checkpoint(command, pairs_run, tmp_path):
    rows = "\n".join(f"title {n},body {n},{('up', 'down')[n % 2]}" for n in range(100, 140))
    (tmp_path / "more.csv").write_text(f"title,body,way\n{rows}\n")
    half = ("dataset.validation_fraction=0.5", "split=validation")
    command("eval", f"run={pairs_run}", "dataset=files", "dataset.path=more.csv", *COLUMNS, *half, "run_dir=scored")
    report = report_of(tmp_path / "scored")
    assert report["splits"]["validation"]["n"] == 20
    assert not any("too good" in note for note in report["notes"])


def test_eval_refuses_labels_with_other_meanings(command, pairs_run, tmp_path):
    rows = "\n".join(f"title {n},body {n},{('left', 'right')[n % 2]}" for n in range(40))
    (tmp_path / "more.csv").write_text(f"title,body,way\n{rows}\n")
    with pytest.raises((DataError, SettingError), match="left"):
        command("eval", f"run={pairs_run}", "dataset=files", "dataset.path=more.csv", *COLUMNS)
    with pytest.raises(DataError, match=r"'left', 'right'.*'down', 'up'"):
        command("eval", f"run={pairs_run}", "dataset=files", "dataset.path=more.csv", *COLUMNS, "split=validation")


def test_eval_refuses_single_texts_if_the_model_was_trained_on_pairs(command, pairs_run, tmp_path):
    rows = "\n".join(f"title {n},{('up', 'down')[n % 2]}" for n in range(40))
    (tmp_path / "more.csv").write_text(f"title,way\n{rows}\n")
    with pytest.raises(DataError, match="trained on pairs of texts"):
        command(
            "eval",
            f"run={pairs_run}",
            "dataset=files",
            "dataset.path=more.csv",
            "dataset.text=title",
            "dataset.label=way",
        )


@pytest.mark.slow
def test_eval_refuses_its_own_dataset_once_that_has_changed(command, tmp_path):
    rows = [f"text {n},{('up', 'down')[n % 2]}" for n in range(60)]
    (tmp_path / "grows.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    own = ("task=classification", "dataset=files", "dataset.path=grows.csv", "tokenizer.vocabulary_size=120")
    command("train", *own, "training=smoke", "run_dir=run", "baselines=false")
    command("eval", "run=run", "run_dir=unchanged")
    (tmp_path / "grows.csv").write_text("\n".join(["text,label", *rows, "another,up", "and another,down"]) + "\n")
    with pytest.raises(DataError, match="The dataset has changed since this model was trained"):
        command("eval", "run=run", "run_dir=changed")
    assert not (tmp_path / "changed").exists()


def test_rows_that_were_trained_on_are_counted_and_left_out_of_a_second_score(command, tmp_path):
    rows = [f"{('good', 'bad')[n % 2]} thing {n},{n % 2}\n" for n in range(80)]
    (tmp_path / "rows.csv").write_text("text,label\n" + "".join(rows[:60]))
    (tmp_path / "held.csv").write_text("text,label\ngood one,0\nbad one,1\n")
    data = ("task=classification", "dataset=files", "dataset.train=rows.csv", "dataset.validation=held.csv")
    command("train", *data, "model=tiny", "training.steps=2", "run_dir=run")
    for name, some, n_seen in (("mixed", rows[50:], 10), ("new", rows[60:], 0)):
        (tmp_path / f"{name}.csv").write_text("text,label\n" + "".join(some))
        command("eval", "run=run", "dataset=files", f"dataset.path={name}.csv", f"run_dir={name}")
        report = report_of(tmp_path / name)
        assert report.get("trained_on", {"n": 0})["n"] == n_seen
    mixed, new = report_of(tmp_path / "mixed"), report_of(tmp_path / "new")
    assert mixed["trained_on"]["scores_without"]["accuracy"] == new["splits"]["all"]["accuracy"]
    assert any("10 of 30 rows" in note for note in mixed["notes"])
