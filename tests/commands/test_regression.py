"""task=regression: a number for each text, from a file to every command."""

import csv
import json
import random

import pytest

from encoderlab.errors import DataError, SettingError

pytestmark = pytest.mark.slow

WORTH = {"good": 10, "bad": -10, "great": 20, "awful": -20, "plain": 0}


def write_rows(path, rows, seed=0, broken=None):
    generator = random.Random(seed)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["review", "price"])
        for row in range(rows):
            words = generator.choices(list(WORTH), k=4)
            table.writerow(
                [" ".join(words), broken if broken and row == 2 else 20000 + sum(WORTH[word] for word in words)]
            )


@pytest.fixture(scope="module")
def numbers_run(tmp_path_factory, cache, run_in):
    folder = tmp_path_factory.mktemp("numbers")
    write_rows(folder / "rows.csv", 240)
    columns = (
        "dataset.text=review",
        "dataset.label=price",
        "dataset.test_fraction=0.2",
        "tokenizer.vocabulary_size=100",
    )
    size = (
        "model=tiny",
        "model.n_layers=1",
        "model.d_model=32",
        "model.n_heads=2",
        "training.epochs=12",
        "training.batch_size=16",
    )
    where = ("task=regression", "dataset=files", f"dataset.path={folder / 'rows.csv'}", f"run_dir={folder / 'run'}")
    run_in(cache, "train", *where, *columns, *size, "training.learning_rate=3e-3", "training.threads=1")
    return folder / "run"


def test_the_report_has_correlations_and_errors_with_intervals_in_the_files_units(numbers_run):
    report = json.loads((numbers_run / "report.json").read_text(encoding="utf-8"))
    test = report["splits"]["test"]
    assert report["main_figure"] == "pearson" and test["pearson"] > 0.5
    for name in ("pearson", "spearman", "mae", "rmse"):
        low, high = test[f"{name}_ci95"]
        assert low <= test[name] <= high
    assert test["mae"] < 25  # the words move the number by tens
    assert report["baselines"]["mean"]["pearson"] == 0 and report["baselines"]["tfidf_ridge"]["mae"] < 25
    assert report["verdict"]["against"] in ("mean", "tfidf_ridge")


def test_predictions_have_the_numbers_as_they_were_written(numbers_run):
    with (numbers_run / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        assert float(row["label"]) == 20000 + sum(WORTH[word] for word in row["text"].split())
        assert 19900 < float(row["predicted"]) < 20100


def test_the_page_shows_the_numbers_and_the_largest_errors(numbers_run):
    page = (numbers_run / "report.html").read_text(encoding="utf-8")
    assert "Largest errors" in page and "Predicted numbers against the true ones" in page
    assert "Calibration" not in page and (numbers_run / "plots" / "numbers.png").is_file()


def test_predict_returns_a_number_in_every_format(command, numbers_run, capsys, tmp_path, printed):
    command("predict", f"run={numbers_run}", "text=good great")
    plain = list(csv.DictReader(capsys.readouterr().out.splitlines()))[0]
    assert float(plain["predicted"]) > 20000 and set(plain) == {"text", "predicted"}
    assert printed("predict", f"run={numbers_run}", "text=good great", "format=jsonl")["predicted"] == float(
        plain["predicted"]
    )
    write_rows(tmp_path / "new.csv", 3)
    command("predict", f"run={numbers_run}", "input=new.csv", "output=answers.parquet")
    import pyarrow.parquet as pq

    assert str(pq.read_table(tmp_path / "answers.parquet").schema.field("predicted").type) == "double"
    with pytest.raises(SettingError, match="top_k needs a model with labels"):
        command("predict", f"run={numbers_run}", "text=good", "top_k=2")


def test_eval_on_another_file_gives_the_same_figures_as_its_predictions(command, numbers_run, tmp_path):
    write_rows(tmp_path / "new.csv", 40, seed=1)
    columns = ("dataset.text=review", "dataset.label=price")
    command("eval", f"run={numbers_run}", "dataset=files", "dataset.path=new.csv", *columns, "run_dir=scored")
    report = json.loads((tmp_path / "scored" / "report.json").read_text(encoding="utf-8"))
    with (tmp_path / "scored" / "predictions.csv").open(encoding="utf-8", newline="") as file:
        errors = [abs(float(row["label"]) - float(row["predicted"])) for row in csv.DictReader(file)]
    assert report["splits"]["all"]["mae"] == pytest.approx(sum(errors) / 40)


def test_explain_shows_what_increases_the_number(command, numbers_run, capsys, tmp_path):
    command("explain", f"run={numbers_run}", "text=great awful", "run_dir=why")
    assert "makes it larger" in capsys.readouterr().out
    (found,) = json.loads((tmp_path / "why" / "explain.json").read_text(encoding="utf-8"))
    scores = {word["word"]: word["occlusion"] for word in found["words"]}
    assert scores["great"] > 0 > scores["awful"]
    with pytest.raises(SettingError, match="this model predicts a number"):
        command("explain", f"run={numbers_run}", "text=great", "label=great")


def test_a_cell_that_is_not_a_number_is_named_with_its_line(command, tmp_path):
    write_rows(tmp_path / "rows.csv", 20, broken="3,5")
    columns = ("dataset.path=rows.csv", "dataset.text=review", "dataset.label=price")
    with pytest.raises(
        DataError, match=r"rows.csv, line 4 has '3,5' in column 'price', which is not a number.*decimal point"
    ):
        command("train", "task=regression", "dataset=files", *columns)


def test_rows_with_a_constant_number_are_refused(command, tmp_path):
    (tmp_path / "rows.csv").write_text(
        "text,label\n" + "".join(f"text {row},1.5\n" for row in range(20)), encoding="utf-8"
    )
    with pytest.raises(DataError, match="All training rows have the number 1.5"):
        command("train", "task=regression", "dataset=files", "dataset.path=rows.csv")


def test_a_dataset_with_labels_is_refused_for_regression(command):
    with pytest.raises(DataError, match="dataset=brackets has one label in each row, but the task needs a number"):
        command("train", "task=regression", "dataset=brackets")


def test_an_exported_model_predicts_in_the_files_units(command, numbers_run, printed):
    transformers = pytest.importorskip("transformers", reason="the extra huggingface is not installed")
    ours = printed("predict", f"run={numbers_run}", "text=good great", "precision=fp32", "format=jsonl")["predicted"]
    command("export", f"run={numbers_run}", "path=there")
    model = transformers.AutoModelForSequenceClassification.from_pretrained("there").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained("there")
    assert model.config.problem_type == "regression" and model.config.num_labels == 1
    assert float(model(**tokenizer("good great", return_tensors="pt")).logits) == pytest.approx(ours, abs=0.05)
    again = printed("predict", "run=there", "text=good great", "precision=fp32", "format=jsonl")["predicted"]
    assert again == pytest.approx(ours, abs=0.05)


def test_runs_are_compared_row_by_row_and_the_smaller_error_is_the_better(command, numbers_run, tmp_path):
    for seed in (1, 2):
        columns = ("dataset.text=review", "dataset.label=price", f"dataset.path=rows{seed}.csv")
        write_rows(tmp_path / f"rows{seed}.csv", 30)
        command("eval", f"run={numbers_run}", "dataset=files", *columns, f"run_dir=scored{seed}")
    command("compare", "scored1", "scored2", "figure=mae", "output=compared")
    found = json.loads((tmp_path / "compared" / "compare.json").read_text(encoding="utf-8"))
    assert found["figure"] == "mae"
    tested = [row["difference"] for row in found["settings"] if row["difference"]]
    assert [one["test"] for one in tested] in ([], ["paired bootstrap"])


@pytest.mark.usefixtures("symbolic_sizes")
def test_the_program_of_an_onnx_folder_predicts_in_the_files_units(command, numbers_run, tmp_path, printed):
    from tests.commands.test_export_onnx import answers_of_the_program

    ours = printed("predict", f"run={numbers_run}", "text=good great", "precision=fp32", "format=jsonl")["predicted"]
    command("export", f"run={numbers_run}", "format=onnx", "path=there")
    (answer,) = answers_of_the_program(tmp_path / "there", ["good great"])
    assert answer["predicted"] == pytest.approx(ours, abs=0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("symbolic_sizes")
def test_an_8_bit_graph_predicts_in_the_files_units(command, numbers_run, capsys, printed):
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    command("export", f"run={numbers_run}", "format=int8", "path=small")
    assert "a number changes by at most" in capsys.readouterr().out.splitlines()[-1]
    found = []
    for run in (numbers_run, "small"):
        found.append(printed("predict", f"run={run}", "text=good great", "precision=fp32", "format=jsonl")["predicted"])
    assert found[0] == pytest.approx(found[1], abs=0.3)
