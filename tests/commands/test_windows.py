"""task.windows: a text longer than the model's limit is read to its end, in training and by every later command."""

import csv
import json
import random

import numpy as np
import pytest

from encoderlab.errors import DataError
from tests.run_files import report_of

pytestmark = pytest.mark.slow

WORDS = ["table", "chair", "lamp", "door", "wall"]
SIZE = ("model=tiny", "model.n_layers=1", "model.d_model=16", "model.n_heads=2", "model.max_length=10")
FILES = ("task=classification", "dataset=files", "training.threads=1", "training.batch_size=16")
WHERE = (*FILES, *SIZE, "model.pooling=mean", "tokenizer.vocabulary_size=100")
LONG = " ".join([*WORDS * 3, "rain"])


def texts(n, seed=0):
    """The decisive word comes last; every second text is longer than a window, which hides it."""
    generator = random.Random(seed)
    for row in range(n):
        label = ("sun", "rain")[row // 2 % 2]
        yield " ".join([*generator.choices(WORDS, k=(4, 18)[row % 2]), label]), label


def write_rows(path, n, seed=0):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label"), *texts(n, seed)])


@pytest.fixture(scope="module")
def long_run(tmp_path_factory, cache, run_in):
    folder = tmp_path_factory.mktemp("long")
    write_rows(folder / "rows.csv", 320)
    where = (f"dataset.path={folder / 'rows.csv'}", f"run_dir={folder / 'run'}", "dataset.test_fraction=0.2")
    learning = ("training.epochs=8", "training.learning_rate=1e-2", "task.windows=mean", "task.max_windows=4")
    run_in(cache, "train", *WHERE, *where, *learning)
    return folder / "run"


def test_every_command_reads_a_label_at_the_end_of_a_long_text(command, long_run, tmp_path):
    report = report_of(long_run)
    assert report["splits"]["test"]["accuracy"] > 0.9
    assert any("read in windows of 10 tokens" in note for note in report["notes"])
    command("eval", f"run={long_run}", "run_dir=scored")
    assert report_of(tmp_path / "scored")["splits"]["test"]["accuracy"] == report["splits"]["test"]["accuracy"]
    write_rows(tmp_path / "new.csv", 6, seed=1)
    command("predict", f"run={long_run}", "input=new.csv", "output=answers.csv")
    with (tmp_path / "answers.csv").open(encoding="utf-8", newline="") as file:
        assert [row["predicted"] for row in csv.DictReader(file)] == [label for _, label in texts(6, seed=1)]
    command("explain", f"run={long_run}", f"text={LONG}", "run_dir=why")
    (explained,) = json.loads((tmp_path / "why" / "explain.json").read_text(encoding="utf-8"))
    assert max(explained["words"], key=lambda word: word["score"])["word"] == "rain"


def test_embed_averages_the_windows(command, long_run, tmp_path):
    start = " ".join(LONG.split()[:8])  # the first window of ten tokens
    (tmp_path / "texts.txt").write_text(f"{LONG}\n{start}\n", encoding="utf-8")
    command("embed", f"run={long_run}", "input=texts.txt", "output=all.npy")
    vectors = np.load(tmp_path / "all.npy")
    assert vectors.shape == (2, 16) and not np.allclose(vectors[0], vectors[1], atol=1e-3)


@pytest.mark.usefixtures("symbolic_sizes")
def test_predict_reads_all_windows_by_an_8_bit_graph(command, long_run, printed):
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    command("export", f"run={long_run}", "format=int8", "path=small")
    assert printed("predict", "run=small", f"text={LONG}", "format=jsonl")["predicted"] == "rain"


def test_a_student_of_a_teacher_of_windows_reads_windows(command, long_run, tmp_path):
    write_rows(tmp_path / "rows.csv", 80)
    learning = ("training.steps=2", "start=embeddings", "baselines=false", "task.windows=mean", "run_dir=student")
    command("distill", f"teacher={long_run}", *FILES, "dataset.path=rows.csv", *SIZE, *learning)
    assert "accuracy" in report_of(tmp_path / "student")["splits"]["validation"]


def test_a_stopped_run_resumes_to_the_same_scores_in_micro_batches_too(command, stopped, tmp_path):
    write_rows(tmp_path / "rows.csv", 60)
    steps = ("training=smoke", "training.accumulate=2", "training.batch_size=8", "baselines=false", "task.windows=max")
    where = (*WHERE, "dataset.path=rows.csv", *steps)
    command("train", *where, "run_dir=whole")
    stopped(*where, "run_dir=halved")
    command("train", "resume=halved")
    whole, halved = (report_of(tmp_path / name)["splits"]["validation"] for name in ("whole", "halved"))
    assert whole == halved


def test_pairs_are_refused_before_a_folder_is_made(command, tmp_path):
    rows = "".join(f"{text},row {n},{label}\n" for n, (text, label) in enumerate(texts(40)))
    (tmp_path / "rows.csv").write_text("text,title,label\n" + rows, encoding="utf-8")
    pairs = ("dataset.path=rows.csv", "dataset.text_pair=title", "task.windows=mean", "run_dir=run")
    with pytest.raises(DataError, match=r"Set task.windows=none"):
        command("train", *WHERE, *pairs)
    assert not (tmp_path / "run").exists()
