"""Checks whether the Hugging Face hub can be reached, and loads from it without output or without requests."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


def hub_answers(endpoint: str) -> bool:
    """Return whether the hub answers without a server error, in two attempts of HF_HUB_ETAG_TIMEOUT (10) seconds each.

    It is called before anything is loaded, because `huggingface_hub` itself tries for half a minute or more.
    """
    from huggingface_hub import constants, get_session
    from huggingface_hub.errors import OfflineModeIsEnabled

    for pause in (1.0, 0.0):
        try:
            if get_session().head(endpoint, timeout=constants.HF_HUB_ETAG_TIMEOUT).status_code < 500:
                return True
        except OfflineModeIsEnabled:
            return False
        except (http_error(), OSError):
            pass
        time.sleep(pause)
    return False


def http_error() -> type[Exception]:
    """Return the error class of the hub's client for failed requests; some of its errors are only of this class."""
    from huggingface_hub.errors import HTTPError  # pyright: ignore[reportPrivateImportUsage]  of the client it is built on

    return HTTPError


@contextmanager
def no_requests() -> Iterator[None]:
    """Make every request to the hub fail at once, as under HF_HUB_OFFLINE, so that `datasets` turns to its cache."""
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the libraries' log lines, because errors are raised, and outside a terminal their progress bars."""
    import datasets
    import huggingface_hub

    loggers = [logging.getLogger(name) for name in ("datasets", "huggingface_hub")]
    levels = [logger.level for logger in loggers]
    if not sys.stderr.isatty():
        datasets.utils.disable_progress_bars()
        huggingface_hub.utils.disable_progress_bars()
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
