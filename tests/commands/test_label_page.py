"""The page of encoderlab label in Chromium, by keyboard: digits, a typed search, a new label, skip and undo."""

import json
import os

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from tests.browser import CHROMIUM, window
from tests.commands.test_label import LABEL_OF, TOPICS, opened  # noqa: F401  a fixture

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
    pytest.mark.skipif(os.name != "posix", reason="its pipe is that of POSIX"),
    pytest.mark.slow,
]


def journal(tmp_path):
    lines = (tmp_path / "texts-labelled.csv.journal").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def answers(tmp_path):
    return [(entry["texts"][0], entry["label"]) for entry in journal(tmp_path) if entry["kind"] == "answer"]


def test_an_afternoon_by_keyboard(opened, tmp_path):  # noqa: F811
    page = opened(f"labels=[{','.join(TOPICS)}]")
    pictures = os.environ.get("LABEL_PICTURES")
    with window(tmp_path / "profile") as browser:
        browser.size(1280, 800)
        browser.open(page.address)

        # Digits choose, space skips, backspace takes back.
        first = browser.answered("2")
        assert answers(tmp_path) == [(first, [*TOPICS][1])]
        skipped = browser.answered(" ")
        assert answers(tmp_path)[-1] == (skipped, None)
        browser.answered("Backspace")
        assert browser.text() == skipped and journal(tmp_path)[-1]["kind"] == "undo"

        # Letters search; what is typed in the field is neither a digit's label, nor a space, nor undone.
        browser.answered("u", "s", "Enter")
        assert answers(tmp_path)[-1] == (skipped, "music")
        for key in "top 10x":
            browser.press(key)
        browser.press("Backspace")
        assert browser.value("search.value") == "top 10" and len(answers(tmp_path)) == 3
        new = browser.answered("Enter")
        assert answers(tmp_path)[-1] == (new, "top 10")
        browser.press("q")
        browser.press("Escape")
        fourth = browser.answered("4")
        assert answers(tmp_path)[-1] == (fourth, "top 10")

        # A key that is held down is one answer.
        held = browser.text()
        for _ in range(3):
            of_key = {"key": "1", "code": "Digit1", "windowsVirtualKeyCode": 49, "text": "1"}
            browser.call("Input.dispatchKeyEvent", type="keyDown", autoRepeat=browser.text() != held, **of_key)
            browser.until("!busy")
        assert [text for text, _ in answers(tmp_path)].count(held) == 1 and len(answers(tmp_path)) == 6

        for _ in range(20):
            topic = LABEL_OF[browser.text()]
            browser.answered(str([*TOPICS].index(topic) + 1))
        assert browser.value("document.querySelectorAll('#curve polyline').length") == 1
        assert browser.value("at('command').textContent") == "encoderlab finetune texts-labelled.csv"
        for name, width, height in (("desktop", 1280, 800), ("phone", 400, 800)):
            browser.size(width, height)
            assert browser.value("document.documentElement.scrollWidth") <= width
            buttons = (
                "[...document.querySelectorAll('#labels button')].every(b => b.getBoundingClientRect().bottom <= 800)"
            )
            assert browser.value(buttons), f"labels are out of sight on a {name}"
            if pictures:
                browser.picture(f"{pictures}/{name}.png")

        # Loaded again, it shows the same text; without a server, it says so and loses nothing.
        text = browser.text()
        browser.open(page.address)
        assert browser.text() == text
        before = answers(tmp_path)
        page.process.kill()
        page.process.wait()
        browser.press("1")
        browser.until("!busy && at('note').className === 'bad'")
        assert browser.text() == text and answers(tmp_path) == before


def test_several_labels_by_keyboard(opened, tmp_path):  # noqa: F811
    page = opened(f"labels=[{','.join(TOPICS)}]", "several=true")
    with window(tmp_path / "chromium") as browser:
        browser.open(page.address)
        one = browser.answered("1", "3", "Enter")
        two = browser.answered("2", "2", "Enter")
        three = browser.answered(*"new", "Enter", "1", "Enter")
        browser.press("2")
        assert browser.value("document.querySelectorAll('[aria-pressed=true]').length") == 1
        if os.environ.get("LABEL_PICTURES"):
            browser.picture(f"{os.environ['LABEL_PICTURES']}/several.png")
    first, _, third = TOPICS
    assert answers(tmp_path) == [(one, f"{first}|{third}"), (two, ""), (three, f"{first}|new")]
