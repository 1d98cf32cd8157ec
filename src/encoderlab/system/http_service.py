"""A small HTTP service on this machine: its address, limits on requests before they are read, headers for browsers.

A page of another site can neither read a response (there are no CORS headers) nor request one, because a request must
be declared as JSON; a host name that it points here itself is refused.
"""

import asyncio
import json
import socket
from typing import Any
from urllib.parse import urlsplit

from encoderlab.errors import DataError, SettingError, UserError

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import ClientDisconnect as ClientDisconnect
    from starlette.requests import Request
    from starlette.responses import HTMLResponse as HTMLResponse
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise SettingError(f"A web page needs {error.name}", remedy='Run pip install "encoderlab[serve]"') from None

LARGEST_BODY = 2**23  # bytes of a request
BODY_SECONDS = 10.0  # that a request may take to arrive
IDLE_SECONDS = 5.0  # between two checks for connections without a request; at the second, they are closed
MOST_REQUESTS = 64  # at a time; further ones are asked to retry
LAST_SECONDS = 5  # to finish open requests when the server is told to stop
LOOPBACK = ["127.0.0.1", "localhost", "[::1]", "::1"]
HEADERS = [  # of every response: what a browser may do with it
    (
        "content-security-policy",
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cache-control", "no-store"),
]


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to this address, before a model is loaded. Raises SettingError if it cannot be bound."""
    try:
        family, *_, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=128)
    except OSError as error:
        reason = (error.strerror or "").partition(" (while")[0]
        remedy = "Use port=0 for any free port" if port else "Use host=127.0.0.1"
        raise SettingError(f"Cannot listen on host={host} port={port}: {reason}", remedy=remedy) from None


def address_of(listening: socket.socket) -> str:
    """Return the URL of the page at a socket."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/"


class _Protocol(H11Protocol):
    """A connection that is closed if no request, or only a part of its headers, has come since the last check."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.loop.call_later(IDLE_SECONDS, self._close_if_idle, None)

    def _close_if_idle(self, last: Any) -> None:
        if self.cycle is last and (last is None or last.response_complete):
            self.transport.close()
        elif not self.transport.is_closing():
            self.loop.call_later(IDLE_SECONDS, self._close_if_idle, self.cycle)


def service_of(routes: list[Route], hosts: list[str]) -> Starlette:
    """Return the application for requests to one of the host names `hosts`; "*" is any. Errors are one line of JSON."""
    handlers: dict[Any, Any] = {HTTPException: _refused, UserError: _mistaken}
    return Starlette(
        routes=routes,
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
        exception_handlers=handlers,
    )


def run_until_stopped(service: Starlette, listening: socket.socket) -> None:
    """Serve requests until a signal arrives, finish the open ones, and raise the signal again."""
    settings = uvicorn.Config(
        service,
        loop="asyncio",
        http=_Protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=HEADERS,
        limit_concurrency=MOST_REQUESTS,
        timeout_graceful_shutdown=LAST_SECONDS,
    )
    uvicorn.Server(settings).run(sockets=[listening])


def check_declared_as_json(request: Request) -> None:
    """Raise HTTPException unless the request says that it is JSON, which a form of another site cannot say."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "Send JSON, with the header content-type: application/json")


def check_own_origin(request: Request) -> None:
    """Raise HTTPException if a browser says that the request comes from a page of another site."""
    origin = request.headers.get("origin")
    if origin is None:
        return
    try:
        site = urlsplit(origin).netloc
    except ValueError:  # such as http://[
        site = None
    if site != request.headers.get("host"):
        raise HTTPException(403, f"Requests from pages of {origin[:100]} are refused")


async def json_of(request: Request, example: str) -> Any:
    """Return the request's JSON. Raises HTTPException if it is invalid, too large, or arrives too slowly."""
    raw = bytearray()
    closing = {"connection": "close"}
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                raw += part
                if len(raw) > LARGEST_BODY:
                    raise HTTPException(413, f"The request has more than {LARGEST_BODY:,} bytes", closing)
    except TimeoutError:
        problem = f"The request took more than {BODY_SECONDS:g} seconds to arrive"
        raise HTTPException(408, problem, closing) from None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise HTTPException(400, f"The request is not JSON; {example}") from None


async def _refused(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _mistaken(request: Request, error: UserError) -> Response:
    return JSONResponse({"error": str(error)}, status_of(error))


def status_of(error: HTTPException | UserError) -> int:
    """Return the status for an error: the request's fault if the model cannot read it, otherwise the server's."""
    if isinstance(error, HTTPException):
        return error.status_code
    return 422 if isinstance(error, DataError) else 503
