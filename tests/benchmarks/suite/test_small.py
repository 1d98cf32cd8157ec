"""A tiny suite from end to end: runs, crashes, results, page and chart."""

import json
import os
import random
import re
import subprocess

import pytest

from benchmarks.processes import ROOT, python

GOOD, BAD = ["splendid", "warm", "clever", "moving", "fine"], ["dull", "cold", "clumsy", "tedious", "poor"]
FEW = (
    "training.threads=1",
    "training.steps=4",
    "training.evaluate_every=4",
    "model.n_layers=1",
    "model.d_model=16",
    "model.n_heads=1",
    "model.d_ff=16",
)


def write_set(folder, columns, answers=("bad", "good"), n_rows=60, seed=0):
    folder.mkdir(parents=True)
    draw = random.Random(seed)
    for split in ("train", "validation", "test"):
        lines = [",".join(columns)]
        for number in range(n_rows):
            words = GOOD if number % 2 else BAD
            texts = [" ".join(draw.choices(words, k=4)) + f" {split} {number}" for _ in columns[:-1]]
            lines.append(",".join([*texts, answers[number % len(answers)]]))
        (folder / f"{split}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def typed(*words, **environment):
    command = python("-m", "benchmarks", "suite", *words)
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_runs_on_two_datasets_become_tables_and_a_chart_with_a_row_for_a_crash(tmp_path):
    write_set(tmp_path / "data" / "sms_spam", ["text", "label"])
    write_set(tmp_path / "data" / "sick_relatedness", ["text_a", "text_b", "label"], ("1.5", "4.5", "2.5", "5.0"))
    write_set(tmp_path / "data" / "goemotions", ["text", "labels"], ("sad", "glad|calm", "sad|calm", "glad"))
    (tmp_path / "page").mkdir()
    places = {"suite": tmp_path / "data", "output": tmp_path / "runs", "page": tmp_path / "page"}
    folders = [f"{name}={path}" for name, path in places.items()]
    cache = {"ENCODERLAB_CACHE": str(tmp_path / "cache")}

    found = typed(
        "sets=sms_spam,sick_relatedness,goemotions", "kinds=scratch,student", "seeds=0", *folders, *FEW, **cache
    )
    assert found.returncode == 4
    assert found.stderr.splitlines()[-1].startswith(
        "benchmarks: A run of the suite failed."
    )  # the student has no teacher
    page = (tmp_path / "page" / "SUITE.md").read_text(encoding="utf-8")
    assert all(f"### {name}" in page for name in ("sms_spam", "sick_relatedness", "goemotions"))
    assert (
        len(re.findall(r"\n\| from scratch \| -?\d\.", page)) == 3
        and page.count("\n| TF-IDF + logistic regression | ") == 2
    )
    assert page.count("\n| TF-IDF + ridge regression | ") == 1
    assert "| distilled student, seed 0 | failed: There is no finished teacher in OUTPUT/sms_spam/minilm/0 |" in page
    assert (
        "encoderlab train task=regression dataset=files dataset.train=../shared/suite/sick_relatedness/train.csv"
        in page
    )
    assert "|  | macro F1 (95% interval) | seeds (lowest to highest) | micro F1 |" in page
    assert (tmp_path / "page" / "suite.png").read_bytes().startswith(b"\x89PNG")

    first = (tmp_path / "runs" / "sms_spam" / "scratch" / "0" / "report.json").stat().st_mtime_ns
    found = typed("sets=sms_spam", "kinds=scratch", "seeds=0,1", *folders, *FEW, **cache)
    assert found.returncode == 0, found.stderr
    assert (
        tmp_path / "runs" / "sms_spam" / "scratch" / "0" / "report.json"
    ).stat().st_mtime_ns == first  # not run twice
    result = json.loads((tmp_path / "page" / "results" / "suite" / "sms_spam.json").read_text(encoding="utf-8"))
    scratch = result["kinds"]["scratch"]
    assert [run["seed"] for run in scratch["runs"]] == [0, 1]
    assert all(
        run[cost] for run in scratch["runs"] for cost in ("train_seconds", "wall_seconds", "megabytes", "peak_memory")
    )
    assert scratch["ahead"]["varies"] == "rows and seeds"
    assert scratch["ahead"]["value"] == pytest.approx(scratch["score"] - result["baselines"]["tfidf_logreg"]["score"])
    assert str(tmp_path) not in json.dumps(result)  # no folder of this machine is kept
