"""encoderlab explain: the words and their scores on standard output, as a page and as figures, for texts and pairs."""

import html
import json
import re


def passage_of(page):
    """Return the text whose words a page marks."""
    (marked,) = re.findall(r"<bdi>(.*?)</bdi>", page, re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", marked))


def test_each_word_is_printed_with_its_score_and_written_as_page_and_figures(command, brackets_run, tmp_path, capsys):
    command("explain", f"run={brackets_run}", "text=( [ ] )", "run_dir=why")
    printed = capsys.readouterr()
    assert "why/explain.html" in printed.err
    (figures,) = json.loads((tmp_path / "why" / "explain.json").read_text())
    assert [word["word"] for word in figures["words"] if word["word"].strip()] == ["(", "[", "]", ")"]
    assert (
        figures["explained"] == figures["predicted"] == max(figures["probabilities"], key=figures["probabilities"].get)
    )
    assert {"config.yaml", "environment.json"} <= {path.name for path in (tmp_path / "why").iterdir()}
    assert passage_of((tmp_path / "why" / "explain.html").read_text()) == "( [ ] )"


def test_predict_and_explain_agree_on_the_answer(command, brackets_run, tmp_path, printed):
    predicted = printed("predict", f"run={brackets_run}", "text=(((", "format=jsonl", "precision=fp32")
    command("explain", f"run={brackets_run}", "text=(((", "run_dir=why")
    (figures,) = json.loads((tmp_path / "why" / "explain.json").read_text())
    assert figures["predicted"] == predicted["predicted"]


def test_rows_of_a_split_and_a_chosen_class_are_explained(command, pairs_run, tmp_path, capsys):
    chosen = ("split=test", "rows=[0,2]", "label=down")
    command("explain", f"run={pairs_run}", *chosen, "run_dir=why")
    found = json.loads((tmp_path / "why" / "explain.json").read_text())
    assert [one["name"] for one in found] == ["test-0", "test-2"]
    assert {one["explained"] for one in found} == {"down"}
    assert {word["text"] for word in found[0]["words"]} == {0, 1}
    page = (tmp_path / "why" / "explain.html").read_text()
    assert page.count("supports down") == 2
    assert ("which the model did not predict" in page) == any(one["predicted"] != "down" for one in found)
    assert "supports down" in capsys.readouterr().out


def test_markup_in_a_text_is_escaped(command, brackets_run, tmp_path, capsys):
    command("explain", f"run={brackets_run}", "text=<script>alert(1)</script>[red]", "run_dir=why")
    written = (tmp_path / "why" / "explain.html").read_text()
    assert "<script" not in written
    assert passage_of(written) == "<script>alert(1)</script>[red]"
    assert "<script>alert(1)</script>[red]" in capsys.readouterr().out
