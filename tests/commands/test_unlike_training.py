"""unlike_training: no label for a text unlike those that a model was trained on, wherever it predicts."""

import csv
import io
import json
import pickle
import subprocess
import sys

import pytest

import encoderlab
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics.novelty import NOVELTY_FILE
from tests.commands.test_export_transformers_js import LIBRARY
from tests.commands.test_export_web import CHROMIUM, MODULES, opened

TEXTS = {
    "refund": ["I want my money back", "please refund my order", "refund the broken kettle", "return my payment"],
    "delivery": ["where is my parcel", "the package has not arrived", "when will it be delivered", "track my order"],
    "account": ["reset my password", "I cannot log in", "change my e-mail address", "close my account"],
}
WAYS = ["{}", "{}, please", "hello, {}", "{} today", "good morning, {}", "{} thanks", "{}!", "again: {}", "so, {}"]
FOREIGN = "the aperture of this old film camera sticks at f/8 in cold weather"


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def tickets_run(tmp_path_factory, cache, run_in):
    """A finished run on support tickets: logistic regression on the vectors of mini-en, which takes seconds."""
    folder = tmp_path_factory.mktemp("tickets")
    rows = [(way.format(text), label) for way in WAYS for label, texts in TEXTS.items() for text in texts]
    with (folder / "tickets.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    settings = ("training.freeze_layers=all", "baselines=false", "training.threads=1")
    run_in(cache, "finetune", folder / "tickets.csv", *settings, f"run_dir={folder / 'run'}")
    return folder / "run"


@pytest.fixture(scope="module")
def windows_run(tmp_path_factory, cache, run_in, tickets_run):
    """The same with texts that are read in windows."""
    folder = tmp_path_factory.mktemp("windows")
    settings = ("training.freeze_layers=all", "baselines=false", "training.threads=1", "task.windows=mean")
    rows = tickets_run.parent / "tickets.csv"
    run_in(cache, "finetune", rows, *settings, "model.max_length=8", f"run_dir={folder / 'run'}")
    return folder / "run"


def test_a_text_unlike_training_gets_no_label_and_the_reason(command, tickets_run, tmp_path, capsys):
    texts = ["refund my order", FOREIGN, " "]
    (tmp_path / "new.csv").write_text("text\n" + "".join(f'"{text}"\n' for text in texts), encoding="utf-8")
    command("predict", f"run={tickets_run}", "new.csv", "unlike_training=0.05")
    like, unlike, blank = rows_of(capsys.readouterr().out)
    assert [*like] == ["text", "predicted", "probability", "reason"]
    assert like["predicted"] == "refund" and like["reason"] == ""
    assert unlike["predicted"] == "" and unlike["reason"] == "unlike training" and unlike["probability"]
    assert blank["predicted"] == "" and blank["reason"] == ""


def test_without_the_setting_every_text_gets_a_label_as_before(command, tickets_run, tmp_path, capsys):
    (tmp_path / "new.csv").write_text(f'text\n"{FOREIGN}"\n', encoding="utf-8")
    command("predict", f"run={tickets_run}", "new.csv")
    (row,) = rows_of(capsys.readouterr().out)
    assert [*row] == ["text", "predicted", "probability"] and row["predicted"] in TEXTS


def test_a_terminal_shows_the_reason_in_place_of_the_label(command, tickets_run, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    command("predict", f"run={tickets_run}", f"text={FOREIGN}", "unlike_training=0.05")
    assert capsys.readouterr().out.startswith("unlike training  (")


def test_uncertain_texts_are_told_from_unlike_ones(command, tickets_run, tmp_path, capsys):
    (tmp_path / "new.csv").write_text(f'text\n"{FOREIGN}"\nrefund my order\n', encoding="utf-8")
    command("predict", f"run={tickets_run}", "new.csv", "unlike_training=0.05", "min_probability=1")
    rows = rows_of(capsys.readouterr().out)
    assert [row["reason"] for row in rows] == ["unlike training", "unsure"]
    assert {row["predicted"] for row in rows} == {""}


def test_python_and_the_service_give_the_same_reason(tickets_run):
    pytest.importorskip("starlette", reason="the extra serve is not installed")
    from starlette.testclient import TestClient

    from encoderlab.apps.serving.serve import web_service
    from encoderlab.system.http_service import LOOPBACK

    model = encoderlab.load(tickets_run, device="cpu")
    like, unlike = model.predict(["refund my order", FOREIGN], unlike_training=0.05)
    assert like["predicted"] == "refund" and like["reason"] is None
    assert unlike["predicted"] is None and unlike["reason"] == "unlike training"
    assert sum(unlike["probabilities"].values()) == pytest.approx(1)
    assert [*model.predict(FOREIGN)[0]] == ["predicted", "probabilities"]
    copied = pickle.loads(pickle.dumps(model))
    assert copied.predict(FOREIGN, unlike_training=0.05)[0]["reason"] == "unlike training"

    service = web_service(model, model.abstention(unlike_training=0.05), LOOPBACK)
    client = TestClient(service, base_url="http://127.0.0.1")
    (served,) = client.post("/predict", json={"text": FOREIGN}).json()["predictions"]
    assert served["predicted"] is None and served["reason"] == "unlike training"


def test_the_stated_share_of_held_out_rows_is_lost(command, brackets_run, capsys):
    for share in (0.05, 0.3):
        capsys.readouterr()
        command("predict", f"run={brackets_run}", "split=validation", "format=jsonl", f"unlike_training={share}")
        reasons = [json.loads(line)["reason"] for line in capsys.readouterr().out.splitlines()]
        assert len(reasons) >= 100
        assert reasons.count("unlike training") / len(reasons) == pytest.approx(share, abs=0.02)


def test_what_is_kept_is_small_holds_no_text_and_is_checked(command, tickets_run, tmp_path):
    content = (tickets_run / "model" / NOVELTY_FILE).read_bytes()
    assert len(content) < 2**20 and b"refund" not in content
    copied = tmp_path / "copy"
    copied.mkdir()
    for file in (tickets_run / "model").iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    (copied / NOVELTY_FILE).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(DataError, match=NOVELTY_FILE):
        command("predict", f"run={copied}", "text=refund my order")


def test_models_that_know_nothing_of_their_training_texts_refuse(command, reverse_run, pairs_run, tickets_run):
    with pytest.raises(SettingError, match="unlike_training"):
        command("predict", f"run={reverse_run}", "text=1 2 3", "unlike_training=0.05")
    with pytest.raises(SettingError, match="unlike_training"):
        command("predict", f"run={pairs_run}", "text=a", "text_pair=b", "unlike_training=0.05")
    with pytest.raises(SettingError, match="between 0 and 1"):
        encoderlab.load(tickets_run, device="cpu").predict("a", unlike_training=5)


@pytest.mark.slow
@pytest.mark.usefixtures("symbolic_sizes")
@pytest.mark.parametrize("kind", ["onnx", "int8"])
def test_an_exported_graph_tells_them_too(command, tickets_run, tmp_path, kind):
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    command("export", f"run={tickets_run}", f"format={kind}", "path=exported")
    texts = ["refund my order", FOREIGN, " "]
    graph = encoderlab.load(tmp_path / "exported")
    reasons = [answer["reason"] for answer in graph.predict(texts, unlike_training=0.05)]
    assert reasons == [None, "unlike training", None]

    program = [sys.executable, str(tmp_path / "exported" / "predict.py")]
    printed = subprocess.run([*program, "--unlike-training=0.05", *texts], capture_output=True, text=True, check=True)
    answers = [json.loads(line) for line in printed.stdout.splitlines()]
    assert [answer["reason"] for answer in answers] == reasons
    assert [answer["predicted"] for answer in answers] == ["refund", None, None]
    printed = subprocess.run([*program, FOREIGN], capture_output=True, text=True, check=True)
    without = json.loads(printed.stdout)
    assert without["predicted"] in TEXTS and "reason" not in without


@pytest.mark.slow
@pytest.mark.usefixtures("symbolic_sizes")
def test_the_exported_program_refuses_what_it_cannot_do_in_one_line(command, tickets_run, windows_run, tmp_path):
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
    command("export", f"run={tickets_run}", "format=onnx", "path=exported")
    command("export", f"run={windows_run}", "format=onnx", "path=windowed")

    def answered(folder, *arguments):
        program = [sys.executable, str(tmp_path / folder / "predict.py"), *arguments]
        return subprocess.run(program, capture_output=True, text=True, check=False)

    for share in ("5", "0", "nan", "many"):
        refused = answered("exported", f"--unlike-training={share}", "refund my order")
        assert refused.returncode == 1 and len(refused.stderr.splitlines()) == 1 and not refused.stdout
    refused = answered("windowed", "--unlike-training=0.05", "a text")
    assert refused.returncode == 1 and "windows" in refused.stderr
    assert "reason" in encoderlab.load(tmp_path / "windowed").predict("a text", unlike_training=0.05)[0]
    assert json.loads(answered("exported", "-refund my order").stdout)["text"] == "-refund my order"
    novelty = tmp_path / "exported" / NOVELTY_FILE
    novelty.write_bytes(novelty.read_bytes()[:100])
    assert NOVELTY_FILE in answered("exported", "--unlike-training=0.05", "refund my order").stderr
    novelty.unlink()
    assert len(answered("exported", "--unlike-training=0.05", "refund my order").stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.usefixtures("symbolic_sizes")
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.skipif(not LIBRARY.is_dir(), reason=f"there is no {LIBRARY}")
def test_a_page_tells_them_too(command, tickets_run, tmp_path):
    command("export", f"run={tickets_run}", "format=web", "path=exported", f"library={MODULES}")
    note = '<p class="bad">This text is unlike'
    assert note in opened(tmp_path / "exported", FOREIGN)
    like = opened(tmp_path / "exported", "refund my order")
    assert note not in like and '<div class="headline">refund</div>' in like


def test_an_export_without_unlike_training_says_so(command, tickets_run, capsys):
    command("export", f"run={tickets_run}", "format=huggingface", "path=exported")
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "unlike_training" in line]
    assert "every text gets a label" in line
