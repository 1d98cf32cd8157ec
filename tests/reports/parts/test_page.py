"""Pages: a single file that loads nothing, texts that cannot become markup, and pictures in the page's colours."""

import xml.etree.ElementTree as ET

import pytest
from jinja2 import UndefinedError
from matplotlib.figure import Figure

from encoderlab.reports.parts.page import page, picture, write_page


def drawn():
    figure = Figure(figsize=(4, 2))
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], label="a <label>")
    axes.set_xlabel("step")
    axes.legend()
    return figure


def test_a_page_can_load_nothing_and_escapes_its_values():
    html = page("base.html", title="<script>alert(1)</script>")
    assert "default-src 'none'" in html
    assert "<script>alert" not in html
    assert "&lt;script&gt;" in html
    assert "http://" not in html
    assert "https://" not in html


def test_a_name_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError, match="title"):
        page("base.html")


def test_a_page_is_written_in_utf_8(tmp_path):
    write_page(tmp_path / "report.html", "base.html", title="Grüße")
    assert "<title>Grüße</title>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_picture_is_well_formed_scalable_svg_without_black_or_background():
    figure = ET.fromstring(str(picture(drawn(), 'Loss "falls" & falls')))
    svg = figure[0]
    assert svg.get("aria-label") == 'Loss "falls" & falls'
    assert svg.get("width") is None
    assert svg.get("viewBox")
    text = ET.tostring(svg, encoding="unicode")
    assert "#000000" not in text
    assert "a &lt;label&gt;" in text
    assert "step" in "".join(svg.itertext())


def test_ids_differ_between_pictures_but_not_between_copies_of_one():
    def ids(description):
        return {
            node.get("id")
            for node in ET.fromstring(str(picture(drawn(), description))).iter()
            if node.tag.endswith("clipPath")
        }

    assert ids("one") == ids("one")
    assert not ids("one") & ids("another")
