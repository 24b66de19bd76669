"""The rings between the data process and the slow path: no record is lost, invented or waited for."""

from collections import deque
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.dataplane.engine.burst import PACKET
from heddle.dataplane.engine.reasons import Punt
from heddle.dataplane.engine.rings import (
    INJECT_HEADER,
    LINE,
    MAX_FRAME_BYTES,
    PUNT_HEADER,
    Injector,
    PuntReader,
    Ring,
    begin_punt,
    empty_ring,
    publish,
    punted_bytes,
)
from heddle.dataplane.jit import Bytes, Rows, kernel
from heddle.dataplane.packet.memory import copy, native64
from tests.fakes.gateway.ring_reader import oldest
from tests.support.examples import examples


@kernel
def _punt(ring: Ring, memory: Bytes, packets: Rows, now_ns: int) -> bool:
    at = begin_punt(ring, packets[0], now_ns)
    if at < 0:
        return False
    copy(ring.data, at + PUNT_HEADER, memory, packets[0].start, punted_bytes(packets[0]))
    publish(ring, at)
    return True


@kernel
def _word(ring: Ring, at: int) -> int:
    return native64(ring.data, at)


def packet(**fields: int) -> Any:
    row = np.zeros(1, PACKET)
    for name, value in fields.items():
        row[name] = value
    return row


def take(ring: Ring) -> tuple[bytes, int, int] | None:
    """Return the oldest injected frame, its port and whether it enters the graph."""
    at = oldest(ring, False)
    if at < 0:
        return None
    count, port, entering = (_word(ring, at + 8 * i) for i in (1, 2, 3))
    frame = ring.data[at + INJECT_HEADER : at + INJECT_HEADER + count].tobytes()
    oldest(ring, True)
    return frame, port, entering


def test_a_punted_packet_arrives_whole_with_its_tunnel_and_its_fields() -> None:
    ring, memory = empty_ring(4096), np.arange(1, 251, dtype=np.uint8)
    row = packet(
        start=10, at=60, length=100, first_length=100, l3=74, reason=Punt.RESOLVE, in_port=2, vni=77, vpc=3,
        outer_source=0x0A000001, out_port=1, next_hop=9, source_hop=4, family=4, protocol=17,
    )  # fmt: skip
    assert _punt(ring, memory, row, 12345)
    (found,) = PuntReader(ring).read()
    assert found.frame == memory[10:160].tobytes()
    assert (found.reason, found.in_port, found.vni, found.vpc) == (Punt.RESOLVE, 2, 77, 3)
    assert (found.inner, found.l3, found.length, found.time_ns) == (50, 64, 150, 12345)
    assert (found.outer_source, found.out_port, found.next_hop, found.source_hop) == (0x0A000001, 1, 9, 4)
    assert (found.family, found.protocol) == (4, 17)


def test_a_very_long_frame_is_cut_and_its_full_length_reported() -> None:
    ring, memory = empty_ring(1 << 15), np.arange(20_000).astype(np.uint8)
    assert _punt(ring, memory, packet(start=7, at=7, length=19_000, first_length=19_000, l3=-1), 0)
    (found,) = PuntReader(ring).read()
    assert (found.frame, found.length, found.l3) == (memory[7 : 7 + MAX_FRAME_BYTES].tobytes(), 19_000, -1)


def test_a_full_ring_refuses_and_counts_until_it_is_read() -> None:
    ring, memory = empty_ring(1024), np.zeros(256, np.uint8)
    row = packet(length=100, first_length=100)
    accepted = [_punt(ring, memory, row, 0) for _ in range(6)]
    assert accepted == [True] * 4 + [False] * 2
    reader = PuntReader(ring)
    assert reader.refused() == 2
    assert len(reader.read()) == 4
    assert _punt(ring, memory, row, 0)


def test_a_frame_of_invalid_size_is_refused_with_its_size() -> None:
    injector = Injector(empty_ring(1 << 15))
    for wrong in (b"", bytes(13), bytes(MAX_FRAME_BYTES + 1)):
        with pytest.raises(ValueError, match=str(len(wrong))):
            injector.send(wrong, 0)
    assert injector.send(bytes(MAX_FRAME_BYTES), 0)


def test_withdrawn_records_are_counted_and_never_read() -> None:
    ring = empty_ring(1024)
    injector = Injector(ring)
    for number in range(3):
        assert injector.send(bytes([number]) * 200, number)
    assert take(ring) == (bytes(200), 0, 0)
    injector.withdraw()
    assert injector.send(b"x" * 100, 7)  # round the ring's end
    assert take(ring) == (b"x" * 100, 7, 0)
    assert take(ring) is None
    assert injector.withdrawn() == 2


def test_a_ring_is_a_power_of_two() -> None:
    for wrong in (0, 64, 1000):
        with pytest.raises(ValueError, match=str(wrong)):
            empty_ring(wrong)


@settings(max_examples=examples(60), deadline=None)
@given(
    steps=st.lists(
        st.one_of(st.integers(14, 700), st.none(), st.just(0)), min_size=1, max_size=120
    ),  # the size of a frame to write; a read; 0 withdraws
    capacity=st.sampled_from([1024, 4096]),
)
def test_records_are_read_in_order_under_any_interleaving(steps: list[int | None], capacity: int) -> None:
    ring, expected = empty_ring(capacity), deque[tuple[bytes, int, int]]()
    injector, refused, withdrawn, void = Injector(ring), 0, 0, list[tuple[bytes, int, int]]()
    for number, step in enumerate(steps):
        if step is None:
            assert take(ring) == (expected.popleft() if expected else None)
            void.clear()
            continue
        if step == 0:
            injector.withdraw()
            withdrawn += len(expected)
            void += expected
            expected.clear()
            continue
        frame = bytes([number % 256]) * step
        written = injector.enter(frame, number) if number % 2 else injector.send(frame, number)
        if written:
            expected.append((frame, number, number % 2))
        else:
            # Refused only where it could not have been placed: what is skipped at the ring's end, now or in front of a
            # record that is still there, is less than the record that did not fit there.
            sizes = [-(-(INJECT_HEADER + len(one[0])) // LINE) * LINE for one in [*void, *expected]]
            size = -(-(INJECT_HEADER + step) // LINE) * LINE
            assert sum(sizes) + size + max([*sizes, size]) > capacity
            refused += 1
    while expected:
        assert take(ring) == expected.popleft()
    assert take(ring) is None
    assert (injector.refused(), injector.withdrawn()) == (refused, withdrawn)
