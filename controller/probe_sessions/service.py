"""Connect the parts that use probe agents on a fabric that hashes: port searches, checks of leaves, and samples."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from heddle.controller.model.effect import Note
from heddle.controller.model.event import PortsAstray
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.port_addresses import links_by_address
from heddle.controller.probe_sessions.finder import ProbeFinder, switch_at_end
from heddle.controller.probe_sessions.first_contact import FirstContact
from heddle.controller.probe_sessions.sampler import Running, Sampler
from heddle.controller.probe_sessions.sending import ProbeSender
from heddle.controller.probe_sessions.sessions import ProbeAgents
from heddle.probing.check.places import Places


@dataclass(frozen=True, slots=True)
class Probing:
    """Searches, checks and samples, which share the budgets of switches."""

    finder: ProbeFinder
    first_contact: FirstContact
    sampler: Sampler

    async def run(self) -> None:
        """Sample running flows until cancelled; then end the checks."""
        try:
            await self.sampler.run()
            await asyncio.Event().wait()
        finally:
            await self.first_contact.close()


def probing_of(
    fabric: Fabric, agents: ProbeAgents, running: Callable[[], Running], post: Callable[[PortsAstray], object],
    note: Callable[[Note], None], *, switch_pps: float, samples_pps: int,
) -> Probing:  # fmt: skip
    """Return the parts, connected; leaves are checked from now on when agents attach."""
    sender, link_at = ProbeSender(agents, fabric, switch_pps=switch_pps), links_by_address(fabric)
    contact = FirstContact(sender, fabric, places_of(link_at), note)
    agents.on_attached = contact.attached
    sampler = Sampler(sender, fabric, link_at, running, post, samples_pps=samples_pps)
    return Probing(ProbeFinder(sender, link_at), contact, sampler)


def places_of(link_at: Mapping[int, str]) -> Places:
    """Return what the addresses of switch ports stand for."""
    return Places(link_at, {address: switch_at_end(link) for address, link in link_at.items()})
