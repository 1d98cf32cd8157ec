"""encoderlab serve: the predictions of predict over HTTP, a clean end, and addresses that it listens to."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from encoderlab.errors import SettingError
from encoderlab.models.model import Model
from encoderlab.system import http_service

TEXTS = ["(())", ")(", "((("]


@pytest.fixture
def served(brackets_run, cache, request):
    """Start a real server on a free port, with the settings of the test's parameter; return it with its address."""
    arguments = [
        sys.executable,
        "-m",
        "encoderlab",
        "serve",
        f"run={brackets_run}",
        "port=0",
        "threads=1",
        f"cache_dir={cache}",
        *getattr(request, "param", ()),
    ]
    started = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    yield started, started.stdout.readline().split(" ")[0]
    if started.poll() is None:
        started.kill()
    started.communicate()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_server_answers_as_predict_and_ends_cleanly_on_a_signal(
    served, command, brackets_run, tmp_path, capsys, number, code
):
    started, address = served
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
    (tmp_path / "rows.txt").write_text("\n".join(TEXTS) + "\n")
    command("predict", f"run={brackets_run}", "input=rows.txt", "format=jsonl", "threads=1", "probabilities=all")
    expected = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    body = json.dumps({"texts": TEXTS}).encode()
    request = urllib.request.Request(f"{address}predict", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = json.load(answer)["predictions"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
    for one, wanted in zip(found, expected, strict=True):
        assert one["predicted"] == wanted["predicted"]
        assert one["probabilities"] == pytest.approx(wanted["probabilities"], abs=1e-5)
    if number is signal.SIGINT:
        with pytest.raises(
            SettingError, match="Cannot listen on .*: Address already in use. Use port=0 for any free port"
        ):
            command("serve", f"run={brackets_run}", f"port={address.rstrip('/').rpartition(':')[2]}")
    started.send_signal(number)
    _, errors = started.communicate(timeout=60)
    assert started.returncode == code
    assert errors.strip().splitlines() == [f"encoderlab: stopped by {signal.Signals(number).name}"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
@pytest.mark.parametrize("served", [("precision=bf16",)], indirect=True)
def test_memory_does_not_grow_with_the_number_of_lengths(served):
    started, address = served

    def resident():
        return int(Path(f"/proc/{started.pid}/statm").read_text(encoding="utf-8").split()[1]) * resource.getpagesize()

    def send(n_texts, length):
        body = json.dumps({"texts": ["(" * length] * n_texts}).encode()
        request = urllib.request.Request(f"{address}predict", body, {"content-type": "application/json"})
        urllib.request.urlopen(request, timeout=60).read()

    send(100, 10_000)
    before = resident()
    for length in range(1, 300):
        send(1 + length % 3, length)
    send(100, 10_000)
    growth = resident() - before
    assert growth < 30 * 2**20, "with all kernels it is 90 MB"


def test_a_foreign_address_is_refused_before_a_model_is_loaded(command):
    with pytest.raises(SettingError, match=r"Cannot listen on host=192\.0\.2\.1 port=0"):
        command("serve", "run=missing", "host=192.0.2.1", "port=0")


@pytest.fixture
def server(command, brackets_run, monkeypatch, capsys):
    """Serve in a thread, on an address that is only spelled unusually; return its port."""
    started = []

    class Server(http_service.uvicorn.Server):
        def __init__(self, config):
            super().__init__(config)
            started.append(self)

    monkeypatch.setattr(http_service.uvicorn, "Server", Server)
    monkeypatch.setattr(http_service, "IDLE_SECONDS", 0.2)
    running = threading.Thread(
        target=command, args=("serve", f"run={brackets_run}", "host=127.1", "port=0", "threads=1")
    )
    running.start()
    while not (printed := capsys.readouterr()).out:
        assert running.is_alive()
        time.sleep(0.05)
    assert printed.err == "", "only this machine can reach it"
    yield int(re.match(r"http://127\.0\.0\.1:(\d+)/", printed.out)[1])
    started[0].should_exit = True
    running.join()


def test_silent_connections_are_closed_foreign_hosts_and_framing_refused_and_lost_clients_not_computed(
    server, monkeypatch
):
    texts = []
    predictions = Model.predictions

    def slow_predictions(model, examples):
        texts.extend(examples)
        time.sleep(0.5)
        return predictions(model, examples)

    monkeypatch.setattr(Model, "predictions", slow_predictions)
    address = ("127.0.0.1", server)
    for sent in (b"", b"GET / HTTP/1.1\r\nHost: "):
        with socket.create_connection(address, timeout=5) as silent:
            silent.sendall(sent)
            assert silent.recv(1) == b""
    request = urllib.request.Request(f"http://127.0.0.1:{server}/health", headers={"host": "evil.com"})
    with pytest.raises(urllib.error.HTTPError, match="400") as refused:
        urllib.request.urlopen(request, timeout=5)
    for headers in (refused.value.headers, urllib.request.urlopen(f"http://127.0.0.1:{server}/", timeout=5).headers):
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    clients = [socket.create_connection(address) for _ in range(3)]
    for client in clients:
        body = b'{"text": "()"}'
        lines = ["POST /predict HTTP/1.1", "Host: localhost", "Connection: close", "Content-Type: application/json"]
        client.sendall("\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body)
        time.sleep(0.05)
    clients[1].close()
    for place in (0, 2):
        assert json.loads(clients[place].makefile("rb").read().partition(b"\r\n\r\n")[2])["predictions"]
    assert len(texts) == 2
    for client in clients:
        client.close()
