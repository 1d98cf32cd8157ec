"""A model of the hub as a folder: downloaded once, found again offline, and containing no code that could run."""

import json
import os
import subprocess
import sys
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch
import transformers

from encoderlab.exchange.huggingface import read_huggingface

FETCH = """
import sys
from encoderlab.errors import DataError
from encoderlab.models.pretrained import fetch_model_folder
try:
    print(fetch_model_folder(sys.argv[1]))
except DataError as error:
    sys.exit(f"REFUSED {error}")
"""
REFUSED = """
import sys
from encoderlab.errors import DataError
from encoderlab.models.pretrained import fetch_model_folder
for name in sys.argv[1].split(","):
    try:
        print(fetch_model_folder(name))
    except DataError as error:
        print(error)
"""
COMMIT = "0" * 39 + "1"
NOWHERE = "http://127.0.0.1:9"


def fetched(name, endpoint, home, script=FETCH, **more):
    """Return the folder or the error, in a new process, because huggingface_hub reads its environment once."""
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_ETAG_TIMEOUT": "2", **more}
    done = subprocess.run(
        [sys.executable, "-c", script, name], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 or "REFUSED" in done.stderr, done.stderr
    return done.stdout.strip() if done.returncode == 0 else done.stderr.partition("REFUSED ")[2].strip()


class Hub(BaseHTTPRequestHandler):
    """A hub that tells which commit and files a model has, and serves each file."""

    def __init__(self, *arguments, files, requested):
        self.files, self.requested = files, requested
        super().__init__(*arguments)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        if "/tree/" in self.path:
            content = json.dumps(
                [{"type": "file", "path": name, "size": len(file), "oid": name} for name, file in self.files.items()]
            ).encode()
        elif self.path.startswith("/api/models/someone/model"):
            siblings = [{"rfilename": name} for name in self.files]
            content = json.dumps({"id": "someone/model", "sha": COMMIT, "siblings": siblings}).encode()
        else:
            name = self.path.partition(f"/resolve/{COMMIT}/")[2]
            content = self.files.get(name)
            self.requested.add(name)
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Length", str(len(content or b"")))
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hash(content)}"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content or b"")

    def log_message(self, *arguments):
        pass


@pytest.fixture
def files(tmp_path):
    """Return a checkpoint with everything that a hub stores beside it."""
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 8,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "vocab_size": 13,
    }
    transformers.BertModel(transformers.BertConfig(**sizes)).save_pretrained(tmp_path / "made")
    made = {path.name: path.read_bytes() for path in (tmp_path / "made").iterdir()}
    more = (
        "pytorch_model.bin",
        "modeling.py",
        "onnx/model.onnx",
        "2_Dense/model.safetensors",
        "vocab.txt",
        "tokenizer.json",
    )
    return made | dict.fromkeys(more, b"anything")


@pytest.fixture
def serve():
    """Start a hub with one model; return its endpoint and the set of requested files."""
    started = []

    def start(files):
        requested = set()
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, files=files, requested=requested))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        started.append(server)
        return f"http://127.0.0.1:{server.server_port}", requested

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_a_model_is_downloaded_without_pickles_and_code_and_found_again_offline(serve, files, tmp_path):
    endpoint, requested = serve(files)
    folder = fetched("someone/model", endpoint, tmp_path / "home")
    assert {path.name for path in (tmp_path / folder).iterdir()} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "vocab.txt",
    }
    assert not requested & {"pytorch_model.bin", "modeling.py", "onnx/model.onnx", "2_Dense/model.safetensors"}
    assert read_huggingface(tmp_path / folder).config.d_model == 8
    assert fetched("someone/model", NOWHERE, tmp_path / "home") == folder
    assert fetched("someone/model", endpoint, tmp_path / "home", HF_HUB_OFFLINE="1") == folder


@pytest.mark.slow
def test_a_model_with_only_pickles_is_refused(serve, files, tmp_path):
    del files["model.safetensors"]
    endpoint, _ = serve(files)
    assert fetched("someone/model", endpoint, tmp_path / "home").startswith(
        "someone/model has no readable weights. Allowed: a model with model.safetensors."
    )


UNKNOWN = {
    "no such folder/at all/here": "no such folder/at all/here is not a folder, and not available on the hub",
    "nobody/nothing": "nobody/nothing is not a folder, and not available on the hub http://127.0.0.1",
    "google-bert/bert-base-uncased": "google-bert/bert-base-uncased has no readable weights. Allowed: a model with model.safe",
}


@pytest.mark.slow
def test_models_unknown_to_the_hub_are_refused_in_one_line_each(hub, tmp_path):
    lines = fetched(",".join(UNKNOWN), hub, tmp_path / "home", REFUSED).splitlines()
    assert len(lines) == len(UNKNOWN)
    for line, refusal in zip(lines, UNKNOWN.values(), strict=True):
        assert line.startswith(refusal)
