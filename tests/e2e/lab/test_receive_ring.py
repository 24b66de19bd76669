"""The capture's receive ring on a loopback of its own: exact over several wraps, with counted drops when full."""

import socket

import pytest

from heddle.mininet_topos.host.namespace import network_namespace
from heddle.mininet_topos.measure.receive_ring import DIRECTION_AT, MAC_AT, PACKET_OUTGOING, ReceiveRing, roce_filter
from tests.support.packets.namespaces import Namespace
from tests.support.packets.nic_pair import wait_for

pytestmark = pytest.mark.e2e

ROWS = 8192


@pytest.fixture
def ring():
    space = Namespace()
    with network_namespace(space.pid):
        ring = ReceiveRing(roce_filter([]), ROWS)
        yield ring
        ring.socket.close()
    space.close()


def send(count: int, port: int) -> int:
    """Send datagrams to the RoCE port of the loopback, unread by their receiver; return their source port."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink,
    ):
        sink.bind(("127.0.0.1", port))
        for number in range(count):
            sender.sendto(number.to_bytes(4, "big"), sink.getsockname())
        return sender.getsockname()[1]


def numbers_from(rows, source_port: int) -> list[int]:
    ports = rows[:, MAC_AT + 34 : MAC_AT + 36].astype(int)
    mine = rows[ports[:, 0] * 256 + ports[:, 1] == source_port]
    assert not (mine[:, DIRECTION_AT] == PACKET_OUTGOING).any()
    return [int.from_bytes(bytes(row[MAC_AT + 42 : MAC_AT + 46]), "big") for row in mine]


def test_every_packet_is_seen_once_and_in_order_across_the_end_of_the_ring(ring):
    for _ in range(5):
        source_port = send(3000, 4791)
        wait_for(lambda: ring.holds(3000))
        assert numbers_from(ring.take(), source_port) == list(range(3000))
    assert ring.drops() == 0


def test_frames_that_find_the_ring_full_are_counted(ring):
    source_port = send(ROWS + 500, 4791)
    wait_for(lambda: ring.holds(ROWS))
    seen, dropped = numbers_from(ring.take(), source_port), 0

    def all_counted() -> bool:
        nonlocal dropped
        dropped += ring.drops()
        seen.extend(numbers_from(ring.take(), source_port))
        return len(seen) + dropped >= ROWS + 500

    wait_for(all_counted)
    assert seen[:ROWS] == list(range(ROWS))
    assert len(seen) + dropped == ROWS + 500


def test_other_ports_are_not_seen(ring):
    send(10, 4792)
    source_port = send(1, 4791)
    wait_for(lambda: ring.holds(1))
    rows = ring.take()
    assert len(rows) == 1
    assert numbers_from(rows, source_port) == [0]


def test_a_ring_reports_how_many_rows_wait_without_taking_them(ring):
    source_port = send(300, 4791)
    wait_for(lambda: ring.holds(300))
    assert not ring.holds(ROWS)
    assert numbers_from(ring.take(), source_port) == list(range(300))
    assert not ring.holds(300)
