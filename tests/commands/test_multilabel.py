"""task=multilabel: any number of labels for each text, from a file to every command."""

import csv
import json
import random
import shutil

import pytest
import yaml

from encoderlab.errors import DataError, SettingError
from tests.run_files import report_of

pytestmark = pytest.mark.slow

MEANS = {"sun": "weather", "rain": "weather", "goal": "sport", "match": "sport", "vote": "politics", "law": "politics"}
TEXT = "text=rain goal table"
FILES = ("task=multilabel", "dataset=files", "dataset.label=topics")
SIZE = ("model=tiny", "model.n_layers=1", "model.d_model=32", "model.n_heads=2", "training.batch_size=16")
TRAINED = (*FILES, *SIZE, "tokenizer.vocabulary_size=100", "training.threads=1")


def write_rows(path, n):
    generator = random.Random(0)
    rows = [generator.choices([*MEANS, "table", "chair"], k=3) for _ in range(n)]
    topics = [sorted({MEANS[word] for word in words if word in MEANS}) for words in rows]
    with path.open("w", newline="", encoding="utf-8") as file:
        named = [(" ".join(words), "|".join(labels)) for words, labels in zip(rows, topics, strict=True)]
        csv.writer(file).writerows([("text", "topics"), *named])


@pytest.fixture(scope="module")
def topics_run(tmp_path_factory, cache, run_in):
    folder = tmp_path_factory.mktemp("topics")
    write_rows(folder / "rows.csv", 300)
    where = (f"dataset.path={folder / 'rows.csv'}", f"run_dir={folder / 'run'}", "dataset.test_fraction=0.2")
    run_in(cache, "train", *TRAINED, *where, "training.epochs=20", "training.learning_rate=3e-3")
    return folder / "run"


def thresholds_of(report, split):
    return {label: one["threshold"] for label, one in report["splits"][split]["per_class"].items()}


def test_the_report_has_every_score_and_thresholds_come_from_validation(topics_run):
    report = report_of(topics_run)
    test = report["splits"]["test"]
    assert report["main_score"] == "f1_micro" and test["f1_micro"] > 0.8
    for name in ("f1_micro", "f1_macro", "subset_accuracy"):
        low, high = test[f"{name}_ci95"]
        assert low <= test[name] <= high
    assert list(test["per_class"]) == ["politics", "sport", "weather"]
    assert report["baselines"]["tfidf_logreg"]["f1_macro"] > 0.8 and "majority" in report["baselines"]
    assert thresholds_of(report, "test") == thresholds_of(report, "validation")
    saved = json.loads((topics_run / "model" / "config.json").read_text(encoding="utf-8"))
    assert saved["encoderlab"]["task"]["thresholds"] == pytest.approx(thresholds_of(report, "validation"))


def test_predictions_have_each_probability_and_the_labels_side_by_side(topics_run, printed):
    with (topics_run / "predictions.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    thresholds = thresholds_of(report_of(topics_run), "test")
    assert any(row["label"] == "" for row in rows) and any("|" in row["label"] for row in rows)
    for row in rows:
        above = [label for label, least in thresholds.items() if float(row[f"probability_{label}"]) >= least]
        assert row["predicted"] == "|".join(above)
    answer = printed("predict", f"run={topics_run}", TEXT, "format=jsonl", "probabilities=all")
    assert answer["predicted"] == ["sport", "weather"]
    assert list(answer["probabilities"]) == ["politics", "sport", "weather"]


def test_eval_compare_and_explain_know_sets_of_labels(command, topics_run, tmp_path):
    (tmp_path / "new.csv").write_text("text,topics\nrain,weather\ngoal sun,weather|sport\ntable,\n", encoding="utf-8")
    command("eval", f"run={topics_run}", *FILES[1:], "dataset.path=new.csv", "run_dir=scored")
    assert report_of(tmp_path / "scored")["splits"]["all"]["n"] == 3
    (tmp_path / "odd.csv").write_text("text,topics\nrain,weather\ngoal,weather|chess\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"odd.csv, line 3.*'chess'"):
        command("eval", f"run={topics_run}", *FILES[1:], "dataset.path=odd.csv")
    # An evaluation of the same rows is the run again; a copy with another setting is compared with it, row by row.
    command("eval", f"run={topics_run}", "run_dir=again")
    command("compare", topics_run, "again", "output=same")
    assert len(json.loads((tmp_path / "same" / "compare.json").read_text(encoding="utf-8"))["settings"]) == 1
    other = shutil.copytree(topics_run, tmp_path / "other") / "config.yaml"
    changed = yaml.safe_load(other.read_text(encoding="utf-8"))
    changed["training"]["warmup"] = 0.25
    other.write_text(yaml.safe_dump(changed), encoding="utf-8")
    command("compare", topics_run, "other", "output=compared")
    compared = json.loads((tmp_path / "compared" / "compare.json").read_text(encoding="utf-8"))
    assert compared["score"] == "f1_micro"
    assert [row["difference"]["value"] for row in compared["settings"] if row["difference"]] == [0]
    command("explain", f"run={topics_run}", "text=rain goal", "label=sport", "run_dir=why")
    (explained,) = json.loads((tmp_path / "why" / "explain.json").read_text(encoding="utf-8"))
    scores = {word["word"]: word["score"] for word in explained["words"]}
    assert scores["goal"] > max(scores["rain"], 0) and explained["explained"] == "sport"


def test_an_exported_model_predicts_the_same_sets(command, topics_run, printed):
    import transformers

    ours = printed("predict", f"run={topics_run}", TEXT, "precision=fp32", "format=jsonl", "probabilities=all")
    command("export", f"run={topics_run}", "path=there")
    model = transformers.AutoModelForSequenceClassification.from_pretrained("there").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained("there")
    probabilities = model(**tokenizer("rain goal table", return_tensors="pt")).logits[0].sigmoid().tolist()
    assert probabilities == pytest.approx(list(ours["probabilities"].values()), abs=1e-4)
    assert model.config.problem_type == "multi_label_classification"
    again = printed("predict", "run=there", TEXT, "precision=fp32", "format=jsonl", "probabilities=all")
    assert again["predicted"] == ours["predicted"]


def test_baseline_and_data_count_labels(tmp_path, printed):
    write_rows(tmp_path / "rows.csv", 120)
    report = printed("baseline", *FILES, "dataset.path=rows.csv", "format=json")
    assert report["main_score"] == "f1_micro"
    facts = printed("data", *FILES, "dataset.path=rows.csv", "format=json", "model=tiny")
    assert set(facts["splits"]["train"]["labels"]) == {"politics", "sport", "weather"}


def test_a_stopped_run_resumes_to_the_same_scores_with_its_own_thresholds(command, stopped, tmp_path):
    write_rows(tmp_path / "rows.csv", 80)
    where = (*TRAINED, "dataset.path=rows.csv", "training=smoke", "baselines=false", "task.thresholds={sport: 0.9}")
    command("train", *where, "run_dir=whole")
    stopped(*where, "run_dir=halved")
    command("train", "resume=halved")
    whole, halved = (report_of(tmp_path / name)["splits"]["validation"] for name in ("whole", "halved"))
    assert whole == halved and whole["per_class"]["sport"]["threshold"] == 0.9


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (("train", *TRAINED, "dataset.path=rows.csv", "task.thresholds={sprot: 0.3}"), "'sprot'.*Did you mean sport"),
        (("distill", *FILES, "dataset.path=rows.csv", "teacher=RUN"), "no class probabilities to learn"),
    ],
)
def test_what_does_not_suit_sets_of_labels_is_refused(command, topics_run, tmp_path, words, fragment):
    write_rows(tmp_path / "rows.csv", 60)
    with pytest.raises(SettingError, match=fragment):
        command(*(word.replace("RUN", str(topics_run)) for word in words))
