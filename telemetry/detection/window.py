"""Rolling windows over every port's counters, in arrays whose size depends on the fabric only.

Input: decoded batches and the time. Output of a scan: how much each counter grew since the last scan, and in what time
by the source's own clock; readers get the same over the last periods. A scan costs time in proportion to the new
samples. Invariants, which property tests compare with an oracle:

- A total never decreases. It starts at the counter's first value and grows with it, and after a restart of the device
  it continues from its own last value.
- A sample counts once: an older or repeated timestamp or sequence is refused, and so is one from the future.
- Counts between two samples with a restart between them are lost, not estimated.
- Memory is allocated once.

A changed `boot_id`, or a counter that decreased without a plausible wrap, is a reset: the sample is a new baseline.
A counter that decreased and, modulo 2^32, 2^48 or 2^64, grew by no more than the port's rate allows is a wrap; one of
LINK_COUNTERS, which grow slowly and accuse a cable, has always been reset.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from heddle.telemetry.detection.growth import Growth, Recent
from heddle.telemetry.samples.counters import (
    COLUMNS,
    LINK_AT,
    PORT_COUNTERS,
    PRIORITIES,
    port_column,
    queue_columns,
)
from heddle.telemetry.samples.decode import BOOT_ID, CARRIER, LANES, SEQUENCE, SPEED_BPS, TIMESTAMP, Rows
from heddle.telemetry.samples.ports import PortTable
from heddle.telemetry.samples.sample import Refusal

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

SECOND_NS = 1_000_000_000
CARRIER_UP = 2
_SMALLEST_FRAME_BITS = 64 * 8
"""Smallest Ethernet frame, without preamble and gap: bounds the frames that a port can count in a time."""


class Notice(StrEnum):
    """An anomaly of an accepted sample, which is counted."""

    GAP = "gap"
    RESET = "reset"
    WRAP = "wrap"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """Length of the window and limits on samples.

    periods: number of periods kept. Eight show a trend and, at 10,000 ports, take 70 MB.
    period_ns: the sources' sampling period. Scans within it add to the current one.
    stale_after_ns: a sample older than this is stale. Three periods tolerate one lost message and some delay.
    max_future_ns: limit of a source's clock ahead of ours. Hosts with NTP are within milliseconds; five seconds also
        bound the time for which a source is refused after its clock was set back.
    max_sequence_ahead: a larger jump is refused as damage; 1,000,000 periods of 100 ms are more than a day.
    restart_samples: after this many samples in a row whose sequence is behind while their own clock and sequence
        advance, the agent has restarted: its next sample is a new baseline.
    """

    periods: int = 8
    period_ns: int = SECOND_NS
    stale_after_ns: int = 3 * SECOND_NS
    max_future_ns: int = 5 * SECOND_NS
    max_sequence_ahead: int = 1_000_000
    restart_samples: int = 3


@dataclass(frozen=True, slots=True)
class LinkChange:
    """The link of a port, `port` by name, has lost its carrier, or has it again (`up`)."""

    port: str
    up: bool


@dataclass(frozen=True, slots=True)
class Stored:
    """The result for one message: rows taken, and rows refused and anomalies by kind.

    `positions` are those of the rows taken, in the message.
    """

    taken: int
    refused: dict[Refusal, int]
    noticed: dict[Notice, int]
    positions: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The growth between two scans; arrays have one row per port. They are views, valid until the next roll.

    delta (ports, COLUMNS): growth of each counter; interval_ns: the source's time that it took, 0 without two
    consecutive samples; rows: the ports with an interval; fresh: those of them whose sample is not stale; stale: with
    an old sample only; heard: with any sample. link: what the newest samples say of links. `is_whole`: the scan ends a
    sampling period.
    """

    number: int
    now_ns: int
    is_whole: bool
    rows: Ints
    delta: Words
    interval_ns: Ints
    fresh: Flags
    stale: Flags
    heard: Flags
    timestamp_ns: Ints
    watchdog_active: Flags
    link: "Links"

    def queues(self, name: str) -> Words:
        """Return the growth of a queue counter: (ports, 8)."""
        return self.delta[:, queue_columns(name)]

    def port(self, name: str) -> Words:
        """Return the growth of a port's counter: (ports,)."""
        return self.delta[:, port_column(name)]


@dataclass(frozen=True, slots=True)
class Links:
    """What the newest sample of each port says of its link.

    counted (ports, LINK_COUNTERS): whether it has the counter; speed_bps, lanes, carrier (ports,): 0 where unknown, and
    carrier 1 without and 2 with one.
    """

    counted: Flags
    speed_bps: Words
    lanes: Words
    carrier: Words

    @classmethod
    def of(cls, ports: int) -> "Links":
        """Return links of which nothing is known."""
        unknown = np.zeros((3, ports), dtype=np.uint64)
        return cls(np.zeros((ports, COLUMNS - LINK_AT), dtype=np.bool_), *unknown)

    def copy(self) -> "Links":
        """Return a copy for readers."""
        return Links(self.counted.copy(), self.speed_bps.copy(), self.lanes.copy(), self.carrier.copy())


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A copy of the window for readers: totals, growth over the window, gauges of queues.

    `rate` divides a growth by its interval. A row with `stale` set is out of date, one without `heard` has no data.
    """

    now_ns: int
    names: tuple[str, ...]
    total: Words
    window_delta: Words
    window_interval_ns: Ints
    depth_bytes: Words
    max_depth_bytes: Words
    watchdog_dropped_packets: Words
    watchdog_active: Flags
    timestamp_ns: Ints
    sequence: Words
    boot_id: Words
    heard: Flags
    stale: Flags
    link: Links

    def rate(self, column: int) -> Floats:
        """Return one column's growth per second over the window; 0 for rows without an interval."""
        interval = self.window_interval_ns
        return self.window_delta[:, column] * SECOND_NS / np.maximum(interval, 1) * (interval > 0)


class Window:
    """The arrays. One owner calls `store` for every message and `roll` for every scan, at least once per period."""

    def __init__(self, ports: PortTable, settings: WindowSettings | None = None) -> None:
        self.ports = ports
        self.settings = settings or WindowSettings()
        count, periods = len(ports), self.settings.periods
        self.heard = np.zeros(count, dtype=np.bool_)
        self.timestamp_ns = np.zeros(count, dtype=np.int64)
        self.sequence = np.zeros(count, dtype=np.uint64)
        self.boot_id = np.zeros(count, dtype=np.uint64)
        self._carrier = np.full(count, CARRIER_UP, dtype=np.uint64)
        self._lost_carrier = np.zeros(count, dtype=np.bool_)  # as `link_changes` has returned
        self.total = np.zeros((count, COLUMNS), dtype=np.uint64)
        self.depth_bytes = np.zeros((count, PRIORITIES), dtype=np.uint64)
        self.max_depth_bytes = np.zeros((count, PRIORITIES), dtype=np.uint64)
        self.watchdog_dropped_packets = np.zeros((count, PRIORITIES), dtype=np.uint64)
        self.watchdog_active = np.zeros((count, PRIORITIES), dtype=np.bool_)
        self.link = Links.of(count)
        self._raw = np.zeros((count, COLUMNS), dtype=np.uint64)
        self._known = np.zeros((count, COLUMNS), dtype=np.bool_)
        self._now = Growth.of(count)
        self._spare = Growth.of(count)
        self._recent = Recent(count, periods, self.settings.period_ns)
        self._number = 0
        self._behind = np.zeros(count, dtype=np.int64)  # samples in a row whose sequence was behind
        self._behind_sequence = np.zeros(count, dtype=np.uint64)
        self._behind_ns = np.zeros(count, dtype=np.int64)
        self._max_per_s = _max_per_second(ports.rates_bps)

    def store(self, rows: Rows, positions: Ints, at: Ints, now_ns: int) -> Stored:
        """Store the samples at `positions` of a batch for the ports `at` (each once); refuse those out of order."""
        heads = rows.heads[positions]
        refused, take, restarted = self._admit(heads, at, now_ns)
        heads, positions, at, restarted = heads[take], positions[take], at[take], restarted[take]
        stamps = heads[:, TIMESTAMP].astype(np.int64)
        same_boot = self.heard[at] & (heads[:, BOOT_ID] == self.boot_id[at])
        follows = same_boot & ~restarted
        missing = heads[:, SEQUENCE] - self.sequence[at] - np.uint64(1)
        gaps = int(missing[follows].sum())
        resets = int((self.heard[at] & ~follows).sum())
        elapsed = np.where(follows, stamps - self.timestamp_ns[at], 0)
        wraps, fell = self._grow(rows.values[positions], rows.present[positions], at, follows, elapsed)
        self.heard[at] = True
        self.timestamp_ns[at] = stamps
        self.sequence[at] = heads[:, SEQUENCE]
        self.boot_id[at] = heads[:, BOOT_ID]
        self._carrier[at] = np.where(heads[:, CARRIER] > 0, heads[:, CARRIER], self._carrier[at])
        self._behind[at] = 0
        self.link.counted[at] = rows.present[positions, LINK_AT:]
        self.link.speed_bps[at] = heads[:, SPEED_BPS]
        self.link.lanes[at] = heads[:, LANES]
        self.link.carrier[at] = heads[:, CARRIER]
        self.depth_bytes[at] = rows.gauges[positions, :, 0]
        self.max_depth_bytes[at] = rows.gauges[positions, :, 1]
        self.watchdog_dropped_packets[at] = rows.gauges[positions, :, 2]
        self.watchdog_active[at] = rows.gauges[positions, :, 3] > 0
        noticed = {Notice.GAP: gaps, Notice.RESET: resets + fell, Notice.WRAP: wraps}
        return Stored(int(at.size), refused, {kind: count for kind, count in noticed.items() if count}, positions)

    def roll(self, now_ns: int) -> Period:
        """Return the growth since the last roll, and start a new one."""
        over, self._now = self._now, self._spare
        self._now.clear(np.flatnonzero(self._now.interval_ns))
        self._spare, rows = over, np.flatnonzero(over.interval_ns)
        is_whole = self._recent.add(over, rows, now_ns)
        stale = self._stale(now_ns)
        self._number += 1
        return Period(
            number=self._number - 1,
            now_ns=now_ns,
            is_whole=is_whole,
            rows=rows,
            delta=over.delta,
            interval_ns=over.interval_ns,
            fresh=(over.interval_ns > 0) & ~stale,
            stale=stale,
            heard=self.heard,
            timestamp_ns=self.timestamp_ns,
            watchdog_active=self.watchdog_active,
            link=self.link,
        )

    def link_changes(self) -> tuple[LinkChange, ...]:
        """Return the links whose carrier has changed since the last call; at first all count as up.

        What an agent does not know, or no longer reports, stays as it was.
        """
        lost = self._carrier < CARRIER_UP
        rows = np.flatnonzero(lost != self._lost_carrier).tolist()
        self._lost_carrier = lost
        return tuple(LinkChange(self.ports.names[row], up=not lost[row]) for row in rows)

    def snapshot(self, now_ns: int) -> Snapshot:
        """Copy the window for readers in any thread."""
        return Snapshot(
            now_ns=now_ns,
            names=self.ports.names,
            total=self.total.copy(),
            window_delta=self._recent.sum.delta.copy(),
            window_interval_ns=self._recent.sum.interval_ns.copy(),
            depth_bytes=self.depth_bytes.copy(),
            max_depth_bytes=self.max_depth_bytes.copy(),
            watchdog_dropped_packets=self.watchdog_dropped_packets.copy(),
            watchdog_active=self.watchdog_active.copy(),
            timestamp_ns=self.timestamp_ns.copy(),
            sequence=self.sequence.copy(),
            boot_id=self.boot_id.copy(),
            heard=self.heard.copy(),
            stale=self._stale(now_ns),
            link=self.link.copy(),
        )

    def _stale(self, now_ns: int) -> Flags:
        return self.heard & (now_ns - self.timestamp_ns > self.settings.stale_after_ns)

    def _admit(self, heads: Words, at: Ints, now_ns: int) -> tuple[dict[Refusal, int], Flags, Flags]:
        """Return refusals by kind, the rows accepted, and which of them restart their sequence."""
        settings = self.settings
        future = heads[:, TIMESTAMP] > np.uint64(max(0, now_ns + settings.max_future_ns))
        stamps = np.where(future, 0, heads[:, TIMESTAMP]).astype(np.int64)
        heard = self.heard[at]
        replayed = ~future & heard & (stamps <= self.timestamp_ns[at])
        in_time = ~future & ~replayed
        same = in_time & heard & (heads[:, BOOT_ID] == self.boot_id[at])
        sequence, last = heads[:, SEQUENCE], self.sequence[at]
        behind = same & (sequence <= last)
        ahead = same & ~behind & (sequence - last > np.uint64(settings.max_sequence_ahead))
        advances = (self._behind[at] > 0) & (sequence > self._behind_sequence[at]) & (stamps > self._behind_ns[at])
        runs = np.where(behind | ahead, np.where(advances, self._behind[at] + 1, 1), self._behind[at])
        odd = behind | ahead
        restarted = odd & (runs > settings.restart_samples)
        self._behind[at] = runs
        self._behind_sequence[at[odd]] = sequence[odd]
        self._behind_ns[at[odd]] = stamps[odd]
        kinds = {
            Refusal.FUTURE_TIMESTAMP: future,
            Refusal.REPLAYED_TIMESTAMP: replayed,
            Refusal.REPLAYED_SEQUENCE: behind & ~restarted,
            Refusal.FUTURE_SEQUENCE: ahead & ~restarted,
        }
        counted = {kind: int(which.sum()) for kind, which in kinds.items() if which.any()}
        return counted, in_time & (~odd | restarted), restarted

    def _grow(self, new: Words, present: Flags, at: Ints, follows: Flags, elapsed: Ints) -> tuple[int, int]:
        """Add the growth of counters to totals and period; return the number of wraps and of rows that were reset."""
        old, known = self._raw[at], self._known[at]
        delta = new - old
        counts = present & known & follows[:, None]
        fallen = counts & (new < old)
        wraps = fell = 0
        if fallen.any():
            wrapped, delta = self._unwrapped(old, delta, fallen, at, elapsed)
            broken = (fallen & ~wrapped).any(axis=1)
            follows = follows & ~broken
            counts &= follows[:, None]
            wraps, fell = int((wrapped & counts).sum()), int(broken.sum())
        delta[~counts] = 0
        self._now.delta[at] += delta
        self._now.interval_ns[at] += np.where(follows, elapsed, 0)
        # A total starts at the first value of its counter; after a restart it continues from its last value.
        total = self.total[at]
        self.total[at] = np.maximum(total, total + np.where(present & ~known, new, delta))  # never past 2^64
        self._raw[at] = np.where(present, new, old)
        self._known[at] = known | present
        return wraps, fell

    def _unwrapped(self, old: Words, delta: Words, fallen: Flags, at: Ints, elapsed: Ints) -> tuple[Flags, Words]:
        """Return which decreases are wraps of a 32, 48 or 64 bit counter, and the growths with wraps corrected."""
        top = np.where(old < 1 << 32, np.uint64(0xFFFF_FFFF), np.uint64(0xFFFF_FFFF_FFFF))
        top = np.where(old < 1 << 48, top, np.uint64(0xFFFF_FFFF_FFFF_FFFF))
        grown = delta & top
        limit = self._max_per_s[at] * (elapsed[:, None] / SECOND_NS + 1.0)
        wrapped = fallen & (grown <= limit)
        return wrapped, np.where(wrapped, grown, delta)


def _max_per_second(rates_bps: Floats) -> Floats:
    """Return the maximum growth per second of each port's counters: bytes and frames by line rate, time by time.

    It is twice the line rate, since a device behind a port (a host's memory, a lab's veth) may be a little faster.
    """
    limit = np.repeat((2 * rates_bps / _SMALLEST_FRAME_BITS)[:, None], COLUMNS, axis=1)
    octets = (2 * rates_bps / 8)[:, None]
    for name in PORT_COUNTERS:
        if name.endswith("_bytes"):
            column = port_column(name)
            limit[:, column : column + 1] = octets
    limit[:, queue_columns("bytes")] = octets
    limit[:, queue_columns("paused_ns")] = 2.0 * SECOND_NS
    limit[:, LINK_AT:] = 0.0
    return limit


def settings_for(period_ns: int, **changes: int) -> WindowSettings:
    """Return settings for a sampling period: stale after three of them and half a second for the delay of the bus."""
    stale_after_ns = 3 * period_ns + SECOND_NS // 2
    return replace(WindowSettings(period_ns=period_ns, stale_after_ns=stale_after_ns), **changes)
