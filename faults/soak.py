"""A soak: serve, label and a training run beside each other for an hour, killed at random moments and started again.

Nothing that was confirmed may be lost, every response must be the right one, every run must end like an undisturbed
one, and neither memory nor open files may grow while a process lives.
"""

from __future__ import annotations

import csv
import http.client
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from faults.host import ROOT
from faults.training import LONG, difference, finished, outcome

ENDS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
CODES = {signal.SIGKILL: (-9,), signal.SIGTERM: (143,), signal.SIGINT: (130,)}
LOST = (OSError, http.client.HTTPException, urllib.error.URLError)  # what a client sees of a server that was killed
LIFE = 90.0  # seconds that serve and label live on average
RUN = 15.0  # and a training run
SAMPLE = 1.0  # seconds between two looks at a process
SETTLED = 0.4  # share of a life after which memory has its size
MOST_GROWTH = 16 * 2**20  # bytes, from the settled part's first half to its second
MOST_HANDLES = 16  # more than at the beginning: those of connections that are open at a moment
TEXTS = 4_000
LABELS = ("money", "music", "weather")
WORDS = (
    "pay",
    "hear",
    "feel",
    "send",
    "play",
    "see",
    "open",
    "turn up",
    "check",
    "the",
    "my",
    "a",
    "bill",
    "song",
    "rain",
)
SENT = ["what is my balance", "will it rain today", "play some jazz", "x " * 200]
SERVED = ("train", "task=intents", "dataset.limit=300", "training.steps=20", "model=mini", "baselines=false")
CLIENTS = 4


@dataclass
class Tally:
    """What a part of the soak has done: how often, how many kills, and what went wrong."""

    name: str
    done: int = 0
    kills: int = 0
    wrong: list[str] = field(default_factory=list)
    most_memory: int = 0  # bytes resident
    growths: list[int] = field(default_factory=list)  # bytes, of each life that was long enough

    @property
    def words(self) -> str:
        """Return the tally in a line."""
        growth = f", memory at most {max(self.growths, default=0) / 2**20:+.0f} MB in a life" if self.growths else ""
        peak = f", {self.most_memory / 2**20:.0f} MB" if self.most_memory else ""
        return f"{self.name}: {self.done:,} done, {self.kills:,} kills, {len(self.wrong):,} wrong{peak}{growth}"


def soak(minutes: float, seed: int) -> list[Tally]:
    """Run all parts for so many minutes, and return what each did."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it starts behind ignore it
    with tempfile.TemporaryDirectory(prefix="soak-") as scratch:
        folder = Path(scratch).resolve()
        parts = [Serving(folder, seed), Labelling(folder, seed + 1), Training(folder, seed + 2)]
        for part in parts:
            part.prepare()
        until = time.monotonic() + 60 * minutes
        threads = [threading.Thread(target=part.run, args=(until,), name=part.tally.name) for part in parts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [part.tally for part in parts]


class Part:
    """A part of the soak: a command that is started, used, killed, and started again until the time is over."""

    name = ""

    def __init__(self, scratch: Path, seed: int) -> None:
        self.tally = Tally(self.name)
        self.folder = scratch / self.name
        self.folder.mkdir()
        self.cache = f"cache_dir={scratch / 'cache'}"
        self.draw = random.Random(seed)

    def prepare(self) -> None:
        """Make what the command needs."""

    def run(self, until: float) -> None:
        """Repeat lives; what goes wrong in this thread is an outcome, too."""
        try:
            while time.monotonic() < until:
                self.live(until)
            self.check()
        except Exception as error:
            self.tally.wrong.append(f"{type(error).__name__}: {error}")

    def live(self, until: float) -> None:
        """Start the command, use it for a random time, and end it."""
        raise NotImplementedError

    def check(self) -> None:
        """Note at the end what is not as it must be."""

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start the command line."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
        line = [sys.executable, "-m", "encoderlab", *arguments, self.cache]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(line, cwd=self.folder, env=environment, **pipes)

    def finish(self, *arguments: str) -> None:
        """Run a command line to its end. Raises RuntimeError with what it said if it fails."""
        started = self.start(*arguments)
        _, said = started.communicate()
        if started.returncode != 0:
            raise RuntimeError(said[-500:])

    def end(self, process: subprocess.Popen[str]) -> None:
        """Kill the process or ask it to end, and note if it does not end as it should."""
        number = self.draw.choice(ENDS)
        if process.poll() is None:
            self.tally.kills += 1
            process.send_signal(number)
            _, said = process.communicate(timeout=120)
            if process.returncode not in CODES[number]:
                self.tally.wrong.append(f"{number.name} ended it with {process.returncode}: {said[-300:]}")
        else:
            self.tally.wrong.append(f"it ended by itself with {process.returncode}: {process.communicate()[1][-300:]}")


class Service(Part):
    """A command that serves HTTP: clients use it while its memory and open files are watched."""

    arguments: Sequence[str] = ()

    def live(self, until: float) -> None:
        """Serve clients until the process is killed."""
        process = self.start(*self.arguments, "port=0", "threads=1")
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.match(r"http://127\.0\.0\.1:\d+/", line)
        if address is None:
            self.tally.wrong.append(f"it did not start: {process.communicate()[1][-300:]}")
            return
        over = threading.Event()
        clients = [threading.Thread(target=self._use, args=(address[0], over, n)) for n in range(CLIENTS)]
        for client in clients:
            client.start()
        lives_until = min(time.monotonic() + self.draw.expovariate(1 / LIFE) + 10, until)
        self._watch(process, lives_until)
        self.end(process)
        over.set()
        for client in clients:
            client.join()

    def _use(self, address: str, over: threading.Event, number: int) -> None:
        """Be a client until the life is over; what it finds wrong is noted."""
        try:
            self.use(address, over, number)
        except LOST:
            pass
        except Exception as error:
            self.tally.wrong.append(f"{type(error).__name__}: {error}")

    def use(self, address: str, over: threading.Event, number: int) -> None:
        """Be client `number` until the life is over. Raises what the network raises once the process is killed."""
        raise NotImplementedError

    def _watch(self, process: subprocess.Popen[str], until: float) -> None:
        """Look at memory and open files until the time is over, and note if they grow."""
        memory: list[int] = []
        handles: list[int] = []
        while time.monotonic() < until and process.poll() is None:
            memory.append(resident_bytes(process.pid))
            handles.append(sum(1 for _ in Path(f"/proc/{process.pid}/fd").iterdir()))
            time.sleep(SAMPLE)
        self.tally.most_memory = max([self.tally.most_memory, *memory])
        settled = memory[int(SETTLED * len(memory)) :]
        if len(settled) < 30:
            return
        half = len(settled) // 2
        self.tally.growths.append(int(median(settled[half:]) - median(settled[:half])))
        if self.tally.growths[-1] > MOST_GROWTH:
            self.tally.wrong.append(f"memory grew by {self.tally.growths[-1] / 2**20:.0f} MB in {len(memory)} s")
        if median(handles[-10:]) > median(handles[:10]) + MOST_HANDLES:
            self.tally.wrong.append(f"open files grew from {handles[:10]} to {handles[-10:]}")


class Serving(Service):
    """`encoderlab serve`: each response is compared with the first; some clients leave early or send rubbish."""

    name = "serve"

    def prepare(self) -> None:
        """Train the model."""
        self.finish(*SERVED, f"run_dir={self.folder / 'model'}")
        self.arguments = ("serve", f"run={self.folder / 'model'}")
        self.right: dict[str, Any] = {}

    def use(self, address: str, over: threading.Event, number: int) -> None:
        """Send texts one after another, and now and then disconnect or send what is no request."""
        draw = random.Random(number)
        while not over.is_set():
            text = draw.choice(SENT)
            if draw.random() < 0.1:
                _leave(address, json.dumps({"text": text}).encode())
            elif draw.random() < 0.05:
                with suppress(urllib.error.HTTPError):
                    _asked(f"{address}predict", {"texts": [1]})
                    self.tally.wrong.append("a request without texts was answered")
            else:
                self._compare(text, _asked(f"{address}predict", {"text": text})["predictions"][0])
                self.tally.done += 1

    def _compare(self, text: str, prediction: dict[str, Any]) -> None:
        right = self.right.setdefault(text, prediction)
        chances = zip(right["probabilities"].values(), prediction["probabilities"].values(), strict=True)
        if right["predicted"] != prediction["predicted"] or any(abs(a - b) > 1e-2 for a, b in chances):
            self.tally.wrong.append(f"{text[:20]!r} was answered with {prediction}, and before with {right}")


class Labelling(Service):
    """`encoderlab label`: four windows answer and take back; what was confirmed is compared with the file of labels."""

    name = "label"
    arguments = ("label", "texts.csv", f"labels=[{','.join(LABELS)}]")

    def prepare(self) -> None:
        """Write the texts, and let a first start make their vectors."""
        rows = {" ".join(self.draw.choices(WORDS, k=6)) + f" {n}" for n in range(TEXTS)}
        (self.folder / "texts.csv").write_text("\n".join(["text", *sorted(rows)]) + "\n", encoding="utf-8")
        self.sent: dict[str, set[str | None]] = {}  # all labels that may be in force, of which the last was confirmed
        self._open_and_end()

    def use(self, address: str, over: threading.Event, number: int) -> None:
        """Answer texts, each at most a few times a second, and take some answers back."""
        draw = random.Random(f"{address}{number}")
        window = f"{address} {number}"
        state = _asked(f"{address}show", {"window": window})
        while not over.is_set() and state["text"]:
            text, label = state["text"]["texts"][0], draw.choice(LABELS)
            content = {"window": window, "text_id": state["text"]["text_id"], "label": label}
            state = self._noted(text, label, lambda content=content: _asked(f"{address}answer", content))
            if draw.random() < 0.05:
                self._noted(text, None, lambda: _asked(f"{address}undo", {"window": window}))
                state = _asked(f"{address}show", {"window": window})
            time.sleep(draw.random() * 0.4)

    def _noted(self, text: str, label: str | None, send: Callable[[], Any]) -> Any:
        """Send what may change a label, and note that it was sent, and then that it was confirmed."""
        self.sent.setdefault(text, {None}).add(label)
        reply = send()
        self.sent[text] = {label}
        self.tally.done += 1
        return reply

    def check(self) -> None:
        """Open the page a last time and end it in order; compare the file of labels with what was confirmed."""
        self._open_and_end()
        with (self.folder / "texts-labelled.csv").open(encoding="utf-8", newline="") as file:
            written = {row["text"]: row["label"] or None for row in csv.DictReader(file)}
        assert self.sent, "nothing was answered"
        lost = [text for text, labels in self.sent.items() if written.get(text) not in labels]
        if lost:
            self.tally.wrong.append(f"{len(lost)} answers are lost, such as that to {lost[0]!r}")

    def _open_and_end(self) -> None:
        """Open the page, and end it in order."""
        process = self.start(*self.arguments, "port=0", "threads=1")
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


class Training(Part):
    """A training run that is killed and resumed until it ends, again and again; each must end like the first."""

    name = "train"

    def prepare(self) -> None:
        """Train undisturbed once, to compare with."""
        self.finish(*LONG, f"run_dir={self.folder / 'undisturbed'}")
        self.reference = outcome(self.folder / "undisturbed")
        self.current = self.folder / "run"

    def live(self, until: float) -> None:
        """Start or resume the run, and kill it unless it ends before; compare one that has ended."""
        begun = (self.current / "config.yaml").exists()
        line = ("train", f"resume={self.current}") if begun else (*LONG, f"run_dir={self.current}")
        process = self.start(*line)
        with suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=min(self.draw.expovariate(1 / RUN) + 1, max(until - time.monotonic(), 0.1)))
        if process.poll() is None:
            self.tally.kills += 1
            number = self.draw.choice(ENDS)
            process.send_signal(number)
            _, said = process.communicate(timeout=120)
            ended_anyway = finished(self.current) and process.returncode == 0
            is_unborn = process.returncode == -number and (not said.strip() or _was_loading(said))
            if process.returncode not in CODES[number] and not ended_anyway and not is_unborn:
                self.tally.wrong.append(f"{number.name} ended it with {process.returncode}: {said[-300:]}")
        if finished(self.current):
            differing = difference(outcome(self.current), self.reference)
            if differing:
                self.tally.wrong.append(f"a run ended with {differing}")
            self.tally.done += 1
            shutil.rmtree(self.current)


def _was_loading(said: str) -> bool:
    """Return whether a process was interrupted while it loaded its modules, before it listened to signals."""
    return said.rstrip().endswith("KeyboardInterrupt") and "<frozen importlib" in said and "encoderlab: " not in said


def resident_bytes(process: int) -> int:
    """Return how much memory a process of this Linux machine has."""
    pages = Path(f"/proc/{process}/statm").read_text(encoding="utf-8").split()[1]
    return int(pages) * resource.getpagesize()


def _asked(address: str, content: dict[str, Any]) -> Any:
    """Return what a service replies to a request in JSON."""
    request = urllib.request.Request(address, json.dumps(content).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        return json.load(reply)


def _leave(address: str, body: bytes) -> None:
    """Send a request, and go without waiting for the response."""
    host, port = address.removeprefix("http://").rstrip("/").split(":")
    lines = ("POST /predict HTTP/1.1", f"Host: {host}", "Content-Type: application/json")
    head = "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""])
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(head.encode() + body)
