"""Wikipedia, read with the hub's own client: the same articles stored or streamed; HF_ENDPOINT is read once per
process.
"""

import json
import os
import subprocess
import sys

import pytest

from encoderlab.data.wikipedia import WikipediaDataset
from encoderlab.errors import SettingError

pytestmark = pytest.mark.slow

READ = """
import json, sys
from pathlib import Path
from encoderlab.data.hub import HubDataset
from encoderlab.data.wikipedia import WikipediaDataset
from encoderlab.errors import UserError
for line in sys.stdin:
    settings = json.loads(line)
    dataset = HubDataset if "path" in settings else WikipediaDataset
    try:
        documents = dataset(**settings).documents(Path("."))
        splits = {}
        for name, split in documents.by_name.items():
            read = list(split.documents())
            assert read == list(split.documents())
            splits[name] = {"total": split.total, "read": len(read), "fingerprint": split.fingerprint, "texts": read[:60]}
        print(json.dumps({"splits": splits, "origin": documents.origin}))
    except UserError as error:
        print(json.dumps({"error": str(error), "exit": error.exit_code}))
"""
AMAZON = {
    "path": "fancyzhx/amazon_polarity",
    "text": "title",
    "text_pair": "content",
    "validation_split": None,
    "limit": 50,
}
ASKED = {
    "stored": {"limit": 60},
    "stored otherwise": {"limit": 60, "split_seed": 1},
    "streamed": {"streaming": True, "limit": 50, "validation_fraction": 0.05},
    "streamed too": {"streaming": True, "limit": 20, "validation_fraction": 0, "test_fraction": 0.1},
    "lone": {"streaming": True, "limit": 1},
    "language": {"language": "eng"},
    "language streamed": {"language": "eng", "streaming": True, "limit": 9},
    "amazon": AMAZON,
}


SHARDS = """
import json
from itertools import islice
from pathlib import Path
from encoderlab.data.wikipedia import WikipediaDataset
documents = WikipediaDataset(streaming=True).documents(Path("."))
shards = documents.shards
first, later = (list(islice(shards.documents(0, start, {}), count)) for start, count in ((0, 130), (125, 5)))
held_out = [document for _, document in zip(range(3), documents.by_name["validation"].documents())]
print(json.dumps({"names": shards.names, "first": first, "later": later, "held_out": held_out, "origin": documents.origin}))
"""


def documents(endpoint, home, *settings, script=READ):
    done = subprocess.run(
        [sys.executable, "-c", script],
        input="\n".join(map(json.dumps, settings)),
        env={**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("hf")


@pytest.fixture(scope="module")
def found(hub, home):
    results, errors = documents(hub, home, *ASKED.values())
    return dict(zip(ASKED, results, strict=True)) | {"errors": errors}


def counts(result):
    return {name: (split["total"], split["read"]) for name, split in result["splits"].items()}


def test_articles_are_documents_of_paragraphs_and_a_fiftieth_is_held_out(found):
    assert counts(found["stored"]) == {"train": (60, 60), "validation": (60, 60)}
    article = found["stored"]["splits"]["train"]["texts"][0]
    assert len(article) > 1 and all(paragraph == paragraph.strip() != "" for paragraph in article)
    origin = found["stored"]["origin"]
    assert (origin["path"], origin["name"], origin["taken_from_train"]) == (
        "wikimedia/wikipedia",
        "20231101.en",
        {"validation": 0.02},
    )


def test_a_stream_holds_out_its_first_articles_and_trains_on_the_rest(found):
    assert counts(found["streamed"]) == {"train": (None, 50), "validation": (None, 3)}
    assert counts(found["streamed too"]) == {"train": (None, 20), "test": (None, 2)}
    assert found["streamed"]["origin"]["streamed"] == {"validation": 3, "train": 50}
    first = found["streamed"]["splits"]
    order = first["validation"]["texts"] + first["train"]["texts"]
    other = found["streamed too"]["splits"]
    assert other["test"]["texts"] + other["train"]["texts"] == order[:22]
    assert len({json.dumps(article) for article in order}) == 53


def test_a_stream_without_a_limit_is_read_shard_by_shard_from_any_article_on(hub, home):
    (found,), _ = documents(hub, home, script=SHARDS)
    assert found["names"][0].startswith("20231101.en-00000-of-") and found["origin"]["streamed"] == len(found["names"])
    assert [number for number, _ in found["first"]] == list(range(130))
    assert found["later"] == found["first"][125:]
    articles = [article for _, article in found["first"]]
    assert found["held_out"][0] in articles and all(len(article) for article in found["held_out"])


def test_the_fingerprint_depends_on_the_settings(found):
    results = [found[name] for name in ("stored", "stored otherwise", "streamed", "streamed too")]
    fingerprints = [split["fingerprint"] for result in results for split in result["splits"].values()]
    assert len(set(fingerprints)) == len(fingerprints)


def test_mistakes_are_explained_with_the_settings_of_wikipedia(found):
    message = "wikimedia/wikipedia has no configuration named '20231101.eng'. Allowed: 20231101.en. Set dataset.date=20231101 dataset.language=en."
    assert found["language"] == found["language streamed"] == {"error": message, "exit": 3}
    assert found["lone"]["error"].startswith("The training split holds 1 document.") and found["lone"]["exit"] == 3
    assert found["errors"] == ""


def test_any_hub_dataset_with_texts_can_be_read_as_documents(found):
    assert counts(found["amazon"]) == {"train": (50, 50), "validation": (50, 50), "test": (50, 50)}
    assert all(len(review) == 2 for review in found["amazon"]["splits"]["train"]["texts"])


def test_without_the_hub_stored_articles_are_read_and_streamed_ones_refused(found, home):
    results, errors = documents("http://127.0.0.1:9", home, ASKED["stored"], ASKED["streamed"])
    assert results[0]["splits"] == found["stored"]["splits"]
    assert errors.startswith(
        "The Hugging Face hub cannot be reached: using the rows of wikimedia/wikipedia in its cache"
    )
    assert results[1] == {
        "error": "The Hugging Face hub at http://127.0.0.1:9 cannot be reached to stream wikimedia/wikipedia from. "
        "Set HF_ENDPOINT to a reachable hub, or dataset.streaming=false to use its cache.",
        "exit": 3,
    }


def test_an_interrupted_stream_is_requested_again(start_hub, hub_script, tmp_path):
    (result,), _ = documents(start_hub(hub_script, "--fail", "1"), tmp_path, ASKED["streamed too"])
    assert counts(result)["train"] == (None, 20)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"date": "2023-11-01"}, "dataset.date is '2023-11-01'."),
        (
            {"validation_fraction": 0.5, "test_fraction": 0.5},
            "dataset.validation_fraction=0.5 and dataset.test_fraction=0.5 leave no",
        ),
    ],
)
def test_impossible_settings_are_refused(given, message):
    with pytest.raises(SettingError) as caught:
        WikipediaDataset(**given)
    assert str(caught.value).startswith(message) and "Allowed: " in str(caught.value)
