"""A hub that fails, breaks off, sends something else or nothing: few requests, one line, nothing half-written, and the
next try works.
"""

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import safetensors.torch
import torch

# What a client process does for each line it is sent; pauses between tries are left out.
CLIENT = """
import json, sys, time
time.sleep = lambda seconds: None
from pathlib import Path
from encoderlab.data.hub import HubDataset
from encoderlab.data.wikipedia import WikipediaDataset
from encoderlab.errors import UserError
from encoderlab.runs.pretrained import fetch_model_folder

def rows():
    settings = {"name": None, "validation_split": None, "test_split": None, "validation_fraction": 0}
    return len(HubDataset(path="me/rows", **settings).load(Path(".")).by_name["train"])

def articles():
    documents = WikipediaDataset(streaming=True, limit=900, validation_fraction=0).documents(Path("."))
    return sum(1 for _ in documents.by_name["train"].documents())

def model():
    return sum(file.stat().st_size for file in fetch_model_folder("me/model").iterdir())

for line in sys.stdin:
    try:
        answer = {"got": {"rows": rows, "articles": articles, "model": model}[line.strip()]()}
    except UserError as error:
        answer = {"refused": str(error), "exit": error.exit_code}
    print(json.dumps(answer), flush=True)
"""


class Faulty(BaseHTTPRequestHandler):
    """A hub that forwards requests to a working one and corrupts responses as `fault` says: those for files, after the
    first `spared`.
    """

    protocol_version = "HTTP/1.1"
    good, fault, spared = "", "", 0
    requests = 0
    lock = threading.Lock()

    def do_GET(self):
        with self.lock:
            Faulty.requests += 1
            is_file = (
                "/resolve/" in self.path and self.path.endswith((".parquet", ".safetensors")) and self.command == "GET"
            )
            spoiled = is_file and Faulty.spared <= 0
            Faulty.spared -= is_file
        if self.fault == "fails everywhere" and self.path != "/":
            return self.answer(500, {}, b"")
        if spoiled and self.fault in STATUS:
            return self.answer(STATUS[self.fault], {}, b"no")
        status, headers, body = self.passed_on()
        if spoiled and self.fault == "sends a page":
            headers["Content-Length"], body = "25", b"<html>Please log in</html>"[:25]
        if spoiled and self.fault == "sends a page of the same length":
            body = (b"<html>" + b" " * len(body))[: len(body)]
        return self.answer(status, headers, body, cut=spoiled and self.fault)

    do_HEAD = do_POST = do_GET  # noqa: N815

    def passed_on(self):
        length = int(self.headers.get("Content-Length") or 0)
        forwarded = {
            name: value
            for name, value in self.headers.items()
            if name in ("Range", "range", "Content-Type", "content-type")
        }
        content = self.rfile.read(length) if length else None
        request = urllib.request.Request(self.good + self.path, content, forwarded, method=self.command)
        try:
            reply = urllib.request.urlopen(request, timeout=30)
        except urllib.error.HTTPError as error:
            reply = error
        with reply:
            kept = {
                name: value for name, value in reply.headers.items() if name not in ("Date", "Server", "Connection")
            }
            return reply.status, kept, reply.read()

    def answer(self, status, headers, body, cut=""):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if cut in ("breaks off", "resets the connection"):
            self.wfile.write(body[: len(body) // 3])
            self.wfile.flush()
            self.close_connection = True
            if cut == "resets the connection":  # lingering for no time, a socket says so with a reset
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
            return
        self.wfile.write(body)

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except (OSError, ValueError):  # the client has gone, or the fault closed the connection
            self.close_connection = True

    def finish(self):
        with suppress(OSError, ValueError):
            super().finish()


STATUS = {"fails": 500, "is overloaded": 503, "loses a file": 404, "forbids a file": 403}


@pytest.fixture(scope="module")
def good(start_hub, hub_script, tmp_path_factory):
    """A working hub with a few rows, articles and a model."""
    folder = tmp_path_factory.mktemp("hub")
    shutil.copy(hub_script, folder / "serve.py")
    for name, table, config in (
        (
            "me/rows",
            pa.table({"text": [f"text {n}" for n in range(4000)], "label": [n % 2 for n in range(4000)]}),
            "data",
        ),
        (
            "wikimedia/wikipedia",
            pa.table({"text": [f"{n}: " + "words of an article " * 90 for n in range(1000)]}),
            "20231101.en",
        ),
    ):
        repository = folder / "datasets" / name
        (repository / config).mkdir(parents=True)
        pq.write_table(
            table, repository / config / "train-00000-of-00001.parquet", row_group_size=100, compression="none"
        )
        described = f"---\nconfigs:\n- config_name: {config}\n  data_files:\n  - split: train\n    path: {config}/train-*\n---\n"
        (repository / "README.md").write_text(described)
    model = folder / "models" / "me" / "model"
    model.mkdir(parents=True)
    (model / "config.json").write_text('{"model_type": "bert"}')
    safetensors.torch.save_file({"weight": torch.zeros(100_000)}, model / "model.safetensors")
    return start_hub(folder / "serve.py")


class Client:
    """A process of encoderlab that makes the requests of its input to the faulty hub."""

    def __init__(self, endpoint, home):
        environment = {name: value for name, value in os.environ.items() if "OFFLINE" not in name}
        environment |= {
            "HF_ENDPOINT": endpoint,
            "HF_HOME": str(home),
            "HF_HUB_ETAG_TIMEOUT": "5",
            "HF_HUB_DOWNLOAD_TIMEOUT": "5",
        }
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen([sys.executable, "-c", CLIENT], env=environment, cwd=home, text=True, **pipes)

    def ask(self, what, fault="", spared=0):
        """Return the answer and the number of requests it took."""
        Faulty.fault, Faulty.spared, Faulty.requests = fault, spared, 0
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline()), Faulty.requests


@pytest.fixture(scope="module")
def client(good, tmp_path_factory):
    """One process for all faults in turn, so that each trial finds what the previous fault left behind."""
    Faulty.good = good
    home = tmp_path_factory.mktemp("home")
    with ThreadingHTTPServer(("127.0.0.1", 0), Faulty) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = Client(f"http://127.0.0.1:{server.server_port}", home)
        client.home = home
        yield client
        _, errors = client.process.communicate(timeout=60)
        server.shutdown()
    assert errors == ""


FAULTS = {
    "fails": 60,
    "is overloaded": 60,
    "loses a file": 40,
    "forbids a file": 40,
    "breaks off": 60,
    "resets the connection": 60,
    "sends a page": 60,
    "sends a page of the same length": 60,
    "fails everywhere": 40,
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_dataset_of_a_faulty_hub_is_refused_in_one_line_after_few_requests(client, fault):
    answer, requests = client.ask("rows", fault)
    assert answer.get("exit") == 3, answer
    assert answer["refused"].isprintable()
    assert "`encoderlab train` and dataset=files need no network." in answer["refused"]
    assert 0 < requests <= FAULTS[fault]
    assert not [path for path in client.home.rglob("*") if path.name.endswith((".incomplete", ".arrow"))]


def test_once_the_hub_recovers_the_next_try_works_even_if_an_error_page_was_cached_as_a_file(client):
    client.ask("rows", "sends a page of the same length")
    answer, _ = client.ask("rows")
    assert answer == {"got": 4000}


@pytest.mark.parametrize("fault", ["fails", "is overloaded", "loses a file", "breaks off", "resets the connection"])
def test_a_stream_that_breaks_off_is_refused_after_few_requests(client, fault):
    answer, requests = client.ask("articles", fault, spared=2)
    assert answer.get("exit") == 3, answer
    assert answer["refused"].isprintable()
    assert 0 < requests <= 40


def test_a_stream_is_read_to_its_end_once_the_hub_recovers(client):
    assert client.ask("articles") == ({"got": 900}, Faulty.requests)


@pytest.mark.parametrize("fault", ["fails", "loses a file", "breaks off", "resets the connection", "sends a page"])
def test_a_model_of_a_faulty_hub_is_refused_and_leaves_no_partial_copy(client, fault):
    answer, requests = client.ask("model", fault)
    assert answer.get("exit") == 3, answer
    assert answer["refused"].isprintable()
    assert 0 < requests <= 40
    kept = (client.home / "hub" / "models--me--model").rglob("*.safetensors")
    assert not [path for path in kept if path.exists()]


def test_a_model_is_downloaded_once_the_hub_recovers(client):
    answer, _ = client.ask("model")
    assert answer["got"] > 400_000
