"""Frames pass through memory ports unchanged and in order, and frames that cannot leave are counted."""

import numpy as np
import pytest

from heddle.dataplane.engine.burst import BURST, DROPPED, PACKET, PUNTED, TRANSMIT
from heddle.dataplane.engine.counters import make_counters
from heddle.dataplane.engine.reasons import Drop, Punt
from heddle.dataplane.io.frames.in_memory import MemoryPorts
from heddle.dataplane.io.frames.layout import FREE
from heddle.dataplane.io.ports import copy_in, copy_out, inject, receive, settle


@pytest.fixture
def two():
    return MemoryPorts(2, buffers=64, ring=16)


@pytest.fixture
def packets():
    return np.zeros(BURST, PACKET)


@pytest.fixture
def counters():
    return make_counters(2)


def frame_of(length: int) -> bytes:
    return bytes(n * 7 % 251 for n in range(length))


def forward(two, packets, counters, out=1) -> int:
    count = receive(two.ports, 0, packets, BURST, counters)
    packets["node"][:count], packets["out_port"][:count] = TRANSMIT, out
    settle(two.ports, packets, count, counters)
    return count


@pytest.mark.parametrize("length", [14, 60, 64, 1500, 1792, 1793, 4250, 9000])
def test_a_frame_of_any_length_leaves_unchanged(two, packets, counters, length):
    assert two.put(0, frame_of(length))
    assert forward(two, packets, counters) == 1
    assert two.take(1) == [frame_of(length)]
    assert two.ports.pool[FREE] == 64
    assert (counters.ports["rx_bytes"][0], counters.ports["tx_bytes"][1]) == (length, length)


def test_frames_keep_their_order(two, packets, counters):
    frames = [frame_of(60 + n) for n in range(10)]
    assert all(two.put(0, frame) for frame in frames)
    assert forward(two, packets, counters) == 10
    assert two.take(1) == frames


@pytest.mark.parametrize("length", [200, 4250])
def test_adding_and_removing_a_header_keeps_the_rest(two, packets, counters, length):
    two.put(0, frame_of(length))
    receive(two.ports, 0, packets, BURST, counters)
    packet = packets[0]
    two.ports.memory[packet["at"] - 50 : packet["at"]] = 0xEE
    for name, change in (("at", -50), ("length", 50), ("first_length", 50)):
        packet[name] += change
    assert packet["at"] >= packet["floor"]
    packet["node"], packet["out_port"] = TRANSMIT, 1
    settle(two.ports, packets, 1, counters)
    assert two.take(1) == [b"\xee" * 50 + frame_of(length)]


@pytest.mark.parametrize(("length", "kept"), [(200, 60), (4250, 1700), (4250, 3600), (9000, 14)])
def test_a_truncated_frame_frees_all_its_buffers(two, packets, counters, length, kept):
    two.put(0, frame_of(length))
    receive(two.ports, 0, packets, BURST, counters)
    packets["length"][0], packets["node"][0], packets["out_port"][0] = kept, TRANSMIT, 1
    settle(two.ports, packets, 1, counters)
    assert two.take(1) == [frame_of(length)[:kept]]
    assert two.ports.pool[FREE] == 64


def test_dropped_and_punted_frames_are_counted_by_reason_and_their_buffers_free(two, packets, counters):
    for length in (60, 4250, 9000):
        two.put(0, frame_of(length))
    assert receive(two.ports, 0, packets, BURST, counters) == 3
    packets["node"][:3] = DROPPED, PUNTED, DROPPED
    packets["reason"][:3] = Drop.NO_ROUTE, Punt.ARP, Drop.TOO_BIG
    settle(two.ports, packets, 3, counters)
    assert two.ports.pool[FREE] == 64
    assert (counters.drops[Drop.NO_ROUTE], counters.drops[Drop.TOO_BIG], counters.punts[Punt.ARP]) == (1, 1, 1)
    assert (counters.ports["dropped"][0], counters.ports["punted"][0]) == (2, 1)


def test_a_frame_for_a_full_output_ring_is_dropped_and_counted(two, packets, counters):
    for _ in range(16):
        two.put(0, frame_of(60))
    forward(two, packets, counters)
    two.put(0, frame_of(61))
    forward(two, packets, counters)
    assert counters.drops[Drop.TRANSMIT_FULL] == counters.ports["tx_failed"][1] == counters.ports["dropped"][0] == 1
    assert counters.ports["tx_packets"][1] == len(two.take(1)) == 16
    assert two.ports.pool[FREE] == 64


@pytest.mark.parametrize(
    "wrong",
    [
        {"node": 3},
        {"out_port": 2},
        {"out_port": -1},
        {"length": 13},
        {"length": 201},
        {"at": -1},
        {"node": DROPPED, "reason": 64},
        {"node": PUNTED, "reason": -1},
    ],
)
def test_an_inconsistent_row_is_dropped_as_bad_state(two, packets, counters, wrong):
    two.put(0, frame_of(200))
    receive(two.ports, 0, packets, BURST, counters)
    for name, value in {"node": TRANSMIT, "out_port": 1, **wrong}.items():
        packets[name][0] = value
    settle(two.ports, packets, 1, counters)
    assert (counters.drops[Drop.BAD_STATE], two.ports.pool[FREE], two.take(1)) == (1, 64, [])


def test_an_injected_frame_leaves_and_is_counted(two, counters):
    frame = np.frombuffer(bytearray(b"??" + frame_of(4250)), np.uint8)
    assert inject(two.ports, 1, frame, 2, 4250, counters)
    assert two.take(1) == [frame_of(4250)]
    assert (counters.ports["rx_injected"][1], counters.ports["tx_packets"][1]) == (1, 1)


def test_an_injected_frame_that_finds_no_buffer_is_counted_as_a_drop(two, packets, counters):
    for length in (9000,) * 10 + (60,) * 4:
        assert two.put(0, frame_of(length))
    frame = np.frombuffer(bytearray(frame_of(1500)), np.uint8)
    assert not inject(two.ports, 1, frame, 0, 1500, counters)
    assert (counters.ports["rx_injected"][1], counters.drops[Drop.TRANSMIT_FULL]) == (1, 1)
    assert counters.ports["dropped"][1] == 1
    assert not two.put(0, frame_of(60))


@pytest.mark.parametrize("length", [60, 4250])
def test_a_copied_in_frame_enters_a_burst_and_leaves(two, packets, counters, length):
    frame = np.frombuffer(bytearray(frame_of(length)), np.uint8)
    assert copy_in(two.ports, 0, frame, 0, length, packets, 3, counters)
    packets["node"][3], packets["out_port"][3] = TRANSMIT, 1
    settle(two.ports, packets[3:], 1, counters)
    assert two.take(1) == [frame_of(length)]
    assert (counters.ports["rx_injected"][0], counters.ports["tx_packets"][1]) == (1, 1)


@pytest.mark.parametrize(
    ("length", "taken_off", "most"), [(60, 0, 100), (4250, 0, 9000), (4250, 50, 9000), (4250, 50, 1800)]
)
def test_all_pieces_of_a_frame_are_copied_out(two, packets, counters, length, taken_off, most):
    two.put(0, frame_of(length))
    receive(two.ports, 0, packets, BURST, counters)
    start = packets["at"][0]
    for name, change in (("at", taken_off), ("length", -taken_off), ("first_length", -taken_off)):
        packets[name][0] += change
    target = np.zeros(9100, np.uint8)
    count = copy_out(two.ports, packets[0], start, target, 7, most)
    assert target[7 : 7 + count].tobytes() == frame_of(length)[:most]
