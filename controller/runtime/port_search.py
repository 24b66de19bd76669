"""Perform `FindPorts` by the probe agents: one search at a time, and every search has a result.

A job waits here for the first contact with the leaves that it sends from, before the brain knows of it.
"""

import asyncio
import logging
from collections.abc import Container

from heddle.controller.model.effect import FindPorts
from heddle.controller.model.event import Event, PortsFound, Submit
from heddle.controller.probe_sessions.service import Probing
from heddle.controller.runtime.ports import Clock, PortFinder
from heddle.probing.flow import Found

_LOG = logging.getLogger("heddle.controller")


class PortSearch:
    """The search under way; `finder` is None where the controller has no probe agents."""

    def __init__(self, clock: Clock) -> None:
        self.finder: PortFinder | None = None
        self.probing: Probing | None = None
        self._clock = clock
        self._task: asyncio.Task[None] | None = None

    def use(self, probing: Probing) -> None:
        """Find ports by attached agents, which also check leaves and sample running flows."""
        self.probing, self.finder = probing, probing.finder

    async def run(self) -> None:
        """Sample running flows until cancelled."""
        if self.probing is not None:
            await self.probing.run()

    async def admit(self, event: Event, running: Container[str]) -> None:
        """Return once the leaves of a new job are checked; raises HeddleError where they cannot be steered."""
        if self.probing is not None and isinstance(event, Submit) and event.request.job_id not in running:
            await self.probing.first_contact.admit(event.request)

    def replace(self, task: asyncio.Task[None]) -> None:
        """End the search before, whose transaction has ended: probes cost the processors of switches."""
        if self._task is not None:
            self._task.cancel()
        self._task = task

    async def result(self, search: FindPorts) -> PortsFound:
        """Return what a search finds; after a fault no flow has a port."""
        started = self._clock.monotonic_ns()
        try:
            found = await self._found(search)
        except Exception as fault:
            _LOG.exception("the search for source ports failed")
            found = _nothing(search, f"the search failed: {fault}")
        return PortsFound(token=search.token, found=found, search_ns=self._clock.monotonic_ns() - started)

    async def _found(self, search: FindPorts) -> Found:
        if self.finder is None:
            return _nothing(search, "this controller has no probe agents")
        return await self.finder.find(search.flows, search.ways)


def _nothing(search: FindPorts, why: str) -> Found:
    names = [flow.flow_id for flow in search.flows]
    return Found(ports={}, missing=dict.fromkeys(names, why), probes=0, reached=dict.fromkeys(names, frozenset()))
