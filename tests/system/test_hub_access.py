"""The hub's libraries are quiet and retry only briefly, and are restored afterwards."""

import datasets
import huggingface_hub
import pytest
from huggingface_hub.errors import OfflineModeIsEnabled

from encoderlab.system.hub_access import few_retries, no_requests, quiet


def test_requests_fail_at_once_inside_and_work_again_afterwards():
    session = huggingface_hub.get_session()
    hooks = session.event_hooks
    with no_requests(), pytest.raises(OfflineModeIsEnabled):
        session.head("http://127.0.0.1:9/")
    assert session.event_hooks == hooks


def test_a_stream_is_retried_once_and_the_setting_is_restored():
    before = datasets.config.STREAMING_READ_MAX_RETRIES
    with few_retries():
        assert datasets.config.STREAMING_READ_MAX_RETRIES == 1
    assert before == datasets.config.STREAMING_READ_MAX_RETRIES


def test_libraries_are_silenced_and_restored_afterwards():
    before = (datasets.logging.get_verbosity(), huggingface_hub.logging.get_verbosity())
    with pytest.raises(KeyError), quiet():
        assert datasets.utils.are_progress_bars_disabled()
        assert datasets.logging.get_verbosity() > before[0]
        raise KeyError
    assert (datasets.logging.get_verbosity(), huggingface_hub.logging.get_verbosity()) == before
    assert not datasets.utils.are_progress_bars_disabled()
