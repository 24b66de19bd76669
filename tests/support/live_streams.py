"""Connections through a pair of gateways, and that they go on."""

from benchmarks.pair.gateways import Gateways
from benchmarks.pair.streams import Streams


def assert_unharmed(streams: Streams) -> None:
    """No connection ended, and no byte was lost, doubled or of another."""
    assert {end.name: end.ended for end in streams.ends if end.ended} == {}
    assert {end.name: end.wrong for end in streams.ends if end.wrong} == {}
    assert all(end.bytes for end in streams.ends)


def assert_they_go_on(gateways: Gateways, streams: Streams) -> None:
    """Every end hears something from now on, however long TCP takes to try again, and is unharmed."""
    before = {end.name: end.bytes for end in streams.ends}
    gateways.until(
        lambda: all(end.ended or end.bytes > before[end.name] for end in streams.ends), "every end hears something"
    )
    assert_unharmed(streams)
