"""The judgement of links: what accuses a cable, what clears it, and what must do neither."""

import pytest

from heddle.telemetry.detection.detector import Detector
from heddle.telemetry.detection.links import CODEWORD_BITS
from heddle.telemetry.detection.signal import SignalKind
from heddle.telemetry.detection.thresholds import DetectorSettings, complaints
from heddle.telemetry.samples.ports import Port, PortTable
from heddle.telemetry.samples.topic import Source
from tests.unit.telemetry.builders import Fed, S, sample

RATE_BPS = 400 * 10**9
SETTINGS = DetectorSettings(
    raise_periods=3, clear_periods=2, loss_raise_ratio=1e-4, loss_clear_ratio=1e-5, loss_min_errors=5,
    loss_clear_periods=4,
)  # fmt: skip
LINK = (SignalKind.LOSS, SignalKind.SLOW)
PACKETS = 250_000
"""A window of the settings above is twice as many."""


class Port1:
    """One port of 400 Gbit/s that is sampled once a second; `second` grows its counters and returns the signals."""

    def __init__(self, **first):
        ports = PortTable([Port("leaf1:1", Source.SWITCH, "leaf1", RATE_BPS)])
        self.fed = Fed(ports, stale_after_ns=3 * S)
        self.detector = Detector(ports, SETTINGS, stale_after_ns=3 * S)
        self.now, self.boot, self.counters = 0, 7, {"rx_packets": 0, "rx_crc_errors": 0} | first
        self.second()

    def second(self, carrier=None, speed_bps=None, lanes=None, **growth):
        self.now += 1
        for name, value in growth.items():
            self.counters[name] = None if value is None else (self.counters.get(name) or 0) + value
        link = {"carrier": carrier, "speed_bps": speed_bps, "lanes": lanes}
        self.fed.store(sample(at=self.now, sequence=self.now, boot=self.boot, **self.counters, **link))
        self.last = self.fed.roll(self.now)
        return [(s.kind, s.raised) for s in self.detector.step(self.last) if s.kind in LINK]

    def seconds(self, count, **growth):
        return [signal for _ in range(count) for signal in self.second(**growth)]

    def raised(self):
        return {s.kind: s.value for s in self.detector.active(self.last) if s.kind in LINK}


def bad(**more):
    port = Port1(**more)
    assert port.seconds(3, rx_packets=PACKETS, rx_crc_errors=250) == [(SignalKind.LOSS, True)]
    return port


def test_a_cable_that_loses_one_frame_in_a_thousand_is_named_with_its_share():
    assert bad().raised()[SignalKind.LOSS] == pytest.approx(1e-3, rel=0.01)


def test_losses_in_one_burst_as_a_link_comes_up_accuse_no_cable():
    port = Port1()
    assert port.second(rx_packets=100, rx_crc_errors=10_000) == []
    assert port.seconds(50, rx_packets=PACKETS) == []


def test_few_losses_of_few_packets_accuse_no_cable():
    port = Port1()
    assert port.seconds(4, rx_packets=10, rx_crc_errors=1) == []  # 10 %, but four frames


def test_a_share_between_the_thresholds_neither_raises_nor_clears():
    share = {"rx_packets": PACKETS, "rx_crc_errors": 12}
    assert Port1().seconds(40, **share) == []
    assert bad().seconds(40, **share) == []


def test_a_full_window_without_losses_clears_and_a_shorter_one_does_not():
    port = bad()
    assert port.seconds(3, rx_packets=PACKETS) == []
    assert port.second(rx_packets=PACKETS) == [(SignalKind.LOSS, False)]


def test_a_drained_cable_stays_bad_while_it_carries_nothing():
    assert bad().seconds(200) == []


def test_a_counter_that_disappears_is_unknown_and_clears_nothing():
    assert bad().seconds(40, rx_packets=PACKETS, rx_crc_errors=None) == []


def test_counters_that_go_back_or_restart_accuse_no_cable():
    port = Port1(rx_crc_errors=10**12)
    for at in range(1, 20):
        port.boot += at % 2
        port.counters["rx_crc_errors"] = 10**12 - at * 10**9
        assert port.second(rx_packets=PACKETS) == []


def test_a_small_error_counter_that_restarts_under_the_same_boot_id_is_no_wrap():
    port = Port1(rx_crc_errors=2**32 - 5)
    port.counters["rx_crc_errors"] = 0
    assert port.second(rx_packets=PACKETS) == []
    assert not port.last.interval_ns.any()


def test_uncorrectable_codewords_name_a_cable_that_carries_no_frame():
    codewords = RATE_BPS // CODEWORD_BITS
    port = Port1(fec_uncorrectable_codewords=0)
    assert port.seconds(3, fec_uncorrectable_codewords=codewords // 1000) == [(SignalKind.LOSS, True)]
    assert port.raised()[SignalKind.LOSS] == pytest.approx(2.41e-3, rel=0.01)
    assert port.seconds(3, fec_uncorrectable_codewords=0) == []
    assert port.second(fec_uncorrectable_codewords=0) == [(SignalKind.LOSS, False)]


def test_codewords_that_were_corrected_accuse_no_cable():
    port = Port1(fec_uncorrectable_codewords=0, fec_corrected_codewords=0)
    assert port.seconds(40, fec_corrected_codewords=10**7, rx_packets=PACKETS) == []


def test_sound_codewords_do_not_clear_a_cable_whose_frames_are_damaged():
    port = bad(fec_uncorrectable_codewords=0)
    assert port.seconds(30, rx_packets=PACKETS, rx_crc_errors=250) == []


def test_sound_codewords_do_not_clear_a_cable_whose_frames_leave_it_in_doubt():
    port = bad(fec_uncorrectable_codewords=0)
    assert port.seconds(20, rx_packets=PACKETS, rx_crc_errors=12) == []
    assert port.seconds(5, rx_packets=PACKETS) == [(SignalKind.LOSS, False)]


def test_a_link_that_was_unplugged_for_long_is_judged_anew_and_one_that_flaps_is_not():
    port = bad()
    port.second(carrier=False)
    assert port.second(carrier=True) == []
    port.seconds(6, carrier=False)
    assert port.second(carrier=True) == [(SignalKind.LOSS, False)]


@pytest.mark.parametrize("link", [{"speed_bps": RATE_BPS // 2}, {"speed_bps": RATE_BPS // 2, "lanes": 8}])
def test_a_link_at_half_its_speed_is_slow_until_it_is_back(link):
    port = Port1()
    assert port.seconds(5, **link) == [(SignalKind.SLOW, True)]
    assert port.raised() == {SignalKind.SLOW: 0.5}
    assert port.seconds(10) == []  # unknown
    assert port.seconds(2, speed_bps=RATE_BPS) == [(SignalKind.SLOW, False)]


def test_lost_lanes_slow_a_link_whose_speed_is_unknown():
    port = Port1()
    assert port.seconds(2, lanes=4) == []
    assert port.seconds(3, lanes=1) == [(SignalKind.SLOW, True)]
    assert port.raised() == {SignalKind.SLOW: 0.25}


def test_other_lanes_at_full_speed_and_the_speed_of_a_port_that_is_down_accuse_no_cable():
    port = Port1()
    assert port.seconds(3, lanes=8, speed_bps=RATE_BPS) + port.seconds(9, lanes=4, speed_bps=RATE_BPS) == []
    assert port.seconds(9, speed_bps=10**7, carrier=False) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [("loss_raise_ratio", 0.0), ("loss_raise_ratio", float("nan")), ("loss_raise_ratio", 1.0),
     ("loss_clear_ratio", 1e-3), ("loss_clear_ratio", -1.0), ("slow_raise_share", 1.5), ("loss_min_errors", 0)],
)  # fmt: skip
def test_thresholds_that_make_no_sense_are_named(name, value):
    assert name in complaints(DetectorSettings(**{name: value}))


def test_what_was_bad_before_a_start_stays_so_until_its_counters_clear_it():
    """A detector that starts has no evidence, and none is no repair."""
    port = Port1()
    port.detector.keep(SignalKind.LOSS, "leaf1:1", 0.02, 0)
    port.detector.keep(SignalKind.SLOW, "leaf1:1", 0.5, 0)
    port.detector.keep(SignalKind.LOSS, "leaf9:9", 0.02, 0)
    assert port.seconds(3) == []
    assert port.raised() == pytest.approx({SignalKind.LOSS: 0.02, SignalKind.SLOW: 0.5})
    assert port.seconds(2, speed_bps=RATE_BPS) == [(SignalKind.SLOW, False)]
    assert port.seconds(12, rx_packets=PACKETS) == [(SignalKind.LOSS, False)]
    assert port.raised() == {}
