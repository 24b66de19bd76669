"""The thresholds at which the detector raises and clears conditions, each with its reason."""

import math
import re
from dataclasses import dataclass

from heddle.telemetry.detection.signal import SignalKind


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorSettings:
    """Thresholds: a condition is raised after a number of periods over one, and cleared after some under another.

    period_ms: sampling period of agents and detector. Switch operating systems poll their ports once per second.
    raise_periods: periods in a row over a threshold that raise a condition. A burst of a collective fills one,
        a congested path many.
    clear_periods: periods in a row under a threshold that clear one. More than raise it, so that an intermittent
        condition stays one.
    congestion_raise_share: the share of a queue's packets with an ECN mark that is congestion. WRED marks 0 to 20 %
        between its two depths; 5 % is the queue of a link that is over its rate, and below saturation none is marked.
    congestion_clear_share: the share that clears it: that of a queue that only just reaches the lower depth.
    congestion_min_packets: fewer packets in a period decide nothing: one mark in 20 would be over the threshold.
    pausing_raise_share: the share of time for which PFC stops a queue. In a fabric with well-planned paths it is 0.
    pausing_clear_share: the share that clears it: what remains while the last frames of a burst drain.
    pausing_raise_frames_per_s: PFC frames per second, sent or received, for devices that count frames but no time.
        XOFF and XON come in pairs, so ten are five pauses.
    pausing_clear_frames_per_s: frames per second that clear it: less than one pause in two seconds.
    storm_raise_share: the share of time paused, without any packet sent, that is a storm: a receiver that never
        resumes. An incast pauses as much, but packets are sent in between. A PFC watchdog that has tripped at the
        switch is a storm at once.
    storm_clear_share: the share that clears it; any packet sent clears it as well.
    storm_ms: duration that raises a storm. PFC watchdogs detect in 100 to 5,000 ms; RoCE's first retransmission timeout
        is around 4 s, so one second leaves time to act.
    drop_raise_packets: packets dropped in a period. A lossless class must lose none.
    drop_clear_packets: packets dropped in a period that clear it.
    drop_raise_periods: periods in a row that raise it. Loss is never noise, so one suffices.
    loss_raise_ratio: the share of frames lost on a cable that makes it a bad one. RDMA sends all packets in flight
        again after a loss: one lost of 100,000 costs 0.1 % at 400 Gbit/s. IEEE 802.3 allows 6.2e-10.
    loss_clear_ratio: the share that clears it.
    loss_min_errors: fewer losses accuse no cable, and a window of as many frames as would lose so many at
        loss_clear_ratio clears one.
    loss_clear_periods: the periods that such a window has at least, as cables lose in bouts.
    slow_raise_share: the share of the fabric file's rate below which a link is slow. A link has its rate, or
        lost lanes.
    silent_clear_periods: fresh periods in a row that clear a silence. The first sample after a silence has no
        predecessor, hence one more.
    """

    period_ms: int = 1_000
    raise_periods: int = 3
    clear_periods: int = 5
    congestion_raise_share: float = 0.05
    congestion_clear_share: float = 0.01
    congestion_min_packets: int = 20
    pausing_raise_share: float = 0.01
    pausing_clear_share: float = 0.001
    pausing_raise_frames_per_s: float = 10.0
    pausing_clear_frames_per_s: float = 1.0
    storm_raise_share: float = 0.9
    storm_clear_share: float = 0.5
    storm_ms: int = 1_000
    drop_raise_packets: int = 1
    drop_clear_packets: int = 0
    drop_raise_periods: int = 1
    loss_raise_ratio: float = 1e-5
    loss_clear_ratio: float = 1e-6
    loss_min_errors: int = 10
    loss_clear_periods: int = 60
    slow_raise_share: float = 0.99
    silent_clear_periods: int = 2

    def periods(self, kind: SignalKind) -> tuple[int, int]:
        """Return how many periods in a row raise and clear a condition."""
        storm = max(2, math.ceil(self.storm_ms / self.period_ms))
        return {
            SignalKind.STORM: (storm, storm),
            SignalKind.DROP: (self.drop_raise_periods, self.clear_periods),
            SignalKind.SILENT: (1, self.silent_clear_periods),
            SignalKind.LOSS: (1, 1),
        }.get(kind, (self.raise_periods, self.clear_periods))

    def thresholds(self, kind: SignalKind, stale_after_ns: int) -> tuple[float, float]:
        """Return the value that raises a condition and the one that clears it."""
        return {
            SignalKind.CONGESTION: (self.congestion_raise_share, self.congestion_clear_share),
            SignalKind.PAUSING: (self.pausing_raise_share, self.pausing_clear_share),
            SignalKind.STORM: (self.storm_raise_share, self.storm_clear_share),
            SignalKind.DROP: (float(self.drop_raise_packets), float(self.drop_clear_packets)),
            SignalKind.SILENT: (stale_after_ns / 1e9, stale_after_ns / 1e9),
            SignalKind.LOSS: (self.loss_raise_ratio, self.loss_clear_ratio),
            SignalKind.SLOW: (self.slow_raise_share, self.slow_raise_share),
        }[kind]


def reasons() -> dict[str, str]:
    """Return the reasons in the docstring of DetectorSettings by field."""
    _, _, listed = (DetectorSettings.__doc__ or "").partition("\n\n")
    entries = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", listed, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def complaints(settings: DetectorSettings) -> dict[str, str]:
    """Return the faults of settings by field; empty if there are none."""
    found = {}
    for kind in ("congestion", "pausing", "storm"):
        high, low = getattr(settings, f"{kind}_raise_share"), getattr(settings, f"{kind}_clear_share")
        if not 0 < high <= 1:
            found[f"{kind}_raise_share"] = "must be over 0 and at most 1"
        if not 0 <= low <= high:
            found[f"{kind}_clear_share"] = f"must be between 0 and {kind}_raise_share ({high:g})"
    if not 0 < settings.pausing_raise_frames_per_s <= 1e9:
        found["pausing_raise_frames_per_s"] = "must be over 0 and at most 1e9"
    if not 0 <= settings.pausing_clear_frames_per_s <= settings.pausing_raise_frames_per_s:
        found["pausing_clear_frames_per_s"] = "must be between 0 and pausing_raise_frames_per_s"
    if not 0 <= settings.drop_clear_packets < settings.drop_raise_packets:
        found["drop_clear_packets"] = "must be at least 0 and under drop_raise_packets"
    if not 1e-12 <= settings.loss_raise_ratio < 1:
        found["loss_raise_ratio"] = "must be at least 1e-12 and under 1"
    if not 1e-12 <= settings.loss_clear_ratio < settings.loss_raise_ratio:
        found["loss_clear_ratio"] = f"must be at least 1e-12 and under loss_raise_ratio ({settings.loss_raise_ratio:g})"
    if not 0 < settings.slow_raise_share <= 1:
        found["slow_raise_share"] = "must be over 0 and at most 1"
    for name in ("raise_periods", "clear_periods", "drop_raise_periods", "silent_clear_periods"):
        if not 1 <= getattr(settings, name) <= 1_000:
            found[name] = "must be between 1 and 1000"
    for name, low, high in (
        ("period_ms", 10, 60_000),
        ("storm_ms", 100, 60_000),
        ("congestion_min_packets", 1, 10**9),
        ("loss_min_errors", 1, 10**6),
        ("loss_clear_periods", 1, 10**6),
    ):
        if not low <= getattr(settings, name) <= high:
            found[name] = f"must be between {low} and {high}"
    return found
