"""Watchers are bounded, all together and those of one peer."""

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
