"""encoderlab serve: the run's predictions over HTTP in order, bounded input refused in a line of JSON, and a clean end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")
pytest.importorskip("uvicorn", reason="the extra serve is not installed")

from starlette.testclient import TestClient

from encoderlab.commands import serve as serve_command
from encoderlab.commands.serve import LOOPBACK
from encoderlab.config.command_settings import OpenRunConfig
from encoderlab.errors import DataError, SettingError
from encoderlab.runs.models.assembly import reopen
from encoderlab.serving import web_service as service
from encoderlab.serving.web_service import Limits, web_service
from encoderlab.tasks.task import Answer

LIMITS = Limits(texts=3, characters=20, body=2000)
TIGHT = json.dumps({"text": "(())"}).encode()


def client_of(run, cache, hosts=LOOPBACK, raises=True):
    assembly = reopen(OpenRunConfig(cache_dir=str(cache), run=str(run), device="cpu", threads=1))
    return TestClient(web_service(assembly, LIMITS, hosts), base_url="http://127.0.0.1", raise_server_exceptions=raises)


@pytest.fixture(scope="module")
def texts(brackets_run, cache):
    return client_of(brackets_run, cache)


@pytest.fixture(scope="module")
def pairs(pairs_run, cache):
    return client_of(pairs_run, cache)


@pytest.fixture(scope="module")
def words(reverse_run, cache):
    return client_of(reverse_run, cache)


def asked(client, **request):
    answer = client.post("/predict", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()["answers"]


def refused(client, status, **request):
    answer = client.post("/predict", json=request)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    assert "\n" not in answer.text
    return answer.json()["error"]


def test_texts_are_predicted_in_order_as_by_predict(texts, command, brackets_run, tmp_path, capsys):
    given = ["(())", ")(", "((("]
    (tmp_path / "rows.txt").write_text("\n".join(given) + "\n")
    command("predict", f"run={brackets_run}", "input=rows.txt", "format=jsonl", "threads=1")
    expected = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for found, wanted in zip(asked(texts, texts=given), expected, strict=True):
        assert found["predicted"] == wanted["predicted"]
        assert found["probabilities"] == pytest.approx(wanted["probabilities"], abs=1e-5)
    assert asked(texts, text="(())")[0]["probabilities"] == pytest.approx(expected[0]["probabilities"], abs=1e-5)


def test_the_most_probable_labels_are_listed_as_by_predict(texts, command, brackets_run, capsys):
    command("predict", f"run={brackets_run}", "text=(())", "format=jsonl", "top_k=1", "threads=1")
    wanted = json.loads(capsys.readouterr().out)
    (found,) = asked(texts, text="(())", top_k=1)
    assert found.keys() == {"predicted", "top"}
    assert [one["label"] for one in found["top"]] == [one["label"] for one in wanted["top"]]
    assert found["top"][0]["probability"] == pytest.approx(wanted["top"][0]["probability"], abs=1e-5)
    assert len(asked(texts, text="(())", top_k=2)[0]["top"]) == 2


def test_pairs_are_predicted_alone_and_in_lists(pairs):
    (one,) = asked(pairs, text="title 1", text_pair="body 2")
    both = asked(pairs, texts=["title 1", "x"], text_pairs=["body 2", "y"])
    assert one["probabilities"] == pytest.approx(both[0]["probabilities"], abs=1e-3)
    assert len(both) == 2


def test_every_word_is_predicted_and_truncated_ones_are_null(words):
    (answer,) = asked(words, text="1 2 3")
    assert [word["word"] for word in answer["words"]] == ["1", "2", "3"]
    assert all(0 < word["probability"] <= 1 for word in answer["words"])
    read = Answer(("noun",), None, (0.75,), word_probabilities=np.array([[0.75, 0.25]]))
    cut = service._words(("a", "b"), read, ["noun", "verb"], 1)
    assert cut[0]["top"] == [{"label": "noun", "probability": 0.75}]
    assert cut[1] == {"word": "b", "predicted": None, "probability": None, "top": None}


def test_the_most_probable_classes_are_returned_for_texts_and_words(texts, words):
    (text,) = asked(texts, text="(())", top_k=1)
    assert list(text) == ["predicted", "top"] and [one["label"] for one in text["top"]] == [text["predicted"]]
    (answer,) = asked(words, text="1 2", top_k=3)
    assert all(len(word["top"]) == 3 and word["top"][0]["label"] == word["predicted"] for word in answer["words"])


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        ({}, 422, "must have either text or texts; send"),
        ({"text": "a", "texts": ["a"]}, 422, "either text or texts"),
        ({"text": 1}, 422, "text must be a text"),
        ({"texts": "abc"}, 422, "texts must be a list of texts"),
        ({"texts": []}, 422, "texts must be a list of texts"),
        ({"texts": ["a", None]}, 422, "texts must be a list of texts"),
        ({"txt": "a"}, 422, "an unknown key, 'txt'"),
        ({"text": "a", "top_k": 3}, 422, "top_k must be a whole number from 1 to 2, the labels of this model"),
        ({"text": "a", "top_k": True}, 422, "top_k must be a whole number"),
        ({"text": "a", "text_pairs": ["b"]}, 422, "text goes with text_pair"),
        ({"text": "a", "text_pair": "b"}, 422, "trained on single texts, but a pair was given"),
        ({"texts": ["a"] * 4}, 413, "has 4 texts, but at most 3 are allowed"),
        ({"text": "(" * 21}, 413, "A text has 21 characters, but at most 20 are allowed"),
        ({"text": "(" * 3000}, 413, "The request has more than 2,000 bytes"),
    ],
)
def test_invalid_requests_are_refused_in_one_line_of_json(texts, request_, status, message):
    assert message in refused(texts, status, **request_)


def test_texts_and_second_texts_must_be_equally_many(pairs):
    assert "There are 2 texts and 1 text_pairs" in refused(pairs, 422, texts=["a", "b"], text_pairs=["c"])
    assert "trained on pairs of texts, but one text was given" in refused(pairs, 422, text="a")


@pytest.mark.parametrize(
    ("body", "status"),
    [(b"", 400), (b"{", 400), (b"\xff", 400), (b"[" * 1990, 400), (b"[]", 422), (rb'{"text": "\ud800"}', 422), (b'"text"', 422)],
)
def test_malformed_json_is_refused_in_one_line_of_json(texts, body, status):
    answer = texts.post("/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]


def test_other_sites_are_refused_by_origin_and_host(texts):
    assert texts.post("/predict", content=TIGHT, headers={"content-type": "text/plain"}).status_code == 415
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000"):
        assert texts.get("/health", headers={"host": host}).status_code == 400
    for host in ("localhost:8000", "127.0.0.1:9", "[::1]:8000"):
        answer = texts.get("/health", headers={"host": host, "origin": "https://evil.example"})
        assert answer.json() == {"status": "ok"}
        assert "access-control-allow-origin" not in answer.headers


def test_every_response_forbids_loading_and_framing(texts):
    for answer in (texts.get("/"), texts.get("/nothing"), texts.get("/health", headers={"host": "evil.example"})):
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_unknown_paths_and_methods_are_refused_in_json(texts):
    assert (texts.get("/nothing").status_code, texts.get("/nothing").json()) == (404, {"error": "Not Found"})
    assert texts.get("/predict").status_code == 405


def test_the_model_describes_itself(texts, words):
    facts = texts.get("/model").json()
    assert (facts["task"], set(facts["labels"]), facts["paired"]) == ("brackets", {"balanced", "unbalanced"}, False)
    assert facts["limits"] == {"texts": 3, "characters": 20, "body": 2000}
    assert words.get("/model").json()["answers_for"] == "words"


class Fields(HTMLParser):
    """The ids of a page's elements."""

    def __init__(self, text):
        super().__init__()
        self.ids = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.ids |= {value for name, value in attrs if name == "id"}


def test_the_page_has_a_field_for_each_text_and_loads_nothing(texts, pairs):
    assert {"text", "ask", "answer"} <= Fields(texts.get("/").text).ids
    assert "text_pair" not in Fields(texts.get("/").text).ids
    assert "text_pair" in Fields(pairs.get("/").text).ids
    assert not re.search(r'(src|href)="(?!/model|/health)', texts.get("/").text)


def test_predictions_run_one_at_a_time_and_other_requests_do_not_wait(texts, monkeypatch):
    at_work, most, begun, go_on = [], [], threading.Event(), threading.Event()
    answers_of = service.answers_of

    def slow(*arguments):
        at_work.append(1)
        most.append(len(at_work))
        begun.set()
        assert go_on.wait(60)
        at_work.pop()
        return answers_of(*arguments)

    monkeypatch.setattr(service, "answers_of", slow)
    asking = [threading.Thread(target=asked, args=(texts,), kwargs={"text": "()"}) for _ in range(3)]
    for one in asking:
        one.start()
    assert begun.wait(60)
    assert texts.get("/health").json() == {"status": "ok"}
    go_on.set()
    for one in asking:
        one.join()
    assert most == [1, 1, 1]


def test_a_request_that_never_arrives_times_out(texts, monkeypatch):
    import asyncio

    monkeypatch.setattr(service, "BODY_SECONDS", 0.01)

    class Waiting:
        headers = {"content-type": "application/json"}

        async def stream(self):
            yield b"{"
            await asyncio.sleep(60)

    with pytest.raises(service.HTTPException, match="408: The request took more than 0.01 seconds"):
        asyncio.run(service._body(Waiting(), 100))


@pytest.fixture
def served(brackets_run, cache):
    """Start a real server on a free port and return it with its address."""
    arguments = [sys.executable, "-m", "encoderlab", "serve", f"run={brackets_run}", "port=0", "threads=1", f"cache_dir={cache}"]
    started = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)
    yield started, started.stdout.readline().split(" ")[0]
    if started.poll() is None:
        started.kill()
    started.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)])
def test_a_server_answers_and_ends_cleanly_on_a_signal(served, command, brackets_run, number, code):
    started, address = served
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", address)
    request = urllib.request.Request(f"{address}predict", TIGHT, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert json.load(answer)["answers"][0]["predicted"] in ("balanced", "unbalanced")
    if number is signal.SIGINT:
        with pytest.raises(SettingError, match="Cannot listen on .*: Address already in use. Use port=0 for any free port"):
            command("serve", f"run={brackets_run}", f"port={address.rstrip('/').rpartition(':')[2]}")
    started.send_signal(number)
    _, said = started.communicate(timeout=60)
    assert started.returncode == code
    name = signal.Signals(number).name
    promise = f"encoderlab: {name}: ending after the requests at hand; send it again to stop at once"
    assert said.strip().splitlines() == [promise, f"encoderlab: stopped by {name}"]


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
    with pytest.raises(SettingError, match=rf'serve needs {missing}, which is not installed\. Run pip install "encoderlab\[serve'):
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
