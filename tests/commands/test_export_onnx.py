"""encoderlab export format=onnx and int8: folders that need only numpy, onnxruntime and tokenizers, and predict as the
run does.
"""

import json
import os
import subprocess
import sys

import pytest

from encoderlab.apps.exporting import export
from encoderlab.errors import DataError, SettingError
from encoderlab.metrics.novelty import NOVELTY_FILE

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
FILES = [
    "README.md",
    "config.json",
    "manifest.json",
    "onnx",
    "predict.py",
    "tokenizer.json",
    "tokenizer_config.json",
]
TEXTS = {
    "brackets_run": [{"text": text} for text in ("(())", ")(", "(" * 500, "", "[MASK] ()", "()()" * 9)],
    "pairs_run": [{"title": a, "body": b} for a, b in (("title 1", "body 2"), ("x" * 900, "title 3"), ("", "body"))],
    "reverse_run": [{"text": text} for text in ("1 2 3", "7", "4 5 6 7 8 9 0 1 2 3")],
    "names_run": [{"text": text} for text in ("saw Ada Lovelace met New York", "Rome York Byron Rome Ada Lovelace")],
}
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
    command("predict", f"run={run}", f"input={path}", "format=jsonl", "precision=fp32", "probabilities=all")
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(("form", "closeness"), [("onnx", 1e-4), ("int8", 0.05)])
@pytest.mark.parametrize("kind", TEXTS)
def test_program_and_predict_say_of_the_folder_what_the_run_says(
    command, tmp_path, capsys, request, kind, form, closeness
):
    run, folder = request.getfixturevalue(kind), tmp_path / "there"
    command("export", f"run={run}", f"format={form}", "path=there")
    knows_training = (run / "model" / NOVELTY_FILE).is_file()
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [*FILES, *([NOVELTY_FILE] if knows_training else [])]
    )
    fields = json.loads((folder / "config.json").read_text(encoding="utf-8"))["graph"]
    assert fields["largest_difference"] <= fields["tolerance"] == 1e-4
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "library_name: onnx" in card and ("## 8 bits" in card) == (form == "int8")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in TEXTS[kind]))
    ours, opened = (predicted(command, capsys, name, "rows.jsonl") for name in (run, folder))
    program = answers_of_the_program(folder, ["\t".join(row.values()) for row in TEXTS[kind]])
    for mine, again, alone in zip(ours, opened, program, strict=True):
        if kind in ("brackets_run", "pairs_run"):
            assert again["probabilities"] == pytest.approx(mine["probabilities"], abs=closeness)
            assert alone["probabilities"] == pytest.approx(mine["probabilities"], abs=closeness)
        elif form == "onnx":
            assert " ".join(alone["predicted"]) == again["predicted"] == mine["predicted"]


def test_the_program_takes_its_number_of_threads_from_omp_num_threads(command, brackets_run, tmp_path):
    command("export", f"run={brackets_run}", "format=onnx", "path=there")
    reads = "import sys; sys.path.insert(0, 'there'); from pathlib import Path; import predict; "
    reads += "session = predict.session_of(Path('there/onnx/model.onnx')); "
    reads += "print(session.get_session_options().intra_op_num_threads)"
    for threads in ("1", "3"):
        environment = os.environ | {"OMP_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", reads], capture_output=True, text=True, check=True, env=environment
        )
        assert done.stdout.strip() == threads


def test_the_program_says_in_one_line_that_a_file_is_damaged(command, brackets_run, tmp_path):
    command("export", f"run={brackets_run}", "format=onnx", "path=there")
    folder = tmp_path / "there"
    assert answers_of_the_program(folder, ["()"])
    graph = (folder / "onnx" / "model.onnx").read_bytes()
    flipped = bytes([*graph[:-500], graph[-500] ^ 1, *graph[-499:]])
    harms = [("onnx/model.onnx", flipped), ("onnx/model.onnx", b""), ("tokenizer.json", b"{"), ("config.json", b"{}")]
    harms += [("manifest.json", content) for content in (b"", b"[1]", b"[" * 100_000)]
    for name, content in harms:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(content)
        done = subprocess.run(
            [sys.executable, folder / "predict.py", "()"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, len(done.stderr.splitlines()), done.stdout) == (1, 1, ""), done.stderr
        assert name.rpartition("/")[2] in done.stderr
        (folder / name).write_bytes(whole)
    (folder / "manifest.json").unlink()
    (folder / "config.json").write_text("{}")
    done = subprocess.run([sys.executable, folder / "predict.py", "()"], capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


def test_8_bits_are_smaller_and_what_changes_is_printed(command, brackets_run, tmp_path, capsys):
    for form in ("onnx", "int8"):
        command("export", f"run={brackets_run}", f"format={form}", f"path={form}")
    written = capsys.readouterr()
    assert "predictions change" in written.out
    assert ("Warning: with 8-bit weights" in written.err) == ("; 0 predictions change" not in written.out)
    graphs = [tmp_path / "onnx" / "onnx" / "model.onnx", tmp_path / "int8" / "onnx" / "model_quantized.onnx"]
    sizes = [graph.stat().st_size for graph in graphs]
    assert not any(b"encoderlab/network/" in graph.read_bytes() for graph in graphs)  # folders of the exporting machine
    assert sizes[1] < 0.85 * sizes[0]  # of which a part is the table of positions, which stays in 32 bits


def test_a_damaged_graph_what_needs_weights_and_what_a_graph_lacks_are_refused(command, brackets_run, tmp_path):
    command("export", f"run={brackets_run}", "format=onnx", "path=there")
    (tmp_path / "texts.txt").write_text("()\n", encoding="utf-8")
    for name, *arguments in (
        ("embed", "input=texts.txt", "output=vectors.npy"),
        ("attention", "text=()"),
        ("explain", "text=()"),
        ("export", "path=again"),
        ("export", "path=again", "format=int8"),
    ):
        with pytest.raises(DataError, match="contains an ONNX graph.*Use the run it was exported from"):
            command(name, "run=there", *arguments)
    for setting in ("device=mps", "precision=bf16"):
        with pytest.raises(SettingError, match=f"{setting} does not work with"):
            command("predict", "run=there", "text=()", setting)
    command("predict", "run=there", "text=()")  # of which nothing is kept that would answer for another graph
    (tmp_path / "there" / "onnx" / "model.onnx").write_bytes(b"no graph")
    with pytest.raises(DataError, match=r"damaged: onnx/model\.onnx"):
        command("predict", "run=there", "text=()")
    (tmp_path / "there" / "manifest.json").unlink()
    with pytest.raises(DataError, match=r"model\.onnx cannot be opened by onnxruntime"):
        command("predict", "run=there", "text=()")
    assert not (tmp_path / "again").exists()


def test_a_graph_that_disagrees_with_the_model_an_encoder_in_8_bits_and_missing_libraries_write_nothing(
    command, brackets_run, tmp_path, monkeypatch
):
    with pytest.raises(SettingError, match="is an encoder without predictions"):
        command("export", "run=mini-en", "format=int8", "path=there")
    monkeypatch.setattr("encoderlab.exchange.onnx.TOLERANCE", -1.0)
    with pytest.raises(DataError, match="The ONNX graph is wrong"):
        command("export", f"run={brackets_run}", "format=onnx", "path=there")
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    with pytest.raises(SettingError, match=r'format=onnx needs onnx.*pip install "encoderlab\[onnx'):
        command("export", f"run={brackets_run}", "format=onnx", "path=there")
    assert list(tmp_path.iterdir()) == []
