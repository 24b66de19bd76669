"""Pings that return to their sender by their own addresses: each tests one cable, both ways, without an agent there.

    [uA out][uN of the far switch][uA back][uN of the own leaf][uA of the NIC]      style ua
    [uN of the far end][uN of the near end][uA of the NIC]                          styles un and cable

A uN makes a wrong cable visible: a switch that is not meant has no entry of it, and drops the packet.
Where a ping does not return, others want each other switch at the far end, and each of its ports on the way back, in
the style ua: the others leave no choice of the port by which a switch is reached. Of
cables in parallel between two switches an exchange is not visible: each ping returns by the other.

In the style ua a cable above the leaf's takes two pings, as an address has room for one uN: of the switch at its far
end, and of that at its near end on the way back, where another switch may have a port of the same number to the leaf.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

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
            f"{lower}: pings by {upper} do not return: "
            "the cable, or an entry of a switch on its way, is missing or wrong, or loses packets"
        )


class Pinged(NamedTuple):
    """The cables whose pings have returned, and what is wrong with the others that were tested."""

    returned: tuple[Cable, ...]
    findings: tuple[Finding, ...]


Send = Callable[[Collection[int]], Collection[int]]
"""Send pings to these addresses, and return those that came back."""


class Pings:
    """The pings from one NIC: of the cables of its leaf, and in three tiers of those above them."""

    def __init__(self, fabric: Fabric, nic: Nic, sids: Sids | None = None) -> None:
        """Use a NIC as sender, and the addresses of its fabric if they are at hand."""
        self._fabric, self._sids, self._names_ports = fabric, sids or Sids(fabric), fabric.srv6.style is Style.UA
        self._nic, self._leaf, self._to_nic = nic.id, nic.port.switch, self._sids.usids((), nic.id)
        self.own = fabric.up_choices[self._leaf]
        """The cables of the leaf."""

    @property
    def parallel(self) -> tuple[Cable, ...]:
        """Return the leaf's cables that have another one to the same switch."""
        far = [cable.upper.switch for cable in self.own]
        return tuple(cable for cable in self.own if far.count(cable.upper.switch) > 1)

    @property
    def cables(self) -> int:
        """Return how many cables are the leaf's, or above those."""
        above = {cable.upper.switch for cable in self.own}
        return len(self.own) + sum(len(self._fabric.up_choices[switch]) for switch in above)

    def check(self, send: Send) -> Pinged:
        """Return which cables are as they should be, and what is wrong; every ping that is lost is sent once more."""
        lost = self._lost({self.address(cable): cable for cable in self.own}, send)
        found = [Finding(cable, self._instead(cable, lost, send)) for cable in lost]
        returned = [cable for cable in self.own if cable not in lost]
        lost_above: dict[Cable, Cable] = {}
        for hop in self._ways_up(lost):
            above = self._fabric.up_choices[hop.upper.switch]
            wanted = {address: cable for cable in above for address in self.addresses_above(cable, hop)}
            lost_above |= dict.fromkeys(self._lost(wanted, send), hop)
            returned += (cable for cable in dict.fromkeys(wanted.values()) if cable not in lost_above)
        for cable, hop in lost_above.items():
            found.append(Finding(cable, self._instead_above(cable, hop, lost_above, send)))
        return Pinged(tuple(returned), tuple(found))

    def _lost(self, wanted: Mapping[int, Cable], send: Send) -> tuple[Cable, ...]:
        """Return the cables of which an address, of those of the pings, does not come back."""
        for _ in range(2):
            back = send(list(wanted))
            wanted = {address: cable for address, cable in wanted.items() if address not in back}
        return tuple(dict.fromkeys(wanted.values()))

    def _ways_up(self, lost: Collection[Cable]) -> Iterator[Cable]:
        """Yield a sound cable to each switch above the leaf."""
        found = {cable.upper.switch: cable for cable in reversed(self.own) if cable not in lost}
        yield from found.values()

    def _instead(self, cable: Cable, lost: Collection[Cable], send: Send) -> tuple[PortRef, ...]:
        """Return the ports that may be at the far end of a cable of the leaf, one of those whose pings are lost.

        A port by which a ping returns has a cable to the leaf. It is this one if that is not as planned: the port's
        own cable is another leaf's, or its ping is lost too. At the cable's own switch the latter shows nothing: the
        ping returns by a parallel cable, or by the same one, which loses some.
        """
        if not self._names_ports:
            return ()
        others = {one.upper.switch: one.upper for one in reversed(self.own) if one.upper.switch != cable.upper.switch}
        by_switch = {self.address(cable, back=back): switch for switch, back in others.items()}
        there = [by_switch[address] for address in send(list(by_switch)) if address in by_switch]
        found: list[PortRef] = []
        for switch in there or [cable.upper.switch]:
            ports = {self.address(cable, back=down.upper): down.upper for down in self._fabric.down_cables[switch]}
            back = send(list(ports))
            to_here = [ports[address] for address in ports if address in back]
            own = {port: self._fabric.cable_by_port[port] for port in to_here}
            foreign = [port for port in to_here if own[port].lower.switch != self._leaf]
            found += foreign or [port for port in to_here if own[port] in lost and switch != cable.upper.switch]
        if not found:  # a switch that this leaf has no cable to: in three tiers, one of another pod
            known = {each.upper.switch for each in self.own}
            away = (each.upper for each in self._beside(cable) if each.upper.switch not in known)
            ports = {self.address(cable, back=port): port for port in away}
            found = [ports[address] for address in send(list(ports)) if address in ports]
        return tuple(sorted(found))

    def _beside(self, cable: Cable) -> Iterator[Cable]:
        """Yield the cables down of every switch in the tier of a cable's upper end."""
        fabric = self._fabric
        tier = fabric.switch_by_id[cable.upper.switch].role.tier
        for switch in fabric.switches:
            if switch.role.tier == tier:
                yield from fabric.down_cables[switch.id]

    def _instead_above(self, cable: Cable, hop: Cable, lost: Collection[Cable], send: Send) -> tuple[PortRef, ...]:
        """Return the ports that may be at the far end of a cable above the leaf's, by the rule of `_instead`.

        Every port of every switch of that tier is tried. One by which a ping returns has a cable to a switch with the
        leaf at the port of the same number as the one at this cable's lower end.
        """
        if not self._names_ports:
            return ()
        fabric, home = self._fabric, hop.upper.number
        ports = {self._over(cable, hop, each.upper): each for each in self._beside(cable)}
        found = []
        for each in (ports[address] for address in send(list(ports)) if address in ports):
            below = fabric.down_cables[each.lower.switch]
            leads_home = any(one.upper.number == home and one.lower.switch == self._leaf for one in below)
            if not leads_home or (each in lost and each.upper.switch != cable.upper.switch):
                found.append(each.upper)
        return tuple(sorted(found))

    def address(self, cable: Cable, *, back: PortRef | None = None) -> int:
        """Return the address of a ping out by a cable of the leaf and back by a port, its upper end by default."""
        if not self._names_ports:
            return self._sids.destination((cable.up_link, cable.down_link), self._nic)
        back = back or cable.upper
        home = self._fabric.cable_by_port[back].down_link
        ends = (self._sids.node(back.switch), *self._ports(home), self._sids.node(self._leaf))
        return address_of(self._sids.block(self._leaf), (*self._ports(cable.up_link), *ends, *self._to_nic))

    def addresses_above(self, cable: Cable, hop: Cable) -> tuple[int, ...]:
        """Return the addresses of the pings by a cable above the leaf's, reached and left by `hop`; () if none fits."""
        links = (hop.up_link, cable.up_link, cable.down_link, hop.down_link)
        if not self._names_ports:
            pings = [self._sids.usids(links, self._nic)]
        else:
            *out, down, home = self._ports(*links)
            pings = [(*out, down, self._sids.node(hop.upper.switch), home, *self._to_nic)]
            pings.insert(0, (*out, self._sids.node(cable.upper.switch), down, home, *self._to_nic))
        return tuple(address_of(self._sids.block(self._leaf), usids) for usids in pings if len(usids) <= MAX_USIDS)

    def _over(self, cable: Cable, hop: Cable, back: PortRef) -> int:
        """Return the address of a ping out by a cable above the leaf's and back by any port of that tier."""
        out = self._ports(hop.up_link, cable.up_link)
        down, home = self._ports(self._fabric.cable_by_port[back].down_link, hop.down_link)
        return address_of(self._sids.block(self._leaf), (*out, self._sids.node(back.switch), down, home, *self._to_nic))

    def _ports(self, *links: str) -> tuple[int, ...]:
        """Return the uSIDs of the ports by which switches send over links."""
        return tuple(self._sids.of_port(link) for link in links)
