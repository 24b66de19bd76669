"""Assertions on TCP connections through a pair of gateways."""

from tests.support.pair.gateways import Gateways
from tests.support.pair.streams import Streams


def assert_unharmed(streams: Streams) -> None:
    """Assert that no connection ended and no received byte was wrong."""
    ended = {end.name: end.ended for end in streams.ends if end.ended}
    assert not ended, ended
    wrong = {end.name: end.wrong for end in streams.ends if end.wrong}
    assert not wrong, wrong
    assert all(end.bytes for end in streams.ends)


def assert_streams_continue(gateways: Gateways, streams: Streams) -> None:
    """Wait until every end receives again (TCP may take seconds to retransmit), then assert that none is harmed."""
    before = {end.name: end.bytes for end in streams.ends}
    gateways.until(lambda: all(end.ended or end.bytes > before[end.name] for end in streams.ends), "every end receives")
    assert_unharmed(streams)
