"""An engineer's month: thresholds of single labels, scores by a column, and whether a new model may replace an old one.

A label whose threshold is 0 is always predicted, so that every score below is known beforehand.
"""

import csv
import json
import shutil

import pytest

from encoderlab.errors import DataError, SettingError, UserError
from tests.run_files import report_of

SIZE = ("model=tiny", "model.n_layers=1", "model.d_model=16", "model.n_heads=2", "tokenizer.vocabulary_size=100")
SHORT = ("training.steps=2", "training.threads=1", "training.precision=fp32", "baselines=false")
COLUMNS = ("dataset=files", "dataset.text=[subject,body]", "dataset.label=queue")


def write_rows(path, labels):
    """Write a row for each label: German ones are all `fraud`."""
    rows = [("subject", "body", "queue", "language")]
    for number, label in enumerate(labels):
        rows.append((f"ticket {number}", f"about {number % 7}", label, "de" if label == "fraud" else "en"))
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


@pytest.fixture(scope="module")
def always(tmp_path_factory, cache, run_in):
    """Runs that always predict one of three labels, by its name."""
    folder = tmp_path_factory.mktemp("always")
    write_rows(folder / "tickets.csv", ["billing", "delivery", "fraud"] * 20)
    for label in ("billing", "fraud"):
        data = ("task=classification", *COLUMNS, f"dataset.path={folder / 'tickets.csv'}")
        threshold = f"task.thresholds={{{label}:0}}"
        run_in(cache, "train", *data, threshold, *SIZE, *SHORT, f"run_dir={folder / label}")
    return folder


@pytest.fixture
def gold(tmp_path):
    """A file of 40 rows: 30 are billing and 10 fraud, none of which a model was trained on."""
    write_rows(tmp_path / "gold.csv", [*["billing"] * 30, *["fraud"] * 10])
    text = (tmp_path / "gold.csv").read_text(encoding="utf-8").replace("ticket", "question")
    (tmp_path / "gold.csv").write_text(text, encoding="utf-8")
    return (*COLUMNS, "dataset.path=gold.csv")


def test_a_model_that_is_worse_by_more_than_allowed_ends_with_exit_code_1(command, always, gold, tmp_path):
    gate = (f"run={always / 'fraud'}", f"against={always / 'billing'}", *gold)
    with pytest.raises(UserError, match=r"0\.500") as worse:
        command("eval", *gate, "allowed_drop=0.1", "run_dir=scored")
    assert worse.value.exit_code == 1
    facts = report_of(tmp_path / "scored")["against"]
    assert (facts["accuracy"], facts["leads_by"], facts["passed"]) == (0.75, -0.5, False)
    assert facts["leads_by_ci95"][0] < -0.5 < facts["leads_by_ci95"][1] and facts["trained_on"] == 0
    page = (tmp_path / "scored" / "report.html").read_text(encoding="utf-8")
    assert "by 0.500" in page and "by -" not in page
    command("eval", *gate, "allowed_drop=0.5", "run_dir=allowed")
    assert report_of(tmp_path / "allowed")["against"]["passed"] is True
    command("eval", *gate, "run_dir=compared")
    assert report_of(tmp_path / "compared")["against"]["passed"] is None


def test_rows_that_the_older_model_knows_are_counted(command, always, tmp_path):
    command("eval", f"run={always / 'billing'}", f"against={always / 'fraud'}", "run_dir=scored", "split=train")
    report = report_of(tmp_path / "scored")
    assert report["against"]["trained_on"] == report["splits"]["train"]["n"]


@pytest.mark.slow
@pytest.mark.parametrize("run", ["pairs_run", "names_run"])
def test_models_of_every_kind_are_level_with_themselves(command, request, tmp_path, run):
    folder = request.getfixturevalue(run)
    command("eval", f"run={folder}", f"against={folder / 'model'}", "allowed_drop=0", "run_dir=scored")
    facts = report_of(tmp_path / "scored")["against"]
    assert (facts["leads_by"], facts["passed"]) == (0.0, True)


def test_a_bound_without_an_older_model_and_models_that_predict_something_else_are_refused(command, always, pairs_run):
    for others in (["allowed_drop=0.1"], [f"against={pairs_run}"]):
        with pytest.raises(SettingError, match=r"allowed_drop|against"):
            command("eval", f"run={always / 'fraud'}", *others)


def test_the_report_has_the_score_of_each_value_of_a_column_and_names_the_weakest(command, always, gold, tmp_path):
    command("eval", f"run={always / 'billing'}", *gold, "dataset.slices=[language]", "run_dir=scored")
    facts = report_of(tmp_path / "scored")["slices"]["language"]
    assert {value: (own["n"], own["accuracy"]) for value, own in facts["values"].items()} == {
        "en": (30, 1.0),
        "de": (10, 0.0),
    }
    assert facts["values"]["de"]["accuracy_ci95"][1] < facts["values"]["en"]["accuracy_ci95"][0]
    assert (facts["weakest"], facts["behind_by"]) == ("de", 1.0)
    assert "language de" in (tmp_path / "scored" / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_an_exported_graph_passes_and_is_passed_as_its_run(command, always, gold, tmp_path, symbolic_sizes):
    """With mistakes of all rows of fraud, which only a network with weights explains."""
    pytest.importorskip("onnxruntime", reason="pip install 'encoderlab[onnx]'")
    run = always / "billing"
    command("export", f"run={run}", "format=onnx", "path=graph")
    for out, newer, older in (("run", run, "graph"), ("exported", "graph", run)):
        command("eval", f"run={newer}", f"against={older}", *gold, "allowed_drop=0", f"run_dir={out}")
        report = report_of(tmp_path / out)
        assert report["against"]["passed"] is True and report["splits"]["all"]["accuracy"] == 0.75


@pytest.mark.slow
def test_a_run_reports_the_columns_too_and_an_unknown_one_is_refused_at_once(command, always, tmp_path):
    shutil.copy(always / "tickets.csv", tmp_path)
    data = ("task=classification", *COLUMNS, "dataset.path=tickets.csv", *SIZE, *SHORT)
    command("train", *data, "dataset.slices=[language]", "run_dir=run")
    assert report_of(tmp_path / "run")["slices"]["language"]["values"].keys() <= {"de", "en"}
    with pytest.raises(DataError, match=r"'lang'.*language"):
        command("train", *data, "dataset.slices=[lang]", "run_dir=other")


def test_thresholds_are_kept_in_predictions_and_exports(command, always, tmp_path, printed):
    run = always / "fraud"
    assert report_of(run)["splits"]["validation"]["per_class"]["fraud"]["threshold"] == 0.0
    with (run / "predictions.csv").open(encoding="utf-8", newline="") as file:
        assert {row["predicted"] for row in csv.DictReader(file)} == {"fraud"}
    command("export", f"run={run}", "path=there")
    fields = json.loads((tmp_path / "there" / "config.json").read_text(encoding="utf-8"))
    assert fields["thresholds"] == {"fraud": 0.0}
    for opened in (run, "there"):
        assert printed("predict", f"run={opened}", "text=a ticket", "format=jsonl")["predicted"] == "fraud"


@pytest.mark.slow
def test_thresholds_are_fitted_on_validation_where_asked(command, always, tmp_path):
    shutil.copy(always / "tickets.csv", tmp_path)
    data = ("task=classification", *COLUMNS, "dataset.path=tickets.csv", "dataset.validation_fraction=0.4")
    thresholds = "task.thresholds={fraud:f1,billing:precision:0.9}"
    command("train", *data, thresholds, *SIZE, *SHORT, "dataset.test_fraction=0.2", "run_dir=run")
    splits = report_of(tmp_path / "run")["splits"]
    fitted = {label: own["threshold"] for label, own in splits["validation"]["per_class"].items()}
    assert 0 < fitted["fraud"] < 1 and 0 < fitted["billing"] <= 1 and fitted["delivery"] is None
    assert {label: own["threshold"] for label, own in splits["test"]["per_class"].items()} == fitted
    with pytest.raises(SettingError, match="'fruad'.*fraud"):
        command("train", *data, "task.thresholds={fruad:0.3}", *SIZE, *SHORT, "run_dir=other")
