"""The benchmarks run: a small measurement of each kind, and the arithmetic of what they print."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.comparing import ratio
from benchmarks.gpu import PADDED, compared
from benchmarks.roof import Product, Shape, roof
from benchmarks.unlike import DRIFT_SETS
from encoderlab.batch import Batch
from encoderlab.network.config import HeadSizes, ModelConfig
from encoderlab.network.heads import EncoderWithHeads

ROOT = Path(__file__).resolve().parents[1]


def typed(*arguments):
    command = [sys.executable, "-m", "benchmarks", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (("run", "--small", "--rounds", "1", "start_help"), "| encoderlab | 0."),
        (("gpu", "--small", "--device", "cpu"), "| not compiled | bit-identical | bit-identical |"),
    ],
    ids=["run", "gpu"],
)
def test_a_small_measurement_prints_its_table(words, shown):
    done = typed(*words)
    assert done.returncode == 0, done.stderr
    assert shown in done.stdout


def test_reading_a_workbook_is_measured(tmp_path):
    for words in (("write", "--rows", "50"), ("read",)):
        command = [sys.executable, "-m", "benchmarks.sheets", words[0], str(tmp_path / "rows.xlsx"), *words[1:]]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    measured = json.loads(done.stdout.splitlines()[-1])
    assert measured["rows"] == 50 and measured["processor_seconds"] > 0 and measured["memory_before"] > 2**20


@pytest.mark.slow
def test_the_suite_runs_what_is_asked_for_once_and_prints_a_table(tmp_path):
    (tmp_path / "suite" / "sms_spam").mkdir(parents=True)
    rows = [f"{('cheap prize call now', 'see you at home')[n % 2]} {n},{('spam', 'ham')[n % 2]}\n" for n in range(40)]
    for split in ("train", "validation", "test"):
        (tmp_path / "suite" / "sms_spam" / f"{split}.csv").write_text("text,label\n" + "".join(rows))
    words = ("sets=sms_spam", "kinds=linear,scratch", "seeds=0,1", f"suite={tmp_path}/suite", f"output={tmp_path}/runs")
    first = typed("suite", *words)
    assert first.returncode == 0, first.stderr
    assert (
        "| linear model | 1.000 |" in first.stdout and "| from scratch | " in first.stdout and "| 2: " in first.stdout
    )
    started = (tmp_path / "runs/sms_spam/scratch/0/report.json").stat().st_mtime_ns
    again = typed("suite", *words)
    assert again.returncode == 0 and "| from scratch | " in again.stdout
    assert (tmp_path / "runs/sms_spam/scratch/0/report.json").stat().st_mtime_ns == started


@pytest.mark.slow
def test_ways_to_choose_texts_are_compared(tmp_path):
    folder = tmp_path / "suite" / "sms_spam"
    folder.mkdir(parents=True)
    kinds = (("a cheap prize, call", "spam"), ("see you at home at", "ham"), ("the train leaves at", "ham"))
    rows = [f'"{kinds[n % 3][0]} {n}",{kinds[n % 3][1]}\n' for n in range(260)]
    for split in ("train", "test"):
        (folder / f"{split}.csv").write_text("text,label\n" + "".join(rows))
    done = typed("select", "sms_spam", "--draws", 1, "--suite", tmp_path / "suite", "--output", tmp_path / "vectors")
    assert done.returncode == 0, done.stderr
    assert "| sms_spam | accuracy | 100.0 | +0.0 |" in done.stdout


@pytest.mark.slow
def test_what_names_and_unlabelled_texts_add_is_measured(tmp_path):
    topics = {"business": "shares fell", "sport": "they won the cup", "politics": "the vote was lost"}
    folder = tmp_path / "suite" / "bbc_news"
    folder.mkdir(parents=True)
    for split, n in (("train", 40), ("test", 10)):
        rows = [f'"{text} on day {row}",{label}\n' for row in range(n) for label, text in topics.items()]
        (folder / f"{split}.csv").write_text("text,label\n" + "".join(rows))
    vectors = ("--output", tmp_path / "vectors")
    done = typed("unlabelled", "bbc_news", "--rows", 4, "--draws", 1, "--suite", tmp_path / "suite", *vectors)
    assert done.returncode == 0, done.stderr
    assert "| bbc_news | 100.0 | +0.0 | +0.0 | +0.0 |" in done.stdout


@pytest.mark.slow
def test_texts_without_a_label_are_told_and_deals_that_raise_an_alarm_are_counted(tmp_path):
    topics = {"business": "shares fell", "sport": "they won the cup", "politics": "the vote was lost"}
    for split, n in (("train", 90), ("validation", 90), ("test", 30)):
        rows = [f'"{text} on day {row}",{label}\n' for row in range(n) for label, text in topics.items()]
        (tmp_path / "suite" / "bbc_news").mkdir(parents=True, exist_ok=True)
        (tmp_path / "suite" / "bbc_news" / f"{split}.csv").write_text("text,label\n" + "".join(rows))
    done = typed("unlike", "bbc_news", "--suite", tmp_path / "suite", "--output", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
    assert "| bbc_news | 60 | 30 |" in done.stdout

    for place, name in enumerate(DRIFT_SETS):
        (tmp_path / "suite" / name).mkdir()
        rows = [f"{'abcde'[place]} {row % 7} {row % 11},x\n" for row in range(600)]
        (tmp_path / "suite" / name / "train.csv").write_text("text,label\n" + "".join(rows))
    folders = ("--suite", tmp_path / "suite", "--output", tmp_path / "vectors")
    done = typed("drift", "sms_spam", "--trials", 1, *folders)
    assert done.returncode == 0, done.stderr
    assert "| sms_spam | 20% of tweet_offensive | " in done.stdout and "| 100% | 100% |\n" in done.stdout


@pytest.mark.parametrize("words", [("run", "sst2_tinny"), ("suite", "kind=box")])
def test_a_wrong_name_gets_one_line(words):
    done = typed(*words)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "Did you mean" in done.stderr


def test_a_ratio_is_the_median_of_those_within_each_round():
    rounds = [
        {"encoderlab": {"seconds": ours}, "peer": {"seconds": theirs}} for ours, theirs in ((1, 2), (2, 6), (4, 4))
    ]
    assert ratio(rounds, "seconds", "peer") == (2, 1, 3)
    assert ratio([{"encoderlab": {"seconds": None}, "peer": {"seconds": 1}}], "seconds", "peer") is None


def test_a_step_takes_six_flops_per_weight_and_token():
    shape = Shape(n_layers=1, d_model=2, width=2, d_ff=8)
    assert shape.flops_per_token(0) == 6 * (4 * 2 * 2 + 2 * 2 * 8)
    assert roof([Product(10, 2, 3, 4)], lambda product: 0.5) == 3 * 2 * 10 * 2 * 3 / 0.5


def test_runs_that_differ_in_length_or_are_not_finite_do_not_agree():
    step = {"loss": 2.0, "gradient_norm": 1.0}
    assert compared([step], [{"loss": 2.5, "gradient_norm": 1.1}])["loss"] == 0.5
    assert compared([step], [{"loss": None, "gradient_norm": 1.0}])["first_loss"] == float("inf")
    assert compared([step], [])["loss"] == float("inf")


def test_rows_without_packing_measure_the_computation_of_padding(monkeypatch):
    monkeypatch.setattr(EncoderWithHeads, "packs", True)  # restored afterwards
    torch.manual_seed(0)
    shape = ModelConfig(n_layers=1, d_model=16, n_heads=2, max_length=8)
    model = EncoderWithHeads(shape, 20, 0, HeadSizes(sequence_classes=2)).eval()
    ids, mask = torch.ones(2, 8, dtype=torch.int64), torch.arange(8) < torch.tensor([[8], [2]])
    batch = Batch(ids, ids * 0, mask, torch.arange(2), torch.arange(0), None, None, n_tokens=10)
    computed = []
    model.encoder.layers[0].register_forward_hook(lambda layer, inputs, output: computed.append(inputs[0].shape[:-1]))
    model(batch)
    exec(PADDED)
    model(batch)
    assert computed == [(10,), (2, 8)]
