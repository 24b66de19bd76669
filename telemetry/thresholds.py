"""When the detector raises and clears a condition: every threshold, and why it is what it is."""

import math
from dataclasses import dataclass

from telemetry.signal import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorSettings:
    """The thresholds: a condition is raised after periods in a row over one, cleared after some under another.

    period_ms: how often the detector looks, which is how often agents sample.
    raise_periods: 3 periods over; one burst of a collective may fill a period, a congested path fills many.
    clear_periods: 5 periods under; clearing is slower than raising, so that what comes and goes is one condition.
    congestion_raise_share: marked share of a queue's packets. WRED marks 0 to 20 % between its two depths; 5 % is the
        queue of a link that is over its rate; below saturation none is marked at all.
    congestion_clear_share: 1 %, what a queue marks that only just touches the lower depth.
    congestion_min_packets: a share of fewer than 20 packets says nothing: one mark would be over the threshold.
    pausing_raise_share: 1 % of the time stood still; a lossless fabric that is planned well is never paused.
    pausing_clear_share: 0.1 %, a tenth: what is left when the last frames of a burst drain.
    pausing_raise_frames_per_s: for devices that count PFC frames but not the time (SAI's counters): 10 a second,
        which are five pauses, as XOFF and XON come in pairs.
    pausing_clear_frames_per_s: 1 a second: less than one pause in a period of the slowest polling in use.
    storm_raise_share: 90 % of the time paused, while the queue sends nothing: a receiver that never resumes. An
        incast pauses much, but sends between.
    storm_clear_share: 50 %; any packet sent clears as well.
    storm_ms: for 1,000 ms in a row. PFC watchdogs detect in 100 to 5,000 ms; RoCE's first retransmission timeout is
        around 4 s, so one second leaves time to act.
    drop_raise_packets: one packet in a period: a lossless class must lose none.
    drop_clear_packets: none.
    drop_raise_periods: at once: loss is never noise.
    silent_clear_periods: 2 fresh periods: the first sample after a silence has no predecessor that follows it.
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
    silent_clear_periods: int = 2

    def periods(self, kind: Kind) -> tuple[int, int]:
        """Return how many periods in a row raise and clear a condition."""
        storm = max(2, math.ceil(self.storm_ms / self.period_ms))
        return {
            Kind.STORM: (storm, storm),
            Kind.DROP: (self.drop_raise_periods, self.clear_periods),
            Kind.SILENT: (1, self.silent_clear_periods),
        }.get(kind, (self.raise_periods, self.clear_periods))

    def thresholds(self, kind: Kind, stale_after_ns: int) -> tuple[float, float]:
        """Return the value that raises a condition and the one that clears it."""
        return {
            Kind.CONGESTION: (self.congestion_raise_share, self.congestion_clear_share),
            Kind.PAUSING: (self.pausing_raise_share, self.pausing_clear_share),
            Kind.STORM: (self.storm_raise_share, self.storm_clear_share),
            Kind.DROP: (float(self.drop_raise_packets), float(self.drop_clear_packets)),
            Kind.SILENT: (stale_after_ns / 1e9, stale_after_ns / 1e9),
        }[kind]


def complaints(settings: DetectorSettings) -> dict[str, str]:
    """Return what is wrong with settings, by field; empty where they are sound."""
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
    for name in ("raise_periods", "clear_periods", "drop_raise_periods", "silent_clear_periods"):
        if not 1 <= getattr(settings, name) <= 1_000:
            found[name] = "must be between 1 and 1000"
    for name, least, most in (
        ("period_ms", 10, 60_000),
        ("storm_ms", 100, 60_000),
        ("congestion_min_packets", 1, 10**9),
    ):
        if not least <= getattr(settings, name) <= most:
            found[name] = f"must be between {least} and {most}"
    return found
