"""Judge the links of ports: which share of the frames a cable loses, and which share of its rate it has left.

The receiver of a direction counts its losses, so a condition at port P is one of the direction into P. Evidence adds up
from sample to sample, until it decides or a window is full, in two accounts:

    frames     damaged frames of those that arrived
    codewords  uncorrectable codewords of those that a line of this rate carries, also while nothing is sent

    over       so many losses, in so many samples, at so high a share: one burst as a link comes up accuses no cable
    under      a full window, long enough, at a low share, and no doubt in the other account
    neither    what is raised stays raised: a drained cable carries no frames, and silence is no repair

A port that lost its carrier for RELINK_NS and has it again was worked on: it is judged anew. What a device does not
count is unknown and decides nothing. A counter that restarts adds nothing (`telemetry.detection.window`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heddle.telemetry.detection.signal import SignalKind
from heddle.telemetry.detection.thresholds import DetectorSettings
from heddle.telemetry.samples.counters import LINK_AT, link_column

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

RELINK_NS = 5_000_000_000
"""Pulling, cleaning and plugging in again takes longer; a link that flaps is back sooner."""
CODEWORD_BITS = 5_120
"""The data of an RS(544, 514) codeword: 514 symbols of 10 bits carry 20 blocks of 256 bits (IEEE 802.3, clause 119)."""
_CRC, _CORRECTED, _UNCORRECTABLE = (
    link_column(name) - LINK_AT for name in ("rx_crc_errors", "fec_corrected_codewords", "fec_uncorrectable_codewords")
)
_CARRIER_DOWN, _CARRIER_UP = 1, 2
_INTERLEAVED = ((800e9, 4.95), (200e9, 2.41))
"""Frames lost for each lost codeword, from a rate on: 4 and 2 codewords are interleaved there (SONiC, port FEC FLR)."""


class LinkSamples(NamedTuple):
    """The newest samples of some ports: port numbers, and per port what its link did since the sample before.

    grown (rows, LINK_COUNTERS): growth; counted: whether the sample has the counter; rx_packets: growth; speed_bps,
    lanes, carrier: 0 where unknown.
    """

    rows: Ints
    interval_ns: Ints
    timestamp_ns: Ints
    rx_packets: Words
    grown: Words
    counted: Flags
    speed_bps: Words
    lanes: Words
    carrier: Words


class Judged(NamedTuple):
    """A share of some ports, and whether it accuses or clears them; neither where the evidence does not suffice."""

    share: Floats
    over: Flags
    under: Flags


class LinkJudge:
    """The evidence about every port's link. `loss` and `slow` each take a sample once."""

    def __init__(self, rates_bps: Floats, settings: DetectorSettings) -> None:
        self._rates_bps, self._settings = rates_bps, settings
        ports = len(rates_bps)
        self._total = np.zeros((ports, 2))
        self._lost = np.zeros((ports, 2))
        self._samples = np.zeros((ports, 2), dtype=np.int64)
        self._bursts = np.zeros((ports, 2), dtype=np.int64)
        self._loss = np.zeros(ports)
        self._down_since_ns = np.zeros(ports, dtype=np.int64)
        self._most_lanes = np.zeros(ports, dtype=np.uint64)
        self._slow_share = np.ones(ports)

    def keep(self, kind: SignalKind, row: int, value: float) -> None:
        """Begin with the share that a port was last judged by."""
        (self._loss if kind is SignalKind.LOSS else self._slow_share)[row] = value

    def loss(self, new: LinkSamples) -> Judged:
        """Return which share of frames is lost on the way into each port."""
        settings, rows = self._settings, new.rows
        relinked = self._relinked(new)
        self._restart(rows, np.repeat(relinked[:, None], 2, axis=1))
        speed_bps = np.where(new.speed_bps > 0, new.speed_bps, self._rates_bps[rows])
        self._add(new, speed_bps)
        total, lost = self._total[rows], self._lost[rows]
        share = np.minimum(lost / np.maximum(total, 1.0), 1.0)
        share[:, 1] = np.minimum(share[:, 1] * _lost_frames_per_codeword(speed_bps), 1.0)
        many = lost >= settings.loss_min_errors
        over = many & (self._bursts[rows] >= settings.raise_periods) & (share >= settings.loss_raise_ratio)
        long = self._samples[rows] >= settings.loss_clear_periods
        full = long & (total >= settings.loss_min_errors / settings.loss_clear_ratio)
        calm, doubtful = full & (share <= settings.loss_clear_ratio), many & (share > settings.loss_clear_ratio)
        accused = np.asarray(over.any(axis=1))
        cleared: Flags = ((calm.any(axis=1) & ~doubtful.any(axis=1)) | relinked) & ~accused
        decided = np.where(accused | cleared, np.where(relinked[:, None], 0.0, share).max(axis=1), self._loss[rows])
        self._loss[rows] = decided
        self._restart(rows, over | full)
        return Judged(decided, accused, cleared)

    def slow(self, new: LinkSamples) -> Judged:
        """Return which share of the fabric file's rate each link has: by its speed, where unknown by lanes it had."""
        rows = new.rows
        self._most_lanes[rows] = np.maximum(self._most_lanes[rows], new.lanes)
        by_speed = new.speed_bps / np.maximum(self._rates_bps[rows], 1.0)
        by_lanes = new.lanes / np.maximum(self._most_lanes[rows], 1)
        known = ((new.speed_bps > 0) | (new.lanes > 0)) & (new.carrier != _CARRIER_DOWN)
        share = np.minimum(np.where(new.speed_bps > 0, by_speed, by_lanes), 1.0)
        share = np.where(known, share, self._slow_share[rows])
        self._slow_share[rows] = share
        full = share >= self._settings.slow_raise_share
        return Judged(share, known & ~full, known & full)

    def _add(self, new: LinkSamples, speed_bps: Floats) -> None:
        rows, grown = new.rows, new.grown.astype(np.float64)
        line = speed_bps * (new.interval_ns / 1e9) / CODEWORD_BITS
        codewords = np.maximum(line, grown[:, _CORRECTED] + grown[:, _UNCORRECTABLE])
        known = new.counted[:, (_CRC, _UNCORRECTABLE)]
        lost = np.where(known, grown[:, (_CRC, _UNCORRECTABLE)], 0.0)
        total = np.column_stack((new.rx_packets + grown[:, _CRC], codewords))
        self._total[rows] += np.where(known, total, 0.0)
        self._lost[rows] += lost
        self._samples[rows] += known
        self._bursts[rows] += lost > 0

    def _restart(self, rows: Ints, which: Flags) -> None:
        """Forget the evidence of accounts that have decided, or of links that were worked on."""
        at, account = np.nonzero(which)
        for kept in (self._total, self._lost, self._samples, self._bursts):
            kept[rows[at], account] = 0

    def _relinked(self, new: LinkSamples) -> Flags:
        """Return which links have their carrier again after so long without that somebody worked on them."""
        since, down = self._down_since_ns[new.rows], new.carrier == _CARRIER_DOWN
        up = new.carrier == _CARRIER_UP
        found: Flags = up & (since > 0) & (new.timestamp_ns - since >= RELINK_NS)
        self._down_since_ns[new.rows] = np.where(down & (since == 0), new.timestamp_ns, np.where(up, 0, since))
        return found


def _lost_frames_per_codeword(speed_bps: Floats) -> Floats:
    found = np.ones(len(speed_bps))
    for at_least_bps, factor in reversed(_INTERLEAVED):
        found = np.where(speed_bps >= at_least_bps, factor, found)
    return found
