"""A window of Chromium, driven by keyboard, for the tests of pages and scripts/afternoon.

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

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SECONDS = 60  # that a reply of the browser may take
KEYS = {
    " ": ("Space", 32, " "),
    "Backspace": ("Backspace", 8, ""),
    "Enter": ("Enter", 13, "\r"),
    "Escape": ("Escape", 27, ""),
}


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
