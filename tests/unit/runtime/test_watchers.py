"""Watchers are bounded, all together and those of one peer."""

import contextlib

import pytest

from heddle.controller.runtime import watch
from heddle.controller.runtime.watch import TooManyWatchersError, Watchers


def test_watchers_of_one_peer_leave_room_for_others(monkeypatch):
    monkeypatch.setattr(watch, "MAX_WATCHERS", 3)
    monkeypatch.setattr(watch, "MAX_WATCHERS_OF_A_PEER", 2)
    watchers = Watchers[int]()
    first, _ = watchers.open("job", "ipv4:10.0.0.1"), watchers.open("job", "ipv4:10.0.0.1")
    with pytest.raises(TooManyWatchersError, match=r"ipv4:10\.0\.0\.1 has 2 watchers open already"):
        watchers.open("job", "ipv4:10.0.0.1")
    watchers.open("job", "ipv4:10.0.0.2")
    with pytest.raises(TooManyWatchersError, match="3 watchers are open already"):
        watchers.open("job", "ipv4:10.0.0.3")
    watchers.close("job", first)
    watchers.open("job", "ipv4:10.0.0.1")


def test_a_peer_without_a_watcher_has_room_beside_several_that_open_as_many_as_they_get():
    watchers = Watchers[int]()
    for number in range(8 * watch.MAX_WATCHERS_OF_A_PEER):
        with contextlib.suppress(TooManyWatchersError):
            watchers.open("job", f"peer {number % 8}")
    watchers.open("job", "late")


def test_a_single_peer_has_as_many_watchers_as_one_may_have():
    watchers = Watchers[int]()
    for _ in range(watch.MAX_WATCHERS_OF_A_PEER):
        watchers.open("job", "a")
    with pytest.raises(TooManyWatchersError, match="a has 768 watchers"):
        watchers.open("job", "a")
