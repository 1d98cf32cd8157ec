"""dry_run=true: describes the run it would be, and leaves nothing behind."""

import json
import re

import pytest

from ..torchrun import torchrun

TINY = ("model.n_layers=1", "model.d_model=16", "model.n_heads=2", "training.threads=1", "training=smoke")


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    """Rows of unequal length, in a file."""
    path = tmp_path_factory.mktemp("reviews") / "reviews.csv"
    rows = [f"{'very ' * (n % 23)}{('dull', 'fine')[n % 2]} {n},{('bad', 'good')[n % 2]}" for n in range(150)]
    path.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return ("task=classification", "dataset=files", f"dataset.path={path}", "tokenizer.vocabulary_size=120", *TINY)


@pytest.fixture
def printed(command, capsys):
    """Return what a command prints on standard output."""

    def run(*arguments):
        capsys.readouterr()
        command(*arguments)
        return capsys.readouterr().out

    return run


@pytest.mark.slow
def test_the_estimate_matches_the_actual_run(printed, command, reviews, tmp_path):
    length = ("training.steps=null", "training.epochs=1", "training.batch_size=16", "training.batching=random")
    screen = printed("train", *reviews, *length, "dry_run=true")
    assert list(tmp_path.iterdir()) == []
    command("train", *reviews, *length, "run_dir=run")
    report = json.loads((tmp_path / "run" / "report.json").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    last = max(line["step"] for line in lines)
    assert f"Steps: {last} of 16 rows (1.00 epochs of {last})" in screen
    assert f"{sum(line['kind'] == 'evaluation' for line in lines)} evaluation" in screen and "GiB" in screen
    assert f"Parameters: {report['model']['parameters']:,} (" in screen


def test_a_dry_run_finetunes_and_leaves_its_encoder_unchanged(printed, reverse_run, tmp_path):
    before = {path: path.read_bytes() for path in reverse_run.rglob("*") if path.is_file()}
    length = ("task=reverse", "dataset.limit=60", "training=smoke", "training.steps=4", "training.threads=1")
    screen = printed("finetune", *length, "training.freeze_layers=1", f"init_from={reverse_run}", "dry_run=true")
    assert screen.startswith("finetune reverse, seed 0: dry run: only the cache is written")
    assert "Steps: 4 of 8 rows" in screen and " frozen" in screen
    assert list(tmp_path.iterdir()) == []
    assert {path: path.read_bytes() for path in reverse_run.rglob("*") if path.is_file()} == before


def test_a_dry_run_of_pretraining_respects_its_budget(printed, tmp_path):
    words = [
        " ".join(f"The word {n * k % 17} stands in line {k} of the paragraph." for k in range(8)) for n in range(40)
    ]
    (tmp_path / "lines.txt").write_text("\n\n".join(words), encoding="utf-8")
    corpus = ("dataset=files", "dataset.path=lines.txt", "tokenizer.vocabulary_size=100", "model.max_length=24")
    screen = printed("pretrain", *corpus, *TINY, "training.steps=null", "training.budget=2m", "dry_run=true")
    assert re.search(r"Steps: about [\d,]+ within training.budget=2m of 8 rows", screen)
    assert [path.name for path in tmp_path.iterdir()] == ["lines.txt"]


@pytest.mark.slow
def test_several_processes_share_a_dry_run(reviews, cache, tmp_path):
    code, out, _ = torchrun(
        2,
        "-m",
        "encoderlab",
        "train",
        *reviews,
        "training.steps=6",
        "dry_run=true",
        folder=tmp_path,
        ENCODERLAB_CACHE=str(cache),
    )
    assert code == 0
    assert out.count("dry run: only") == 1 and "2 processes" in out and "Steps: 6 of 8 rows" in out
    assert list(tmp_path.iterdir()) == []
