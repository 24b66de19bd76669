"""Window and detector of one port in plain Python, sharing no code with those under test."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class PortOracle:
    """A port's cumulative counters, as a dictionary; `None` until the first sample."""

    max_future_ns: int
    max_ahead: int
    restart_samples: int
    bytes_per_s: float
    frames_per_s: float
    last: Any = None  # timestamp, sequence, boot; None before the first sample
    raw: dict = field(default_factory=dict)
    totals: dict = field(default_factory=dict)
    grown: dict = field(default_factory=dict)
    interval: int = 0
    behind: list = field(default_factory=list)

    def offer(self, stamp, sequence, boot, counters, now):
        """Accept or refuse a sample; return the name of its refusal or anomaly, or `taken`."""
        if stamp > now + self.max_future_ns:
            return "future_timestamp"
        if self.last is None:
            self._begin(stamp, sequence, boot, counters)
            return "taken"
        if stamp <= self.last[0]:
            return "replayed_timestamp"
        if boot != self.last[2]:
            self._begin(stamp, sequence, boot, counters)
            return "reset"
        odd = None
        if sequence <= self.last[1]:
            odd = "replayed_sequence"
        elif sequence > self.last[1] + self.max_ahead:
            odd = "future_sequence"
        if odd:
            advances = self.behind and sequence > self.behind[-1][0] and stamp > self.behind[-1][1]
            self.behind = [*self.behind, (sequence, stamp)] if advances else [(sequence, stamp)]
            if len(self.behind) <= self.restart_samples:
                return odd
            self._begin(stamp, sequence, boot, counters)
            return "reset"
        return self._continue(stamp, sequence, boot, counters)

    def roll(self):
        """Return the growth of the period and start a new one."""
        grown, interval = self.grown, self.interval
        self.grown, self.interval = {}, 0
        return {name: value for name, value in grown.items() if value}, interval

    def _begin(self, stamp, sequence, boot, counters):
        for name, value in counters.items():
            self.totals.setdefault(name, value)
        self.raw.update(counters)
        self.last, self.behind = (stamp, sequence, boot), []

    def _continue(self, stamp, sequence, boot, counters):
        elapsed = stamp - self.last[0]
        growths, wrapped = {}, False
        for name, value in counters.items():
            if name not in self.raw:
                continue
            old = self.raw[name]
            growths[name] = value - old
            if value < old:
                bits = 32 if old < 2**32 else 48 if old < 2**48 else 64
                growths[name] = (value - old) % 2**bits
                fastest = 2e9 if "paused" in name else self.bytes_per_s if "bytes" in name else self.frames_per_s
                if growths[name] > fastest * (elapsed / 1e9 + 1):
                    self._begin(stamp, sequence, boot, counters)
                    return "reset"
                wrapped = True
        gap = sequence - self.last[1] > 1
        for name, value in counters.items():
            if name in growths:
                self.grown[name] = self.grown.get(name, 0) + growths[name]
                if self.totals[name] + growths[name] < 2**64:
                    self.totals[name] += growths[name]
            else:
                self.totals[name] = value
        self.raw.update(counters)
        self.interval += elapsed
        self.last, self.behind = (stamp, sequence, boot), []
        return "wrap" if wrapped else "gap" if gap else "taken"


class Machine:
    """One condition of one queue: quiet or raised, and a run of periods."""

    def __init__(self, raise_after, clear_after):
        self.raise_after, self.clear_after = raise_after, clear_after
        self.raised, self.run = False, 0

    def step(self, over, under, certain=False):
        """Step by one period; return True if the condition was raised, False if cleared, else None.

        `certain`: one such period raises it.
        """
        if certain and not self.raised:
            self.raised, self.run = True, 0
            return True
        self.run = self.run + 1 if (under if self.raised else over) else 0
        if self.run < (self.clear_after if self.raised else self.raise_after):
            return None
        self.raised, self.run = not self.raised, 0
        return self.raised
