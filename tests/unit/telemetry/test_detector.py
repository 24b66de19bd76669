"""The detector: samples that raise a condition, that clear it, and that do neither."""

import dataclasses

import pytest

from heddle.telemetry.detection.detector import Detector
from heddle.telemetry.detection.signal import SignalKind
from heddle.telemetry.detection.thresholds import DetectorSettings, complaints, reasons
from tests.unit.telemetry.builders import Fed, S, queue, sample

SETTINGS = DetectorSettings(raise_periods=2, clear_periods=3)
STALE = 3 * S


class Watched:
    """One port with cumulative counters, and a detector."""

    def __init__(self, settings=SETTINGS):
        self.fed = Fed(stale_after_ns=STALE)
        self.detector = Detector(self.fed.window.ports, settings, stale_after_ns=STALE)
        self.now, self.sequence, self.counters, self.drops = 0, 0, {}, 0
        self.period()

    def period(self, drops=0, **growth):
        """Advance one second, in which queue 3 grows by `growth`; return the detector's signals."""
        self.now += 1
        self.sequence += 1
        self.drops += drops
        for name, value in growth.items():
            self.counters[name] = self.counters.get(name, 0) + value
        self.fed.store(sample(at=self.now, sequence=self.sequence, drops=self.drops, queues=[queue(**self.counters)]))
        return self.scan()

    def scan(self):
        self.last = self.fed.roll(self.now)
        return self.detector.step(self.last)

    def nothing(self, seconds=1):
        """Advance time without a sample."""
        signals = []
        for _ in range(seconds):
            self.now += 1
            signals += self.scan()
        return signals


OVER = {
    SignalKind.CONGESTION: {"packets": 1_000, "ecn_marked_packets": 100},
    SignalKind.PAUSING: {"paused_ns": S // 10},
    SignalKind.STORM: {"paused_ns": S},
}


@pytest.mark.parametrize("kind", OVER)
def test_a_condition_is_raised_after_periods_in_a_row_and_cleared_after_others(kind):
    watched = Watched()
    raised = [[s.kind for s in watched.period(**OVER[kind])] for _ in range(3)]
    assert [kind in kinds for kinds in raised] == [False, True, False]
    cleared = [[(s.kind, s.raised) for s in watched.period(packets=1_000)] for _ in range(4)]
    after = watched.detector.settings.periods(kind)[1]
    assert [(kind, False) in kinds for kinds in cleared] == [n == after - 1 for n in range(4)]


def test_a_period_in_between_restarts_the_count():
    watched = Watched()
    watched.period(**OVER[SignalKind.CONGESTION])
    watched.period(packets=1_000, ecn_marked_packets=20)
    assert watched.period(**OVER[SignalKind.CONGESTION]) == ()


def test_between_the_thresholds_a_raised_condition_stays():
    watched = Watched()
    for _ in range(2):
        watched.period(**OVER[SignalKind.CONGESTION])
    assert [watched.period(packets=1_000, ecn_marked_packets=20) for _ in range(10)] == [()] * 10


def test_few_packets_raise_no_congestion():
    watched = Watched()
    assert [watched.period(packets=10, ecn_marked_packets=10) for _ in range(5)] == [()] * 5


def test_marks_without_a_count_of_packets_count_against_the_marks_themselves():
    watched = Watched()
    watched.period(ecn_marked_packets=50)
    (signal,) = watched.period(ecn_marked_packets=50)
    assert (signal.kind, signal.value) == (SignalKind.CONGESTION, 1.0)


def test_pause_frames_alone_raise_pausing():
    watched = Watched()
    watched.period(pfc_tx_frames=20)
    (signal,) = watched.period(pfc_tx_frames=20)
    assert (signal.kind, signal.priority, signal.raised) == (SignalKind.PAUSING, 3, True)


def test_a_queue_that_is_paused_but_sends_is_no_storm():
    watched = Watched()
    signals = [s for _ in range(5) for s in watched.period(paused_ns=S, packets=5)]
    assert [signal.kind for signal in signals] == [SignalKind.PAUSING]


def test_a_tripped_pfc_watchdog_is_a_storm_at_once_and_until_it_has_restored_the_queue():
    watched = Watched()
    watched.counters["watchdog_active"] = True
    (signal,) = watched.period(packets=5)
    assert (signal.kind, signal.port, signal.priority, signal.raised) == (SignalKind.STORM, "leaf1:1", 3, True)
    assert [watched.period(packets=5) for _ in range(5)] == [()] * 5
    watched.counters["watchdog_active"] = False
    cleared = [[(s.kind, s.raised) for s in watched.period(packets=5)] for _ in range(3)]
    assert cleared == [[], [(SignalKind.STORM, False)], []]


def test_a_drop_is_raised_at_once():
    watched = Watched()
    (signal,) = watched.period(dropped_packets=2)
    assert (signal.kind, signal.priority, signal.value) == (SignalKind.DROP, 3, 2.0)


def test_drops_beyond_the_queues_are_the_ports():
    watched = Watched()
    assert [(s.kind, s.priority) for s in watched.period(drops=5, dropped_packets=5)] == [(SignalKind.DROP, 3)]
    assert [(s.kind, s.priority, s.value) for s in watched.period(drops=5)] == [(SignalKind.DROP, None, 5.0)]


def test_silence_is_raised_once_and_cleared_by_fresh_samples():
    watched = Watched()
    watched.period()
    signals = watched.nothing(10)
    assert [(s.kind, s.priority, s.raised) for s in signals] == [(SignalKind.SILENT, None, True)]
    signals = [s for _ in range(4) for s in watched.period()]
    assert [(s.kind, s.raised) for s in signals] == [(SignalKind.SILENT, False)]


def test_a_port_without_any_sample_is_not_silent():
    watched = Watched()
    watched.nothing(10)
    assert not watched.detector.raised[:, 1:].any()


def test_stale_data_neither_raises_nor_clears():
    watched = Watched()
    for _ in range(2):
        watched.period(**OVER[SignalKind.CONGESTION])
    watched.period(**OVER[SignalKind.PAUSING])  # one of two periods
    assert {s.kind for s in watched.nothing(20)} == {SignalKind.SILENT}
    (signal,) = (s for s in watched.detector.active(watched.last) if s.kind is SignalKind.CONGESTION)
    assert signal.stale


def test_old_samples_that_arrive_late_raise_nothing():
    watched = Watched()
    watched.now += 20
    for n in range(5):
        dropped = queue(dropped_packets=n, packets=100 * n, ecn_marked_packets=100 * n)
        watched.fed.store(sample(at=2 + n, sequence=2 + n, queues=[dropped]), now=watched.now)
        assert {s.kind for s in watched.scan()} <= {SignalKind.SILENT}


def test_a_signal_has_its_start_and_the_time_of_its_sample():
    watched = Watched()
    watched.period(**OVER[SignalKind.CONGESTION])
    (signal,) = watched.period(**OVER[SignalKind.CONGESTION])
    assert signal.subject == "leaf1:1 priority 3"
    assert signal.value == pytest.approx(0.1)
    assert signal.threshold == SETTINGS.congestion_raise_share
    assert signal.since_unix_ns == signal.sampled_unix_ns == watched.last.now_ns


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("congestion_raise_share", 0.0),
        ("congestion_raise_share", 1.5),
        ("congestion_clear_share", 0.5),
        ("congestion_clear_share", -0.1),
        ("pausing_raise_share", float("nan")),
        ("pausing_clear_frames_per_s", 11.0),
        ("drop_clear_packets", 1),
        ("raise_periods", 0),
        ("period_ms", 1),
        ("storm_ms", 10**6),
    ],
)
def test_thresholds_out_of_range_are_named(key, value):
    assert key in complaints(dataclasses.replace(DetectorSettings(), **{key: value}))


def test_the_defaults_are_in_range():
    assert complaints(DetectorSettings()) == {}


def test_every_threshold_has_its_reason():
    assert list(reasons()) == [field.name for field in dataclasses.fields(DetectorSettings)]
    assert all(text.endswith(".") for text in reasons().values())
