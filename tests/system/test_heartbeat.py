"""Beats: who answers is not given up, who stops is, and by the right one."""

from threading import Event

import pytest

from encoderlab.system import heartbeat as module
from encoderlab.system.heartbeat import Heartbeat


class Store(dict):
    """A store inside this process."""

    def set(self, key, value):
        self[key] = value.encode()

    def multi_get(self, keys):
        return [self[key] for key in keys]

    def check(self, keys):
        return all(key in self for key in keys)


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    """Beat every hundredth of a second, with the real proportions except for the pause, because a busy machine pauses."""
    monkeypatch.setattr(module, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(module, "GRACE_SECONDS", 0.03)
    monkeypatch.setattr(module, "LEAST_SECONDS", 0.2)


def beating(rank, size, store):
    """A heartbeat, an event that is set when it gives up, and the processes it gave up on."""
    given_up, lost = Event(), []

    def give_up(ranks, why):
        lost.extend(ranks)
        given_up.set()

    return Heartbeat(rank, size, store, 0.2, give_up), given_up, lost


def test_the_main_process_gives_up_only_on_processes_that_stop():
    store = Store()
    beats = [beating(rank, 3, store) for rank in range(3)]
    for beat, _, _ in beats:
        beat.start()
    beats[2][0].stop()
    assert beats[0][1].wait(20)
    assert beats[0][2] == [2]
    assert not beats[1][1].is_set()
    store.set("given up", "yes")  # as the main process does then
    assert beats[1][1].wait(20)
    assert beats[1][2] == []


def test_the_others_give_up_on_a_main_process_that_stops():
    store = Store()
    beats = [beating(rank, 3, store) for rank in range(3)]
    for beat, _, _ in beats[1:]:
        beat.start()
    for _, given_up, lost in beats[1:]:
        assert given_up.wait(20)
        assert lost == [0]


def test_a_closed_connection_ends_the_wait_for_a_silent_process_early():
    store = Store()
    main, given_up, lost = beating(0, 3, store)
    main.lost_seconds = 1000
    other, _, _ = beating(1, 3, store)
    beating(2, 3, store)
    main.start()
    other.start()
    other.tell_broken(store)
    assert given_up.wait(20)
    assert lost == [2]


def test_a_lost_store_means_a_dead_main_process():
    class Gone(Store):
        def multi_get(self, keys):
            raise RuntimeError("connection reset")

    beat, given_up, lost = beating(1, 2, Gone())
    beat.start()
    assert given_up.wait(20)
    assert lost == [0]


def test_after_the_end_no_process_is_given_up_on():
    store = Store()
    main, given_up, _ = beating(0, 2, store)
    beating(1, 2, store)
    main.start()
    main.stop()
    assert not given_up.wait(0.5)
