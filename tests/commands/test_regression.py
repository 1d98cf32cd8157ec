"""task=regression: a number for each text, from a file to every command."""

import csv
import json
import random

import pytest

from encoderlab.errors import DataError, SettingError
from tests.run_files import report_of

pytestmark = pytest.mark.slow

WORTH = {"good": 10, "bad": -10, "great": 20, "awful": -20, "plain": 0}
FILES = ("dataset=files", "dataset.text=review", "dataset.label=price")
SIZE = ("model=tiny", "model.n_layers=1", "model.d_model=32", "model.n_heads=2", "training.batch_size=16")
TEXT = "text=good great"


def price_of(text):
    return 20000 + sum(WORTH[word] for word in text.split())


def write_rows(path, n, seed=0):
    generator = random.Random(seed)
    texts = [" ".join(generator.choices(list(WORTH), k=4)) for _ in range(n)]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("review", "price"), *((text, price_of(text)) for text in texts)])


@pytest.fixture(scope="module")
def numbers_run(tmp_path_factory, cache, run_in):
    folder = tmp_path_factory.mktemp("numbers")
    write_rows(folder / "rows.csv", 240)
    where = (*FILES, f"dataset.path={folder / 'rows.csv'}", "dataset.test_fraction=0.2", f"run_dir={folder / 'run'}")
    learning = ("training.epochs=12", "training.learning_rate=3e-3", "training.threads=1")
    run_in(cache, "train", "task=regression", *where, *SIZE, *learning, "tokenizer.vocabulary_size=100")
    return folder / "run"


def test_report_and_predictions_are_in_the_files_units(numbers_run):
    report = report_of(numbers_run)
    test = report["splits"]["test"]
    assert report["main_score"] == "pearson" and test["pearson"] > 0.5
    for name in ("pearson", "spearman", "mae", "rmse"):
        low, high = test[f"{name}_ci95"]
        assert low <= test[name] <= high
    assert test["mae"] < 25  # the words move the number by tens
    assert report["baselines"]["mean"]["pearson"] == 0 and report["baselines"]["tfidf_ridge"]["mae"] < 25
    with (numbers_run / "predictions.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            assert float(row["label"]) == price_of(row["text"]) and 19900 < float(row["predicted"]) < 20100


def test_predict_eval_explain_and_compare_know_numbers(command, numbers_run, tmp_path, printed):
    import pyarrow.parquet as pq

    assert printed("predict", f"run={numbers_run}", TEXT, "format=jsonl")["predicted"] > 20000
    write_rows(tmp_path / "new.csv", 40, seed=1)
    for name in ("scored1", "scored2"):
        command("eval", f"run={numbers_run}", *FILES, "dataset.path=new.csv", f"run_dir={name}")
    command("predict", f"run={numbers_run}", "input=new.csv", "output=answers.parquet")
    assert str(pq.read_table("answers.parquet").schema.field("predicted").type) == "double"
    with (tmp_path / "scored1" / "predictions.csv").open(encoding="utf-8", newline="") as file:
        errors = [abs(float(row["label"]) - float(row["predicted"])) for row in csv.DictReader(file)]
    assert report_of(tmp_path / "scored1")["splits"]["all"]["mae"] == pytest.approx(sum(errors) / 40)
    command("compare", "scored1", "scored2", "score=mae", "output=compared")
    assert json.loads((tmp_path / "compared" / "compare.json").read_text(encoding="utf-8"))["score"] == "mae"
    command("explain", f"run={numbers_run}", "text=great awful", "run_dir=why")
    (explained,) = json.loads((tmp_path / "why" / "explain.json").read_text(encoding="utf-8"))
    scores = {word["word"]: word["score"] for word in explained["words"]}
    assert scores["great"] > 0 > scores["awful"]


def test_an_exported_model_predicts_in_the_files_units(command, numbers_run, printed):
    import transformers

    ours = printed("predict", f"run={numbers_run}", TEXT, "precision=fp32", "format=jsonl")["predicted"]
    command("export", f"run={numbers_run}", "path=there")
    model = transformers.AutoModelForSequenceClassification.from_pretrained("there").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained("there")
    assert model.config.problem_type == "regression"
    assert float(model(**tokenizer("good great", return_tensors="pt")).logits) == pytest.approx(ours, abs=0.05)


@pytest.mark.usefixtures("symbolic_sizes")
def test_an_8_bit_graph_predicts_in_the_files_units(command, numbers_run, printed):
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    command("export", f"run={numbers_run}", "format=int8", "path=small")
    runs = (numbers_run, "small")
    ours, small = (printed("predict", f"run={run}", TEXT, "precision=fp32", "format=jsonl") for run in runs)
    assert small["predicted"] == pytest.approx(ours["predicted"], abs=0.3)


@pytest.mark.parametrize(
    ("rows", "fragment"),
    [
        ("a,1.5\nb,2\nc,'3,5'\n", r"rows.csv, line 4"),
        ("".join(f"text {row},1.5\n" for row in range(20)), "All training rows have the label 1.5"),
    ],
)
def test_rows_without_usable_numbers_are_refused(command, tmp_path, rows, fragment):
    (tmp_path / "rows.csv").write_text("review,price\n" + rows.replace("'", '"'), encoding="utf-8")
    with pytest.raises(DataError, match=fragment):
        command("train", "task=regression", *FILES, "dataset.path=rows.csv")


@pytest.mark.parametrize(
    ("words", "error", "fragment"),
    [
        (("train", "task=regression", "dataset=brackets"), DataError, "the task needs a number"),
        (("explain", "run=RUN", "text=great", "label=great"), SettingError, "predicts a number"),
    ],
)
def test_what_does_not_suit_numbers_is_refused(command, numbers_run, words, error, fragment):
    with pytest.raises(error, match=fragment):
        command(*(word.replace("RUN", str(numbers_run)) for word in words))
