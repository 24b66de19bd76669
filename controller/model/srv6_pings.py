"""Pings that return to their sender by their own addresses: each tests one cable, both ways, without an agent there.

    [uA out][uN of the far switch][uA back][uN of the own leaf][uA of the NIC]

A uN between two uAs makes a wrong cable visible: a switch that is not meant has no entry of it, and drops the packet.
Where a ping does not return, others want each other switch at the far end, and each of its ports on the way back. Of
cables in parallel between two switches an exchange is not visible: each ping returns by the other.
"""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef
from heddle.controller.model.srv6 import MAX_USIDS, Sids, address_of
from heddle.controller.model.srv6_settings import Style


class Finding(NamedTuple):
    """A cable whose ping has not returned, and the ports that are in the place of its upper end; none: not known."""

    cable: Cable
    instead: tuple[PortRef, ...] = ()

    @property
    def line(self) -> str:
        """Return it as a line."""
        lower, upper = self.cable.lower, self.cable.upper
        if self.instead:
            return f"{lower}: {' or '.join(map(str, self.instead))} is at its far end, not {upper}"
        return (
            f"{lower}: no ping returns by {upper}: the cable, or an entry of a switch on its way, is missing or wrong"
        )


Send = Callable[[Collection[int]], Collection[int]]
"""Send pings to these addresses, and return those that came back."""


class Pings:
    """The pings from one NIC: of the cables of its leaf, and in three tiers of those above them."""

    def __init__(self, fabric: Fabric, nic: Nic) -> None:
        """Use a NIC as sender; raises InputError where uSIDs name no ports."""
        if fabric.srv6.style is not Style.UA:
            raise InputError("srv6.style: pings need the uSIDs of ports, style ua")
        self._fabric, self._sids = fabric, Sids(fabric)
        self._leaf, self._to_nic = nic.port.switch, self._sids.usids((), nic.id)
        self.own = fabric.up_choices[self._leaf]
        """The cables of the leaf."""

    @property
    def parallel(self) -> tuple[Cable, ...]:
        """Return the leaf's cables that have another one to the same switch."""
        far = [cable.upper.switch for cable in self.own]
        return tuple(cable for cable in self.own if far.count(cable.upper.switch) > 1)

    def check(self, send: Send) -> tuple[int, tuple[Finding, ...]]:
        """Return how many cables were tested, and what is wrong; every ping that is lost is sent once more."""
        found = [Finding(cable, self._instead(cable, send)) for cable in self._lost(self.own, None, send)]
        lost = {finding.cable for finding in found}
        tested = len(self.own)
        for hop in self._ways_up(lost):
            above = [cable for cable in self._fabric.up_choices[hop.upper.switch] if self._address(cable, hop=hop)]
            tested += len(above)
            found += [Finding(cable) for cable in self._lost(above, hop, send)]
        return tested, tuple(found)

    def _lost(self, cables: Collection[Cable], hop: Cable | None, send: Send) -> list[Cable]:
        wanted = {self._address(cable, hop=hop): cable for cable in cables}
        for _ in range(2):
            back = send([address for address in wanted if address])
            wanted = {address: cable for address, cable in wanted.items() if address not in back}
        return list(wanted.values())

    def _ways_up(self, lost: Collection[Cable]) -> Iterator[Cable]:
        """Yield a sound cable to each switch above the leaf."""
        found = {cable.upper.switch: cable for cable in reversed(self.own) if cable not in lost}
        yield from found.values()

    def _instead(self, cable: Cable, send: Send) -> tuple[PortRef, ...]:
        """Return the ports that may be at the far end of a cable of the leaf whose ping is lost."""
        others = {one.upper.switch: one.upper for one in reversed(self.own) if one.upper.switch != cable.upper.switch}
        by_switch = {self._address(cable, back=back): switch for switch, back in others.items()}
        there = [by_switch[address] for address in send(list(by_switch)) if address in by_switch]
        found: list[PortRef] = []
        for switch in there or [cable.upper.switch]:
            ports = {self._address(cable, back=down.upper): down.upper for down in self._fabric.down_cables[switch]}
            back = send(list(ports))
            to_here = [ports[address] for address in ports if address in back]
            foreign = [port for port in to_here if self._fabric.cable_by_port[port].lower.switch != self._leaf]
            found += foreign or to_here
        return tuple(found)

    def _address(self, cable: Cable, *, hop: Cable | None = None, back: PortRef | None = None) -> int:
        """Return the address of a ping out by a cable and back by a port, its upper end by default; 0 where none fits.

        A cable above the leaf is reached and left by `hop`; then an address has no room for the uN of the leaf.
        """
        back = back or cable.upper
        home = self._fabric.cable_by_port[back].down_link
        there = (hop.up_link, cable.up_link) if hop else (cable.up_link,)
        usids = (
            *self._ports(*there),
            self._sids.node(back.switch),
            *(self._ports(home, hop.down_link) if hop else (*self._ports(home), self._sids.node(self._leaf))),
            *self._to_nic,
        )
        return address_of(self._fabric.srv6.block, usids) if len(usids) <= MAX_USIDS else 0

    def _ports(self, *links: str) -> tuple[int, ...]:
        """Return the uSIDs of the ports by which switches send over links."""
        return tuple(self._sids.of_port(link) for link in links)
