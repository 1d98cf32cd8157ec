"""What is copied into exported folders computes a linear model's outputs as the package does: predict.py, and the page's
JavaScript, for all n-grams, and for texts whose letters, blanks and cases languages disagree about.
"""

import json
import runpy
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from encoderlab.apps import exporting
from encoderlab.apps.exporting.exports import PREDICT
from encoderlab.linear.model import Setting, fit
from encoderlab.linear.ngrams import NGrams
from encoderlab.models.branch import LinearBranch, small

TEXTS = [
    *(
        "A warm, witty film!",
        "dull... dull, DULL",
        "",
        "a",
        "  \t ",
        "!!",
        "Größe STRASSE ß",
        "İstanbul ıssız ΣΟΦΟΣ σοφός",
    ),
    *(
        "one\x1ctwo\x85three\u00a0four\ufefffive",
        "日本語 の テキスト",
        "न्यूज़ हिन्दी",
        "😀😀 film 👩‍👩‍👧",
        "Ⅷ ½ x² ٣٤",
        "snake_case it's",
    ),
]
SETTINGS = {
    "words": Setting(NGrams("word", 1, 2)),
    "words and marks": Setting(NGrams("token", 1, 2)),
    "characters": Setting(NGrams("char_wb", 2, 5)),
    "words beside characters": Setting(NGrams("token", 1, 2, beside=NGrams("char_wb", 2, 5))),
    "raw counts": Setting(NGrams("token", 1, 3, sublinear=False)),
    "pairs as one text": Setting(NGrams("char_wb", 2, 5)),
    "pairs, compared": Setting(NGrams("token", 1, 2), compared=True),
}
NODE_PROGRAM = """
const { readFileSync } = require("node:fs");
const [folder, rows] = JSON.parse(process.argv[2]);
const bytes = new Uint8Array(readFileSync(folder + "/linear.safetensors")).buffer;
const model = linearModelOf(JSON.parse(readFileSync(folder + "/linear.json", "utf8")), bytes);
const outputs = rows.map(([text, pair]) => linearOutputs(model, text, pair ?? null));
console.log(JSON.stringify([outputs, pooledWith(model, [1, 2, 3], rows[0][0], rows[0][1] ?? null)]));
"""


@pytest.fixture(params=SETTINGS)
def fitted(request, tmp_path):
    """Rows, and the outputs for them of a branch of three classes, which is in a folder."""
    pairs = zip(TEXTS, reversed(TEXTS), strict=True)
    rows = list(pairs) if "pairs" in request.param else [(text,) for text in TEXTS]
    setting = SETTINGS[request.param]
    model = small(fit("label", rows, np.arange(len(rows)) % 3, 3, setting))
    LinearBranch(model, 0.25, 1.5, {}).write(tmp_path)
    return rows, model.outputs(rows)


def test_the_program_computes_what_the_package_computes(fitted, tmp_path):
    rows, expected = fitted
    program = runpy.run_path(str(PREDICT))
    linear = program["linear_model"](tmp_path)
    texts = [row[0] if len(row) == 1 else row for row in rows]
    assert np.array([program["linear_outputs"](linear, text) for text in texts]) == pytest.approx(expected, abs=1e-5)
    both = program["pooled"](np.ones((len(rows), 3)), linear, texts)
    assert both == pytest.approx((0.75 + 0.25 * expected) / 1.5, abs=1e-5)


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node")
def test_the_page_computes_what_the_package_computes(fitted, tmp_path):
    rows, expected = fitted
    templates = Path(exporting.__file__).with_name("templates")
    parts = [(templates / name).read_text(encoding="utf-8") for name in ("web.js", "web_words.js", "web_linear.js")]
    page = "const document = { getElementById: () => ({ addEventListener() {} }), body: { dataset: {} } };"
    (tmp_path / "page.js").write_text("\n".join([page, *parts, NODE_PROGRAM]), encoding="utf-8")
    arguments = ["node", tmp_path / "page.js", json.dumps([str(tmp_path), rows])]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    outputs, pooled = json.loads(done.stdout)
    assert np.array(outputs) == pytest.approx(expected, abs=1e-5)
    assert np.array(pooled) == pytest.approx((0.75 * np.array([1, 2, 3]) + 0.25 * expected[0]) / 1.5, abs=1e-5)
