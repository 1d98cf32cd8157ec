"""task=multilabel: any number of labels for each text, from a file to every command."""

import csv
import json
import random

import pytest

from encoderlab.errors import DataError, SettingError
from tests.run_files import report_of

pytestmark = pytest.mark.slow

MEANS = {"sun": "weather", "rain": "weather", "goal": "sport", "match": "sport", "vote": "politics", "law": "politics"}
PLAIN = ["table", "chair"]


def rows_of(n, seed=0):
    generator = random.Random(seed)
    for _ in range(n):
        words = generator.choices([*MEANS, *PLAIN], k=3)
        yield " ".join(words), sorted({MEANS[word] for word in words if word in MEANS})


def write_rows(path, n, seed=0):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [("text", "topics"), *((text, "|".join(labels)) for text, labels in rows_of(n, seed))]
        )


SIZE = ("model=tiny", "model.n_layers=1", "model.d_model=32", "model.n_heads=2", "training.batch_size=16")
COLUMNS = (
    "task=multilabel",
    "dataset=files",
    "dataset.label=topics",
    "tokenizer.vocabulary_size=100",
    "training.threads=1",
)


@pytest.fixture(scope="module")
def topics_run(tmp_path_factory, cache, run_in):
    folder = tmp_path_factory.mktemp("topics")
    write_rows(folder / "rows.csv", 300)
    where = (f"dataset.path={folder / 'rows.csv'}", f"run_dir={folder / 'run'}", "dataset.test_fraction=0.2")
    run_in(cache, "train", *COLUMNS, *where, *SIZE, "training.epochs=12", "training.learning_rate=3e-3")
    return folder / "run"


def test_the_report_has_every_figure_with_its_interval(topics_run):
    report = report_of(topics_run)
    test = report["splits"]["test"]
    assert report["main_figure"] == "f1_micro" and test["f1_micro"] > 0.8
    for name in ("f1_micro", "f1_macro", "subset_accuracy", "average_precision_macro"):
        low, high = test[f"{name}_ci95"]
        assert low <= test[name] <= high
    assert list(test["per_class"]) == ["politics", "sport", "weather"]
    assert {"precision", "recall", "f1", "f1_ci95", "support", "average_precision", "threshold"} == set(
        test["per_class"]["sport"]
    )
    assert (
        set(report["baselines"]) == {"majority", "tfidf_logreg"}
        and report["baselines"]["tfidf_logreg"]["f1_macro"] > 0.8
    )


def test_thresholds_fitted_on_validation_apply_to_other_splits_and_are_saved_with_the_model(topics_run):
    splits = report_of(topics_run)["splits"]
    fitted = {label: one["threshold"] for label, one in splits["validation"]["per_class"].items()}
    assert {label: one["threshold"] for label, one in splits["test"]["per_class"].items()} == fitted
    saved = json.loads((topics_run / "model" / "config.json").read_text(encoding="utf-8"))
    assert saved["encoderlab"]["task"]["thresholds"] == pytest.approx(fitted)


def test_the_predictions_have_a_probability_of_each_label_and_the_labels_side_by_side(topics_run):
    with (topics_run / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    thresholds = {
        label: one["threshold"] for label, one in report_of(topics_run)["splits"]["test"]["per_class"].items()
    }
    assert any(row["label"] == "" for row in rows) and any("|" in row["label"] for row in rows)
    for row in rows:
        given = [label for label, least in thresholds.items() if float(row[f"probability_{label}"]) >= least]
        assert row["predicted"] == "|".join(given)


def test_predict_returns_a_list_of_labels(command, topics_run, capsys, tmp_path, printed):
    answer = printed("predict", f"run={topics_run}", "text=rain goal table", "format=jsonl")
    assert answer["predicted"] == ["sport", "weather"] and list(answer["probabilities"]) == [
        "politics",
        "sport",
        "weather",
    ]
    command("predict", f"run={topics_run}", "text=rain goal table", "top_k=2")
    assert "sport|weather" in capsys.readouterr().out
    with pytest.raises(SettingError, match="min_probability needs a model with one label per row"):
        command("predict", f"run={topics_run}", "text=rain", "min_probability=0.5")


def test_eval_on_a_file_with_fewer_labels_uses_the_models(command, topics_run, tmp_path):
    (tmp_path / "new.csv").write_text("text,topics\nrain,weather\ngoal sun,weather|sport\ntable,\n", encoding="utf-8")
    where = ("dataset=files", "dataset.path=new.csv", "dataset.label=topics", "run_dir=scored")
    command("eval", f"run={topics_run}", *where)
    assert report_of(tmp_path / "scored")["splits"]["all"]["n"] == 3


def test_eval_names_the_row_with_an_unknown_label(command, topics_run, tmp_path):
    (tmp_path / "new.csv").write_text("text,topics\nrain,weather\ngoal,weather|chess\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"new.csv, line 3 has the label 'chess'"):
        command("eval", f"run={topics_run}", "dataset=files", "dataset.path=new.csv", "dataset.label=topics")


def test_explain_covers_one_label(command, topics_run, tmp_path):
    command("explain", f"run={topics_run}", "text=rain goal", "label=sport", "run_dir=why")
    (found,) = json.loads((tmp_path / "why" / "explain.json").read_text(encoding="utf-8"))
    scores = {word["word"]: word["occlusion"] for word in found["words"]}
    assert scores["goal"] > max(scores["rain"], 0)
    assert found["explained"] == "sport" and found["predicted"] == "sport, weather"


def test_a_teacher_of_sets_of_labels_is_refused(command, topics_run):
    with pytest.raises(SettingError, match="task=multilabel has no class probabilities to learn from a teacher"):
        where = ("task=multilabel", "dataset=files", "dataset.path=rows.csv", "dataset.label=topics")
        command("distill", *where, f"teacher={topics_run}")


def test_the_page_lists_the_labels_with_their_thresholds(topics_run):
    page = (topics_run / "report.html").read_text(encoding="utf-8")
    assert "threshold" in page and "have missing or extra labels" in page and "Confusion matrix" not in page


def test_one_threshold_for_all_labels_and_one_for_each(command, tmp_path):
    write_rows(tmp_path / "rows.csv", 60)
    where = (*COLUMNS, "dataset.path=rows.csv", *SIZE, "training=smoke", "baselines=false")
    command("train", *where, "task.fit_thresholds=shared", "task.thresholds={sport: 0.9}", "run_dir=run")
    found = {
        label: one["threshold"]
        for label, one in report_of(tmp_path / "run")["splits"]["validation"]["per_class"].items()
    }
    assert found["sport"] == 0.9 and found["weather"] == found["politics"] != 0.9


def test_a_threshold_for_an_unknown_label_is_refused(command, tmp_path):
    write_rows(tmp_path / "rows.csv", 60)
    with pytest.raises(
        SettingError, match="task.thresholds names 'sprot', which is not a label of the data.*Did you mean sport"
    ):
        command("train", *COLUMNS, "dataset.path=rows.csv", "task.thresholds={sprot: 0.3}")
    with pytest.raises(SettingError, match="task.thresholds gives sport 3"):
        command("train", *COLUMNS, "dataset.path=rows.csv", "task.thresholds={sport: 3}")


def test_an_exported_model_gives_the_same_labels_with_its_thresholds(command, topics_run, printed):
    transformers = pytest.importorskip("transformers", reason="the extra huggingface is not installed")
    ours = printed("predict", f"run={topics_run}", "text=rain goal table", "precision=fp32", "format=jsonl")
    command("export", f"run={topics_run}", "path=there")
    model = transformers.AutoModelForSequenceClassification.from_pretrained("there").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained("there")
    assert model.config.problem_type == "multi_label_classification"
    chances = model(**tokenizer("rain goal table", return_tensors="pt")).logits[0].sigmoid().tolist()
    assert chances == pytest.approx(list(ours["probabilities"].values()), abs=1e-4)
    again = printed("predict", "run=there", "text=rain goal table", "precision=fp32", "format=jsonl")
    assert again["predicted"] == ours["predicted"]
    assert json.loads((topics_run / "model" / "config.json").read_text())["encoderlab"]["task"][
        "thresholds"
    ] == pytest.approx(model.config.thresholds)


def test_runs_are_compared_row_by_row(command, topics_run, tmp_path):
    from encoderlab.reports.finished import read_answers, read_run

    (answers,) = read_answers([read_run(topics_run)])
    test = report_of(topics_run)["splits"]["test"]
    assert answers.labels.shape == (test["n"], 3)
    assert (answers.labels == answers.predicted).all(1).mean() == pytest.approx(test["subset_accuracy"])
    command("eval", f"run={topics_run}", "run_dir=again")
    command("compare", topics_run, "again", "output=compared")
    found = json.loads((tmp_path / "compared" / "compare.json").read_text(encoding="utf-8"))
    assert found["figure"] == "f1_micro"
    assert [row["difference"]["value"] for row in found["settings"] if row["difference"]] == [0]


def test_baseline_and_data_count_labels(tmp_path, printed):
    write_rows(tmp_path / "rows.csv", 120)
    where = ("task=multilabel", "dataset=files", "dataset.path=rows.csv", "dataset.label=topics")
    report = printed("baseline", *where, "format=json")
    assert report["main_figure"] == "f1_micro" and report["baselines"]["tfidf_logreg"]["ahead_of_majority_by"] > 0
    assert "goal" in report["baselines"]["tfidf_logreg"]["top_features"]["sport"]
    facts = printed("data", *where, "format=json", "model=tiny")
    assert set(facts["splits"]["train"]["labels"]) == {"politics", "sport", "weather"}


def test_a_stopped_run_resumes_to_the_same_scores(command, stopped, tmp_path):
    write_rows(tmp_path / "rows.csv", 80)
    where = (*COLUMNS, "dataset.path=rows.csv", *SIZE, "training=smoke", "training.batch_size=16", "baselines=false")
    command("train", *where, "run_dir=whole")
    stopped(*where, "run_dir=halved")
    command("train", "resume=halved")
    whole, halved = (report_of(tmp_path / name)["splits"]["validation"] for name in ("whole", "halved"))
    assert whole == halved


@pytest.mark.usefixtures("symbolic_sizes")
def test_the_program_of_an_onnx_folder_gives_the_same_labels(command, topics_run, tmp_path, capsys):
    from tests.commands.test_export_onnx import answers_of_the_program

    command("export", f"run={topics_run}", "format=onnx", "path=there")
    fields = json.loads((tmp_path / "there" / "config.json").read_text(encoding="utf-8"))
    assert fields["problem_type"] == "multi_label_classification" and set(fields["thresholds"]) == {
        "politics",
        "sport",
        "weather",
    }
    texts = ["rain goal table", "vote law sun", "table chair table"]
    (tmp_path / "rows.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    capsys.readouterr()
    command("predict", f"run={topics_run}", "input=rows.txt", "format=jsonl", "precision=fp32")
    ours = [json.loads(line)["predicted"] for line in capsys.readouterr().out.splitlines()]
    assert [answer["predicted"] for answer in answers_of_the_program(tmp_path / "there", texts)] == ours
    assert ours[0] == ["sport", "weather"]


@pytest.mark.slow
@pytest.mark.usefixtures("symbolic_sizes")
def test_an_8_bit_graph_predicts_sets_of_labels(command, topics_run, tmp_path, capsys, printed):
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    command("export", f"run={topics_run}", "format=int8", "path=small")
    assert "of the predictions agree" in capsys.readouterr().out.splitlines()[-1]
    assert printed("predict", "run=small", "text=rain goal table", "format=jsonl")["predicted"] == ["sport", "weather"]
