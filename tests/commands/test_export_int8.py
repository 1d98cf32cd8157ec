"""encoderlab export format=int8: an 8-bit graph that is compared with the run before it is written, and opened as any
run.
"""

import csv
import json
import re
import subprocess
import venv

import numpy as np
import pytest

from encoderlab.errors import DataError, SettingError
from encoderlab.runs.inference import int8_check
from tests.commands.test_export_onnx import FILES, answers_of_the_program, predicted

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
pytestmark = [pytest.mark.usefixtures("symbolic_sizes"), pytest.mark.slow]


def test_both_names_write_the_same_graph_and_the_card_describes_the_difference(command, brackets_run, tmp_path, capsys):
    command("export", f"run={brackets_run}", "format=int8", "path=short")
    summary = capsys.readouterr().out.splitlines()[-1]
    command("export", f"run={brackets_run}", "format=onnx", "precision=int8", "path=long")
    short, long = tmp_path / "short", tmp_path / "long"
    assert sorted(path.name for path in short.iterdir()) == FILES
    assert (short / "model.onnx").read_bytes() == (long / "model.onnx").read_bytes()
    assert re.fullmatch(
        r"8 bits: [\d.]+ MB reduced to [\d.]+ MB; on \d+ rows of test [\d.]+% of the predictions agree, and a probability changes by at most "
        r"0\.\d+; accuracy 0\.\d+ before, 0\.\d+ after; [\d,]+ texts per second before, [\d,]+ after",
        summary,
    )
    card = (short / "README.md").read_text(encoding="utf-8")
    assert "## 8 bits" in card and re.search(r"\| accuracy on test \| 0\.\d+ \| 0\.\d+ \|", card)
    assert json.loads((short / "config.json").read_text(encoding="utf-8"))["precision"] == "int8"


@pytest.mark.parametrize("kind", ["brackets_run", "pairs_run"])
def test_the_exported_folder_predicts_as_the_run_does(command, tmp_path, capsys, request, kind):
    run = request.getfixturevalue(kind)
    command("export", f"run={run}", "format=int8", "path=small")
    texts = [("()", "a"), ("((" * 20, "b"), (")(", "c")]
    columns = ("title", "body") if kind == "pairs_run" else ("text",)
    (tmp_path / "rows.jsonl").write_text(
        "".join(json.dumps(dict(zip(columns, text, strict=False))) + "\n" for text in texts), encoding="utf-8"
    )
    before, after = (predicted(command, capsys, name, "rows.jsonl") for name in (run, tmp_path / "small"))
    program = answers_of_the_program(tmp_path / "small", ["\t".join(text[: len(columns)]) for text in texts])
    for mine, small, alone in zip(before, after, program, strict=True):
        assert small["probabilities"] == pytest.approx(mine["probabilities"], abs=0.05)
        assert alone["probabilities"] == pytest.approx(mine["probabilities"], abs=0.05)


def test_words_are_compared_too(command, reverse_run, tmp_path, capsys):
    command("export", f"run={reverse_run}", "format=int8", "path=small")
    assert "token accuracy" in capsys.readouterr().out.splitlines()[-1]
    command("eval", "run=small", "run_dir=scored")
    assert (tmp_path / "scored" / "predictions.csv").exists()


def test_a_graph_that_loses_too_much_accuracy_is_not_written(command, brackets_run, tmp_path, monkeypatch):
    monkeypatch.setattr(int8_check, "LARGEST_LOSS", -1.0)
    with pytest.raises(
        DataError,
        match=r"In 8 bits, accuracy on test changes from .* Allowed: a loss of at most .* nothing was written",
    ):
        command("export", f"run={brackets_run}", "format=int8", "path=there")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [("format=huggingface", "precision=int8"), ("format=compact", "precision=fp32"), ("format=int8", "precision=fp32")],
)
def test_a_precision_the_format_lacks_is_refused(command, brackets_run, tmp_path, arguments):
    with pytest.raises(SettingError, match=r"does not support precision=.*format=onnx with fp32 or int8"):
        command("export", f"run={brackets_run}", *arguments, "path=there")
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_is_refused(command, tmp_path):
    with pytest.raises(SettingError, match="is an encoder without predictions"):
        command("export", "run=mini-en", "format=int8", "path=there")
    assert list(tmp_path.iterdir()) == []


def test_the_program_needs_only_numpy_onnxruntime_and_tokenizers(command, brackets_run, tmp_path):
    command("export", f"run={brackets_run}", "format=int8", "path=small")
    venv.create(tmp_path / "alone", with_pip=True)
    python = tmp_path / "alone" / "bin" / "python"
    needed = [f"numpy=={np.__version__}", "onnxruntime", "tokenizers"]
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needed]
    installed = subprocess.run(install, capture_output=True, text=True, check=False)
    if installed.returncode:
        pytest.skip(f"the packages cannot be had: {installed.stderr.strip().splitlines()[-1]}")
    (tmp_path / "texts.txt").write_text("()\n)(\n", encoding="utf-8")
    with (tmp_path / "texts.txt").open(encoding="utf-8") as texts:
        done = subprocess.run(
            [python, "small/predict.py"], stdin=texts, capture_output=True, text=True, check=False, env={}
        )
    assert done.returncode == 0, done.stderr
    command("predict", "run=small", "input=texts.txt", "output=answers.csv")
    ours = list(csv.DictReader((tmp_path / "answers.csv").open(encoding="utf-8")))
    alone = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["predicted"] for answer in alone] == [row["predicted"] for row in ours]
