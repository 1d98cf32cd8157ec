"""encoderlab export format=web: a page that predicts in a browser what the run predicts, opened as a file.

Needs Chromium, and the JavaScript library as in test_export_transformers_js.
"""

import html
import re
import shutil
import subprocess

import pytest

import encoderlab
from tests.commands.test_export_transformers_js import LIBRARY

pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
MODULES = LIBRARY.parents[1]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
LONG = 100_000_000  # milliseconds of the page's own time, which passes whenever it waits for nothing
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("symbolic_sizes")]


def opened(folder, *texts):
    """Return the page's document once it has predicted the texts that are in its fields when it opens."""
    page = (folder / "index.html").read_text(encoding="utf-8")
    for name, text in zip(("text", "text_pair"), texts, strict=False):
        page = re.sub(rf'(<textarea id="{name}"[^>]*>)', lambda field, text=text: field[1] + html.escape(text), page)
    (folder / "filled.html").write_text(page, encoding="utf-8")
    settings = ("--headless", "--no-sandbox", "--disable-gpu", f"--virtual-time-budget={LONG}", "--dump-dom")
    command = [CHROMIUM, *settings, (folder / "filled.html").as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120).stdout


def shown(folder, *texts):
    """Return what the page predicts for texts: a chance for each label."""
    document = opened(folder, *texts)
    row = r'<div class="name">(.*?)</div>.*?<div class="chance">(.*?)%</div>'
    answers = re.findall(row, document)
    assert answers, document[-3000:]
    return {html.unescape(label): float(chance) / 100 for label, chance in answers}


def words_in(document):
    """Return each word that a page shows with its label, or None if it was not read."""
    words = re.findall(r'<span class="word-tag">(.*?)<(?:b|small) class="(.*?)">(.*?)</', document)
    assert words, document[-3000:]
    return [(html.unescape(word), html.unescape(label) if kind == "label" else None) for word, kind, label in words]


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


SENTENCES = {
    "names_run": ("saw Ada Lovelace met\u00a0New York , saw [MASK] \x01 York <b> met", "Rome York Byron " * 40),
    "reverse_run": ("1 2 3", "7 " * 40),
}


@pytest.mark.parametrize("kind", SENTENCES)
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")
@pytest.mark.skipif(not LIBRARY.is_dir(), reason=f"there is no {LIBRARY}")
def test_the_page_labels_each_word_as_the_graph_does(command, tmp_path, request, kind):
    run = request.getfixturevalue(kind)
    command("export", f"run={run}", "format=web", "path=there", f"library={MODULES}")
    command("export", f"run={run}", "format=int8", "path=int8")
    graph = encoderlab.load(tmp_path / "int8")
    for sentence in SENTENCES[kind]:
        ours = graph.predict([sentence])[0]["predicted"]
        words = sentence.split()
        unread = len(words) - len(ours)
        document = opened(tmp_path / "there", sentence)
        assert words_in(document) == [*zip(words, [*ours, *[None] * unread], strict=True)]
        assert ("the rest is left out" in re.sub(r"(?s)<script.*?</script>", "", document)) == (unread > 0)
        begun = sum(label.startswith("B-") for label in ours)
        assert document.count('<span class="entity">') == begun, "each entity has a box"
