"""A finished run served over HTTP: predictions as JSON, and a web page to try it.

Requests are limited before they are read. A page of another site can neither read a response (there are no CORS
headers) nor request one, because a request must be declared as JSON; a name that it points here itself is refused by
`hosts`. The model predicts in a thread of its own, one request at a time, so that other requests never wait for it.

The service listens to this machine only, and a signal ends it as it ends a run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, cast

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from encoderlab.errors import DataError, UserError
from encoderlab.reports.page import render
from encoderlab.runs.assembly import Assembly, check_paired
from encoderlab.runs.inputs import example_of, reads_words
from encoderlab.runs.predict import answers_of
from encoderlab.tasks.task import Answer, Task, as_objects, likeliest

BODY_SECONDS = 10.0  # that a request may take to arrive
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a request: texts (or pairs), characters in each text, and bytes in all."""

    texts: int
    characters: int
    body: int


def web_service(assembly: Assembly, limits: Limits, hosts: list[str]) -> Starlette:
    """Return the application. `hosts` are the host names that it answers to; "*" is any."""
    service = _Service(assembly, limits)
    routes = [
        Route("/", service.page),
        Route("/health", service.health),
        Route("/model", service.model),
        Route("/predict", service.predict, methods=["POST"]),
    ]
    handlers: dict[Any, Any] = {HTTPException: _refused, UserError: _mistaken, ClientDisconnect: _gone}
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(_WithHeaders),
            Middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False),
        ],
        exception_handlers=handlers,
    )


class _Service:
    """The responses for each path."""

    def __init__(self, assembly: Assembly, limits: Limits) -> None:
        self.assembly, self.limits = assembly, limits
        self.facts = _facts(assembly) | {"limits": asdict(limits)}
        self.html = render("serve.html", title=f"{self.facts['task']}: try it", facts=self.facts)
        self.worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")

    async def page(self, request: Request) -> Response:
        return HTMLResponse(self.html)

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def model(self, request: Request) -> Response:
        return JSONResponse(self.facts)

    async def predict(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "Send JSON, with the header content-type: application/json")
        content = await _body(request, self.limits.body)
        pairs, top_k = _pairs(content, self.limits), _top_k(content, self.assembly.task)
        answers = await asyncio.get_running_loop().run_in_executor(self.worker, self._answers, pairs, top_k)
        return JSONResponse({"answers": answers})

    def _answers(self, pairs: list[tuple[str, str | None]], top_k: int | None) -> list[dict[str, Any]]:
        """Return an object for each text or pair, in order: see `Answer.as_dict`; or a label for each of its words."""
        task = self.assembly.task
        check_paired(self.assembly, pairs[0][1] is not None)
        of_words = reads_words(self.assembly)
        examples = [example_of(text, text_pair, of_words) for text, text_pair in pairs]
        answers = answers_of(self.assembly, examples)
        if not of_words:
            return [answer.as_dict(task.labels, task.heads.sequence_target, top_k) for answer in answers]
        return [
            {"words": _words(cast("Any", example).words, answer, task.labels, top_k)}
            for example, answer in zip(examples, answers, strict=True)
        ]


def _words(words: tuple[str, ...], answer: Answer, names: Sequence[str], top_k: int | None) -> list[dict[str, Any]]:
    """Return each word with its label, that label's probability, and the `top` labels if requested.

    All are null for words that did not fit into the model.
    """
    cut = [None] * (len(words) - len(answer.labels))
    found = [
        {"word": word, "predicted": label, "probability": chance}
        for word, label, chance in zip(
            words, [*answer.labels, *cut], [*(answer.word_confidences or ()), *cut], strict=True
        )
    ]
    if top_k is not None and answer.word_probabilities is not None:
        top = [as_objects(likeliest(names, of_word, top_k)) for of_word in answer.word_probabilities]
        found = [of_word | {"top": likely} for of_word, likely in zip(found, [*top, *cut], strict=True)]
    return found


def _facts(assembly: Assembly) -> dict[str, Any]:
    """Return what the model is, in JSON values."""
    config, task = assembly.config, assembly.task
    return {
        "task": config.task.name,
        "answers_with": task.heads.sequence_target,
        "answers_for": "words" if reads_words(assembly) else "texts",
        "paired": bool(assembly.opened.paired),
        "labels": task.labels,
        "parameters": assembly.model.n_parameters,
        "n_layers": config.model.n_layers,
        "d_model": config.model.d_model,
        "max_length": config.model.max_length,
        "vocabulary_size": assembly.tokenizer.vocabulary_size,
        "checkpoint": assembly.opened.checkpoint,
        "device": str(assembly.compute.device),
    }


async def _body(request: Request, most: int) -> Any:
    """Return the request's JSON. Raises HTTPException if it is invalid, too large, or arrives too slowly."""
    raw = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for part in request.stream():
                raw += part
                if len(raw) > most:
                    raise HTTPException(413, f"The request has more than {most:,} bytes", {"connection": "close"})
    except TimeoutError:
        raise HTTPException(
            408, f"The request took more than {BODY_SECONDS:g} seconds to arrive", {"connection": "close"}
        ) from None
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise HTTPException(400, 'The request is not JSON. Send {"texts": ["...", "..."]}') from None


def _pairs(content: Any, limits: Limits) -> list[tuple[str, str | None]]:
    """Return the texts of a request, each with its second text or None. Raises HTTPException for any other request."""
    if not isinstance(content, dict):
        raise _not_understood("The request is not an object")
    if unknown := content.keys() - {"text", "text_pair", "texts", "text_pairs", "top_k"}:
        raise _not_understood(f"The request has an unknown key, {sorted(unknown)[0][:40]!r}")
    if {"text", "texts"} <= content.keys() or not {"text", "texts"} & content.keys():
        raise _not_understood("The request must have either text or texts")
    several = "texts" in content
    texts = content["texts"] if several else [content["text"]]
    seconds = content.get("text_pairs") if several else [content["text_pair"]] if "text_pair" in content else None
    if ("text_pair" if several else "text_pairs") in content:
        raise _not_understood("text goes with text_pair, and texts with text_pairs")
    _check_texts("texts" if several else "text", texts, limits)
    if seconds is None:
        return [(text, None) for text in texts]
    _check_texts("text_pairs" if several else "text_pair", seconds, limits)
    if len(seconds) != len(texts):
        raise _not_understood(f"There are {len(texts)} texts and {len(seconds)} text_pairs")
    return list(zip(texts, seconds, strict=True))


def _top_k(content: dict[str, Any], task: Task) -> int | None:
    """Return the request's `top_k` (None: all classes). Raises HTTPException if it is out of range, or the model has no
    classes.
    """
    top_k = content.get("top_k")
    if top_k is None:
        return None
    if not task.labels:
        raise HTTPException(422, "top_k needs a model with labels, and this one predicts a number; remove top_k")
    if isinstance(top_k, bool) or not isinstance(top_k, int) or not 1 <= top_k <= len(task.labels):
        raise HTTPException(422, f"top_k must be a whole number from 1 to {len(task.labels)}, the labels of this model")
    return top_k


def _check_texts(name: str, texts: Any, limits: Limits) -> None:
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise _not_understood(f"{name} must be {'a list of texts' if name.endswith('s') else 'a text'}")
    if len(texts) > limits.texts:
        raise HTTPException(413, f"The request has {len(texts)} texts, but at most {limits.texts} are allowed")
    if (longest := max(map(len, texts))) > limits.characters:
        raise HTTPException(413, f"A text has {longest:,} characters, but at most {limits.characters:,} are allowed")


def _not_understood(wrong: str) -> HTTPException:
    return HTTPException(422, f'{wrong}; send {{"texts": ["...", "..."]}}, or {{"text": "...", "text_pair": "..."}}')


async def _refused(request: Request, error: HTTPException) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _mistaken(request: Request, error: UserError) -> Response:
    """Return the response for an error: what the model cannot read is the request's fault, too little memory is the
    server's.
    """
    return JSONResponse({"error": str(error)}, 422 if isinstance(error, DataError) else 503)


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    """Return a response that nobody reads, because the client has left before its request was complete."""
    return Response(status_code=400)


class _WithHeaders:
    """Adds HEADERS, which restrict what a browser may do, to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await self.app(scope, receive, send_with_headers)
