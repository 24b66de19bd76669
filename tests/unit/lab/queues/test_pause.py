"""PFC of switch ports: when pauses are sent, obeyed and expired; and the write-off of lost bytes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.mininet_topos.queues.attach import QUEUE_WORDS
from heddle.mininet_topos.queues.description import LabPorts, SwitchPort
from heddle.mininet_topos.queues.pause import Backpressure, ReceivedPauses
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.queues.stale_bytes import StaleBytes
from heddle.mininet_topos.queues.switches import Switches
from heddle.telemetry.counter_page import QUEUE_FIELDS

XOFF, XON, REFRESH = 100, 40, 1000


def one_place() -> Backpressure:
    return Backpressure(np.array([XOFF]), np.array([XON]), np.array([REFRESH]))


@given(st.lists(st.tuples(st.integers(0, 150), st.integers(1, 700)), max_size=40))
def test_a_neighbour_is_paused_above_xoff_until_below_xon_and_refreshed_in_time(steps):
    backpressure, paused, sent_at, now = one_place(), False, 0, 0
    for inside, later in steps:
        now += later
        signals = backpressure.signals(np.array([inside]), now)
        begins, ends = not paused and inside > XOFF, paused and inside < XON
        assert signals.pause == ([0] if begins else [])
        assert signals.resume == ([0] if ends else [])
        assert signals.refresh == ([0] if paused and not ends and now - sent_at >= REFRESH else [])
        paused = begins or (paused and not ends)
        if signals.pause or signals.refresh:
            sent_at = now
        assert list(backpressure.pausing) == [paused]


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 200)), max_size=40))
def test_paused_time_is_what_a_clock_that_ticks_every_nanosecond_would_count(frames):
    pauses, until, counted, now, closed = ReceivedPauses(2), 0, 0, 0, False
    for duration, later in frames:
        for _ in range(later):
            now += 1
            counted += now <= until
        if pauses.expired(now):
            closed = False
        assert int(pauses.paused_ns(now)[1]) == counted
        change = pauses.take(1, duration, now)
        assert change in (None, duration > 0)
        closed = closed if change is None else change
        until = now + duration
        assert closed == (duration > 0)
    assert int(pauses.paused_ns(now)[0]) == 0


def test_bytes_of_unknown_queues_are_written_off_at_the_ingress_port_that_held_them_for_a_whole_window():
    stale, zero = StaleBytes(np.array([0, 0, 0])), np.zeros((3, 1), np.int64)
    inside = np.array([[0], [700], [0]])
    stale.sample(zero, inside + np.array([[0], [50], [0]]))  # the port goes on receiving
    stale.sample(zero + np.array([[0], [50], [0]]), inside + np.array([[0], [50], [0]]))
    lost, arrived = stale.end_window(zero, zero, zero > 0)
    assert (lost.ravel().tolist(), arrived.ravel().tolist()) == ([0, 0, 0], [0, 700, 0])


def test_a_queue_that_stands_still_without_being_paused_is_empty_after_a_window():
    stale, zero = StaleBytes(np.array([0])), np.zeros((1, 2), np.int64)
    depth, paused = np.array([[500, 500]]), np.array([[False, True]])
    found = []
    for moved in (zero, zero, zero + 9):
        stale.sample(depth, zero)
        found.append(stale.end_window(depth, moved, paused)[0].tolist())
    assert found == [[[0, 0]], [[500, 0]], [[0, 0]]]


@given(st.data())
def test_nothing_is_written_off_while_every_byte_is_accounted_for(data):
    ports, stale = 4, StaleBytes(np.array([0, 0, 1, 1]))
    moved = np.zeros((ports, 1), np.int64)
    for _ in range(3):
        for _ in range(3):
            depth = np.array(data.draw(st.lists(st.integers(0, 9), min_size=ports, max_size=ports)))[:, None]
            inside = depth[[1, 0, 3, 2]]  # each switch holds what came in by its other port
            stale.sample(depth, inside)
        moved = moved + 1
        lost, arrived = stale.end_window(depth, moved, moved < 0)
        assert not lost.any()
        assert not arrived.any()


class RecordingKernel:
    def __init__(self) -> None:
        self.frames, self.pauses, self.discards, self.down = [], [], [], np.zeros(2, bool)
        self.held: dict[int, dict[int, int]] = {}

    def send_pause(self, slot, quanta):
        self.frames.append((slot, dict(quanta)))

    def set_paused(self, slot, priority, paused):
        self.pauses.append((slot, priority, paused))

    def discard(self, slot, priority):
        self.discards.append((slot, priority, True))

    def accept(self, slot, priority):
        self.discards.append((slot, priority, False))

    def held_bytes(self, slot, priority):
        return self.held.get(slot, {})

    def ports_down(self):
        return self.down


def two_ports(settings: QueueSettings, peer: int | None = None) -> tuple[Switches, np.ndarray, RecordingKernel]:
    ports = LabPorts(
        ports=tuple(
            SwitchPort(name=f"leaf1:{n}", interface="x", switch=1, peer=peer, rate_bps=20_000_000) for n in (1, 2)
        ),
        nics=(),
    )
    queues = np.zeros((2, 8), [(word, "<i8") for word in QUEUE_WORDS])
    kernel = RecordingKernel()
    return Switches(ports, settings, queues, kernel), queues, kernel


def test_a_congested_ingress_port_pauses_its_neighbour_and_resumes_it():
    switches, queues, kernel = two_ports(QueueSettings())
    queues["arrived_bytes"][1, 3] = 50_000
    switches.tick(1)
    switches.tick(2)
    queues["departed_bytes"][1, 3] = 40_000
    switches.tick(3)
    assert kernel.frames == [(1, {3: 0xFFFF}), (1, {3: 0})]
    assert switches.frames_sent[1].tolist() == [0, 0, 0, 2, 0, 0, 0, 0]


def test_the_queue_of_a_pulled_cable_is_empty_at_the_next_sample_and_its_ingress_ports_pause_no_neighbour():
    switches, queues, kernel = two_ports(QueueSettings())
    queues["enqueued_bytes"][0, 3] = queues["arrived_bytes"][1, 3] = 50_000
    switches.tick(1)
    kernel.down[0], kernel.held[0] = True, {1: 50_000}
    switches.sample_stale_bytes()
    switches.tick(2)
    assert kernel.frames == [(1, {3: 0xFFFF}), (1, {3: 0})]
    assert (switches.depth_bytes(), switches.ingress_bytes(), switches.written_off_bytes) == (0, 0, 50_000)
    queues["enqueued_bytes"][0, 3] = queues["arrived_bytes"][1, 3] = 50_700  # the switch still forwards to it
    kernel.held[0] = {1: 50_700}
    switches.sample_stale_bytes()
    switches.write_off_stale_bytes()
    assert (switches.depth_bytes(), switches.ingress_bytes(), switches.written_off_bytes) == (0, 0, 50_700)


def test_a_received_pause_stops_its_priority_until_its_time_is_over():
    switches, _, kernel = two_ports(QueueSettings())
    switches.on_pause_frame(0, {3: 1000, 5: 1000}, 0)  # 25.6 ms; priority 5 cannot be paused
    switches.tick(10_000_000)
    switches.tick(30_000_000)
    assert kernel.pauses == [(0, 3, True), (0, 3, False)]
    _, queues = switches.counter_page(30_000_000)
    assert queues[0, 3, 6] == 25_600_000
    assert queues[0, 3, 4] == queues[0, 5, 4] == 1


def test_a_pause_without_end_is_ignored_while_its_queue_is_discarded_and_obeyed_after_it_is_restored():
    switches, queues, kernel = two_ports(QueueSettings())
    queues["enqueued_packets"][0, 3], queues["enqueued_bytes"][0, 3] = 3, 900
    ms = 1_000_000
    for now in range(0, 300 * ms, 10 * ms):  # each frame pauses for 25.6 ms
        switches.on_pause_frame(0, {3: 1000}, now)
        switches.tick(now)
    assert kernel.pauses == [(0, 3, True)]
    queues["dropped_packets"][0, 3] += 5
    for now in range(300 * ms, 600 * ms, 10 * ms):
        switches.tick(now)
    assert kernel.discards == [(0, 3, True), (0, 3, False)]
    page = dict(zip(QUEUE_FIELDS, switches.counter_page(600 * ms)[1][0, 3].tolist(), strict=True))
    assert page["watchdog_trips"] == page["watchdog_restores"] == 1
    assert page["watchdog_dropped_packets"] == page["dropped_packets"] == 3 + 5
    assert page["depth_bytes"] == 0
    switches.on_pause_frame(0, {3: 1000}, 600 * ms)
    assert kernel.pauses[1:] == [(0, 3, True)]


def test_between_switches_the_watchdog_waits_longer():
    switches, _, kernel = two_ports(QueueSettings(), peer=1)
    ms = 1_000_000
    for now in range(0, 2900 * ms, 20 * ms):
        switches.on_pause_frame(0, {3: 1000}, now)
        switches.tick(now)
    assert kernel.discards == []
    for now in range(2900 * ms, 3100 * ms, 20 * ms):
        switches.on_pause_frame(0, {3: 1000}, now)
        switches.tick(now)
    assert kernel.discards == [(0, 3, True)]


def test_without_a_watchdog_a_pause_without_end_is_obeyed():
    switches, _, kernel = two_ports(QueueSettings(watchdog=False))
    for now in range(0, 10_000_000_000, 100_000_000):
        switches.on_pause_frame(0, {3: 0xFFFF}, now)
        switches.tick(now)
    assert (kernel.pauses, kernel.discards) == ([(0, 3, True)], [])


def test_without_pfc_no_pause_is_sent_and_none_obeyed():
    switches, queues, kernel = two_ports(QueueSettings(pfc=False))
    queues["arrived_bytes"][1, 3] = 10**6
    switches.on_pause_frame(0, {3: 1000}, 0)
    switches.tick(1)
    assert (kernel.frames, kernel.pauses) == ([], [])


@given(st.integers(0, 39_999))
def test_no_tick_is_skipped_that_could_be_the_one_that_pauses(inside):
    switches, queues, _ = two_ports(QueueSettings())
    queues["arrived_bytes"][1, 3] = inside
    quiet_ns = switches.tick(1)
    assert quiet_ns <= (40_000 - inside) * 8 * 10**9 // 20_000_000 // 2
    queues["arrived_bytes"][1, 3] = 40_001
    assert switches.tick(2) == 0


def test_when_the_lab_ends_every_priority_and_every_neighbour_is_resumed():
    switches, queues, kernel = two_ports(QueueSettings())
    queues["arrived_bytes"][1, 3] = 50_000
    switches.on_pause_frame(0, {3: 1000}, 0)
    switches.tick(1)
    switches.resume_all(2)
    assert kernel.pauses[-1] == (0, 3, False)
    assert kernel.frames[-1] == (1, {3: 0})


def test_the_page_adds_up_a_port_s_priorities():
    switches, queues, _ = two_ports(QueueSettings())
    queues["enqueued_bytes"][0, 3], queues["dequeued_bytes"][0] = 900, 100
    queues["dropped_packets"][0, (0, 3)] = 2
    ports, pages = switches.counter_page(0)
    assert ports[0].tolist() == [300, 0, 0, 0, 4]  # of the three priorities in use
    assert pages[0, 3, 7] == 800
    assert pages[0, 0, 7] == 0  # more dequeued than enqueued: depth 0
