"""encoderlab serve: serves a finished run over HTTP on this machine, with a web page to try it."""

from __future__ import annotations

import ipaddress
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from encoderlab.config.commands import ServeConfig
from encoderlab.errors import SettingError
from encoderlab.runs.assembly import Assembly, reopen
from encoderlab.runs.inputs import example_of, reads_words
from encoderlab.runs.predict import answers_of
from encoderlab.system.signals import deferred, is_interrupted

if TYPE_CHECKING:
    import uvicorn

LARGEST_BODY = 2**23  # bytes of a request
MOST_REQUESTS = 64  # at a time; further ones are asked to retry
LAST_SECONDS = 5  # to finish open requests when the server is told to stop
LOOPBACK = ["127.0.0.1", "localhost", "[::1]", "::1"]


def serve(config: ServeConfig) -> None:
    """Answer requests until a signal arrives. Raises SettingError, DataError, and Interrupted at the end."""
    for name in ("starlette", "uvicorn"):
        if find_spec(name) is None:
            raise SettingError(
                f"serve needs {name}, which is not installed", remedy='Run pip install "encoderlab[serve]"'
            )
    with _listening(config.host, config.port) as listening:
        assembly = reopen(config, or_graph=True)
        second = "a" if assembly.opened.paired else None
        answers_of(assembly, [example_of("a", second, reads_words(assembly))])  # or the first request waits for set-up
        server = _server(config, assembly)
        host, port = listening.getsockname()[:2]
        print(f"http://{f'[{host}]' if ':' in host else host}:{port}/  (Ctrl-C stops it)", flush=True)
        if not _is_loopback(config.host):
            print(f"host={config.host}: anyone who can reach this machine can use the model", file=sys.stderr)
        with deferred("stopping after the open requests"):
            server.run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket bound to this address, before a model is loaded. Raises SettingError if it cannot be bound."""
    try:
        family, *_, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=128)
    except OSError as error:
        reason = (error.strerror or "").partition(" (while")[0]
        remedy = "Use port=0 for any free port" if port else "Use host=127.0.0.1"
        raise SettingError(f"Cannot listen on host={host} port={port}: {reason}", remedy=remedy) from None


def _server(config: ServeConfig, assembly: Assembly) -> uvicorn.Server:
    """Return the server, which stops when a signal has arrived (`on_tick`)."""
    import uvicorn

    from encoderlab.serving.web_service import Limits, web_service

    class Server(uvicorn.Server):
        @contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Do nothing: encoderlab handles the signals."""
            yield

        async def on_tick(self, counter: int) -> bool:
            """Check ten times a second whether to stop."""
            return await super().on_tick(counter) or is_interrupted()

    app = web_service(
        assembly,
        Limits(config.max_texts, config.max_characters, LARGEST_BODY),
        hosts=[*LOOPBACK, config.host] if _is_loopback(config.host) else ["*"],
    )
    settings = uvicorn.Config(
        app,
        loop="asyncio",
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_REQUESTS,
        timeout_graceful_shutdown=LAST_SECONDS,
    )
    return Server(settings)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
