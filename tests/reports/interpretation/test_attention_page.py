"""The attention page: its data are the weights, its size is bounded, and its main content needs no script."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from encoderlab.reports.interpretation import attention_page
from encoderlab.reports.interpretation.attention_heads import HeadSummary
from encoderlab.reports.interpretation.attention_page import write_attention_page


def maps(layers, heads, length):
    return np.random.default_rng(0).dirichlet(np.full(length, 0.2), size=(layers, heads, length))


def written(tmp_path, weights, tokens):
    summary = HeadSummary()
    summary.add("text", weights, np.array([token == "[SEP]" for token in tokens]))
    write_attention_page(tmp_path / "attention.html", "Where <they> look", weights, tokens, summary)
    return (tmp_path / "attention.html").read_text(encoding="utf-8")


def data_of(html):
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])
    n = len(data["tokens"])
    weights = np.frombuffer(base64.b64decode(data["weights"]), dtype=np.uint8)
    return data, weights.reshape(data["layers"], data["heads"], n, n) / 255


def test_the_data_are_the_weights_to_within_half_a_byte(tmp_path):
    weights, tokens = maps(2, 3, 5), ["[CLS]", "a", "<b>", "</script>", "[SEP]"]
    data, found = data_of(written(tmp_path, weights, tokens))
    assert data["tokens"] == tokens
    np.testing.assert_allclose(found, weights, atol=0.5 / 255 + 1e-9)


def test_maps_of_a_long_text_show_its_beginning_and_the_page_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(attention_page, "MOST_WEIGHTS", 2 * 3 * 4 * 4 + 5)
    weights = maps(2, 3, 9)
    html = written(tmp_path, weights, [f"w{place}" for place in range(9)])
    data, found = data_of(html)
    assert data["tokens"] == ["w0", "w1", "w2", "w3"]
    np.testing.assert_allclose(found, weights[..., :4, :4], atol=0.5 / 255 + 1e-9)
    assert "the first 4 of 9 tokens" in html
    assert ">w5<" not in html
    monkeypatch.setattr(attention_page, "MOST_TOKENS", 3)
    assert "the first 3 of 9 tokens" in written(tmp_path, weights, [f"w{place}" for place in range(9)])
    assert "of 9 tokens" not in written(tmp_path, weights[..., :3, :3], ["a", "b", "c"])


class WithoutScript(HTMLParser):
    """What a browser without scripts shows: pictures, table rows, hidden and requested elements."""

    def __init__(self, html):
        super().__init__()
        self.pictures, self.hidden, self.ids, self.rows, self.addresses = [], set(), set(), 0, []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.ids.add(found.get("id"))
        self.hidden |= {found.get("id")} if "hidden" in found else set()
        self.pictures += [found["aria-label"]] if tag == "svg" and "aria-label" in found else []
        self.rows += tag == "tr"
        self.addresses += [found[name] for name in ("src", "href", "xlink:href") if name in found]


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    return written(tmp_path_factory.mktemp("page"), maps(2, 3, 5), ["[CLS]", "$x^2$", "b", "c" * 30, "[SEP]"])


def test_without_a_script_the_page_shows_each_layer_and_the_figures_of_each_head(html):
    page = WithoutScript(html)
    assert "explorer" in page.hidden
    assert [picture.partition(":")[0] for picture in page.pictures] == ["Layer 1", "Layer 2"]
    assert page.rows == 1 + 2 * 3
    assert "Where &lt;they&gt; look" in html


def test_the_page_loads_nothing_and_its_script_finds_its_elements(html):
    page = WithoutScript(html)
    assert all(address.startswith(("data:", "#")) for address in page.addresses)
    assert set(re.findall(r'element\("(\w+)"\)', html)) <= page.ids
