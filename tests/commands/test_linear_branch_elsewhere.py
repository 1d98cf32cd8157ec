"""A linear model beside the network where other commands read the model: serve, data, distill, folds, resume, eval."""

import csv
import json
import shutil

import numpy as np
import pytest
import safetensors.torch
import torch

import encoderlab
from encoderlab.errors import DataError
from encoderlab.runs import fit_branch
from encoderlab.system.processes import Interrupted
from tests.commands.test_linear_branch import SHORT, SMALL, WORDS, films, opinion
from tests.conftest import trained
from tests.run_files import report_of

HALF = ("task=classification", "task.linear_weight=0.5")
# The network hardly learns, so that the linear model decides what both predict.
LINEAR = ("task=classification", "task.linear_weight=0.95", "training.learning_rate=1e-9")


@pytest.fixture(scope="module")
def run(tmp_path_factory, cache):
    """A finished run on opinions on films, whose linear model decides, and the folder of its rows."""
    folder = tmp_path_factory.mktemp("opinions")
    return trained(folder / "run", cache, *LINEAR, *films(folder, opinion), *SHORT)


@pytest.fixture
def alone(run, tmp_path):
    """A copy of the run's model without the files of its branch."""
    folder = shutil.copytree(run / "model", tmp_path / "alone")
    for name in ("linear.json", "linear.safetensors", "manifest.json"):
        (folder / name).unlink()
    return folder


def new_films(path, n=120, seed=5):
    random = np.random.default_rng(seed)
    texts = [f"{' '.join(random.choice(WORDS, 3))} number {row}" for row in range(n)]
    path.write_text("\n".join(["text", *texts]) + "\n", encoding="utf-8")
    return texts


def test_the_service_predicts_with_the_branch(run, alone):
    pytest.importorskip("starlette", reason="the extra serve is not installed")
    from starlette.testclient import TestClient

    from encoderlab.apps.serving.serve import web_service
    from encoderlab.system.http_service import LOOPBACK

    model = encoderlab.load(run, device="cpu")
    client = TestClient(web_service(model, model.abstention(), LOOPBACK), base_url="http://127.0.0.1")
    served = client.post("/predict", json={"texts": ["warm film", "dull plot"]}).json()["predictions"]
    assert [one["predicted"] for one in served] == ["good", "bad"]
    assert served == model.predict(["warm film", "dull plot"])
    assert served != encoderlab.load(alone, device="cpu").predict(["warm film", "dull plot"])


def test_new_texts_are_compared_by_what_both_predict(run, printed, tmp_path):
    texts = new_films(tmp_path / "new.csv")
    facts = printed("data", f"run={run}", "new.csv", "format=json")
    good = sum("warm" in text for text in texts) / len(texts)
    assert facts["labels"]["good"]["predicted"] == pytest.approx(good)
    assert facts["mean_confidence"]["held_out"] > 0.8


def test_predict_gives_no_label_to_texts_unlike_training_with_a_branch_too(run, command, tmp_path, capsys):
    new_films(tmp_path / "new.csv", n=30)
    rows = {}
    for share in ("0.05", "0.99"):
        command("predict", f"run={run}", "input=new.csv", f"unlike_training={share}")
        rows[share] = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    kept = [row for row in rows["0.05"] if row["predicted"]]
    assert len(kept) > 15
    assert all(row["predicted"] == ("good" if "warm" in row["text"] else "bad") for row in kept)
    assert sum(row["reason"] == "unlike training" for row in rows["0.99"]) > 15


def test_eval_scores_both_on_rows_that_the_run_has_not_seen(run, command, tmp_path):
    (tmp_path / "new.csv").write_text("text,label\n" + "warm cast,good\n" * 20 + "slow cast,bad\n" * 20)
    command("eval", f"run={run}", "new.csv", "run_dir=eval")
    (scores,) = report_of(tmp_path / "eval")["splits"].values()
    assert scores["accuracy"] == 1


@pytest.mark.slow
def test_a_student_learns_what_both_predict(run, alone, command, tmp_path):
    files = films(tmp_path, lambda words: "bad" if "warm" in words else "good")  # the opposite of the teacher's
    files = [setting for setting in files if setting.startswith("dataset")]
    settings = ("task=classification", "task.linear_weight=0", "teacher_weight=1", *files, "model=tiny")
    length = ("training.steps=120", "training.learning_rate=1e-2", "training.keep=last", "baselines=false")
    for name, teacher in (("student", run / "model"), ("of_network", alone)):
        command("distill", *settings, *length, f"teacher={teacher}", "training.threads=1", f"run_dir={name}")
    student, of_network = (report_of(tmp_path / name)["splits"]["test"] for name in ("student", "of_network"))
    assert student["accuracy"] < 0.25 < of_network["accuracy"]


@pytest.mark.slow
def test_each_fold_has_a_branch_of_its_own_rows_alone(command, tmp_path):
    random = np.random.default_rng(2)
    lines = ["text,label"]
    for row in range(120):
        words = random.choice(WORDS, 3).tolist()
        lines.append(f"{' '.join(words)} {100 + row},{opinion(words)}")
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = ("dataset=files", "dataset.path=rows.csv", *SMALL)
    command("train", *LINEAR, *rows, *SHORT, "training.threads=1", "folds=3", "run_dir=all")
    with (tmp_path / "all" / "predictions.csv").open(encoding="utf-8") as file:
        predicted = {row["text"]: row for row in csv.DictReader(file)}
    assert len(predicted) == 120
    for number in (1, 2, 3):
        fold = tmp_path / "all" / f"fold-{number}"
        assert report_of(fold)["linear_branch"]["weight"] == 0.95
        model = encoderlab.load(fold, device="cpu")
        mine = [row for row in predicted.values() if row["fold"] == str(number)]
        for row, answer in zip(mine, model.predict([row["text"] for row in mine]), strict=True):
            assert answer["predicted"] == row["predicted"]
            number_of_row = row["text"].split()[-1]
            assert not any(number_of_row in ngram for ngram in model.branch.model.tfidf.vocabulary)


@pytest.mark.parametrize("broken_off", ["fit_on_ngrams", "choose_branch"])
def test_a_run_killed_while_its_branch_is_fitted_resumes_as_if_never_stopped(
    broken_off, run, command, tmp_path, monkeypatch, cache
):
    files = films(tmp_path, opinion)
    line = (*HALF, *files, *SHORT, "training.threads=1")
    whole = trained(tmp_path / "whole", cache, *HALF, *files, *SHORT)

    def killed(*_):
        raise KeyboardInterrupt

    module = "encoderlab.runs.scoring" if broken_off == "choose_branch" else fit_branch.__name__
    with monkeypatch.context() as patch:
        patch.setattr(f"{module}.{broken_off}", killed)
        with pytest.raises(KeyboardInterrupt):
            command("train", *line, "run_dir=stopped")
    assert not (tmp_path / "stopped" / "report.json").exists()
    command("train", "resume=stopped")
    for name in ("model.safetensors", "linear.safetensors"):
        ours, theirs = (
            safetensors.torch.load_file(folder / "model" / name) for folder in (tmp_path / "stopped", whole)
        )
        assert all(torch.equal(weight, theirs[key]) for key, weight in ours.items())
    ours, theirs = (report_of(folder) for folder in (tmp_path / "stopped", whole))
    seconds = {"seconds": 0}
    assert ours["linear_branch"] | seconds == theirs["linear_branch"] | seconds
    assert ours["splits"] == theirs["splits"]
    described = [json.loads((folder / "model" / "linear.json").read_text()) for folder in (tmp_path / "stopped", whole)]
    assert described[0]["vocabulary"] == described[1]["vocabulary"]


@pytest.mark.slow
def test_a_student_does_not_resume_with_a_teacher_whose_branch_has_changed(run, command, stop_after, tmp_path):
    teacher = shutil.copytree(run / "model", tmp_path / "teacher")
    (teacher / "manifest.json").unlink()
    files = [setting for setting in films(tmp_path, opinion) if setting.startswith("dataset")]
    stop_after(2)
    with pytest.raises(Interrupted):
        command("distill", "task=classification", *files, *SHORT, "teacher=teacher", "model=tiny", "run_dir=student")
    stop_after(-1)
    about = json.loads((teacher / "linear.json").read_text())
    (teacher / "linear.json").write_text(json.dumps(about | {"weight": 0.1}))
    with pytest.raises(DataError, match="teacher"):
        command("distill", "resume=student")
    (teacher / "linear.json").write_text(json.dumps(about, ensure_ascii=False, separators=(",", ":")) + "\n")
    command("distill", "resume=student")
    assert (tmp_path / "student" / "report.json").exists()
