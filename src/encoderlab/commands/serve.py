"""encoderlab serve: a finished run over HTTP on this machine: predictions as JSON, and a web page to try it.

Requests are limited before they are read. A page of another site can neither read a response (there are no CORS
headers) nor request one, because a request must be declared as JSON; a host name that it points here itself is refused.
The model predicts in a thread of its own, one request at a time, so that other requests never wait for it.
"""

import asyncio
import ipaddress
import json
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from encoderlab.commands.predict import check_certainty
from encoderlab.config.commands import ServeConfig
from encoderlab.errors import DataError, SettingError, UserError
from encoderlab.reports.blocks import render
from encoderlab.reports.trial import Trial, trial_of
from encoderlab.runs.model import Model, unless_blank
from encoderlab.runs.model_folder import model_folder, open_model
from encoderlab.tasks.task import RowPrediction

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
MOST_TEXTS = 100  # in a request
MOST_CHARACTERS = 10_000  # in each of its texts
BODY_SECONDS = 10.0  # that a request may take to arrive
IDLE_SECONDS = 5.0  # between two checks for connections without a request; at the second, they are closed
MOST_REQUESTS = 64  # at a time; further ones are asked to retry
LAST_SECONDS = 5  # to finish open requests when the server is told to stop
LOOPBACK = ["127.0.0.1", "localhost", "[::1]", "::1"]
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
        # The model, warmed up: otherwise the first request would wait for set-up.
        model = open_model(config, or_graph=True)
        check_certainty(config.min_probability, model)
        second = "a" if model.origin.paired else None
        model.predictions([model.example("a", second)])

        # Who may ask, and what the page shows them: rows of the data only on this machine.
        host, port = listening.getsockname()[:2]
        print(f"http://{f'[{host}]' if ':' in host else host}:{port}/  (Ctrl-C stops it)", flush=True)
        hosts = [*LOOPBACK, host, config.host]
        if not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
            print(f"host={config.host}: anyone who can reach this machine can use the model", file=sys.stderr)
            hosts = ["*"]
        trial = trial_of(model_folder(config.run).parent, model.name)
        if hosts == ["*"]:
            trial = Trial(trial.title)

        server = uvicorn.Config(
            web_service(model, config.min_probability or 0.0, hosts, trial),
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
        uvicorn.Server(server).run(sockets=[listening])  # after a signal, it finishes and raises the signal again


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket bound to this address, before a model is loaded. Raises SettingError if it cannot be bound."""
    try:
        family, *_, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=128)
    except OSError as error:
        reason = (error.strerror or "").partition(" (while")[0]
        remedy = "Use port=0 for any free port" if port else "Use host=127.0.0.1"
        raise SettingError(f"Cannot listen on host={host} port={port}: {reason}", remedy=remedy) from None


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


def web_service(model: Model, min_probability: float, hosts: list[str], trial: Trial | None = None) -> Starlette:
    """Return the application for requests to one of the host names `hosts`; "*" is any. Labels less probable than
    `min_probability` are null. The page shows the name and the examples of `trial`.
    """
    trial = trial or Trial(model.name)
    facts = _facts(model) | {"min_probability": min_probability}
    fixed = {
        "/": HTMLResponse(render("serve.html", title=f"{trial.title}: try it", facts=facts, trial=trial)),
        "/health": JSONResponse({"status": "ok"}),
        "/model": JSONResponse(facts),
        "/openapi.json": JSONResponse(_description(model.name)),
    }
    worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")  # PyTorch's threads are its own
    turn = asyncio.Lock()

    async def predict(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "Send JSON, with the header content-type: application/json")
        try:
            pairs = _pairs(await _body(request))
            async with turn:
                if not await request.is_disconnected():
                    work = (worker, _predictions, model, pairs, min_probability)
                    loop = asyncio.get_running_loop()
                    return JSONResponse({"predictions": await loop.run_in_executor(*work)})
        except ClientDisconnect:
            pass
        return Response(status_code=400)  # which nobody reads

    routes = [Route(path, response, methods=["GET"]) for path, response in fixed.items()]
    handlers: dict[Any, Any] = {HTTPException: _refused, UserError: _mistaken}
    return Starlette(
        routes=[*routes, Route("/predict", predict, methods=["POST"])],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)],
        exception_handlers=handlers,
    )


def _predictions(model: Model, pairs: list[tuple[str, str | None]], min_probability: float) -> list[dict[str, Any]]:
    """Return an object for each text or pair, in order: see `Task.plain`; or a label for each word."""
    of_words = model.task.config.of_words
    model.check_paired(pairs[0][1] is not None)
    examples = [model.example(text, text_pair) for text, text_pair in pairs]
    predicted = zip(examples, model.predictions(examples), strict=True)
    if of_words:
        return [{"words": _words(cast("Any", example).words, one, min_probability)} for example, one in predicted]
    objects = []
    for example, one in predicted:
        prediction = model.task.plain(one)
        if min_probability and prediction["probabilities"][prediction["predicted"]] < min_probability:
            prediction["predicted"] = None
        objects.append(unless_blank(example, prediction))
    return objects


def _words(words: tuple[str, ...], prediction: RowPrediction, min_probability: float) -> list[dict[str, Any]]:
    """Return each word with its label and that label's probability, both null for words that did not fit."""
    unread = len(words) - len(prediction.labels)
    labels = [*prediction.labels, *[None] * unread]
    chances = [*(prediction.word_confidences or ()), *[None] * unread]
    objects = []
    for word, label, chance in zip(words, labels, chances, strict=True):
        is_given = chance is not None and chance >= min_probability
        objects.append({"word": word, "predicted": label if is_given else None, "probability": chance})
    return objects


def _facts(model: Model) -> dict[str, Any]:
    """Return what the model is, in JSON values."""
    shape = model.shape
    task = model.task
    return {
        "task": model.name,
        "target": task.heads.sequence_target,
        "reads": "words" if model.task.config.of_words else "texts",
        "paired": bool(model.origin.paired),
        "labels": task.labels,
        "parameters": model.network.n_parameters,
        "n_layers": shape.n_layers,
        "d_model": shape.d_model,
        "max_length": shape.max_length,
        "vocabulary_size": model.tokenizer.vocabulary_size,
        "checkpoint": model.origin.checkpoint,
        "device": str(model.compute.device),
        "limits": {"texts": MOST_TEXTS, "characters": MOST_CHARACTERS, "body": LARGEST_BODY},
    }


def _description(task: str) -> dict[str, Any]:
    """Return the service as an OpenAPI description (version 3.1)."""
    text = {"type": "string", "maxLength": MOST_CHARACTERS}
    several = {"type": "array", "items": text, "minItems": 1, "maxItems": MOST_TEXTS}
    request = {"text": text, "text_pair": text, "texts": several, "text_pairs": several}
    schema = {"type": "object", "properties": request, "oneOf": [{"required": ["text"]}, {"required": ["texts"]}]}
    summaries = {"/predict": "A prediction for each text", "/model": "What the model is", "/health": "Does it run?"}
    ok = {"200": {"description": "OK", "content": {"application/json": {"schema": {"type": "object"}}}}}
    paths: dict[str, Any] = {
        path: {"get": {"summary": summary, "responses": ok}} for path, summary in summaries.items()
    }
    body = {"content": {"application/json": {"schema": schema}}}
    paths["/predict"] = {"post": paths["/predict"]["get"] | {"requestBody": body}}
    return {"openapi": "3.1.0", "info": {"title": f"encoderlab: {task}", "version": "1"}, "paths": paths}


async def _body(request: Request) -> Any:
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
        wrong = f"The request took more than {BODY_SECONDS:g} seconds to arrive"
        raise HTTPException(408, wrong, closing) from None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise HTTPException(400, f"The request is not JSON; {EXAMPLE}") from None


def _pairs(content: Any) -> list[tuple[str, str | None]]:
    """Return the texts of a request, each with its second text or None. Raises HTTPException for any other request."""
    is_single = isinstance(content, dict) and "text" in content
    names = ("text", "text_pair") if is_single else ("texts", "text_pairs")
    if not isinstance(content, dict) or content.keys() - {*names}:
        raise HTTPException(422, f"The request has other keys than allowed; {EXAMPLE}")
    values: list[Any] = [content.get(names[0])]
    if content.get(names[1]) is not None:
        values.append(content[names[1]])
    columns = [[value] for value in values] if is_single else values
    are_texts = all(isinstance(column, list) and all(isinstance(text, str) for text in column) for column in columns)
    if not are_texts or not columns[0] or len(columns[0]) != len(columns[-1]):
        raise HTTPException(422, f"The request must have a text, or as many texts as text_pairs; {EXAMPLE}")
    longest = max(len(text) for texts in columns for text in texts)
    if len(columns[0]) > MOST_TEXTS or longest > MOST_CHARACTERS:
        held = f"{len(columns[0])} texts of up to {longest:,} characters"
        raise HTTPException(413, f"The request has {held}, but allowed are {MOST_TEXTS} of {MOST_CHARACTERS:,}")
    return list(zip(columns[0], columns[1] if len(columns) > 1 else [None] * len(columns[0]), strict=True))


async def _refused(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _mistaken(request: Request, error: UserError) -> Response:
    """Return the response for an error: the request's fault if the model cannot read it, otherwise the server's."""
    return JSONResponse({"error": str(error)}, 422 if isinstance(error, DataError) else 503)
