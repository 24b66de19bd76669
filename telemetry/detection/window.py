"""Rolling windows over every port's counters, in arrays whose size is known from the fabric.

Consumes decoded batches and the time; produces, per look, what each counter grew by since the last one and in how much
of the source's own time, and for readers the same over the last periods. Looks come as often as there is news: a look
costs what came since the last one, and the window's length does not depend on them. Invariants, which the property
tests hold to a port-by-port oracle:

- A total never decreases. It follows the device until the device starts again, and from there goes on by what is
added.
- A sample counts once: an older or repeated timestamp or sequence is refused, and so is one from the future.
- What was counted between two samples with a restart between them is lost, not guessed.
- Memory is allocated once.

Per port: `boot_id` changed, or a counter fell without a plausible wrap: a reset, the sample is a new base line.
A counter fell and, taken modulo 2^32, 2^48 or 2^64, grew by no more than the port's rate allows: a wrap.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from telemetry.detection.growth import Growth, Recent
from telemetry.detection.ports import PortTable
from telemetry.samples.counters import COLUMNS, PORT_COUNTERS, PRIORITIES, port_column, queue_columns
from telemetry.samples.decode import BOOT_ID, SEQUENCE, TIMESTAMP, Rows
from telemetry.samples.sample import Refusal

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

SECOND_NS = 1_000_000_000
_SMALLEST_FRAME_BITS = 64 * 8


class Notice(StrEnum):
    """What is accepted and yet worth counting."""

    GAP = "gap"
    RESET = "reset"
    WRAP = "wrap"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowSettings:
    """What a window believes of its sources.

    periods: how many periods are kept. Eight show a trend and, at 10,000 ports, take 70 MB.
    period_ns: how long one is: the sources' sampling period. Looks in between add to the one that is under way.
    stale_after_ns: a sample older than this is stale. Three periods: one lost message and some delay are no fault.
    max_future_ns: how far a source's clock may be ahead. Hosts in NTP are within milliseconds; five seconds also
        bound how long a source is refused whose clock was put back.
    max_sequence_ahead: a larger jump is taken for damage; 1,000,000 periods of 100 ms are more than a day without us.
    restart_samples: so many samples in a row whose sequence is behind while their own clock and sequence advance are
        no replay but an agent that began again: its next sample is a new base line.
    """

    periods: int = 8
    period_ns: int = SECOND_NS
    stale_after_ns: int = 3 * SECOND_NS
    max_future_ns: int = 5 * SECOND_NS
    max_sequence_ahead: int = 1_000_000
    restart_samples: int = 3


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of one message's rows: how many were taken, and how many of each kind were not or stood out."""

    taken: int
    refused: dict[Refusal, int]
    noticed: dict[Notice, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """What came between two looks; arrays have one row per port. They are views that hold until the next roll.

    delta (ports, COLUMNS): what each counter grew by; interval_ns: in how much time of the source, 0 where no two
    samples follow each other; rows: the ports with an interval; fresh: those of them whose sample is not stale; stale:
    heard once and not lately. `is_whole` says that a sampling period is over, not only a part of one.
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

    def queues(self, name: str) -> Words:
        """Return what a queue counter grew by: (ports, 8)."""
        return self.delta[:, queue_columns(name)]

    def port(self, name: str) -> Words:
        """Return what a port's counter grew by: (ports,)."""
        return self.delta[:, port_column(name)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A copy of all that is known, for readers: totals, growth over the window, depths.

    Rates are a growth over its interval: `rate`. A row with `stale` set tells of the past, one not `heard` of
    nothing.
    """

    now_ns: int
    names: tuple[str, ...]
    total: Words
    window_delta: Words
    window_interval_ns: Ints
    depth_bytes: Words
    max_depth_bytes: Words
    timestamp_ns: Ints
    sequence: Words
    boot_id: Words
    heard: Flags
    stale: Flags

    def rate(self, column: int) -> Floats:
        """Return one column's growth per second over the window; 0 where there is no interval."""
        interval = self.window_interval_ns
        return self.window_delta[:, column] * SECOND_NS / np.maximum(interval, 1) * (interval > 0)


class Window:
    """The arrays. One owner calls `store` for every message and `roll` for every look, at least once a period."""

    def __init__(self, ports: PortTable, settings: WindowSettings | None = None) -> None:
        self.ports = ports
        self.settings = settings or WindowSettings()
        count, periods = len(ports), self.settings.periods
        self.heard = np.zeros(count, dtype=np.bool_)
        self.timestamp_ns = np.zeros(count, dtype=np.int64)
        self.sequence = np.zeros(count, dtype=np.uint64)
        self.boot_id = np.zeros(count, dtype=np.uint64)
        self.total = np.zeros((count, COLUMNS), dtype=np.uint64)
        self.depth_bytes = np.zeros((count, PRIORITIES), dtype=np.uint64)
        self.max_depth_bytes = np.zeros((count, PRIORITIES), dtype=np.uint64)
        self._raw = np.zeros((count, COLUMNS), dtype=np.uint64)
        self._known = np.zeros((count, COLUMNS), dtype=np.bool_)
        self._now = Growth.of(count)
        self._told = Growth.of(count)
        self._recent = Recent(count, periods, self.settings.period_ns)
        self._number = 0
        self._behind = np.zeros(count, dtype=np.int64)  # samples in a row whose sequence was behind
        self._behind_sequence = np.zeros(count, dtype=np.uint64)
        self._behind_ns = np.zeros(count, dtype=np.int64)
        self._most_per_s = _most_per_second(ports.rates_bps)

    def store(self, rows: Rows, positions: Ints, at: Ints, now_ns: int) -> Stored:
        """Take the samples at `positions` of a batch for the ports `at` (each once); refuse what is out of order."""
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
        self._behind[at] = 0
        self.depth_bytes[at] = rows.gauges[positions, :, 0]
        self.max_depth_bytes[at] = rows.gauges[positions, :, 1]
        noticed = {Notice.GAP: gaps, Notice.RESET: resets + fell, Notice.WRAP: wraps}
        return Stored(int(at.size), refused, {kind: count for kind, count in noticed.items() if count})

    def roll(self, now_ns: int) -> Period:
        """End what came since the last roll: return it and begin anew."""
        over, self._now = self._now, self._told
        self._now.clear(np.flatnonzero(self._now.interval_ns))
        self._told, rows = over, np.flatnonzero(over.interval_ns)
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
        )

    def snapshot(self, now_ns: int) -> Snapshot:
        """Copy what is known, for readers of any thread."""
        return Snapshot(
            now_ns=now_ns,
            names=self.ports.names,
            total=self.total.copy(),
            window_delta=self._recent.sum.delta.copy(),
            window_interval_ns=self._recent.sum.interval_ns.copy(),
            depth_bytes=self.depth_bytes.copy(),
            max_depth_bytes=self.max_depth_bytes.copy(),
            timestamp_ns=self.timestamp_ns.copy(),
            sequence=self.sequence.copy(),
            boot_id=self.boot_id.copy(),
            heard=self.heard.copy(),
            stale=self._stale(now_ns),
        )

    def _stale(self, now_ns: int) -> Flags:
        return self.heard & (now_ns - self.timestamp_ns > self.settings.stale_after_ns)

    def _admit(self, heads: Words, at: Ints, now_ns: int) -> tuple[dict[Refusal, int], Flags, Flags]:
        """Return refusals by kind, which rows are taken, and which of them begin a sequence again."""
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
        """Add what the counters grew by to totals and period; return how many wrapped, and the rows that fell."""
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
        # A counter met for the first time begins at what the device says; after a restart it goes on from what it was.
        total = self.total[at]
        self.total[at] = np.maximum(total, total + np.where(present & ~known, new, delta))  # never past 2^64
        self._raw[at] = np.where(present, new, old)
        self._known[at] = known | present
        return wraps, fell

    def _unwrapped(self, old: Words, delta: Words, fallen: Flags, at: Ints, elapsed: Ints) -> tuple[Flags, Words]:
        """Return which falls are wraps of a 32, 48 or 64 bit counter, and the growths with those mended."""
        top = np.where(old < 1 << 32, np.uint64(0xFFFF_FFFF), np.uint64(0xFFFF_FFFF_FFFF))
        top = np.where(old < 1 << 48, top, np.uint64(0xFFFF_FFFF_FFFF_FFFF))
        grown = delta & top
        most = self._most_per_s[at] * (elapsed[:, None] / SECOND_NS + 1.0)
        wrapped = fallen & (grown <= most)
        return wrapped, np.where(wrapped, grown, delta)


def _most_per_second(rates_bps: Floats) -> Floats:
    """Return, per port and column, the fastest that a counter can grow: bytes and frames by rate, time by time.

    Twice what the line carries, since what is behind a port (a host's memory, a lab's veth) may be a little faster.
    """
    most = np.repeat((2 * rates_bps / _SMALLEST_FRAME_BITS)[:, None], COLUMNS, axis=1)
    octets = (2 * rates_bps / 8)[:, None]
    for name in PORT_COUNTERS:
        if name.endswith("_bytes"):
            column = port_column(name)
            most[:, column : column + 1] = octets
    most[:, queue_columns("bytes")] = octets
    most[:, queue_columns("paused_ns")] = 2.0 * SECOND_NS
    return most


def settings_for(period_ns: int, **changes: int) -> WindowSettings:
    """Return settings for a sampling period: stale after three of them and half a second for the way over the bus."""
    stale_after_ns = 3 * period_ns + SECOND_NS // 2
    return replace(WindowSettings(period_ns=period_ns, stale_after_ns=stale_after_ns), **changes)
