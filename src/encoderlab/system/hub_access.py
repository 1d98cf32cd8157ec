"""Checks whether the Hugging Face hub can be reached, and loads from it without output or without requests."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def hub_answers(endpoint: str) -> bool:
    """Return whether the hub answers without a server error, in two attempts within HF_HUB_ETAG_TIMEOUT (10) seconds
    plus one.

    It is called before anything is loaded, because `huggingface_hub` itself tries for half a minute or more; in a
    thread of its own, because looking up a name can hang, and one that hangs must not keep the program from ending.
    """
    from huggingface_hub import constants

    answered, seconds = threading.Event(), constants.HF_HUB_ETAG_TIMEOUT
    thread = threading.Thread(target=_ask, args=(endpoint, seconds, answered), daemon=True)
    thread.start()
    thread.join(seconds + 1)
    return answered.is_set()


def http_error() -> type[Exception]:
    """Return the error class of the hub's client for failed requests; some of its errors are only of this class."""
    from huggingface_hub.errors import HTTPError  # pyright: ignore[reportPrivateImportUsage]  of the client it is built on

    return HTTPError


def _ask(endpoint: str, seconds: float, answered: threading.Event) -> None:
    from huggingface_hub import get_session
    from huggingface_hub.errors import OfflineModeIsEnabled

    for pause in (1.0, 0.0):
        try:
            if get_session().head(endpoint, timeout=seconds).status_code < 500:
                answered.set()
                return
        except OfflineModeIsEnabled:
            return
        except (http_error(), OSError):
            pass
        time.sleep(pause)


@contextmanager
def no_requests() -> Iterator[None]:
    """Make every request to the hub fail at once, as under HF_HUB_OFFLINE, so that `datasets` turns to its cache."""
    from huggingface_hub import get_session
    from huggingface_hub.errors import OfflineModeIsEnabled

    def refuse(request: Any) -> None:
        raise OfflineModeIsEnabled("it does not answer")

    session = get_session()
    hooks = session.event_hooks
    session.event_hooks = {"request": [refuse]}
    try:
        yield
    finally:
        session.event_hooks = hooks


@contextmanager
def few_retries() -> Iterator[None]:
    """Retry an interrupted stream only once.

    Each reading tries for half a minute already (`huggingface_hub.utils.http_backoff`: six requests); `datasets` would
    read twenty times.
    """
    from datasets import config

    limits = [
        name
        for name in dir(config)
        if name.startswith("STREAMING_") and name.endswith(("MAX_RETRIES", "RETRY_INTERVAL"))
    ]
    before = {name: getattr(config, name) for name in limits}
    for name in limits:
        setattr(config, name, 1)  # attempts, or seconds between them
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(config, name, value)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the libraries' log lines, because errors are raised, and their progress bars outside a terminal."""
    import datasets
    import huggingface_hub

    settings = (datasets.logging, huggingface_hub.logging)
    before = [one.get_verbosity() for one in settings]
    bars = (datasets.utils, huggingface_hub.utils)
    shown = [not one.are_progress_bars_disabled() for one in bars]
    for one in settings:
        one.set_verbosity(logging.CRITICAL)
    if not sys.stderr.isatty():
        for one in bars:
            one.disable_progress_bars()
    try:
        yield
    finally:
        for one, level in zip(settings, before, strict=True):
            one.set_verbosity(level)
        for one, was_shown in zip(bars, shown, strict=True):
            if was_shown:
                one.enable_progress_bars()
