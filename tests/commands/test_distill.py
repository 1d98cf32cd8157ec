"""encoderlab distill: a student learns its teacher's vectors on documents, or its probabilities on a task; and what it
refuses.
"""

import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from encoderlab.errors import DataError
from encoderlab.system.processes import Interrupted
from tests.experiment_models import BRACKETS_MODEL
from tests.run_files import report_of

pytestmark = pytest.mark.slow

SHAPE = (
    "model.n_layers=1",
    "model.d_model=16",
    "model.n_heads=2",
    "model.d_ff=32",
    "model.max_length=24",
    "training.threads=1",
)
TEACHER = (
    "model.n_layers=2",
    "model.d_model=32",
    "model.n_heads=2",
    "model.d_ff=64",
    "model.max_length=24",
    "training.threads=1",
)
QUICK = ("training.batch_size=16", "training.learning_rate=0.003", "training.log_every=5")
TASK = ("task=brackets", "dataset.limit=300", "training.threads=1", "baselines=false")
BRACKETS = (*BRACKETS_MODEL, *TASK)


@pytest.fixture(scope="session")
def articles(tmp_path_factory):
    """Write sixty documents on four topics, each with its own words."""
    draw, path = np.random.default_rng(0), tmp_path_factory.mktemp("articles") / "articles.txt"
    words = [["".join(draw.choice(list("bdfgklmnprstaeiou"), 4)) for _ in range(30)] for _ in range(4)]

    def paragraph(topic):
        return " ".join(f"{' '.join(draw.choice(words[topic], 6)).capitalize()}." for _ in range(3))

    path.write_text(
        "\n\n".join("\n".join(paragraph(n % 4) for _ in range(3)) for n in range(60)) + "\n", encoding="utf-8"
    )
    return path


@pytest.fixture(scope="session")
def documents(articles):
    return (
        "dataset=files",
        f"dataset.path={articles}",
        "dataset.pack=segments",
        "task.min_sentences=1",
        "task.min_characters=10",
    )


@pytest.fixture(scope="session")
def teacher(tmp_path_factory, articles, cache, run_in):
    folder = tmp_path_factory.mktemp("runs") / "teacher"
    data = ("dataset=files", f"dataset.path={articles}", "tokenizer.vocabulary_size=300", "baselines=false")
    run_in(cache, "pretrain", *data, *TEACHER, *QUICK, "training.steps=30", f"run_dir={folder}")
    return folder


@pytest.fixture(scope="session")
def student(tmp_path_factory, teacher, documents, cache, run_in):
    folder = tmp_path_factory.mktemp("runs") / "student"
    learning = ("model.dropout=0", "training.steps=120", "start=embeddings")
    run_in(cache, "distill", f"teacher={teacher}", *documents, *SHAPE, *QUICK, *learning, f"run_dir={folder}")
    return folder


@pytest.fixture(scope="session")
def brackets_teacher(tmp_path_factory, cache, run_in):
    folder = tmp_path_factory.mktemp("runs") / "brackets_teacher"
    run_in(cache, "train", *BRACKETS, "training.steps=60", f"run_dir={folder}")
    return folder


def test_a_student_comes_near_its_teachers_vectors(student, teacher):
    report = report_of(student)
    assert (report["command"], report["teacher"], report["main_score"]) == ("distill", str(teacher), "sequence_cosine")
    scores = report["splits"]["validation"]
    assert scores["sequence_cosine"] > 0.9 and scores["token_cosine"] > 0.7
    low, high = scores["sequence_cosine_ci95"]
    assert low < scores["sequence_cosine"] < high
    assert scores["loss"] == pytest.approx(2 - scores["sequence_cosine"] - scores["token_cosine"])
    assert (
        str(teacher) in (student / "report.html").read_text()
        and str(teacher) in (student / "model" / "README.md").read_text()
    )


def test_a_student_of_vectors_is_embedded_exported_and_finetuned(command, student, articles, tmp_path):
    (tmp_path / "texts.txt").write_text("Some words.\nOther words.\n")
    command("embed", f"run={student}", "input=texts.txt", "output=vectors.npy")
    vectors = np.load(tmp_path / "vectors.npy")
    assert vectors.shape == (2, 16)
    command("export", f"run={student}", "path=exported")  # without the head for the teacher's vectors
    command("embed", "run=exported", "input=texts.txt", "output=theirs.npy")
    np.testing.assert_allclose(np.load(tmp_path / "theirs.npy"), vectors, atol=1e-5)
    rows = "".join(f"{'good' if n % 2 else 'bad'} text {n},{n % 2}\n" for n in range(60))
    (tmp_path / "rows.csv").write_text(f"text,label\n{rows}")
    own = (
        "task=classification",
        "dataset=files",
        "dataset.path=rows.csv",
        "baselines=false",
        "training.steps=3",
        "training.threads=1",
    )
    command("finetune", *own, f"init_from={student}", "run_dir=finetuned")
    assert report_of(tmp_path / "finetuned")["init_from"] == student.name


def test_a_second_stage_starts_from_the_first_with_its_head(command, student, teacher, documents, tmp_path):
    again = ("training.steps=1", "training.learning_rate=1e-9", "model.dropout=0")
    command(
        "distill", f"teacher={teacher}", f"init_from={student}", *documents, *SHAPE, *QUICK, *again, "run_dir=second"
    )
    first, second = (
        report_of(folder)["splits"]["validation"]["sequence_cosine"] for folder in (student, tmp_path / "second")
    )
    assert second == pytest.approx(first, abs=1e-4)


def test_a_run_with_unlabelled_texts_resumes_unless_they_or_its_teacher_have_changed(
    command, stop_after, brackets_teacher, tmp_path
):
    weights = shutil.copytree(brackets_teacher / "model", tmp_path / "mine") / "model.safetensors"
    line = (*TASK, *SHAPE, "tokenizer=symbols", "model.segments=0", "training.steps=4", "training.batch_size=8")
    (tmp_path / "more.txt").write_text("( )\n( (\n) (\n")
    stop_after(2)
    with pytest.raises(Interrupted):
        command("distill", "teacher=mine", *line, "unlabelled=more.txt", "run_dir=run")
    stop_after(-1)
    (tmp_path / "more.txt").write_text("( )\n( (\n) )\n")
    with pytest.raises(DataError, match=r"unlabelled=more\.txt have changed"):
        command("distill", "resume=run")
    (tmp_path / "more.txt").write_text("( )\n( (\n) (\n")
    before = weights.read_bytes()
    weights.write_bytes(before[:-1] + bytes([before[-1] ^ 1]))
    with pytest.raises(DataError, match=r"is damaged: model\.safetensors does not match manifest\.json\."):
        command("distill", "resume=run")
    weights.write_bytes(before)
    command("distill", "resume=run")
    assert report_of(tmp_path / "run")["throughput"]["train_seconds"] > 0


def test_vectors_are_not_scored_without_their_teacher(command, student):
    with pytest.raises(DataError, match=r"without the teacher.*finetune it"):
        command("eval", f"run={student}")


def test_a_teacher_of_weight_one_is_copied_even_if_all_labels_are_wrong(command, cache, tmp_path):
    """With teacher_weight=1 the labels have no effect: the student predicts like a teacher trained on the opposite
    labels.
    """
    rows = [(f"{'good' if n % 2 else 'bad'} {'abcdefgh'[n % 8]}", n % 2) for n in range(200)]
    for name, flip in (("right", 0), ("wrong", 1)):
        lines = "".join(f"{text},{'yes' if label != flip else 'no'}\n" for text, label in rows)
        (tmp_path / f"{name}.csv").write_text(f"text,label\n{lines}")
    shared = (
        "task=classification",
        "dataset=files",
        "model=tiny",
        "training.threads=1",
        "baselines=false",
        "training.steps=150",
        "training.keep=last",
    )
    command("train", *shared, "dataset.path=wrong.csv", "run_dir=teacher")
    command("distill", *shared, "teacher=teacher", "teacher_weight=1", "dataset.path=right.csv", "run_dir=student")
    assert report_of(tmp_path / "student")["splits"]["validation"]["accuracy"] < 0.1


def test_a_student_of_few_labels_keeps_its_last_weights(command, tmp_path):
    """A handful of validation rows says nothing about a checkpoint, however many texts the teacher labels.

    The column of texts is guessed, and that of the unlabelled file is the same.
    """
    rows = [(f"{'good' if n % 2 else 'bad'} text {n}", n % 2) for n in range(80)]
    (tmp_path / "few.csv").write_text("review,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    (tmp_path / "more.csv").write_text("review\n" + "".join(f"{text} again\n" for text, _ in rows))
    shared = ("task=classification", "dataset=files", "dataset.path=few.csv", "model=tiny", "training.threads=1")
    quick = ("baselines=false", "training.steps=4")
    command("train", *shared, *quick, "run_dir=teacher")
    command("distill", *shared, *quick, "teacher=teacher", "unlabelled=more.csv", "run_dir=student")
    report = report_of(tmp_path / "student")
    assert (report["checkpoint"]["step"], report["checkpoint"]["chosen_on"]) == (4, None)
    assert any("validation rows are too few" in note for note in report["notes"])


def test_a_stopped_student_resumes_bit_for_bit(command, stop_after, teacher, documents, tmp_path):
    length = ("training.steps=12", "training.checkpoint_every=4", "start=embeddings")
    line = ("distill", f"teacher={teacher}", *documents, *SHAPE, *QUICK, *length)
    command(*line, "run_dir=whole")
    stop_after(6)
    with pytest.raises(Interrupted):
        command(*line, "run_dir=stopped")
    stop_after(-1)
    command("distill", "resume=stopped")
    whole, resumed = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "stopped"))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
