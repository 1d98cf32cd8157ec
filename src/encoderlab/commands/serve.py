"""encoderlab serve: a finished run over HTTP on this machine: predictions as JSON, and a web page to try it.

Requests are limited before they are read. A page of another site can neither read a response (there are no CORS
headers) nor request one, because a request must be declared as JSON; a host name that it points here itself is refused.
The model predicts in a thread of its own, one request at a time, so that other requests never wait for it.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, cast

from encoderlab.commands.predict import check_certainty
from encoderlab.config.commands import ServeConfig
from encoderlab.errors import DataError, SettingError, UserError
from encoderlab.reports.blocks import render
from encoderlab.runs.assembly import Assembly, check_paired, reopen
from encoderlab.runs.predict import example_of, predictions_of, reads_words, unless_blank
from encoderlab.system.processes import deferred, is_interrupted
from encoderlab.tasks.task import RowPrediction, Task, as_objects, likeliest

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import HTMLResponse, JSONResponse, Response
    from starlette.routing import Route
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError as error:
    raise SettingError(f"serve needs {error.name}", remedy='Run pip install "encoderlab[serve]"') from None

LARGEST_BODY = 2**23  # bytes of a request
BODY_SECONDS = 10.0  # that a request may take to arrive
IDLE_SECONDS = 5.0  # between two checks for connections without a request; at the second, they are closed
MOST_REQUESTS = 64  # at a time; further ones are asked to retry
LAST_SECONDS = 5  # to finish open requests when the server is told to stop
LOOPBACK = ["127.0.0.1", "localhost", "[::1]", "::1"]
KEYS = {"text", "text_pair", "texts", "text_pairs", "top_k"}
EXAMPLE = 'send {"texts": ["...", "..."]}, or {"text": "...", "text_pair": "..."}'
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


def serve(config: ServeConfig) -> None:
    """Serve requests until a signal arrives. Raises SettingError, DataError, and Interrupted at the end."""
    with _listening(config.host, config.port) as listening:
        assembly = reopen(config, or_graph=True)
        check_certainty(config.min_probability, assembly)
        second = "a" if assembly.known_origin.paired else None
        # Otherwise the first request would wait for set-up.
        predictions_of(assembly, [example_of("a", second, reads_words(assembly))])
        host, port = listening.getsockname()[:2]
        print(f"http://{f'[{host}]' if ':' in host else host}:{port}/  (Ctrl-C stops it)", flush=True)
        is_private = ipaddress.ip_address(host.partition("%")[0]).is_loopback
        if not is_private:
            print(f"host={config.host}: anyone who can reach this machine can use the model", file=sys.stderr)
        app = web_service(assembly, config, [*LOOPBACK, host, config.host] if is_private else ["*"])
        with deferred("stopping after the open requests"):
            _Server(
                uvicorn.Config(
                    app,
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
            ).run(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket bound to this address, before a model is loaded. Raises SettingError if it cannot be bound."""
    try:
        family, *_, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=128)
    except OSError as error:
        reason = (error.strerror or "").partition(" (while")[0]
        remedy = "Use port=0 for any free port" if port else "Use host=127.0.0.1"
        raise SettingError(f"Cannot listen on host={host} port={port}: {reason}", remedy=remedy) from None


class _Server(uvicorn.Server):
    """A server that stops when encoderlab has received a signal."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Do nothing: encoderlab handles the signals."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Check ten times a second whether to stop."""
        return await super().on_tick(counter) or is_interrupted()


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


def web_service(assembly: Assembly, config: ServeConfig, hosts: list[str]) -> Starlette:
    """Return the application for requests to one of the host names `hosts`; "*" is any."""
    service = _Service(assembly, config)
    handlers: dict[Any, Any] = {HTTPException: _refused, UserError: _mistaken, ClientDisconnect: _gone}
    return Starlette(
        routes=[
            Route("/", service.page),
            Route("/health", service.health),
            Route("/model", service.model),
            Route("/openapi.json", service.openapi),
            Route("/predict", service.predict, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
        exception_handlers=handlers,
    )


class _Service:
    """The responses for each path."""

    def __init__(self, assembly: Assembly, config: ServeConfig) -> None:
        self.assembly, self.config = assembly, config
        self.facts = _facts(assembly, config)
        self.html = render("serve.html", title=f"{self.facts['task']}: try it", facts=self.facts)
        self.worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")  # PyTorch's threads are its own
        self.turn = asyncio.Lock()

    async def page(self, request: Request) -> Response:
        return HTMLResponse(self.html)

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def model(self, request: Request) -> Response:
        return JSONResponse(self.facts)

    async def openapi(self, request: Request) -> Response:
        return JSONResponse(_description(self.facts))

    async def predict(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "Send JSON, with the header content-type: application/json")
        content = await _body(request)
        pairs, top_k = _pairs(content, self.config), _top_k(content, self.assembly.task)
        async with self.turn:
            if await request.is_disconnected():
                raise ClientDisconnect
            predict = asyncio.get_running_loop().run_in_executor(self.worker, self._predictions, pairs, top_k)
            return JSONResponse({"predictions": await predict})

    def _predictions(self, pairs: list[tuple[str, str | None]], top_k: int | None) -> list[dict[str, Any]]:
        """Return an object for each text or pair, in order: see `RowPrediction.as_dict`; or a label for each word."""
        task, least, of_words = self.assembly.task, self.config.min_probability or 0.0, reads_words(self.assembly)
        check_paired(self.assembly, pairs[0][1] is not None)
        examples = [example_of(text, text_pair, of_words) for text, text_pair in pairs]
        answers = predictions_of(self.assembly, examples)
        if of_words:
            return [
                {"words": _words(cast("Any", example).words, answer, task.labels, top_k, least)}
                for example, answer in zip(examples, answers, strict=True)
            ]
        predictions = [answer.as_dict(task.labels, task.heads.sequence_target, top_k) for answer in answers]
        for prediction, answer in zip(predictions, answers, strict=True):
            if least and answer.by_label(task.labels)[prediction["predicted"]] < least:
                prediction["predicted"] = None
        return list(map(unless_blank, examples, predictions))


def _words(
    words: tuple[str, ...], answer: RowPrediction, names: Sequence[str], top_k: int | None, least: float = 0.0
) -> list[dict[str, Any]]:
    """Return each word with its label, null below the probability `least`, that label's probability, and the `top_k`.

    All are null for words that did not fit into the model.
    """
    tops = answer.word_probabilities if top_k is not None else None
    predicted: list[dict[str, Any]] = []
    for place, word in enumerate(words):
        read = place < len(answer.labels)
        chance = (answer.word_confidences or ())[place] if read else None
        label = answer.labels[place] if chance is not None and chance >= least else None
        top = {} if tops is None else {"top": as_objects(likeliest(names, tops[place], top_k)) if read else None}
        predicted.append({"word": word, "predicted": label, "probability": chance, **top})
    return predicted


def _facts(assembly: Assembly, config: ServeConfig) -> dict[str, Any]:
    """Return what the model is, in JSON values."""
    model, task = assembly.config.model, assembly.task
    return {
        "task": assembly.config.task.name,
        "target": task.heads.sequence_target,
        "reads": "words" if reads_words(assembly) else "texts",
        "paired": bool(assembly.known_origin.paired),
        "labels": task.labels,
        "parameters": assembly.model.n_parameters,
        "n_layers": model.n_layers,
        "d_model": model.d_model,
        "max_length": model.max_length,
        "vocabulary_size": assembly.tokenizer.vocabulary_size,
        "checkpoint": assembly.known_origin.checkpoint,
        "device": str(assembly.compute.device),
        "min_probability": config.min_probability,
        "limits": {"texts": config.max_texts, "characters": config.max_characters, "body": LARGEST_BODY},
    }


def _description(facts: dict[str, Any]) -> dict[str, Any]:
    """Return the service as an OpenAPI description (version 3.1)."""
    text = {"type": "string", "maxLength": facts["limits"]["characters"]}
    several = {"type": "array", "items": text, "minItems": 1, "maxItems": facts["limits"]["texts"]}
    request = {"text": text, "text_pair": text, "texts": several, "text_pairs": several, "top_k": {"type": "integer"}}
    predictions = {"predictions": {"type": "array", "items": {"type": "object"}}}

    def operation(summary: str, **properties: Any) -> dict[str, Any]:
        content = {"application/json": {"schema": {"type": "object", "properties": properties}}}
        return {"summary": summary, "responses": {"200": {"description": "OK", "content": content}}}

    schema = {"type": "object", "properties": request, "oneOf": [{"required": ["text"]}, {"required": ["texts"]}]}
    body = {"required": True, "content": {"application/json": {"schema": schema}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"encoderlab: {facts['task']}", "version": "1"},
        "paths": {
            "/predict": {"post": operation("A prediction for each text", **predictions) | {"requestBody": body}},
            "/model": {"get": operation("What the model is")},
            "/health": {"get": operation("Whether the server runs", status={"type": "string"})},
        },
    }


async def _body(request: Request) -> Any:
    """Return the request's JSON. Raises HTTPException if it is invalid, too large, or arrives too slowly."""
    raw, closing = bytearray(), {"connection": "close"}
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                raw += part
                if len(raw) > LARGEST_BODY:
                    raise HTTPException(413, f"The request has more than {LARGEST_BODY:,} bytes", closing)
    except TimeoutError:
        wrong = f"The request took more than {BODY_SECONDS:g} seconds to arrive"
        raise HTTPException(408, wrong, closing) from None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise HTTPException(400, f"The request is not JSON; {EXAMPLE}") from None


def _pairs(content: Any, config: ServeConfig) -> list[tuple[str, str | None]]:
    """Return the texts of a request, each with its second text or None. Raises HTTPException for any other request."""
    if not isinstance(content, dict):
        raise _not_understood("The request is not an object")
    if unknown := content.keys() - KEYS:
        raise _not_understood(f"The request has an unknown key, {sorted(unknown)[0][:40]!r}")
    if ("text" in content) == ("texts" in content):
        raise _not_understood("The request must have either text or texts")
    name, second = ("texts", "text_pairs") if "texts" in content else ("text", "text_pair")
    if ("text_pair" if name == "texts" else "text_pairs") in content:
        raise _not_understood("text goes with text_pair, and texts with text_pairs")
    texts = _texts(name, content[name], config)
    if content.get(second) is None:
        return [(text, None) for text in texts]
    seconds = _texts(second, content[second], config)
    if len(seconds) != len(texts):
        raise _not_understood(f"There are {len(texts)} texts and {len(seconds)} text_pairs")
    return list(zip(texts, seconds, strict=True))


def _texts(name: str, content: Any, config: ServeConfig) -> list[str]:
    """Return a request's texts of this name. Raises HTTPException for anything else, and beyond the limits."""
    texts = content if name.endswith("s") else [content]
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise _not_understood(f"{name} must be {'a list of texts' if name.endswith('s') else 'a text'}")
    if len(texts) > config.max_texts:
        raise HTTPException(413, f"The request has {len(texts)} texts, but at most {config.max_texts} are allowed")
    if (longest := max(map(len, texts))) > config.max_characters:
        wrong = f"A text has {longest:,} characters, but at most {config.max_characters:,} are allowed"
        raise HTTPException(413, wrong)
    return texts


def _top_k(content: dict[str, Any], task: Task) -> int | None:
    """Return the request's `top_k` (None: all classes). Raises HTTPException if it does not suit the model."""
    top_k = content.get("top_k")
    if top_k is None:
        return None
    if not task.labels:
        raise HTTPException(422, "top_k needs a model with labels, and this one predicts a number; remove top_k")
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= len(task.labels):
        raise HTTPException(422, f"top_k must be a whole number from 1 to {len(task.labels)}, the labels of this model")
    return top_k


def _not_understood(wrong: str) -> HTTPException:
    return HTTPException(422, f"{wrong}; {EXAMPLE}")


async def _refused(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _mistaken(request: Request, error: UserError) -> Response:
    """Return the response for an error: the request's fault if the model cannot read it, otherwise the server's."""
    return JSONResponse({"error": str(error)}, 422 if isinstance(error, DataError) else 503)


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    """Return a response that nobody reads, because the client has left."""
    return Response(status_code=400)
