"""encoderlab export format=onnx: a folder that onnxruntime and tokenizers alone read, with the answers of the run."""

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
pytestmark = [pytest.mark.usefixtures("symbolic_sizes"), pytest.mark.slow]


def answers_of_the_readme(folder, texts):
    """What the README's example prints for these texts, in a process that cannot import torch or encoderlab."""
    code = re.findall(r"```python\n(.*?)```", (folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)[-1]
    code = code.replace("path/to/this/folder", str(folder))
    code = re.sub(r"^texts = .*$", lambda _: f"texts = {texts!r}", code, flags=re.MULTILINE)
    block = "import sys\nsys.modules['torch'] = sys.modules['encoderlab'] = sys.modules['transformers'] = None\n"
    done = subprocess.run([sys.executable, "-c", block + code], capture_output=True, text=True, check=False)
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


def test_texts_are_answered_as_by_the_run_cut_and_padded(command, exported, brackets_run, tmp_path, capsys):
    folder = exported(brackets_run)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "config.json", "model.onnx", "tokenizer.json"]
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "library_name: onnx" in card and "encoderlab predict" not in card
    printed = capsys.readouterr()
    assert re.search(r"^there\nopset 18, checked with onnxruntime .*: off by \d\.\de-\d\d of the largest output", printed.out)
    said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert set(said["id2label"].values()) == {"balanced", "unbalanced"}
    assert (said["outputs"], said["opset"]) == (["logits"], 18)
    assert said["largest_difference"] <= said["tolerance"] == 1e-4
    texts = ["(())", ")(", "(" * 500, "", "[MASK] ()", "()()" * 9]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    ours, theirs = predicted(command, capsys, brackets_run, "rows.jsonl"), answers_of_the_readme(folder, texts)
    assert [answer["predicted"] for answer in theirs] == [answer["predicted"] for answer in ours]
    for mine, found in zip(ours, theirs, strict=True):
        assert found["probability"] == pytest.approx(max(mine["probabilities"].values()), abs=1e-4)


def test_pairs_are_answered_as_by_the_run(command, exported, pairs_run, tmp_path, capsys):
    folder = exported(pairs_run)
    pairs = [("title 1", "body 2"), ("x" * 900, "title 3"), ("", "body")]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"title": a, "body": b}) + "\n" for a, b in pairs))
    ours, theirs = predicted(command, capsys, pairs_run, "rows.jsonl"), answers_of_the_readme(folder, pairs)
    assert [answer["text"] for answer in theirs] == [list(pair) for pair in pairs]
    for mine, found in zip(ours, theirs, strict=True):
        assert found["probability"] == pytest.approx(max(mine["probabilities"].values()), abs=1e-4)


def test_words_are_answered_as_by_the_run(command, exported, reverse_run, tmp_path, capsys):
    folder = exported(reverse_run)
    texts = ["1 2 3", "7", "4 5 6 7 8 9 0 1 2 3"]
    (tmp_path / "rows.txt").write_text("\n".join(texts) + "\n")
    ours = predicted(command, capsys, reverse_run, "rows.txt")
    assert [answer["predicted"] for answer in answers_of_the_readme(folder, texts)] == [answer["predicted"] for answer in ours]


def test_a_graph_that_does_not_agree_is_not_left_behind(command, brackets_run, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_graph, "TOLERANCE", -1.0)
    with pytest.raises(DataError, match="The ONNX graph is wrong"):
        command("export", f"run={brackets_run}", "format=onnx", "path=there")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("missing", ["onnx", "onnxscript", "onnxruntime"])
def test_a_library_that_is_missing_is_named_with_what_to_install(command, brackets_run, tmp_path, monkeypatch, missing):
    find_spec = export.find_spec
    monkeypatch.setattr(export, "find_spec", lambda name: None if name == missing else find_spec(name))
    with pytest.raises(
        SettingError, match=rf'format=onnx needs {missing}, which is not installed\. Run pip install "encoderlab\[onnx'
    ):
        command("export", f"run={brackets_run}", "format=onnx", "path=there")
    assert list(tmp_path.iterdir()) == []
