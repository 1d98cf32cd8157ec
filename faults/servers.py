"""Trials of web servers that stall, lie, redirect in circles or break off while a file is read from them.

Each answer is tried without a copy of the file in the cache, and with one. The rows are either the right ones, or there
is one line and no copy. What the reader waits for is counted in tenths of seconds here, and in minutes by users.
"""

from __future__ import annotations

import gzip
import json
import shutil
import socket
import socketserver
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path

from faults.host import Ended, Host, Job
from faults.promise import Conditions, Trial
from faults.training import shared_folder, until_exit

MODULES = ("encoderlab.data.files", "encoderlab.tables.remote", "datasets", "faults.servers")
ROWS = b"text,label\nrain,weather\ngoal,sport\nsnow,weather\n"
LABELS = ["weather", "sport", "weather"]
REFUSED = 3  # the exit code of a file that is refused in one line
PATIENCE = 0.5  # seconds that the reader waits for a head, and for the first bytes
SLOWEST = 15.0  # seconds for one file
MOST_BYTES = 10**6
Answer = Callable[[socket.socket, str], None]


def _head(status: int = 200, **headers: object) -> bytes:
    """Return the head of an answer; its connection is closed at the end."""
    lines = [f"HTTP/1.1 {status} Whatever", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _sends(*parts: bytes) -> Answer:
    """Return what sends these bytes and closes the connection."""

    def answer(connection: socket.socket, _: str) -> None:
        for part in parts:
            connection.sendall(part)

    return answer


def _repeats(first: bytes, part: bytes, pause: float = 0.0) -> Answer:
    """Return what sends a part again and again, until the reader has gone; with a pause, slowly."""

    def answer(connection: socket.socket, _: str) -> None:
        connection.sendall(first)
        while True:
            connection.sendall(part)
            time.sleep(pause)

    return answer


def _stalls(first: bytes) -> Answer:
    """Return what sends some bytes, and then nothing until the reader has gone."""

    def answer(connection: socket.socket, _: str) -> None:
        connection.sendall(first)
        connection.recv(1)

    return answer


def _redirects(to: str) -> Answer:
    """Return what redirects to another place, where {path} is the path that was asked for."""
    return lambda connection, path: connection.sendall(_head(302, Location=to.format(path=path), Content_Length=0))


def _whole(**headers: object) -> bytes:
    return _head(200, Content_Length=len(ROWS), **headers) + ROWS


ANSWERS: dict[str, Answer] = {
    "an honest answer": _sends(_whole(ETag='"1"')),
    "a version beyond ASCII": _sends(_whole(ETag='"\xe9"')),
    "a version of 50,000 letters": _sends(_whole(ETag=f'"{"x" * 50_000}"')),
    "nothing": _stalls(b""),
    "an end at once": _sends(),
    "half a head": _stalls(_head()[:20]),
    "a head, a byte at a time": _repeats(b"HTTP/1.1 200 OK\r\nX: ", b"x", pause=0.02),
    "a head of endless lines": _repeats(b"HTTP/1.1 200 OK\r\n", b"X: x\r\n"),
    "a head of one endless line": _repeats(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 1000),
    "one 100 after another": _repeats(b"", b"HTTP/1.1 100 Continue\r\n\r\n", pause=0.01),
    "no HTTP": _sends(bytes(range(256))),
    "a body that stalls": _stalls(_head(Content_Length=1000) + ROWS),
    "a body that stalls, of no stated length": _stalls(_head() + ROWS),
    "a body, a byte at a time": _repeats(_head(), b"x", pause=0.02),
    "a body that breaks off": _sends(_head(Content_Length=1000), ROWS),
    "a body without end": _repeats(_head(), b"text,label\n" * 1000),
    "a length below zero": _sends(_head(Content_Length=-1), ROWS),
    "a length that is no number": _sends(_head(Content_Length="many"), ROWS),
    "a length of 5,000 digits": _sends(_head(Content_Length="9" * 5000), ROWS),
    "two lengths": _sends(_head(Content_Length=f"1000\r\nContent-Length: {len(ROWS)}"), ROWS),
    "pieces that break off": _sends(_head(Transfer_Encoding="chunked"), b"%x\r\n%s\r\n" % (len(ROWS), ROWS)),
    "pieces of a false size": _sends(_head(Transfer_Encoding="chunked"), b"fffffff\r\n", ROWS),
    "pieces of no size": _sends(_head(Transfer_Encoding="chunked"), b"many\r\n", ROWS),
    "pieces without end": _repeats(_head(Transfer_Encoding="chunked"), b"2710\r\n%s\r\n" % (b"x" * 10_000)),
    "gzip that breaks off": _sends(_head(Content_Encoding="gzip"), gzip.compress(ROWS)[:-9]),
    "gzip that is none": _sends(_whole(Content_Encoding="gzip")),
    "gzip, and more behind it": _sends(_head(Content_Encoding="gzip"), gzip.compress(ROWS), b"more"),
    "gzip of a gigabyte": _sends(_head(Content_Encoding="gzip"), *[gzip.compress(bytes(2**24))] * 64),
    "gzip of gzip": _sends(_head(Content_Encoding="gzip"), gzip.compress(gzip.compress(ROWS))),
    "another packing": _sends(_whole(Content_Encoding="br")),
    "a page instead of the file": _sends(_head(), b"<!doctype html><title>Log in</title>"),
    "an empty file": _sends(_head(Content_Length=0)),
    "a redirection to itself": _redirects("{path}"),
    "redirections, ever deeper": _redirects("{path}/x"),
    "a redirection to a file": _redirects("file:///etc/hostname"),
    "a redirection to nonsense": _redirects("http://["),
    "a redirection to a closed port": _redirects("http://127.0.0.1:1/rows.csv"),
    "a redirection to nowhere": _sends(_head(302, Content_Length=0)),
    **{f"status {status}": _sends(_head(status), ROWS) for status in (202, 203, 206, 401, 404, 416, 429, 500, 503)},
    **{f"status {status}": _sends(_head(status)) for status in (204, 205, 304, 305)},
}
HONEST = ("an honest answer", "a version beyond ASCII", "a version of 50,000 letters")
NOT_THE_FILE = ("a page instead of the file", "an empty file", "gzip of gzip")  # whole, and useless: no copy is better


def read(conditions: Conditions, work: str = "read_file") -> Iterator[Trial]:
    """Read a file from each server. `work` is a function of this module that does."""
    cases = [(name, has_copy) for name in ANSWERS for has_copy in (False, True)]
    for name, has_copy in conditions.select(cases):
        folder = Path(tempfile.mkdtemp(dir=shared_folder()))
        ended = None
        with _serving() as (address, answers):
            answers += [ANSWERS["an honest answer"]] if has_copy else []
            answers += [ANSWERS[name]] * 100  # redirections lead to this server again
            for _ in range(1 + has_copy):
                arguments = {"url": f"{address}/rows.csv", "cache_dir": str(folder)}
                ended = _host().run(Job(f"faults.servers:{work}", arguments))
        assert ended is not None
        yield Trial(f"{name}, {'with' if has_copy else 'without'} a copy", _wrong(name, ended, folder, has_copy))
        shutil.rmtree(folder)


def _wrong(name: str, ended: Ended, folder: Path, has_copy: bool) -> str:
    """Return what is wrong with how a file was read; "" if nothing is."""
    if ended.seconds > SLOWEST:
        return f"it took {ended.seconds:.0f} s"
    if ended.code == 0:
        right = json.dumps(LABELS) == ended.last_line
        return "" if right else f"it read {ended.last_line}"
    if ended.code != REFUSED or len(ended.lines) != 1:
        return f"exit code {ended.code}: {ended.output[-300:]!r}"
    if name in NOT_THE_FILE:
        return ""
    if has_copy or name in HONEST:
        return f"the rows were not read: {ended.last_line}"
    copies = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return f"it left {copies[0].name}" if copies else ""


@cache
def _host() -> Host:
    """Return the one host of these trials. Raises UnavailableError."""
    return until_exit(Host(MODULES))


@contextmanager
def _serving() -> Iterator[tuple[str, list[Answer]]]:
    """Serve on a free port; yield the address, and the list of answers to be given one after another."""
    answers: list[Answer] = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            request = b""
            with suppress(OSError):
                self.request.settimeout(SLOWEST)
                while b"\r\n\r\n" not in request and (part := self.request.recv(2**16)):
                    request += part
                path = request.split(b" ")[1].decode("latin-1") if b" " in request else "/"
                answers.pop(0)(self.request, path)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=partial(server.serve_forever, poll_interval=0.05), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", answers
        finally:
            server.shutdown()


def read_file(url: str, cache_dir: str) -> None:
    """In a child that waits less long than users do: print the labels of a file. Raises DataError."""
    from encoderlab.data.files import FilesDataset
    from encoderlab.tables import remote

    remote.ANSWER_SECONDS = PATIENCE  # pyright: ignore[reportAttributeAccessIssue]
    remote.FIRST_SECONDS = PATIENCE  # pyright: ignore[reportAttributeAccessIssue]
    remote._SECONDS = PATIENCE  # pyright: ignore[reportAttributeAccessIssue]
    remote.MOST_BYTES = MOST_BYTES
    data = FilesDataset(path=url, validation_fraction=0.0).load(Path(cache_dir))
    print(json.dumps([data.labels[example.label] for example in data.split("train")]))
    sys.stdout.flush()
