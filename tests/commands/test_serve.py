"""encoderlab serve: the predictions of predict over HTTP, a clean end, and addresses that it listens to."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from encoderlab.errors import SettingError

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


def test_a_foreign_address_is_refused_before_a_model_is_loaded(command):
    with pytest.raises(SettingError, match=r"Cannot listen on host=192\.0\.2\.1 port=0"):
        command("serve", "run=missing", "host=192.0.2.1", "port=0")
