"""encoderlab export format=web: a page that predicts in a browser what the run predicts, opened as a file.

Needs Chromium, and the JavaScript library as in test_export_transformers_js.
"""

import html
import re
import shutil
import subprocess

import pytest

import encoderlab
from encoderlab.errors import SettingError
from tests.commands.test_export_transformers_js import LIBRARY

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
MODULES = LIBRARY.parents[1]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LONG = 100_000_000  # milliseconds of the page's own time, which passes whenever it waits for nothing
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("symbolic_sizes")]


def shown(folder, *texts):
    """Return what the page predicts for texts that stand in its fields when it opens: a chance for each label."""
    page = (folder / "index.html").read_text(encoding="utf-8")
    for name, text in zip(("text", "text_pair"), texts, strict=False):
        page = re.sub(rf'(<textarea id="{name}"[^>]*>)', lambda field, text=text: field[1] + html.escape(text), page)
    (folder / "filled.html").write_text(page, encoding="utf-8")
    settings = ("--headless", "--no-sandbox", "--disable-gpu", f"--virtual-time-budget={LONG}", "--dump-dom")
    command = [CHROMIUM, *settings, (folder / "filled.html").as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    row = r'<div class="name">(.*?)</div>.*?<div class="chance">(.*?)%</div>'
    answers = re.findall(row, done.stdout)
    assert answers, done.stdout[-3000:]
    return {html.unescape(label): float(chance) / 100 for label, chance in answers}


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("brackets_run", ("(()) (",)),
        ("brackets_run", ("(" * 500,)),
        ("brackets_run", ("[MASK] ()",)),
        ("pairs_run", ("title 1", "body 2")),
        ("pairs_run", ("x " * 900, "title 3")),
    ],
)
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.skipif(not LIBRARY.is_dir(), reason=f"there is no {LIBRARY}")
def test_the_page_predicts_what_the_graph_predicts(command, tmp_path, request, kind, texts):
    run = request.getfixturevalue(kind)
    command("export", f"run={run}", "format=web", "path=there", f"library={MODULES}")
    command("export", f"run={run}", "format=int8", "path=int8")
    ours = encoderlab.load(tmp_path / "int8").predict([texts if len(texts) > 1 else texts[0]])[0]["probabilities"]
    assert shown(tmp_path / "there", *texts) == pytest.approx(ours, abs=0.011)


def test_words_and_a_library_that_npm_did_not_install_are_refused(command, reverse_run, brackets_run, tmp_path):
    with pytest.raises(SettingError, match=r"Run npm install --no-save --ignore-scripts @huggingface/transformers"):
        command("export", f"run={brackets_run}", "format=web", "path=there")
    parts = ("onnxruntime-web/dist/ort.wasm.bundle.min.mjs", "onnxruntime-web/dist/ort-wasm-simd-threaded.wasm")
    for part in (*parts, "@huggingface/tokenizers/dist/tokenizers.min.mjs"):
        path = tmp_path / "node_modules" / part
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
        (path.parents[1] / "package.json").write_text("{}")
    with pytest.raises(SettingError, match="labels each word"):
        command("export", f"run={reverse_run}", "format=web", "path=there")
    assert not (tmp_path / "there").exists()
