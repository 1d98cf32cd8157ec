"""Wikipedia, read with the hub's own client: the same articles stored or streamed; HF_ENDPOINT is read once per
process.
"""

import json
import os
import subprocess
import sys

import pytest

from encoderlab.data.hub import WikipediaDataset
from encoderlab.errors import SettingError

READ = """
import json, sys
from itertools import islice
from pathlib import Path
from encoderlab.data.documents import StreamReader
from encoderlab.data.hub import WikipediaDataset
from encoderlab.errors import UserError
for line in sys.stdin:
    try:
        documents = WikipediaDataset(**json.loads(line)).documents(Path("."))
        splits = {name: list(islice(split.documents(), 60)) for name, split in documents.by_name.items()}
        found = {"splits": splits, "origin": documents.origin, "fingerprint": documents.by_name["train"].fingerprint}
        if documents.stream:
            reader = StreamReader(documents.stream, 0, 0, None)
            reader.take()
            position = json.loads(json.dumps(reader.position))
            found["resumed"] = reader.take() == StreamReader(documents.stream, 0, 0, position).take() != []
        print(json.dumps(found))
    except UserError as error:
        print(json.dumps({"error": str(error), "exit": error.exit_code}))
"""
ASKED = {
    "stored": {"limit": 60},
    "stored otherwise": {"limit": 60, "split_seed": 1},
    "streamed": {"streaming": True, "window": 20_000},
    "language": {"language": "eng"},
    "language streamed": {"language": "eng", "streaming": True},
}


def documents(endpoint, home, *settings):
    done = subprocess.run(
        [sys.executable, "-c", READ],
        input="\n".join(map(json.dumps, settings)),
        env={**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_OFFLINE": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("hf")


@pytest.fixture(scope="module")
def found(hub, home):
    return dict(zip(ASKED, documents(hub, home, *ASKED.values()), strict=True))


@pytest.mark.slow
def test_articles_are_documents_of_paragraphs_stored_or_streamed(found):
    stored, streamed = found["stored"], found["streamed"]
    for article in (stored["splits"]["train"][0], streamed["splits"]["train"][0]):
        assert len(article) > 1 and all(paragraph == paragraph.strip() != "" for paragraph in article)
    assert stored["origin"]["taken_from_train"] == {"validation": 0.02}
    assert streamed["resumed"] and streamed["origin"]["streamed"] >= 1
    assert not {json.dumps(one) for one in streamed["splits"]["validation"]} & set(
        map(json.dumps, streamed["splits"]["train"])
    )
    assert len({found[name]["fingerprint"] for name in list(ASKED)[:3]}) == 3


@pytest.mark.slow
def test_mistakes_and_a_missing_hub_are_explained(found, home):
    assert found["language"] == found["language streamed"]
    assert found["language"]["exit"] == 3 and "dataset.language" in found["language"]["error"]
    stored, streamed = documents("http://127.0.0.1:9", home, ASKED["stored"], ASKED["streamed"])
    assert stored["splits"] == found["stored"]["splits"]
    assert streamed["exit"] == 3 and "dataset.streaming=false" in streamed["error"]


@pytest.mark.parametrize("given", [{"validation_fraction": -1}, {"split_seed": -1}])
def test_impossible_settings_are_refused(given):
    with pytest.raises(SettingError, match=r"dataset\."):
        WikipediaDataset(**given)
