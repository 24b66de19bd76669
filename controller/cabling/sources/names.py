"""Match the names of LLDP with those of a fabric: system name or chassis, and port id or description; NICs by MAC.

Daemons differ in what they send: lldpd's port id is a MAC address by default, SONiC's is the interface or its alias.
So each name is tried as each thing that it may be. A name that the fabric lacks is kept: it is a stranger's.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from heddle.controller.cabling.heard import Neighbour
from heddle.controller.model.address import parse_mac
from heddle.controller.model.fabric import Fabric, Nic, PortRef
from heddle.telemetry.neighbours.advertised import Advertised, Collected

NumberOf = Callable[[str], int | None]
"""Returns the port number of an interface's name; None for one that is no port of the fabric."""
OwnNames = Mapping[str, Mapping[str, int]]
"""By switch the numbers of its ports by the names that it gives them itself, where these are known."""
_LOW_48_BITS = (1 << 48) - 1
_NO_MAC = -1


class Resolved(NamedTuple):
    """What ports hear by the fabric's names; which have carrier, None if not known; and what was left out, and why."""

    heard: dict[PortRef, Neighbour]
    up: frozenset[PortRef] | None
    notes: tuple[str, ...]


def resolve(fabric: Fabric, collected: Collected, number_of: NumberOf, own_names: OwnNames | None = None) -> Resolved:
    """Return what the ports of a fabric's switches hear. A port that hears two known neighbours hears none.

    `own_names` go before `number_of`.
    """
    names = Names(fabric, collected.advertised, number_of, own_names or {})
    found: dict[PortRef, dict[Neighbour, Advertised]] = {}
    notes = list(collected.unread)
    foreign = dict.fromkeys(frame.node for frame in collected.advertised if names.switch(frame.node) is None)
    notes += [f"{node}: no switch of the fabric: what it hears is not used" for node in foreign]
    for frame in collected.advertised:
        port = names.port(frame.node, frame.interface)
        if port is None or collected.carrier.get((frame.node, frame.interface)) is False:
            continue
        if not frame.has_names:
            notes.append(f"{port}: a neighbour without a name, or with one that is too long: not used")
            continue
        found.setdefault(port, {})[names.neighbour(frame)] = frame
    heard = {}
    for port, frames in found.items():
        known = {neighbour: frame for neighbour, frame in frames.items() if names.has(neighbour)} or frames
        newest = _newest(known)
        if newest is None:
            notes.append(f"{port}: hears {len(known)} neighbours at once: not used")
        else:
            heard[port] = newest
    return Resolved(heard, _up(fabric, collected.carrier, names), tuple(notes))


def _newest(frames: Mapping[Neighbour, Advertised]) -> Neighbour | None:
    """Return the only neighbour, or the newest if one device sent all frames: its plug was moved. None if unclear."""
    if len({frame.system for frame in frames.values()}) > 1:
        return None
    ages = sorted((math.inf if frame.age_s is None else frame.age_s, at) for at, frame in enumerate(frames.values()))
    if len(ages) > 1 and ages[0][0] == ages[1][0]:
        return None
    return list(frames)[ages[0][1]]


def _up(fabric: Fabric, carrier: Mapping[tuple[str, str], bool], names: "Names") -> frozenset[PortRef] | None:
    """Return all ports but those without carrier: one of which it is not known must not count as down."""
    if not carrier:
        return None
    down = {names.port(node, interface) for (node, interface), is_up in carrier.items() if not is_up}
    lit = {names.port(node, interface) for (node, interface), is_up in carrier.items() if is_up}
    lit.update(fabric.cable_by_port, fabric.nic_by_port)
    return frozenset(port for port in lit if port is not None and port not in down)


class Names:
    """The names of a fabric's switches and NICs, and those that frames teach."""

    def __init__(self, fabric: Fabric, frames: Iterable[Advertised], number_of: NumberOf, own_names: OwnNames) -> None:
        self._number_of, self._own_names = number_of, own_names
        self._switches = _shortened({switch.id.lower(): switch.id for switch in fabric.switches})
        self._nic_by_id = fabric.nic_by_id
        self._nic_by_mac = {nic.mac: nic for nic in fabric.nics}
        self._nics_of_host: dict[str, list[Nic]] = {}
        for nic in fabric.nics:
            self._nics_of_host.setdefault(nic.host.lower(), []).append(nic)
        self._hosts = _shortened({host: nics[0].host for host, nics in self._nics_of_host.items()})
        self._system_of = {frame.chassis: frame.system for frame in frames if frame.chassis and frame.system}
        self._switch_by_mac = {switch.datapath_id & _LOW_48_BITS: switch.id for switch in fabric.switches}

    def switch(self, name: str) -> str | None:
        """Return the switch of a system name, with or without its domain."""
        return _known(self._switches, name)

    def port(self, node: str, interface: str) -> PortRef | None:
        """Return the port of a switch's interface."""
        switch = self.switch(node)
        number = self._number(switch, (interface,)) if switch is not None else None
        return None if switch is None or number is None else PortRef(switch, number)

    def has(self, neighbour: Neighbour) -> bool:
        """Return whether a neighbour is of the fabric."""
        return bool(neighbour.nic) or neighbour.switch.lower() in self._switches

    def neighbour(self, frame: Advertised) -> Neighbour:
        """Return the sender of a frame; a stranger by the names that it has."""
        for text in frame.ports:
            nic = self._nic_by_id.get(text) or self._nic_by_mac.get(_mac(text))
            if nic is not None:
                return Neighbour(switch="", port=None, nic=nic.id)
        for system in self._systems(frame):
            switch = self.switch(system)
            if switch is not None:
                return Neighbour(switch=switch, port=self._number(switch, frame.ports))
            host = _known(self._hosts, system)
            if host is not None:
                return self._of_host(host)
        mac = _mac(frame.chassis)
        if mac in self._nic_by_mac:
            return self._of_host(self._nic_by_mac[mac].host)
        if mac in self._switch_by_mac:
            switch = self._switch_by_mac[mac]
            return Neighbour(switch=switch, port=self._number(switch, frame.ports))
        stranger = frame.system or frame.chassis or frame.ports[0]
        return Neighbour(switch=stranger, port=self._number(stranger, frame.ports))

    def _number(self, switch: str, interfaces: Iterable[str]) -> int | None:
        """Return the number of a switch's port by the first of its names that has one."""
        own = self._own_names.get(switch, {})
        return next(filter(None, (own.get(name) or self._number_of(name) for name in interfaces)), None)

    def _of_host(self, host: str) -> Neighbour:
        """Return the NIC of a host that has one only; else the host, since a chassis' MAC may be that of any."""
        nics = self._nics_of_host[host.lower()]
        return Neighbour(switch="", port=None, nic=nics[0].id if len(nics) == 1 else host)

    def _systems(self, frame: Advertised) -> Iterator[str]:
        """Yield the names of a frame's sender: its own, and the one that the same chassis gave elsewhere."""
        if frame.system:
            yield frame.system
        elif frame.chassis in self._system_of:
            yield self._system_of[frame.chassis]
        yield frame.chassis


def _shortened(names: dict[str, str]) -> dict[str, str]:
    """Return names together with their first labels, where only one name begins with that label."""
    labels: dict[str, list[str]] = {}
    for name, full in names.items():
        labels.setdefault(name.partition(".")[0], []).append(full)
    return {label: full[0] for label, full in labels.items() if len(full) == 1} | names


def _known(names: Mapping[str, str], name: str) -> str | None:
    name = name.lower()
    return names.get(name) or names.get(name.partition(".")[0])


def _mac(text: str) -> int:
    try:
        return parse_mac(text.replace("-", ":"))
    except ValueError:
        return _NO_MAC
