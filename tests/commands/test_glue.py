"""GLUE's tasks by name: their figures, their table, and their files for the server, on made-up rows in the hub's form."""

import json
from types import SimpleNamespace

import pytest

from encoderlab.data.sources.hub import HubDataset
from encoderlab.errors import SettingError
from tests.glue_rows import COLUMNS, ROWS, glue_rows
from tests.test_configs import composed

pytestmark = pytest.mark.slow

SMALL = (
    *("tokenizer.vocabulary_size=120", "model=tiny", "model.n_layers=1", "model.d_model=16", "model.n_heads=2"),
    *("training=smoke", "training.steps=30", "training.learning_rate=1e-2", "training.threads=1", "baselines=false"),
)


@pytest.fixture(scope="module", autouse=True)
def stand_in_rows():
    """The hub has made-up rows of GLUE."""

    def fetched(dataset):
        assert dataset.path == "nyu-mll/glue"
        return SimpleNamespace(config=SimpleNamespace(name=dataset.name), hash="0" * 40), glue_rows(dataset.name)

    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(HubDataset, "_fetch", fetched)
        yield


@pytest.fixture(scope="module")
def glue_sweep(tmp_path_factory, cache, run_in):
    """Run three tasks with one seed; return the folder of the sweep, and each task's run."""
    folder = tmp_path_factory.mktemp("glue") / "sweep"
    run_in(cache, "train", "-m", "task=cola,stsb,mnli", "seed=0", *SMALL, f"sweep_dir={folder}")
    reports = {path.parent: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("runs/*/report.json")}
    return folder, {report["task"]: (root, report) for root, report in reports.items()}


@pytest.mark.parametrize("task", COLUMNS)
def test_every_task_reads_its_columns_and_knows_its_labels_by_glues_ids(task, tmp_path):
    config = composed(f"task={task}")
    splits = config.dataset.load(tmp_path, config.task.target)
    assert splits.labels == (COLUMNS[task][2] or [])
    own = glue_rows(task)
    assert [example.label for example in splits.by_name["train"]] == pytest.approx(own["train"]["label"])
    assert (splits.by_name["train"][0].text_pair is None) == (COLUMNS[task][1] is None)
    assert splits.by_name["test"].labelled == (task == "mrpc")
    assert set(splits.by_name) - {"train", "validation", "test"} == (
        {"validation_mismatched", "test_mismatched"} if task == "mnli" else set()
    )


def test_each_task_has_its_own_figures_and_mnli_is_scored_on_both_splits(glue_sweep):
    _, runs = glue_sweep
    assert runs["cola"][1]["checkpoint"]["chosen_by"] == "matthews"
    low, high = runs["cola"][1]["splits"]["validation"]["matthews_ci95"]
    assert -1 <= low <= runs["cola"][1]["splits"]["validation"]["matthews"] <= high <= 1
    assert {"pearson", "spearman"} <= set(runs["stsb"][1]["splits"]["validation"])
    mnli = runs["mnli"][1]
    assert mnli["scored_split"] == "validation" and list(mnli["splits"]) == ["validation", "validation_mismatched"]
    page = (runs["mnli"][0] / "report.html").read_text(encoding="utf-8")
    assert "validation_mismatched" in page


def test_the_sweep_ends_with_a_table_that_names_its_average(glue_sweep):
    folder, runs = glue_sweep
    (setting,) = json.loads((folder / "glue.json").read_text(encoding="utf-8"))["settings"]
    assert [task["title"] for task in setting["tasks"]] == ["CoLA", "STS-B", "MNLI"]
    splits = {task: report["splits"] for task, (_, report) in runs.items()}
    mnli = (splits["mnli"]["validation"]["accuracy"] + splits["mnli"]["validation_mismatched"]["accuracy"]) / 2
    stsb = (splits["stsb"]["validation"]["pearson"] + splits["stsb"]["validation"]["spearman"]) / 2
    assert setting["averages"][0]["value"] == pytest.approx(
        (splits["cola"]["validation"]["matthews"] + stsb + mnli) / 3
    )
    text = (folder / "glue.md").read_text(encoding="utf-8")
    assert (
        "average of 3 tasks" in text
        and "Not run: SST-2, MRPC, QQP, QNLI, RTE, WNLI" in text
        and "macro-average" in text
    )
    assert len((folder / "glue.csv").read_text(encoding="utf-8").splitlines()) == 1 + 5


def test_compare_makes_the_same_table(command, glue_sweep, capsys):
    folder, _ = glue_sweep
    command("compare", folder)
    output = capsys.readouterr().out
    assert (
        "GLUE on validation: 3 of 9 tasks" in output
        and "accuracy (matched)" in output
        and "accuracy (mismatched)" in output
    )


def test_the_submission_has_glues_names_spellings_and_an_index_from_0(command, glue_sweep, tmp_path):
    _, runs = glue_sweep
    for task in runs:
        command("predict", f"run={runs[task][0]}", "split=test", "format=glue", "output=submission")
    answers = {
        path.name: [line.split("\t") for line in path.read_text().splitlines()]
        for path in tmp_path.glob("submission/*")
    }
    assert set(answers) == {"CoLA.tsv", "STS-B.tsv", "MNLI-m.tsv", "MNLI-mm.tsv"}
    for lines in answers.values():
        assert lines[0] == ["index", "prediction"]
        assert [index for index, _ in lines[1:]] == [str(row) for row in range(ROWS["test"])]
    given = {name: {answer for _, answer in lines[1:]} for name, lines in answers.items()}
    assert given["CoLA.tsv"] <= {"0", "1"}
    assert given["MNLI-m.tsv"] | given["MNLI-mm.tsv"] <= {"entailment", "neutral", "contradiction"}
    assert all(0 <= float(answer) <= 5 for answer in given["STS-B.tsv"])
    with pytest.raises(SettingError, match=r"submission/CoLA.tsv already exists. Choose another folder"):
        command("predict", f"run={runs['cola'][0]}", "split=test", "format=glue", "output=submission")


def test_a_submission_needs_a_split_and_a_glue_task(command, glue_sweep, pairs_run):
    _, runs = glue_sweep
    with pytest.raises(
        SettingError, match=r"output=there is a folder, which holds the predictions of a split. Set split=test"
    ):
        command("predict", f"run={runs['cola'][0]}", "text=red", "format=glue", "output=there")
    with pytest.raises(
        SettingError, match=r"output=there is a folder, but classification is not one of GLUE's tasks. Allowed: "
    ):
        command("predict", f"run={pairs_run}", "split=test", "format=glue", "output=there")
