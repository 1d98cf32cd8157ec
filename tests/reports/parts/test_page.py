"""page: one file that loads nothing, whose texts cannot become markup, and whose pictures take the page's colours."""

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


def test_a_page_may_load_nothing_and_escapes_what_it_is_given():
    said = page("base.html", title="<script>alert(1)</script>")
    assert "default-src 'none'" in said
    assert "<script>alert" not in said
    assert "&lt;script&gt;" in said
    assert "http://" not in said
    assert "https://" not in said


def test_a_name_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError, match="title"):
        page("base.html")


def test_a_page_is_written_in_utf_8(tmp_path):
    write_page(tmp_path / "report.html", "base.html", title="Grüße")
    assert "<title>Grüße</title>" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_picture_is_well_formed_svg_that_scales_and_has_no_black_and_no_ground_of_its_own():
    figure = ET.fromstring(str(picture(drawn(), 'Loss "falls" & falls')))
    svg = figure[0]
    assert svg.get("aria-label") == 'Loss "falls" & falls'
    assert svg.get("width") is None
    assert svg.get("viewBox")
    text = ET.tostring(svg, encoding="unicode")
    assert "#000000" not in text
    assert "a &lt;label&gt;" in text
    assert "step" in "".join(svg.itertext())


def test_the_ids_of_two_pictures_differ_and_those_of_one_do_not():
    def ids(description):
        return {
            node.get("id") for node in ET.fromstring(str(picture(drawn(), description))).iter() if node.tag.endswith("clipPath")
        }

    assert ids("one") == ids("one")
    assert not ids("one") & ids("another")
