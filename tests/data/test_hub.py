"""Datasets of the hub, read with the hub's own client from a stand-in server; HF_ENDPOINT is read once, so each load is
a process.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from encoderlab.data.hub import HubDataset
from encoderlab.errors import SettingError

pytestmark = pytest.mark.slow

LOAD = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from encoderlab.data.hub import HubDataset
from encoderlab.errors import UserError
for line in sys.stdin:
    try:
        splits = HubDataset(**json.loads(line)).load(Path("."))
        rows = {name: [len(split), asdict(split[0])] for name, split in splits.by_name.items()}
        print(json.dumps({"splits": rows, "labels": splits.labels, "origin": splits.origin}))
    except UserError as error:
        print(json.dumps({"error": str(error), "exit": error.exit_code}))
"""
SST2 = {"path": "nyu-mll/glue", "name": "sst2", "text": "sentence", "label_names": ["negative", "positive"]}
OWN = {"path": "me/own", "name": "plain", "validation_split": None, "validation_fraction": 0}


def load(endpoint, home, *settings, **environment):
    """Return what each of the `settings` gives, and everything written to standard error."""
    offline = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
    kept = {name: value for name, value in os.environ.items() if name not in offline}
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        input="\n".join(map(json.dumps, settings)),
        env={**kept, "HF_ENDPOINT": endpoint, "HF_HOME": str(home), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("hf")


@pytest.fixture(scope="module")
def real(hub, home):
    """Load SST-2 from the stand-in hub, correctly and with mistakes."""
    amazon = {"path": "fancyzhx/amazon_polarity", "text": "title", "text_pair": "content", "validation_split": None}
    mistakes = [
        {"path": "nyu-mll/glu"},
        {"name": "sst3"},
        {"text": "sentences"},
        {"test_split": "tests"},
        {"label_names": ["a", "b", "c"]},
    ]
    results, errors = load(hub, home, SST2, {**amazon, "limit": 100}, *[SST2 | one for one in mistakes])
    return {"sst2": results[0], "amazon": results[1], "mistakes": results[2:], "errors": errors}


def test_all_of_sst2_is_read_and_its_test_labels_are_unknown(real):
    splits = real["sst2"]["splits"]
    assert {name: rows for name, (rows, _) in splits.items()} == {"train": 67349, "validation": 872, "test": 1821}
    assert splits["train"][1] == {"text": "hide new secretions from the parental units ", "text_pair": None, "label": 0}
    assert splits["test"][1]["label"] is None
    assert real["sst2"]["labels"] == ["negative", "positive"]
    assert len(real["sst2"]["origin"].pop("revision")) == 40
    assert real["sst2"]["origin"] == {"source": "hub", "path": "nyu-mll/glue", "name": "sst2"}


def test_pairs_are_read_and_validation_taken_from_training(real):
    splits = real["amazon"]["splits"]
    assert {name: rows for name, (rows, _) in splits.items()} == {"train": 100, "validation": 100, "test": 100}
    assert splits["train"][1]["text"] and splits["train"][1]["text_pair"]
    assert real["amazon"]["origin"]["taken_from_train"] == {"validation": 0.1}


@pytest.mark.parametrize(
    ("index", "code", "named"),
    [
        (0, 3, "dataset.path"),
        (1, 3, "sst2"),
        (2, 3, "Set dataset.text=sentence"),
        (3, 3, "dataset.test_split"),
        (4, 2, "dataset.label_names"),
    ],
)
def test_mistakes_are_refused_with_the_setting(real, index, code, named):
    assert real["mistakes"][index]["exit"] == code and named in real["mistakes"][index]["error"]


def test_standard_error_stays_empty_unless_it_is_a_terminal(real):
    assert real["errors"] == ""


def test_cached_rows_are_used_if_the_hub_is_unreachable(real, home):
    commit = load_cached_commit(home)
    settings = [SST2, SST2 | {"revision": commit[:12]}, SST2 | {"revision": "v2"}, SST2 | {"name": "mnli"}]
    results, errors = load("http://127.0.0.1:9", home, *settings)
    assert results[0] == real["sst2"] | {"origin": results[0]["origin"]}
    assert results[1] == results[0]
    assert f"Set dataset.revision={commit[:12]}" in results[2]["error"] and "HF_HOME" in results[3]["error"]
    assert errors.count(commit[:12]) == 2


def load_cached_commit(home):
    return next((home / "datasets" / "nyu-mll___glue" / "sst2" / "0.0.0").glob("?" * 40)).name


@pytest.mark.parametrize("offline", ["0", "1"])
def test_an_unreachable_hub_is_reported_in_one_line(tmp_path, offline):
    (result,), errors = load("http://127.0.0.1:9", tmp_path, SST2, HF_HUB_OFFLINE=offline)
    assert result["exit"] == 3 and "\n" not in result["error"] and errors == ""
    assert "HF_HOME" in result["error"] and "dataset=files" in result["error"]


class Refusing(BaseHTTPRequestHandler):
    """A hub that knows no revision, requires a login, or is not a hub at all, depending on the dataset's name."""

    def do_HEAD(self):
        codes = {"revision": (404, "RevisionNotFound"), "gated": (401, "GatedRepo"), "strange": (404, "")}
        status, code = next((answer for name, answer in codes.items() if name in self.path), (200, ""))
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815

    def log_message(self, *_):
        pass


def test_unknown_revisions_gated_datasets_and_strange_hubs_are_reported_in_one_line(tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings = [{"path": "a/revision", "revision": "v9"}, {"path": "a/gated"}, {"path": "a/strange"}]
        endpoint = f"http://127.0.0.1:{server.server_port}"
        results, errors = load(endpoint, tmp_path, *settings)
        server.shutdown()
    assert all(result["exit"] == 3 and "\n" not in result["error"] for result in results) and errors == ""
    assert all("dataset.path" in result["error"] for result in results[:2]) and endpoint in results[2]["error"]


@pytest.fixture(scope="module")
def own(start_hub, hub_script, tmp_path_factory):
    """Load datasets of other shapes, written next to the stand-in hub's own."""
    folder = tmp_path_factory.mktemp("own")
    shutil.copy(hub_script, folder / "serve.py")
    repository = folder / "datasets" / "me" / "own"
    tags = datasets.Features(
        {
            "tokens": datasets.List(datasets.Value("string")),
            "tags": datasets.List(datasets.ClassLabel(names=["O", "LOC"])),
        }
    )
    tables = {
        "plain/train": pa.table({"text": ["a", "b", "c", "d"], "label": [3, 1, 3, 1]}),
        "plain/test": pa.table({"text": ["e", "f"], "label": [-1, -1]}),
        "signed/train": pa.table({"text": ["a", "b", "c", "d"], "label": [1, -1, 1, -1]}),
        "signed/test": pa.table({"text": ["e", "f"], "label": [-1, 1]}),
        "holes/train": pa.table({"text": ["a", None], "label": ["x", "y"]}),
        "holes/test": pa.table({"text": ["a"], "label": ["z"]}),
        "tags/train": datasets.Dataset.from_dict(
            {"tokens": [["in", "Rome"], []], "tags": [[0, 1], []]}, features=tags
        ).data.table,
        "tags/test": datasets.Dataset.from_dict({"tokens": [["Oslo"]], "tags": [[1]]}, features=tags).data.table,
    }
    for name, table in tables.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, repository / f"{name}.parquet")
    (folder / "datasets" / "me" / "script").mkdir()
    (folder / "datasets" / "me" / "script" / "script.py").write_text("")
    (folder / "datasets" / "me" / "script" / "README.md").write_text("")
    described = [f"- config_name: {name}\n  data_dir: {name}" for name in ("plain", "signed", "holes", "tags")]
    (repository / "README.md").write_text("---\nconfigs:\n" + "\n".join(described) + "\n---\n")
    settings = {
        "plain": OWN,
        "signed": OWN | {"name": "signed"},
        "tags": OWN | {"name": "tags", "text": "tokens", "label": "tags"},
        "unlabelled": OWN | {"label": None},
        "holes": OWN | {"name": "holes"},
        "no configuration": OWN | {"name": None},
        "no split": OWN | {"validation_split": "validation"},
        "no test": OWN | {"test_split": "tst"},
        "no training": OWN | {"train_split": "all"},
        "no further": OWN | {"further_splits": ["odd"]},
        "no text": OWN | {"text": "label", "label": "text"},
        "format": {"path": "csv"},
        "script": {"path": "me/script"},
        "dots": {"path": "me/ow..n"},
    }
    results, _ = load(start_hub(folder / "serve.py"), tmp_path_factory.mktemp("hf-own"), *settings.values())
    return dict(zip(settings, results, strict=True))


def test_labels_without_names_are_ordered_and_minus_one_is_unknown(own):
    assert own["plain"]["labels"] == ["1", "3"]
    assert own["plain"]["splits"]["train"] == [4, {"text": "a", "text_pair": None, "label": 1}]
    assert own["plain"]["splits"]["test"][1]["label"] is None


def test_minus_one_is_a_label_if_training_uses_it_as_one(own):
    assert own["signed"]["labels"] == ["-1", "1"]
    assert own["signed"]["splits"]["test"][1]["label"] == 0


def test_lists_of_words_are_sentences_with_the_names_of_their_labels(own):
    assert own["tags"]["labels"] == ["O", "LOC"]
    assert own["tags"]["splits"] == {
        "train": [2, {"words": ["in", "Rome"], "labels": [0, 1]}],
        "test": [1, {"words": ["Oslo"], "labels": [1]}],
    }


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("holes", "me/own, split train, row 2"),
        ("no text", "dataset.text"),
        ("no configuration", "plain"),
        ("no split", "dataset.validation_split"),
        ("no test", "dataset.test_split"),
        ("no training", "dataset.train_split"),
        ("no further", "dataset.further_splits"),
        ("format", "dataset=files"),
        ("script", "script.py"),
        ("dots", "me/ow..n"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_row_or_the_setting(own, name, named):
    assert named in own[name]["error"] and "\n" not in own[name]["error"]


def test_a_local_folder_or_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews").mkdir()
    (tmp_path / "reviews" / "train.csv").write_text("text,label\na,b\n")
    with pytest.raises(SettingError, match="dataset=files"):
        HubDataset(path="reviews").load(tmp_path)
    with pytest.raises(SettingError, match="dataset=files"):
        HubDataset(path="/data/reviews.csv").load(tmp_path)


def test_a_further_split_named_as_a_main_one_is_refused():
    with pytest.raises(SettingError, match=r"dataset\.test_split"):
        HubDataset(path="me/own", further_splits=["test"])
