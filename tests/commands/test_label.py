"""encoderlab label: answers over HTTP that nothing loses, two windows, foreign sites, and the file of labels."""

import csv
import http.client
import json
import os
import re
import shlex
import signal
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

from encoderlab.apps.labelling import label as label_command
from encoderlab.apps.labelling.answers import Answer, AnswerJournal
from encoderlab.apps.labelling.labelling import choose_round
from encoderlab.config.commands import PredictionFormat
from encoderlab.errors import DataError, SettingError
from encoderlab.models.row_files import WRITERS
from encoderlab.system import http_service
from encoderlab.system.files import sha256_of
from tests.commands.test_select import LABEL_OF, TEXTS, TOPICS

LABELS = f"labels=[{','.join(TOPICS)}]"


def ask(address, path, headers=None, **content):
    headers = {"content-type": "application/json"} | (headers or {})
    request = urllib.request.Request(f"{address}{path}", json.dumps(content).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


class Page:
    """A running `encoderlab label`, and what a window of its page asks."""

    def __init__(self, folder, cache, *settings):
        line = ["label", "texts.csv", "port=0", "threads=1", f"cache_dir={cache}", *settings]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "encoderlab", *line],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        self.address = self.process.stdout.readline().split(" ")[0]
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", self.address), self.process.stderr.read()

    def ask(self, path, headers=None, **content):
        return ask(self.address, path, headers, **content)

    def answer(self, state, window="one", label=None, right=True):
        """Answer the text of a state, with the right label unless another one is given."""
        label = LABEL_OF[state["text"]["texts"][0]] if right else label
        return self.ask("answer", window=window, text_id=state["text"]["text_id"], label=label)

    def answer_until_asked_again(self):
        """Answer all texts, the first about money wrongly, until one is asked for again; return that text and state."""
        state = self.ask("show", window="one")
        wrong = None
        while state["text"] and state["text"]["reason"] != "again":
            text = state["text"]["texts"][0]
            if wrong is None and LABEL_OF[text] == "money":
                wrong = text
            state = self.answer(state, label="music", right=text != wrong)
        return wrong, state

    def checked(self, least):
        """Wait as a person does who reads, until the accuracy of so many labels is on the page."""
        while not (curve := self.ask("show", window="one")["curve"]) or curve[-1]["n_labels"] < least:
            time.sleep(0.05)

    def refusal(self, path, **content):
        with pytest.raises(urllib.error.HTTPError) as refused:
            self.ask(path, **content)
        return refused.value.code

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.communicate(timeout=60)[1]


@pytest.fixture
def opened(tmp_path, cache):
    """Write a file of texts without labels, and return what opens its page."""
    rows = [{"id": 10 + n, "text": text} for n, (text, _) in enumerate(TEXTS)]
    write(tmp_path / "texts.csv", rows)
    pages = []

    def open_page(*settings):
        pages.append(Page(tmp_path, cache, *settings))
        return pages[-1]

    yield open_page
    for page in pages:
        page.process.kill()
        page.process.communicate()


def write(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_kill_loses_nothing_and_the_page_opens_where_it_stopped(opened, tmp_path):
    page = opened(LABELS)
    state = page.ask("show", window="one")
    assert [one["name"] for one in state["labels"]] == [*TOPICS]
    answered = {}
    for _ in range(13):
        answered[state["text"]["texts"][0]] = LABEL_OF[state["text"]["texts"][0]]
        state = page.answer(state)
    skipped = state["text"]["texts"][0]
    typed = page.answer(state, right=False)["text"]["texts"][0]
    state = page.ask("show", window="one")
    assert state["text"]["texts"] == [typed]
    last = page.answer(state, label="a new label", right=False)
    page.process.kill()
    page.process.wait()
    with (tmp_path / "texts-labelled.csv.journal").open("a") as journal:
        journal.write('{"kind": "answer", "text_id": "cut o')  # a power failure in the midst of a line

    page = opened(LABELS)
    state = page.ask("show", window="another")
    assert (state["labelled"], state["skipped"], state["left"]) == (14, 1, len(TEXTS) - 15)
    assert state["labels"] == last["labels"] and state["labels"][-1] == {"name": "a new label", "count": 1}
    assert state["curve"] and state["curve"][-1]["n_labels"] <= 14
    assert state["text"]["texts"][0] not in {*answered, skipped, typed}
    back = page.ask("undo", window="another")
    assert back["text"]["texts"] == [typed] and back["undone"] == {"label": "a new label"}
    assert "a new label" not in [one["name"] for one in back["labels"]]
    page.answer(back, "another")
    said = page.end()
    rows = {row["text"]: row for row in read(tmp_path / "texts-labelled.csv")}
    assert len(rows) == len(TEXTS)
    assert {text: row["label"] for text, row in rows.items() if row["label"]} == answered | {typed: LABEL_OF[typed]}
    assert {bool(row["selected"]) == bool(row["label"]) for row in rows.values()} == {True}
    assert shlex.split(said.partition("now: ")[2].splitlines()[0])[:3] == [
        "encoderlab",
        "finetune",
        "texts-labelled.csv",
    ]


@pytest.mark.slow
def test_answers_that_were_confirmed_survive_kills_at_any_moment(opened, tmp_path):
    confirmed = {}
    for n_kills, seconds in enumerate((0.15, 0.4, 0.9)):
        page = opened(LABELS, "n=3")
        state = page.ask("show", window="one")
        assert 0 <= state["labelled"] - len(confirmed) <= n_kills, "a kill comes after at most one unconfirmed answer"
        threading.Timer(seconds, page.process.kill).start()
        with pytest.raises((OSError, http.client.HTTPException)):
            while state["text"]:
                text = state["text"]["texts"][0]
                state = page.answer(state)
                confirmed[text] = LABEL_OF[text]
                time.sleep(0.03)  # so that texts are left when the kill comes
        page.process.wait()
        if (tmp_path / "texts-labelled.csv").exists():
            assert len(read(tmp_path / "texts-labelled.csv")) == len(TEXTS)
    page = opened(LABELS)
    page.end()
    written = {row["text"]: row["label"] for row in read(tmp_path / "texts-labelled.csv") if row["label"]}
    assert confirmed and confirmed.items() <= written.items() and len(written) <= len(confirmed) + 3


@pytest.mark.slow
def test_two_windows_share_the_texts_and_foreign_sites_are_refused(opened, tmp_path, command):
    page = opened(LABELS, "n=4")
    one = page.ask("show", window="one")
    two = page.ask("show", window="two")
    assert one["text"]["text_id"] != two["text"]["text_id"]
    assert page.ask("show", window="one")["text"] == one["text"]  # loaded again
    page.answer(one, "one", "money", right=False)
    page.answer(one, "one", "money", right=False)  # the reply was lost, and the key pressed again
    assert page.refusal("answer", window="two", text_id=one["text"]["text_id"], label="music") == 409
    assert page.ask("show", window="two")["labels"][0] == {"name": "money", "count": 1}
    assert page.ask("undo", window="two")["undone"] is None  # an answer of another window is not taken back

    show = {"window": "one"}
    assert page.refusal("show", headers={"host": "evil.example"}, **show) == 400
    assert page.refusal("show", headers={"origin": "http://evil.example"}, **show) == 403
    for malformed in ("null", "", "http://[", "http://[::1", "http://a]b", "//["):
        assert page.refusal("show", headers={"origin": malformed}, **show) == 403
    assert page.refusal("show", headers={"content-type": "text/plain"}, **show) == 415
    assert page.ask("show", headers={"origin": page.address.rstrip("/")}, **show)["text"]
    answer = {"window": "one", "text_id": page.ask("show", **show)["text"]["text_id"]}
    for label in ("", " ", "two\nlines", "x" * 101, 7, ["money"]):
        assert page.refusal("answer", label=label, **answer) == 422
    assert page.refusal("answer", **answer) == 422
    assert page.refusal("answer", **answer | {"text_id": "unknown"}, label="money") == 409
    assert page.ask("show", **show)["labelled"] == 1
    headers = urllib.request.urlopen(page.address, timeout=60).headers
    assert "default-src 'none'" in headers["content-security-policy"]

    with pytest.raises(SettingError, match="Another process is labelling"):
        command("label", "texts.csv", LABELS, "port=0")
    with pytest.raises(SettingError, match="Address already in use"):
        command("label", "texts.csv", LABELS, f"port={page.address.rstrip('/').rpartition(':')[2]}")


@pytest.mark.slow
def test_every_text_until_none_is_left_with_guesses_that_are_no_help_where_accuracy_is_measured(opened, tmp_path):
    page = opened(LABELS, "output=mine.csv", "n=10", "random_share=0.4")
    state = page.ask("show", window="one")
    shown = []
    while state["text"]:
        shown.append(state["text"])
        state = page.answer(state)
        if len(shown) in (20, 35, 50):
            page.checked(len(shown) - 10)
    assert len({text["text_id"] for text in shown}) == len(TEXTS)
    assert [text["reason"] for text in shown[:10]] == ["typical"] * 10
    assert {text["reason"] for text in shown[20:]} == {"unsure", "random"}
    assert {bool(text["guess"]) for text in shown if text["reason"] == "random"} == {False}
    guessed = [text["guess"] == LABEL_OF[text["texts"][0]] for text in shown if text["guess"]]
    assert len(guessed) > 20 and sum(guessed) > 0.8 * len(guessed)
    n_labels = [point["n_labels"] for point in state["curve"]]
    assert n_labels == sorted({*n_labels}) and len(n_labels) >= 4 and n_labels[-1] == len(TEXTS)
    assert state["curve"][-1]["unbiased"] and state["command"] == "encoderlab finetune mine.csv"
    assert page.ask("undo", window="one")["text"]["texts"] == shown[-1]["texts"]

    # The file belongs to the person who changed it.
    changed = (tmp_path / "mine.csv").read_text() + "my,own,row,here\n"
    (tmp_path / "mine.csv").write_text(changed)
    page.answer(page.ask("show", window="one"))
    assert "mine.csv has been changed" in page.end()
    assert (tmp_path / "mine.csv").read_text() == changed
    assert len((tmp_path / "mine.csv.journal").read_text().splitlines()) > len(TEXTS)


def answer_of(text_id, label):
    return Answer(text_id, label, "typical", "one", [text_id])


@pytest.mark.slow
def test_several_labels_of_a_text_or_none_make_a_file_for_multilabel(opened, tmp_path, command, capsys):
    page = opened(LABELS, "several=true", "n=4")
    state = page.ask("show", window="one")
    given = {}
    for label in ["weather|money", "money", "", "music|weather", "new one", "music", "", "money|music"]:
        given[state["text"]["texts"][0]] = "|".join(sorted(label.split("|")))
        state = page.answer(state, label=label, right=False)
    assert page.refusal("answer", window="one", text_id=state["text"]["text_id"], label="x\ny|z") == 422
    counts = {one["name"]: one["count"] for one in state["labels"]}
    assert counts == {"money": 3, "weather": 2, "music": 3, "new one": 1} and state["labelled"] == 8
    page.process.kill()
    page.process.wait()
    page = opened(LABELS, "several=true")
    page.ask("show", window="one")
    said = page.end()
    rows = read(tmp_path / "texts-labelled.csv")
    assert {row["text"]: row["label"] for row in rows} == given, "a row without an answer says nothing"
    line = shlex.split(said.partition("now: ")[2].splitlines()[0])
    assert "task=multilabel" in line
    command("data", *line[2:])
    assert "new one" in capsys.readouterr().out
    with pytest.raises(SettingError, match="without"):
        command("label", "texts.csv", "labels=[a|b]", "several=true", "output=other.csv")


@pytest.mark.slow
def test_an_answer_to_a_text_that_waits_to_be_asked_again_can_be_taken_back(opened):
    page = opened(LABELS, "random_share=0", "n=4")
    wrong, _ = page.answer_until_asked_again()
    state = page.ask("undo", window="one")
    while state["text"]["texts"] != [wrong]:
        state = page.ask("undo", window="one")
    assert state["text"]["label"] is None and state["text"]["reason"] != "again"
    assert page.ask("show", window="one")["text"]["texts"] == [wrong]


@pytest.mark.slow
def test_a_label_that_looks_wrong_is_asked_for_again_and_stays_unless_a_person_changes_it(opened, tmp_path):
    page = opened(LABELS, "random_share=0", "n=4")
    wrong, state = page.answer_until_asked_again()
    assert state["text"]["texts"] == [wrong] and state["text"]["label"] == "music"
    assert state["text"]["guess"] == "money" and state["labelled"] >= 50
    n_labelled = state["labelled"]
    after = page.answer(state, label=None, right=False)
    assert after["labelled"] == n_labelled and not after["text"] or after["text"]["reason"] != "again"
    back = page.ask("undo", window="one")
    assert back["text"]["texts"] == [wrong] and back["text"]["label"] == "music"
    state = page.answer(back)
    page.process.kill()
    page.process.wait()
    page = opened(LABELS, "random_share=0")
    page.end()
    written = {row["text"]: row["label"] for row in read(tmp_path / "texts-labelled.csv") if row["label"]}
    assert written[wrong] == "money" and all(LABEL_OF[text] == label for text, label in written.items())
    assert "again" not in {row["selected"] for row in read(tmp_path / "texts-labelled.csv")}


def test_an_answer_that_the_disk_does_not_take_leaves_no_trace(tmp_path, monkeypatch):
    journal = AnswerJournal(tmp_path / "out.csv", tmp_path / "texts.csv")
    journal.answer(answer_of("a", "money"))
    before = journal.path.read_bytes()

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match="not saved: .* No space left on device"):
            journal.answer(answer_of("b", "music"))
    assert journal.path.read_bytes() == before
    journal.answer(answer_of("b", None))
    again = AnswerJournal(tmp_path / "out.csv", tmp_path / "texts.csv")
    assert list(again.answers.values()) == [answer_of("a", "money"), answer_of("b", None)]
    with pytest.raises(SettingError, match=r"answers about texts\.csv"):
        AnswerJournal(tmp_path / "out.csv", tmp_path / "other.csv")
    journal.path.write_bytes(b"?" + before)
    with pytest.raises(DataError, match="Line 1 .* is damaged"):
        AnswerJournal(tmp_path / "out.csv", tmp_path / "texts.csv")


def labelled_texts(folder):
    return {row["text"]: row["label"] for row in read(folder / "texts-labelled.csv") if row["label"]}


@pytest.fixture
def in_this_process(command, tmp_path, monkeypatch, capsys):
    """Return what opens the page in a thread, and returns its address and what stops it."""
    write(tmp_path / "texts.csv", [{"text": text} for text, _ in TEXTS])
    servers = []

    class Server(http_service.uvicorn.Server):
        def __init__(self, config):
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(http_service.uvicorn, "Server", Server)
    page = threading.Thread(target=command, args=("label", "texts.csv", LABELS, "n=4", "port=0", "threads=1"))

    def stop():
        servers[0].should_exit = True
        page.join()

    def start():
        page.start()
        while not (printed := capsys.readouterr().out):
            assert page.is_alive()
            time.sleep(0.05)
        return printed.split(" ")[0], stop

    yield start
    stop()


@pytest.mark.slow
def test_while_the_model_is_fitted_the_texts_that_were_next_are_shown(in_this_process, tmp_path, monkeypatch):
    is_fitted = threading.Event()
    n_rounds = []

    def slow_round(*known):
        n_rounds.append(known)
        assert len(n_rounds) == 1 or is_fitted.wait(60)
        return choose_round(*known)

    monkeypatch.setattr(label_command, "choose_round", slow_round)
    address, stop = in_this_process()

    def answered(state):
        label = LABEL_OF[state["text"]["texts"][0]]
        return ask(address, "answer", window="one", text_id=state["text"]["text_id"], label=label)

    # The first round of four, and then those of the reserve.
    state = ask(address, "show", window="one")
    shown = []
    for _ in range(30):
        shown.append(state["text"]["texts"][0])
        state = answered(state)
    assert len({*shown}) == 30 == state["labelled"] and len(n_rounds) == 2
    is_fitted.set()
    while state["text"]:
        state = answered(state)
    stop()
    assert labelled_texts(tmp_path) == LABEL_OF


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["deleted", "emptied", "shortened", "replaced"])
def test_a_journal_that_vanishes_or_is_changed_while_the_page_is_open_is_noticed_and_loses_nothing(
    harm, opened, tmp_path
):
    journal = tmp_path / "texts-labelled.csv.journal"
    page = opened(LABELS)
    state = page.ask("show", window="one")
    answered = {}
    for number in range(8):
        if number == 4:
            content = journal.read_bytes()
            journal.unlink()
            if harm != "deleted":
                journal.write_bytes({"emptied": b"", "shortened": content[:-40], "replaced": b"{}\n"}[harm])
        answered[state["text"]["texts"][0]] = LABEL_OF[state["text"]["texts"][0]]
        state = page.answer(state)
        assert (str(journal.name) in state["warning"]) == (number == 4)
    assert journal.name in page.end()
    assert labelled_texts(tmp_path) == answered
    assert [*tmp_path.glob("*.changed")] == [] if harm == "deleted" else [tmp_path / f"{journal.name}.changed"]

    page = opened(LABELS)
    state = page.ask("show", window="two")
    assert state["labelled"] == 8
    page.end()
    assert labelled_texts(tmp_path) == answered


def test_labels_are_never_replaced_by_fewer_than_the_file_has(tmp_path, command):
    write(tmp_path / "texts.csv", [{"text": text} for text, _ in TEXTS])
    output = tmp_path / "texts-labelled.csv"
    journal = AnswerJournal(output, tmp_path / "texts.csv")
    for name in "abcd":
        journal.answer(answer_of(name, "money"))
    journal.undo("d")
    output.write_text("four labels")
    journal.will_write(sha256_of(output))
    whole = AnswerJournal(output, tmp_path / "texts.csv")
    whole.check_output()
    assert [*whole.answers] == [*"abc"]
    lines = journal.path.read_text().splitlines(keepends=True)
    for kept in (lines[:1] + lines[2:], lines[:2] + lines[-1:], lines[1:]):  # an answer is missing, or the first line
        journal.path.write_text("".join(kept))
        with pytest.raises(DataError):
            AnswerJournal(output, tmp_path / "texts.csv")
        assert output.read_text() == "four labels"


@pytest.mark.slow
def test_a_file_of_labels_that_a_person_saves_while_it_is_written_is_theirs(in_this_process, tmp_path, monkeypatch):
    output = tmp_path / "texts-labelled.csv"
    write_csv = WRITERS[PredictionFormat.csv]

    def write_slowly(*rows):
        write_csv(*rows)
        output.write_text("a person's")

    monkeypatch.setitem(WRITERS, PredictionFormat.csv, write_slowly)
    address, stop = in_this_process()
    state = ask(address, "show", window="one")
    while "has been changed" not in state["warning"]:
        content = {"window": "one", "text_id": state["text"]["text_id"], "label": "money"}
        state = ask(address, "answer", **content)
    stop()
    assert output.read_text() == "a person's"


@pytest.mark.parametrize("harm", ["emptied", "deleted"])
def test_a_journal_that_is_harmed_in_the_moment_of_an_answer_loses_nothing(harm, tmp_path, monkeypatch):
    journal = AnswerJournal(tmp_path / "out.csv", tmp_path / "texts.csv")
    journal.answer(answer_of("a", "money"))
    path_open = Path.open

    def harmed_open(path, *mode, **more):
        if path == journal.path and mode == ("ab",):
            monkeypatch.setattr(Path, "open", path_open)
            path.write_bytes(b"") if harm == "emptied" else path.unlink()
        return path_open(path, *mode, **more)

    monkeypatch.setattr(Path, "open", harmed_open)
    journal.answer(answer_of("b", "music"))
    journal.answer(answer_of("c", "music"))
    assert [*AnswerJournal(tmp_path / "out.csv", tmp_path / "texts.csv").answers] == [*"abc"]


def test_a_second_process_that_adds_to_the_journal_is_noticed(tmp_path):
    first = AnswerJournal(tmp_path / "out.csv", tmp_path / "texts.csv")
    first.answer(answer_of("a", "money"))
    second = AnswerJournal(tmp_path / "out.csv", tmp_path / "texts.csv")  # its lock was deleted
    second.answer(answer_of("b", "music"))
    with pytest.raises(DataError, match="another process"):
        first.answer(answer_of("c", "music"))
    assert [*AnswerJournal(tmp_path / "out.csv", tmp_path / "texts.csv").answers] == ["a", "b"]
