"""One look per period over every port and priority: which conditions are raised, which are cleared.

Consumes the window's `Period`; answers signals, in order of kind, port and priority. Each kind, port and priority is
a small machine of its own; all of them take their step at once, as operations on arrays:

             over, n-th in a row                        under, m-th in a row
    QUIET ────────────────────────► RAISED      RAISED ────────────────────────► QUIET
      ▲ │ over: run + 1                           ▲ │ under: run + 1
      └─┘ else: run = 0                           └─┘ else: run = 0

`over` and `under` are two thresholds with a gap between; n and m come from `telemetry.thresholds`. A port without
fresh data takes no step: nothing is raised, nothing cleared, no run goes on or breaks. Only `silent` looks at staleness
itself: over is a port that was heard and is stale, under a fresh one. Same periods, same signals: no clock, no chance.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.counters import PRIORITIES
from telemetry.ports import PortTable
from telemetry.signal import Kind, Signal
from telemetry.thresholds import DetectorSettings
from telemetry.window import Period

Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

KINDS = tuple(Kind)
WHOLE_PORT = PRIORITIES  # the ninth column of the detector's arrays


class Measured(NamedTuple):
    """One condition over all ports: what was measured, and where that is over and under; (ports, 9)."""

    value: Floats
    over: Flags
    under: Flags


class Detector:
    """The machines' states. `step` is called once per period by the window's owner."""

    def __init__(self, ports: PortTable, settings: DetectorSettings, *, stale_after_ns: int) -> None:
        self.ports, self.settings, self.stale_after_ns = ports, settings, stale_after_ns
        shape = (len(KINDS), len(ports), PRIORITIES + 1)
        self.raised = np.zeros(shape, dtype=np.bool_)
        self.since_ns = np.zeros(shape, dtype=np.int64)
        self.value = np.zeros(shape, dtype=np.float32)
        self._run = np.zeros(shape, dtype=np.int16)
        self._measures: dict[Kind, Callable[[Period], Measured]] = {
            Kind.CONGESTION: self._congestion,
            Kind.PAUSING: self._pausing,
            Kind.STORM: self._storm,
            Kind.DROP: self._drop,
            Kind.SILENT: self._silent,
        }

    def step(self, period: Period) -> tuple[Signal, ...]:
        """Look at one period; return what it raised and cleared."""
        return tuple(signal for number, kind in enumerate(KINDS) for signal in self._step(number, kind, period))

    def active(self, period: Period) -> tuple[Signal, ...]:
        """Return every condition that is raised, those of stale ports marked so."""
        return tuple(
            self._signal(number, int(row), int(column), period)
            for number in range(len(KINDS))
            for row, column in np.argwhere(self.raised[number])
        )

    def _step(self, number: int, kind: Kind, period: Period) -> list[Signal]:
        measured = self._measures[kind](period)
        acts = period.fresh[:, None] if kind is not Kind.SILENT else (period.fresh | period.stale)[:, None]
        raised, run = self.raised[number], self._run[number]
        wanted = np.where(raised, measured.under, measured.over)
        np.copyto(run, np.where(wanted, run + 1, 0), where=acts)
        np.copyto(self.value[number], measured.value, where=acts, casting="same_kind")
        raise_after, clear_after = self.settings.periods(kind)
        changed = acts & (run >= np.where(raised, clear_after, raise_after))
        if not changed.any():
            return []
        raised ^= changed
        run[changed] = 0
        rows, columns = np.nonzero(changed)
        fresh = raised[rows, columns]
        self.since_ns[number, rows[fresh], columns[fresh]] = period.now_ns
        return [self._signal(number, int(row), int(column), period) for row, column in zip(rows, columns, strict=True)]

    def _signal(self, number: int, row: int, column: int, period: Period) -> Signal:
        kind, raised = KINDS[number], bool(self.raised[number, row, column])
        high, low = self.settings.thresholds(kind, self.stale_after_ns)
        return Signal(
            kind=kind,
            port=self.ports.names[row],
            priority=None if column == WHOLE_PORT else column,
            raised=raised,
            value=float(self.value[number, row, column]),
            threshold=high if raised else low,
            since_unix_ns=int(self.since_ns[number, row, column]),
            sampled_unix_ns=int(period.timestamp_ns[row]),
            stale=bool(period.stale[row]),
        )

    def _congestion(self, period: Period) -> Measured:
        settings = self.settings
        marked, packets = period.queues("ecn_marked_packets"), period.queues("packets")
        # A source that counts no packets per queue: the port's, which are no fewer.
        sent = np.maximum(np.where(packets > 0, packets, period.port("tx_packets")[:, None]), marked)
        share = marked / np.maximum(sent, 1)
        over = (share >= settings.congestion_raise_share) & (sent >= settings.congestion_min_packets)
        return _queues(share, over, share <= settings.congestion_clear_share)

    def _pausing(self, period: Period) -> Measured:
        settings = self.settings
        share = _paused_share(period)
        frames = period.queues("pfc_rx_frames") + period.queues("pfc_tx_frames")
        per_s = frames * 1e9 / np.maximum(period.interval_ns, 1)[:, None]
        over = (share >= settings.pausing_raise_share) | (per_s >= settings.pausing_raise_frames_per_s)
        under = (share <= settings.pausing_clear_share) & (per_s <= settings.pausing_clear_frames_per_s)
        # One number to show: where frames alone decide, what share of time would have been as far over its threshold.
        as_share = per_s / settings.pausing_raise_frames_per_s * settings.pausing_raise_share
        return _queues(np.where(share > 0, share, as_share), over, under)

    def _storm(self, period: Period) -> Measured:
        settings = self.settings
        share, still = _paused_share(period), period.queues("packets") == 0
        return _queues(
            share, (share >= settings.storm_raise_share) & still, (share <= settings.storm_clear_share) | ~still
        )

    def _drop(self, period: Period) -> Measured:
        dropped, drops = period.queues("dropped_packets"), period.port("drops")
        of_queues = dropped.sum(axis=1, dtype=np.uint64)
        # The port's counter may hold the queues' too: the whole port is meant only for what is beyond them.
        beyond = np.where(drops > of_queues, drops - of_queues, 0)
        value = np.column_stack((dropped, beyond)).astype(np.float64)
        return Measured(value, value >= self.settings.drop_raise_packets, value <= self.settings.drop_clear_packets)

    def _silent(self, period: Period) -> Measured:
        since = (period.now_ns - period.timestamp_ns) / 1e9
        return _port(since, period.stale, period.fresh)


def _paused_share(period: Period) -> Floats:
    """Return how much of the time each queue stood still, 0 to 1: (ports, 8)."""
    interval = np.maximum(period.interval_ns, 1)[:, None]
    share: Floats = np.minimum(period.queues("paused_ns") / interval, 1.0)
    return share


def _queues(value: Floats, over: Flags, under: Flags) -> Measured:
    """Put a condition of queues into nine columns; the whole port's stays quiet."""
    rows = value.shape[0]
    false = np.zeros((rows, 1), dtype=np.bool_)
    return Measured(np.column_stack((value, np.zeros(rows))), np.hstack((over, false)), np.hstack((under, ~false)))


def _port(value: Floats, over: Flags, under: Flags) -> Measured:
    """Put a condition of whole ports into nine columns; the queues' stay quiet."""
    wide = np.zeros((value.size, PRIORITIES + 1))
    above, below = np.zeros(wide.shape, dtype=np.bool_), np.ones(wide.shape, dtype=np.bool_)
    wide[:, WHOLE_PORT], above[:, WHOLE_PORT], below[:, WHOLE_PORT] = value, over, under
    return Measured(wide, above, below)
