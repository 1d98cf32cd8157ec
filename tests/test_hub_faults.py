"""A hub that fails, breaks off or is not there: one line with exit code 3, after few requests."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

CLIENT = "import sys, time; time.sleep = lambda seconds: None; from encoderlab.cli.main import main; main()"
WORDS = {
    "a dataset": ("data", "task=classification", "dataset=hub", "dataset.path=me/rows"),
    "a model": ("predict", "run=me/model", "text=A text."),
}
MOST_REQUESTS = 60


class Faulty(BaseHTTPRequestHandler):
    """A hub of which every answer is an error, or ends in the middle."""

    breaks_off, requests = False, 0

    def do_GET(self):
        Faulty.requests += 1
        self.send_response(200 if self.breaks_off else 500)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"{" if self.breaks_off else b"x" * 1000)
        self.close_connection = True

    do_HEAD = do_POST = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    with ThreadingHTTPServer(("127.0.0.1", 0), Faulty) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["fails", "breaks off", "is not there"])
@pytest.mark.parametrize("what", WORDS)
def test_a_faulty_hub_costs_one_line_and_few_requests(what, fault, endpoint, tmp_path, monkeypatch):
    Faulty.breaks_off, Faulty.requests = fault == "breaks off", 0
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9" if fault == "is not there" else endpoint)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    command = [sys.executable, "-c", CLIENT, *WORDS[what], f"cache_dir={tmp_path}/cache"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 3, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("encoderlab:")] == done.stderr.splitlines()[
        -1:
    ]
    assert "Traceback" not in done.stderr and Faulty.requests <= MOST_REQUESTS
