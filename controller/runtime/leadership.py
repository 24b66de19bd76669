"""The leadership of a fabric: whether this controller leads it, and which one does otherwise.

A controller without others leads from its start to its end. One of several does while its lease lasts by its own clock,
and never again in the same life of `Application`.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from heddle.controller.model.error import UnavailableError
from heddle.controller.model.lease_clock import LeaseClock


def boot_ns() -> int:
    """Return nanoseconds since the machine's start, which also grow while process or machine sleep."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass(slots=True)
class ClusterCounts:
    """What a controller of several has counted since its process began, over all its terms."""

    takeovers: int = 0
    refused_writes: int = 0
    etcd_calls: int = 0
    etcd_failed: int = 0
    etcd_s: float = 0.0
    """The time that the calls took which had a reply."""


class Leadership:
    """One controller's part. Used in the event loop's thread alone; `end` may be called twice."""

    def __init__(self, now_ns: Callable[[], int] = boot_ns) -> None:
        self.leader = ""
        """Where clients reach the controller that leads, as far as known; empty otherwise."""
        self.why_unfit = ""
        """Why this controller does not stand for election; empty where it does."""
        self.why_over = ""
        self.now_ns = now_ns
        self.since_ns = now_ns()
        """When this controller began to wait, then when it began to lead."""
        self.lease: LeaseClock | None = None
        """None for a controller without others."""
        self._generation: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()

    def begin(self, generation: int) -> None:
        """Lead: serve calls and send to switches, with roles of this generation."""
        self.since_ns = self.now_ns()
        self._generation.set_result(generation)

    def end(self, why: str) -> None:
        """Stop leading, for good."""
        self.why_over = self.why_over or why
        self._over.set()

    def may_act(self) -> bool:
        """Return whether calls are served and switches are sent to at this moment."""
        if not self._generation.done() or self._over.is_set():
            return False
        return self.lease is None or self.lease.holds(self.now_ns())

    async def generation(self) -> int:
        """Wait until this controller leads, and return its generation."""
        return await asyncio.shield(self._generation)

    async def over(self) -> str:
        """Wait until this controller has led, and return why it does no longer."""
        await self._over.wait()
        return self.why_over

    def refusal(self) -> UnavailableError:
        """Return the reply to a call that only the leader serves."""
        return UnavailableError(f"this controller does not lead its fabric: {self._who_leads()}")

    def _who_leads(self) -> str:
        if self.leader:
            return f"the leader is {self.leader}"
        if self.why_unfit:
            return f"no leader is known, and it does not stand for election: {self.why_unfit}"
        return "no leader is known yet; try again in a moment"
