"""encoderlab serve: the predictions of predict over HTTP, a clean end, and addresses that it listens to."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from encoderlab.commands import serve as serve_command
from encoderlab.errors import DataError, SettingError

TEXTS = ["(())", ")(", "((("]


@pytest.fixture
def served(brackets_run, cache):
    """Start a real server on a free port and return it with its address."""
    arguments = [
        sys.executable,
        "-m",
        "encoderlab",
        "serve",
        f"run={brackets_run}",
        "port=0",
        "threads=1",
        f"cache_dir={cache}",
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
    command("predict", f"run={brackets_run}", "input=rows.txt", "format=jsonl", "threads=1")
    expected = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    body = json.dumps({"texts": TEXTS}).encode()
    request = urllib.request.Request(f"{address}predict", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        found = json.load(answer)["answers"]
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
    name = signal.Signals(number).name
    promise = f"encoderlab: {name}: stopping after the open requests; send it again to stop at once"
    assert errors.strip().splitlines() == [promise, f"encoderlab: stopped by {name}"]


def test_a_foreign_address_is_refused_before_a_model_is_loaded(command):
    with pytest.raises(SettingError, match=r"Cannot listen on host=192\.0\.2\.1 port=0"):
        command("serve", "run=missing", "host=192.0.2.1", "port=0")


def test_a_model_without_predictions_is_refused_before_serving(command, brackets_run, monkeypatch):
    def none(*_):
        raise DataError("predicts nothing")

    monkeypatch.setattr(serve_command, "answers_of", none)
    with pytest.raises(DataError, match="predicts nothing"):
        command("serve", f"run={brackets_run}", "port=0")


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_a_missing_library_is_named_with_its_extra(command, monkeypatch, missing):
    find_spec = serve_command.find_spec
    monkeypatch.setattr(serve_command, "find_spec", lambda name: None if name == missing else find_spec(name))
    with pytest.raises(
        SettingError, match=rf'serve needs {missing}, which is not installed\. Run pip install "encoderlab\[serve'
    ):
        command("serve", "run=missing")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.1.2.3", True), ("0.0.0.0", False), ("a.b", False)],
)
def test_only_this_machines_own_addresses_are_loopback(host, loopback):
    assert serve_command._is_loopback(host) == loopback


def test_port_zero_picks_a_free_port():
    with serve_command._listening("127.0.0.1", 0) as listening:
        assert listening.family is socket.AF_INET
        assert listening.getsockname()[1] > 0
