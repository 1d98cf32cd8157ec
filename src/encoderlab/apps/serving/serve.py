"""encoderlab serve: a finished run over HTTP on this machine: predictions as JSON, and a web page to try it.

Requests are limited before they are read (`system/http_service.py`). The model predicts in a thread of its own, one
request at a time, so that other requests never wait for it.
"""

import asyncio
import ipaddress
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from encoderlab.apps.serving.service_metrics import CONTENT_TYPE, ServiceMetrics
from encoderlab.apps.serving.settings import ServeConfig
from encoderlab.errors import UserError
from encoderlab.models.folder import model_folder, open_model
from encoderlab.models.model import Model
from encoderlab.reports import wording
from encoderlab.reports.blocks import render
from encoderlab.reports.predictions import Trial, trial_of
from encoderlab.system import http_service as http
from encoderlab.system.device import hold_little_memory, return_freed_memory
from encoderlab.system.http_service import (
    ClientDisconnect,
    HTMLResponse,
    HTTPException,
    JSONResponse,
    Request,
    Response,
    Route,
    Starlette,
)
from encoderlab.tables.columns import Columns, joined_columns
from encoderlab.tasks.task import Abstention, RowPrediction

TEMPLATES = Path(__file__).with_name("templates")
MOST_TEXTS = 100  # in a request
MOST_CHARACTERS = 10_000  # in each of its texts
LARGE = 20_000  # characters of a request, which takes much memory, and so long that returning it afterwards is nothing
EXAMPLE = 'send {"texts": ["...", "..."]}, or {"text": "...", "text_pair": "..."}, or {"rows": [{"COLUMN": "..."}]}'


def serve(config: ServeConfig) -> None:
    """Serve requests until a signal arrives. Raises SettingError, DataError, and Interrupted at the end."""
    hold_little_memory()
    with http.listening_socket(config.host, config.port) as listening:
        # The model, warmed up: otherwise the first request would wait for set-up.
        model = open_model(config, or_graph=True)
        abstention = model.abstention(config.min_probability, config.unlike_training)
        second = "a" if model.origin.paired else None
        model.predictions([model.example("a", second)])
        return_freed_memory()  # what reading the model took

        # Who may ask, and what the page shows them: rows of the data only on this machine.
        host = listening.getsockname()[0]
        print(f"{http.address_of(listening)}  (Ctrl-C stops it)", flush=True)
        hosts = [*http.LOOPBACK, host, config.host]
        if not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
            print(f"host={config.host}: anyone who can reach this machine can use the model", file=sys.stderr)
            hosts = ["*"]
        trial = trial_of(model_folder(config.run).parent, model.task_name)
        if hosts == ["*"]:
            trial = Trial(trial.title)

        service = web_service(model, abstention, hosts, trial)
        http.run_until_stopped(service, listening)


def web_service(model: Model, abstention: Abstention, hosts: list[str], trial: Trial | None = None) -> Starlette:
    """Return the application for requests to one of the host names `hosts`; "*" is any. Labels that are not given, by
    `abstention`, are null. The page shows the name and the examples of `trial`.
    """
    trial = trial or Trial(model.task_name)
    facts = _facts(model) | {"min_probability": abstention.min_probability}
    fixed = {
        "/": HTMLResponse(render("serve.html", TEMPLATES, title=f"{trial.title}: try it", facts=facts, trial=trial)),
        "/health": JSONResponse({"status": "ok"}),
        "/model": JSONResponse(facts),
        "/openapi.json": JSONResponse(_description(model.task_name)),
    }
    metrics = ServiceMetrics(model.task_name)
    worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")  # PyTorch's threads are its own
    turn = asyncio.Lock()

    async def predict(request: Request) -> Response:
        http.check_declared_as_json(request)
        try:
            pairs = _pairs(await http.json_of(request, EXAMPLE), model.file_columns)
            async with turn:
                if not await request.is_disconnected():
                    work = (worker, _predictions, model, pairs, abstention)
                    predictions = await asyncio.get_running_loop().run_in_executor(*work)
                    metrics.predicted(predictions)
                    return JSONResponse({"predictions": predictions})
        except ClientDisconnect:
            pass
        return Response(status_code=400)  # which nobody reads

    async def counted(request: Request) -> Response:
        started = time.perf_counter()
        status = 500
        try:
            response = await predict(request)
            status = response.status_code
        except (HTTPException, UserError) as error:
            status = http.status_of(error)
            raise
        finally:
            metrics.request(status, time.perf_counter() - started)
        return response

    async def measured(_: Request) -> Response:
        return Response(metrics.text(), headers={"content-type": CONTENT_TYPE})

    routes = [Route(path, response, methods=["GET"]) for path, response in fixed.items()]
    return http.service_of(
        [*routes, Route("/metrics", measured, methods=["GET"]), Route("/predict", counted, methods=["POST"])], hosts
    )


def _predictions(model: Model, pairs: list[tuple[str, str | None]], abstention: Abstention) -> list[dict[str, Any]]:
    """Return an object for each text or pair, in order: see `Task.plain`; or a label for each word."""
    model.check_paired(pairs[0][1] is not None)
    examples = [model.example(text, text_pair) for text, text_pair in pairs]
    try:
        if not model.task.config.of_words:
            return model.plain_predictions(examples, abstention)
        objects = []
        for (text, _), prediction in zip(pairs, model.predictions(examples), strict=True):
            objects.append({"words": _words(text.split(), prediction, abstention.min_probability)})
        return objects
    finally:
        if sum(len(text) + len(text_pair or "") for text, text_pair in pairs) > LARGE:
            return_freed_memory()


def _words(words: Sequence[str], prediction: RowPrediction, min_probability: float) -> list[dict[str, Any]]:
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
        "task": model.task_name,
        "target": task.heads.sequence_target,
        "reads": "words" if model.task.config.of_words else "texts",
        "paired": bool(model.origin.paired),
        "columns": model.file_columns.texts(),
        "labels": task.labels,
        "parameters": model.network.n_parameters,
        "n_layers": shape.n_layers,
        "d_model": shape.d_model,
        "max_length": shape.max_length,
        "vocabulary_size": model.tokenizer.vocabulary_size,
        "checkpoint": model.origin.checkpoint,
        "device": str(model.compute.device),
        "limits": {"texts": MOST_TEXTS, "characters": MOST_CHARACTERS, "body": http.LARGEST_BODY},
    }


def _description(task: str) -> dict[str, Any]:
    """Return the service as an OpenAPI description (version 3.1)."""
    text = {"type": "string", "maxLength": MOST_CHARACTERS}
    several = {"type": "array", "items": text, "minItems": 1, "maxItems": MOST_TEXTS}
    rows = several | {"items": {"type": "object", "additionalProperties": text}}
    request = {"text": text, "text_pair": text, "texts": several, "text_pairs": several, "rows": rows}
    forms = [{"required": [name]} for name in ("text", "texts", "rows")]
    schema = {"type": "object", "properties": request, "oneOf": forms}
    summaries = {"/predict": "A prediction for each text", "/model": "What the model is", "/health": "Does it run?"}
    summaries["/metrics"] = "What it has done, for Prometheus"
    ok = {"200": {"description": "OK", "content": {"application/json": {"schema": {"type": "object"}}}}}
    paths: dict[str, Any] = {
        path: {"get": {"summary": summary, "responses": ok}} for path, summary in summaries.items()
    }
    body = {"content": {"application/json": {"schema": schema}}}
    paths["/predict"] = {"post": paths["/predict"]["get"] | {"requestBody": body}}
    return {"openapi": "3.1.0", "info": {"title": f"encoderlab: {task}", "version": "1"}, "paths": paths}


def _pairs(content: Any, as_trained: Columns) -> list[tuple[str, str | None]]:
    """Return the texts of a request, each with its second text or None. Raises HTTPException for any other request."""
    if isinstance(content, dict) and content.keys() == {"rows"}:
        content = _texts_of_rows(content["rows"], as_trained)
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
        held = f"{wording.counted(len(columns[0]), 'text')} of up to {longest:,} characters"
        raise HTTPException(413, f"The request has {held}, but allowed are {MOST_TEXTS} of {MOST_CHARACTERS:,}")
    return list(zip(columns[0], columns[1] if len(columns) > 1 else [None] * len(columns[0]), strict=True))


def _texts_of_rows(rows: Any, columns: Columns) -> dict[str, list[str]]:
    """Return the texts of rows by the names of the columns, joined as in training, in the form of another request.

    Further columns of a row are not read. Raises HTTPException for rows that lack one.
    """
    needed = columns.texts()
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise HTTPException(422, f"rows must be a list of objects; {EXAMPLE}")
    texts = {"texts": []} if columns.text_pair is None else {"texts": [], "text_pairs": []}
    for number, row in enumerate(rows):
        missing = [name for name in needed if not isinstance(row.get(name), str)]
        if missing:
            raise HTTPException(422, f"Row {number} has no text in {missing[0]!r}; needed: {', '.join(needed)}")
        texts["texts"].append(joined_columns(row[name] for name in columns.parts))
        if columns.text_pair is not None:
            texts["text_pairs"].append(row[columns.text_pair])
    return texts
