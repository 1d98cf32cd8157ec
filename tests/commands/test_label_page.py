"""The page of encoderlab label in Chromium, by keyboard: digits, a typed search, a new label, skip and undo.

Chromium is told what to do through its own pipe, as its DevTools are: nothing else needs to be installed.
"""

import base64
import json
import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from tests.commands.test_label import LABEL_OF, TOPICS, opened  # noqa: F401  a fixture

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SECONDS = 60  # that a reply of the browser may take
KEYS = {
    " ": ("Space", 32, " "),
    "Backspace": ("Backspace", 8, ""),
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
}
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
    pytest.mark.skipif(os.name != "posix", reason="its pipe is that of POSIX"),
    pytest.mark.slow,
]


class Browser:
    """A window of Chromium, spoken to in its DevTools' protocol: JSON between zero bytes."""

    def __init__(self, folder):
        to_it, ours = os.pipe()
        theirs, from_it = os.pipe()
        flags = "--headless --no-sandbox --disable-gpu --hide-scrollbars --remote-debugging-pipe"
        line = f'exec "$0" {flags} --user-data-dir="$1" 3<&{to_it} 4>&{from_it}'
        self.process = subprocess.Popen(
            ["/bin/bash", "-c", line, CHROMIUM, str(folder)], pass_fds=(to_it, from_it), stderr=subprocess.DEVNULL
        )
        os.close(to_it)
        os.close(from_it)
        self._write = os.fdopen(ours, "wb", buffering=0)
        self._read = os.fdopen(theirs, "rb")
        self._number = 0
        self._session = {}
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = {"sessionId": self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]}
        self.call("Page.enable")

    def call(self, method, **parameters):
        """Return the result of a method."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters} | self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        while True:
            reply = self._message()
            if reply.get("id") == self._number:
                assert "error" not in reply, reply
                return reply["result"]

    def _message(self):
        content = bytearray()
        while (byte := self._read.read(1)) not in (b"\0", b""):
            content += byte
        assert content, "Chromium has ended"
        return json.loads(content)

    def value(self, expression):
        """Return what JavaScript evaluates to on the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def until(self, expression):
        """Wait until something is true on the page."""
        for _ in range(20 * SECONDS):
            if self.value(expression):
                return
            time.sleep(0.05)
        raise AssertionError(f"never {expression}: {self.value('document.body.innerText')}")

    def press(self, key):
        """Press a key, as a person does."""
        code, number, text = KEYS.get(key, ("", ord(key[0].upper()), key))
        of_key = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **of_key)
        self.call("Input.dispatchKeyEvent", type="keyUp", **of_key)

    def size(self, width, height):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )

    def picture(self, path):
        """Write what the page looks like."""
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.until("typeof state !== 'undefined' && state !== null && !busy")

    def text(self):
        return self.value("at('text').innerText")

    def answered(self, *keys):
        """Press keys on a text, and return it once the next one is there."""
        text = self.text()
        for key in keys:
            self.press(key)
        self.until(f"!busy && at('text').innerText !== {json.dumps(text)}")
        return text


@contextmanager
def window(folder):
    browser = Browser(folder)
    try:
        yield browser
    finally:
        browser.process.kill()
        browser.process.wait()


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
