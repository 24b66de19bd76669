"""One end of paced probes at a NIC: send those of an order, and see which come back until it ends.

Everything runs in the agent's event loop. A probe counts as answered if it has come back when its order ends, a late
one too: the round trip shows how late. An order during which this process stood still says so, because its losses may
be its own.
"""

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from time import monotonic
from typing import Generic, NamedTuple, TypeVar

from heddle.probing.agent.orders import MeshOrder, SidOrder

MAX_OPEN_ORDERS = 4
"""Orders of a NIC whose replies are awaited; one more is refused."""
MAX_BATCHES = 64
UNSENT_US = 0xFFFFFFFF
"""The round trip of a probe that could not be sent."""
LATE_PART = 0.5
"""An agent that is late by so much of the time-out may have replied too late to others."""
PacedOrder = TypeVar("PacedOrder", MeshOrder, SidOrder)


class PacedResult(NamedTuple):
    """What became of an order: the round trip of each probe in µs, 0 without a reply; probes sent; whether late."""

    rtt_us: list[int]
    sent: int
    late: bool


@dataclass(frozen=True, slots=True)
class Open(Generic[PacedOrder]):
    """An order whose probes are awaited: when each was sent, and the round trips so far."""

    order: PacedOrder
    sent_s: list[float]
    rtt_us: list[int]

    def came(self, number: int) -> None:
        """Take the first return of a probe that was sent."""
        if self.sent_s[number] and not self.rtt_us[number]:
            self.rtt_us[number] = max(1, int((monotonic() - self.sent_s[number]) * 1e6))


class ProbeEnd(ABC, Generic[PacedOrder]):
    """What ends have in common; `counts` are cumulative."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._open: dict[int, Open[PacedOrder]] = {}

    @abstractmethod
    def listen(self) -> None:
        """Take what arrives from now on, in the running event loop."""

    @abstractmethod
    def unlisten(self) -> None:
        """Take nothing more."""

    @abstractmethod
    def _send_probe(self, order: PacedOrder, key: int, number: int) -> bool:
        """Send one probe of an order; return whether it left."""

    @abstractmethod
    def _read(self) -> bool:
        """Take some of what arrived; return whether there may be more."""

    @property
    def is_full(self) -> bool:
        """Return whether no other order fits."""
        return len(self._open) >= MAX_OPEN_ORDERS

    async def run(self, order: PacedOrder) -> PacedResult:
        """Send the probes of an order, wait for them, and return what came."""
        key, count = secrets.randbits(64), len(order.probes)
        mine = self._open[key] = Open(order, [0.0] * count, [0] * count)
        began_s, late, sent, late_s = monotonic(), False, 0, LATE_PART * order.timeout_s
        try:
            for number in range(count):
                due_s = began_s + number / order.rate_pps
                await asyncio.sleep(max(0.0, due_s - monotonic()))
                now_s = monotonic()
                late = late or now_s - due_s > late_s
                mine.sent_s[number] = now_s
                if self._send_probe(order, key, number):
                    sent += 1
                else:
                    mine.rtt_us[number] = UNSENT_US
            end_s = monotonic() + order.timeout_s
            await asyncio.sleep(order.timeout_s)
            late = late or monotonic() - end_s > late_s
            for _ in range(MAX_BATCHES):  # what came while this process stood still
                if not self._read():
                    break
        finally:
            del self._open[key]
        answered = sum(0 < rtt_us < UNSENT_US for rtt_us in mine.rtt_us)
        self.counts.update(mesh_probes=sent, mesh_answered=answered, mesh_late=late)
        return PacedResult(mine.rtt_us, sent, late)
