"""The service: the model's predictions in order, limits on requests with one-line JSON errors, and headers for
browsers.
"""

import html
import json
import re
import threading
from dataclasses import replace

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

pytest.importorskip("starlette", reason="the extra serve is not installed")

from starlette.testclient import TestClient

from encoderlab.apps.serving import serve as service
from encoderlab.apps.serving.serve import web_service
from encoderlab.data.examples import TextExample
from encoderlab.data.files import FilesDataset
from encoderlab.data.tokenizers import BERT_SPECIALS, Tokenizer
from encoderlab.models.model import Model, Provenance
from encoderlab.reports.predictions import trial_of
from encoderlab.system import http_service
from encoderlab.system.http_service import LOOPBACK
from encoderlab.tasks.classification import ClassificationConfig
from encoderlab.tasks.multilabel import MultilabelConfig
from encoderlab.tasks.regression import RegressionConfig
from encoderlab.tasks.tagging import TaggingConfig
from encoderlab.tasks.task import NO_ABSTENTION, Abstention, Windows
from tests.runs.small_model import LABELS, model_of

pytestmark = pytest.mark.usefixtures("one_thread")
DIGITS = json.dumps({"text": "012"}).encode()
TASKS = {
    "label": ClassificationConfig(name="digits"),
    "long texts": ClassificationConfig(name="digits", windows=Windows.max),
    "label_set": MultilabelConfig(name="digits"),
    "number": RegressionConfig(name="digits", mean=3.0, deviation=2.0),
}


def opened(task=None, labels=LABELS, paired=False):
    """Return a small model, opened like a finished run."""
    model = replace(model_of(task, labels), provenance=Provenance({"step": 7}, paired, {}))
    model.network.eval()
    return model


def client_of(model, min_probability=0.0):
    return TestClient(web_service(model, Abstention(min_probability), LOOPBACK), base_url="http://127.0.0.1")


@pytest.fixture(autouse=True, scope="module")
def _small_requests():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http_service, "LARGEST_BODY", 2000)
        patch.setattr(service, "MOST_TEXTS", 3)
        patch.setattr(service, "MOST_CHARACTERS", 30)
        yield


@pytest.fixture(scope="module")
def texts():
    return client_of(opened())


@pytest.fixture(scope="module")
def pairs():
    return client_of(opened(paired=True))


@pytest.fixture(scope="module")
def words():
    return client_of(opened(TaggingConfig(name="parts")))


def predictions(client, **request):
    answer = client.post("/predict", json=request)
    assert answer.status_code == 200, answer.text
    return answer.json()["predictions"]


def refused(client, status, **request):
    answer = client.post("/predict", json=request)
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    assert "\n" not in answer.text
    return answer.json()["error"]


@pytest.mark.parametrize("kind", TASKS)
def test_texts_get_the_models_predictions_in_order(kind):
    labels = [] if kind == "number" else LABELS
    model, given = opened(TASKS[kind], labels), ["012", "ab" * 10, "5"]
    expected = model.predictions([TextExample(text) for text in given])
    found = predictions(client_of(model), texts=given)
    for answer, wanted in zip(found, expected, strict=True):
        if kind == "number":
            assert answer == {"predicted": pytest.approx(wanted.number)}
        else:
            assert answer["predicted"] == (list(wanted.labels) if kind == "label_set" else wanted.labels[0])
            assert answer["probabilities"] == pytest.approx(wanted.by_label(labels))


def test_pairs_are_predicted_singly_and_in_lists(pairs):
    (one,) = predictions(pairs, text="01", text_pair="23")
    both = predictions(pairs, texts=["01", "4"], text_pairs=["23", "5"])
    assert one["probabilities"] == pytest.approx(both[0]["probabilities"], abs=1e-5)
    assert len(both) == 2


def test_nothing_is_predicted_for_a_blank_text(texts):
    (blank,) = predictions(texts, text=" ")
    assert {blank["predicted"], *blank["probabilities"].values()} == {None}


def test_every_word_is_predicted_and_truncated_ones_are_null(words):
    (answer,) = predictions(words, text="1 2 3")
    assert [word["word"] for word in answer["words"]] == ["1", "2", "3"]
    assert all(0 < word["probability"] <= 1 for word in answer["words"])
    (cut,) = predictions(words, text="1 " * 12)
    assert cut["words"][-1] == {"word": "1", "predicted": None, "probability": None}


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=5), inside, max_size=2),
    max_leaves=5,
)
KEYS = st.sampled_from(["text", "texts", "text_pair", "text_pairs", "rows", "other"])
TEXTS = st.text(st.sampled_from("01ab \n\u00e9"), max_size=35)


@settings(max_examples=50)
@given(
    st.one_of(ANY_JSON, st.dictionaries(KEYS, ANY_JSON | TEXTS | st.lists(TEXTS, max_size=4), max_size=3)),
    st.booleans(),
)
def test_every_request_is_answered_or_refused_in_one_line(texts, words, request_, of_words):
    client = words if of_words else texts
    response = client.post("/predict", content=json.dumps(request_), headers={"content-type": "application/json"})
    if response.status_code == 200:
        requested = [request_["text"]] if "text" in request_ else request_.get("texts", request_.get("rows"))
        assert len(response.json()["predictions"]) == len(requested)
    else:
        assert response.status_code in (400, 413, 422) and list(response.json()) == ["error"]
        assert "\n" not in response.json()["error"]


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        ({}, 422, "must have a text, or as many texts as text_pairs; send"),
        ({"text": "a", "texts": ["a"]}, 422, "other keys"),
        ({"text": 1}, 422, "must have a text"),
        ({"text": None, "text_pair": "a"}, 422, "must have a text"),
        ({"texts": "abc"}, 422, "must have a text"),
        ({"texts": []}, 422, "must have a text"),
        ({"texts": ["a", None]}, 422, "must have a text"),
        ({"texts": ["a", "b"], "text_pairs": ["c"]}, 422, "as many texts as text_pairs"),
        ({"text": "a", "top_k": 2}, 422, "other keys"),
        ({"text": "a", "text_pairs": ["b"]}, 422, "other keys"),
        ({"text": "a", "text_pair": "b"}, 422, "trained on single texts, but a pair was given"),
        ({"texts": ["a"] * 4}, 413, "has 4 texts of up to 1 characters, but allowed are 3 of 30"),
        ({"text": "0" * 31}, 413, "1 text of up to 31 characters"),
        ({"text": "0" * 3000}, 413, "The request has more than 2,000 bytes"),
    ],
)
def test_invalid_requests_are_refused_in_one_line_of_json(texts, request_, status, message):
    assert message in refused(texts, status, **request_)


def test_other_sites_are_refused_by_origin_and_host(texts):
    assert texts.post("/predict", content=DIGITS, headers={"content-type": "text/plain"}).status_code == 415
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000"):
        assert texts.get("/health", headers={"host": host}).status_code == 400
    for host in ("localhost:8000", "127.0.0.1:9", "[::1]:8000"):
        answer = texts.get("/health", headers={"host": host, "origin": "https://evil.example"})
        assert answer.json() == {"status": "ok"}
        assert "access-control-allow-origin" not in answer.headers


def test_predictions_run_one_at_a_time_and_other_requests_do_not_wait(monkeypatch):
    at_work, most, begun, go_on = [], [], threading.Event(), threading.Event()
    predictions_of = Model.predictions

    def slow(*arguments):
        at_work.append(1)
        most.append(len(at_work))
        begun.set()
        assert go_on.wait(60)
        at_work.pop()
        return predictions_of(*arguments)

    monkeypatch.setattr(Model, "predictions", slow)
    with client_of(opened()) as client:  # in one event loop, as on a server
        requesting = [threading.Thread(target=predictions, args=(client,), kwargs={"text": "01"}) for _ in range(3)]
        for one in requesting:
            one.start()
        assert begun.wait(60)
        assert client.get("/health").json() == {"status": "ok"}
        go_on.set()
        for one in requesting:
            one.join()
    assert most == [1, 1, 1]


def test_a_label_below_the_least_probability_is_null_and_its_probabilities_stay():
    (sure,) = predictions(client_of(opened()), text="012")
    (unsure,) = predictions(client_of(opened(), 1.0), text="012")
    assert unsure == sure | {"predicted": None}
    (tagged,) = predictions(client_of(opened(TaggingConfig(name="parts")), 1.0), text="1 2")
    assert all(word["predicted"] is None and 0 < word["probability"] < 1 for word in tagged["words"])


def test_the_service_is_described_for_programs(texts):
    described = texts.get("/openapi.json").json()
    assert described["openapi"].startswith("3.")
    request = described["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert request["properties"].keys() == {"text", "texts", "text_pair", "text_pairs", "rows"}
    assert request["properties"]["texts"]["maxItems"] == request["properties"]["rows"]["maxItems"] == 3


def trained_on(**columns):
    """Return a model that was trained on these columns of a file."""
    paired = "text_pair" in columns
    model = opened(paired=paired)
    return replace(model, config=replace(model.config, dataset=FilesDataset(path="tickets.csv", **columns)))


def test_rows_are_read_by_the_names_of_the_columns_that_the_model_was_trained_on():
    joined = client_of(trained_on(text=["subject", "body"]))
    by_name = predictions(joined, rows=[{"body": "12", "subject": "01", "id": "further columns are not read"}])
    assert by_name == predictions(joined, text="01 | 12")
    assert "'body'" in refused(joined, 422, rows=[{"subject": "01"}])
    assert "list of objects" in refused(joined, 422, rows="01")
    page = html.unescape(joined.get("/").text)
    assert page.count("<textarea") == 2 and 'data-column="body"' in page and '"subject": "..."' in page
    assert joined.get("/model").json()["columns"] == ["subject", "body"]
    pair = client_of(trained_on(text="question", text_pair="answer"))
    assert predictions(pair, rows=[{"question": "0", "answer": "1"}]) == predictions(pair, text="0", text_pair="1")
    assert predictions(client_of(opened()), rows=[{"text": "012"}]) == predictions(client_of(opened()), text="012")


def samples(client):
    """Return the numbers of /metrics by name, as a scraper of Prometheus reads them."""
    response = client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = [line for line in response.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_prometheus_reads_requests_by_status_texts_labels_and_how_long_it_took():
    labels = [*LABELS[:-1], 'a "quote"']
    client = client_of(opened(labels=labels))
    given = [prediction["predicted"] for prediction in predictions(client, texts=["012", "210", " "])]
    refused(client, 422, texts=[])
    read = samples(client)
    assert read['encoderlab_requests_total{status="200"}'] == read['encoderlab_requests_total{status="422"}'] == 1
    assert read["encoderlab_texts_total"] == 3
    for label in set(given) - {None}:
        escaped = label.replace('"', r"\"")
        assert read[f'encoderlab_predictions_total{{label="{escaped}"}}'] == given.count(label)
    assert read['encoderlab_predictions_total{label="(none)"}'] == given.count(None) == 1
    assert read['encoderlab_request_seconds_bucket{le="+Inf"}'] == read["encoderlab_request_seconds_count"] == 2


def test_words_and_sets_of_labels_are_counted_one_by_one():
    tagged = client_of(opened(TaggingConfig(name="parts")))
    predictions(tagged, text="1 2 3")
    words = {name: n for name, n in samples(tagged).items() if "predictions_total" in name}
    assert sum(words.values()) == 3
    several = client_of(opened(TASKS["label_set"]))
    given = predictions(several, text="012")[0]["predicted"]
    counted = {name: n for name, n in samples(several).items() if "predictions_total" in name}
    assert sum(counted.values()) == max(len(given), 1)


def test_the_page_is_named_by_the_data_and_offers_held_out_rows(tmp_path):
    report = {"data": "my <tickets>.csv", "task": "classification", "scored_split": "test"}
    (tmp_path / "report.json").write_text(json.dumps(report))
    rows = [
        "label,predicted,text",
        "a,a,first <b>",
        "a,a,second",
        'b,a,"it said\n""012"""',
        "b,b,last",
        f"c,c,{'long ' * 99}",
    ]
    (tmp_path / "predictions.csv").write_text("\n".join(rows) + "\n")
    trial = trial_of(tmp_path, "classification")
    client = TestClient(web_service(opened(), NO_ABSTENTION, LOOPBACK, trial), base_url="http://127.0.0.1")
    page = client.get("/").text
    assert "<h1>my &lt;tickets&gt;.csv, classification</h1>" in page
    offered = [html.unescape(text) for text in re.findall(r'data-text="([^"]*)"', page)]
    assert offered == ["first <b>", 'it said\n"012"', "second"], "a row of each label, then others; no long ones"
    assert "From the test rows" in page
    assert client.get("/model").json()["task"] == "digits"


def test_a_model_without_its_run_is_served_without_rows(tmp_path):
    trial = trial_of(tmp_path, "digits")
    assert (trial.title, trial.examples) == ("digits", ())
    assert "data-text" not in client_of(opened()).get("/").text.partition("<script>")[0]


def test_a_text_on_which_the_tokenizer_fails_is_the_mistake_of_the_request():
    model = opened()
    backend = tokenizers.Tokenizer(models.WordLevel({text: id_ for id_, text in enumerate(BERT_SPECIALS.values())}))
    backend.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex("(a+)+$"), "isolated")
    model.task.tokenizer = Tokenizer(backend, BERT_SPECIALS)
    response = client_of(model).post("/predict", json={"text": "a" * 28 + "b"})
    assert response.status_code == 422 and "tokenizer" in response.json()["error"]
