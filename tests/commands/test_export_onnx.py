"""encoderlab export format=onnx: a folder that needs only onnxruntime and tokenizers, with the predictions of the run."""

import json
import re
import subprocess
import sys

import pytest

from encoderlab.commands import export
from encoderlab.errors import DataError, SettingError
from encoderlab.exchange import onnx_graph

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
FILES = [
    "README.md",
    "config.json",
    "manifest.json",
    "model.onnx",
    "predict.py",
    "tokenizer.json",
    "tokenizer_config.json",
]
pytestmark = [pytest.mark.usefixtures("symbolic_sizes"), pytest.mark.slow]


def answers_of_the_program(folder, texts):
    """Return what predict.py prints for these texts in a process that cannot import torch or encoderlab."""
    block = "import sys; sys.modules['torch'] = sys.modules['encoderlab'] = sys.modules['transformers'] = None; import runpy; "
    code = f"{block}runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, folder / "predict.py", *texts], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def predicted(command, capsys, run, path):
    capsys.readouterr()
    command("predict", f"run={run}", f"input={path}", "format=jsonl", "precision=fp32")
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def exported(command, tmp_path):
    def export_it(run):
        command("export", f"run={run}", "format=onnx", "path=there")
        return tmp_path / "there"

    return export_it


def test_texts_are_predicted_as_by_the_run_with_truncation_and_padding(
    command, exported, brackets_run, tmp_path, capsys
):
    folder = exported(brackets_run)
    assert sorted(path.name for path in folder.iterdir()) == FILES
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "library_name: onnx" in card
    printed = capsys.readouterr()
    assert re.search(
        r"^there\nopset 20, checked with onnxruntime .*: off by \d\.\de-\d\d of the largest output", printed.out
    )
    fields = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert set(fields["id2label"].values()) == {"balanced", "unbalanced"}
    assert (fields["outputs"], fields["opset"]) == (["logits"], 20)
    assert fields["largest_difference"] <= fields["tolerance"] == 1e-4
    texts = ["(())", ")(", "(" * 500, "", "[MASK] ()", "()()" * 9]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    ours, theirs = predicted(command, capsys, brackets_run, "rows.jsonl"), answers_of_the_program(folder, texts)
    assert [answer["predicted"] for answer in theirs] == [answer["predicted"] for answer in ours]
    for mine, found in zip(ours, theirs, strict=True):
        assert found["probabilities"] == pytest.approx(mine["probabilities"], abs=1e-4)


def test_pairs_are_predicted_as_by_the_run(command, exported, pairs_run, tmp_path, capsys):
    folder = exported(pairs_run)
    pairs = [("title 1", "body 2"), ("x" * 900, "title 3"), ("", "body")]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"title": a, "body": b}) + "\n" for a, b in pairs))
    ours, theirs = (
        predicted(command, capsys, pairs_run, "rows.jsonl"),
        answers_of_the_program(folder, ["\t".join(pair) for pair in pairs]),
    )
    for mine, found in zip(ours, theirs, strict=True):
        assert found["probabilities"] == pytest.approx(mine["probabilities"], abs=1e-4)


def test_words_are_predicted_as_by_the_run(command, exported, reverse_run, tmp_path, capsys):
    folder = exported(reverse_run)
    texts = ["1 2 3", "7", "4 5 6 7 8 9 0 1 2 3"]
    (tmp_path / "rows.txt").write_text("\n".join(texts) + "\n")
    ours = predicted(command, capsys, reverse_run, "rows.txt")
    assert [" ".join(answer["predicted"]) for answer in answers_of_the_program(folder, texts)] == [
        answer["predicted"] for answer in ours
    ]


@pytest.mark.parametrize("kind", ["brackets_run", "pairs_run", "reverse_run"])
def test_encoderlab_opens_the_folder(command, exported, tmp_path, capsys, request, kind):
    run = request.getfixturevalue(kind)
    folder = exported(run)
    scores = {}
    for name in (run, folder):
        command("eval", f"run={name}", f"run_dir={name.name}_scored", "precision=fp32")
        scores[name] = json.loads((tmp_path / f"{name.name}_scored" / "report.json").read_text(encoding="utf-8"))
    ours, theirs = ({split: part["loss"] for split, part in report["splits"].items()} for report in scores.values())
    assert theirs == pytest.approx(ours, abs=1e-4)
    assert scores[run]["model"] == scores[folder]["model"]
    command("verify", f"run={folder}")
    assert "onnxruntime opens it" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ("embed", "input=texts.txt", "output=vectors.npy"),
        ("attention", "text=()"),
        ("explain", "text=()"),
        ("export", "path=again"),
        ("export", "path=again", "format=int8"),
    ],
)
def test_commands_that_need_weights_are_refused_in_one_line(command, exported, brackets_run, tmp_path, arguments):
    folder = exported(brackets_run)
    (tmp_path / "texts.txt").write_text("()\n", encoding="utf-8")
    with pytest.raises(DataError, match="contains an ONNX graph.*Use the run it was exported from"):
        command(arguments[0], f"run={folder}", *arguments[1:])
    assert not (tmp_path / "again").exists()


def test_a_device_and_a_precision_the_graph_lacks_are_refused(command, exported, brackets_run):
    folder = exported(brackets_run)
    with pytest.raises(SettingError, match="device=mps does not work with"):
        command("predict", f"run={folder}", "text=()", "device=mps")
    with pytest.raises(SettingError, match="precision=bf16 does not work with"):
        command("predict", f"run={folder}", "text=()", "precision=bf16")


def test_a_damaged_graph_is_one_line(command, exported, brackets_run):
    folder = exported(brackets_run)
    (folder / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(DataError, match=r"model\.onnx cannot be opened by onnxruntime.*Export it again"):
        command("predict", f"run={folder}", "text=()")


def test_a_graph_that_disagrees_with_the_model_is_deleted(command, brackets_run, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_graph, "TOLERANCE", -1.0)
    with pytest.raises(DataError, match="The ONNX graph is wrong"):
        command("export", f"run={brackets_run}", "format=onnx", "path=there")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_library_is_named_with_its_extra(command, brackets_run, tmp_path, monkeypatch, missing):
    find_spec = export.find_spec
    monkeypatch.setattr(export, "find_spec", lambda name: None if name == missing else find_spec(name))
    with pytest.raises(
        SettingError, match=rf'format=onnx needs {missing}, which is not installed\. Run pip install "encoderlab\[onnx'
    ):
        command("export", f"run={brackets_run}", "format=onnx", "path=there")
    assert list(tmp_path.iterdir()) == []
