"""Build a fabric from a draft: ids, ports, addresses as `generate` assigns them.

Ports have the numbers of the source's interfaces (`ports`). Where there are none: a leaf's links upwards first, then
its NICs; any other switch's links downwards first, then those upwards; each in the order of the source. Addresses count
leaf by leaf: those of a leaf are contiguous, so few rules cover them.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from heddle.controller.config.foreign.draft import Draft
from heddle.controller.config.foreign.ports import port_numbers
from heddle.controller.config.foreign.tiers import roles_of
from heddle.controller.config.generate import FIRST_IP, port_id
from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef, Role, Switch
from heddle.controller.model.limit import MAX_PORT_NUMBER

_FOREIGN = re.compile(r"[^A-Za-z0-9._-]+")
_MAX_ID_LENGTH = 63
_MAX_NAME_LENGTH = 40
"""Shorter than the limit of an id, so that a NIC's suffix fits."""
_MAC_PREFIX = 0x0200 << 32


class Names:
    """Assigns unique ids: the name itself if it is a valid id and free, else one derived from it."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def give(self, wanted: str, otherwise: str) -> str:
        """Return an id that is not in use."""
        name = _FOREIGN.sub("-", wanted).lstrip("._-")
        if len(name) > _MAX_ID_LENGTH - len("-n9999999"):
            name = name[:_MAX_NAME_LENGTH]
        name = base = name.rstrip("-") or otherwise
        while name in self._taken:
            number = self._next[base] = self._next.get(base, 1) + 1
            name = f"{base}-{number}"
        self._taken.add(name)
        return name


class _Ports:
    """Assigns the ports of each switch: the numbers of its interfaces, else from 1."""

    def __init__(self, draft: Draft, id_of: Mapping[str, str]) -> None:
        self._draft = draft
        self._id_of = id_of
        self._used: Counter[str] = Counter()
        self._interfaces = _interfaces(draft)
        self._number_of = port_numbers(self._interfaces)

    def next_of(self, switch: str, interface: str, place: str) -> PortRef:
        """Return the port of an interface."""
        numbers = self._number_of.get(switch)
        if numbers:
            return PortRef(self._id_of[switch], numbers[interface])
        number = self._used[switch] = self._used[switch] + 1
        if number > MAX_PORT_NUMBER:
            self._draft.refuse(place, f"switch {self._id_of[switch]} has more than {MAX_PORT_NUMBER} ports")
        return PortRef(self._id_of[switch], number)

    def assumed(self) -> Iterator[str]:
        """Yield how ports are numbered, a line for each way."""
        kept = next(iter(self._number_of), None)
        if kept is not None:
            interface, number = max(self._number_of[kept].items(), key=lambda item: item[1])
            yield f"ports have the numbers of their interfaces: {kept} {interface} is {self._id_of[kept]}:{number}"
        anew = [switch for switch, names in self._interfaces.items() if switch not in self._number_of and names[0]]
        if anew:
            first, names = anew[0], self._interfaces[anew[0]]
            yield (
                f"the ports of {len(anew)} switch(es) are numbered anew, because their interfaces do not "
                f"differ in one number alone: the first is {self._id_of[first]} (interface {names[0]})"
            )
        if any(not names[0] for names in self._interfaces.values()):
            yield "ports are numbered in the order of the source, which names no interfaces"


def _interfaces(draft: Draft) -> dict[str, list[str]]:
    """Return the interfaces that each switch uses."""
    found: dict[str, list[str]] = {}
    for link in draft.links:
        found.setdefault(link.a, []).append(link.a_interface)
        found.setdefault(link.b, []).append(link.b_interface)
    for plug in draft.plugs:
        found.setdefault(plug.switch, []).append(plug.interface)
    return found


def build(draft: Draft) -> Fabric:
    """Return the fabric of a draft; raises InputError if a limit is exceeded or nothing is left."""
    if not draft.plugs:
        draft.refuse("", "no host is linked to a switch, so there is nothing to plan for")
    for place in _idle_hosts(draft):
        draft.leave_out("host without a link to a switch", place)
    role_of = roles_of(draft)
    names = Names()
    in_order = {name: at for at, name in enumerate(draft.switches)}
    by_tier = sorted(role_of, key=lambda name: (-role_of[name].tier, in_order[name]))
    id_of = {name: names.give(name, "switch") for name in by_tier}
    ports = _Ports(draft, id_of)
    draft.assumed.extend(ports.assumed())
    cables = _cables(draft, role_of, ports)
    fabric = Fabric(
        name=names.give(draft.fabric_name, "fabric"),
        switches=tuple(
            Switch(id=id_of[name], role=role_of[name], datapath_id=number) for number, name in enumerate(by_tier, 1)
        ),
        cables=cables,
        nics=_nics(draft, ports, names),
    )
    return _in_planes(fabric)


def _in_planes(fabric: Fabric) -> Fabric:
    """Return the fabric with the planes of ports: those of their switches, or in order where a NIC has two in one."""
    plane_of, nics = fabric.plane_of_switch, fabric.ports_of.values()
    in_order = any(len({plane_of[port.port.switch] for port in ports}) < len(ports) for ports in nics)
    placed = [
        replace(port, plane=at if in_order else plane_of[port.port.switch])
        for ports in nics
        for at, port in enumerate(ports)
    ]
    return replace(fabric, nics=tuple(placed)) if any(nic.of for nic in placed) else fabric


def _idle_hosts(draft: Draft) -> list[str]:
    plugged = {plug.host for plug in draft.plugs}
    return [place for host, place in draft.hosts.items() if host not in plugged]


def _cables(draft: Draft, role_of: Mapping[str, Role], ports: _Ports) -> tuple[Cable, ...]:
    """Assign two ports to every link: first the downward ports of all switches, then the upward ones."""
    ends = []
    for link in draft.links:
        a, b = (link.a, link.a_interface), (link.b, link.b_interface)
        ends.append((a, b) if role_of[link.a].tier < role_of[link.b].tier else (b, a))
    upper = [ports.next_of(*up, link.place) for (_, up), link in zip(ends, draft.links, strict=True)]
    lower = [ports.next_of(*low, link.place) for (low, _), link in zip(ends, draft.links, strict=True)]
    return tuple(
        Cable(lower=below, upper=above, capacity_bps=link.rate_bps)
        for below, above, link in zip(lower, upper, draft.links, strict=True)
    )


def _nics(draft: Draft, ports: _Ports, names: Names) -> tuple[Nic, ...]:
    """Return the NICs host by host, hosts in the order of the source."""
    ip_of = _addresses(draft)
    hosts: dict[str, list[int]] = {}
    for number, plug in enumerate(draft.plugs):
        hosts.setdefault(plug.host, []).append(number)
    host_ids = {host: names.give(host, "host") for host in hosts}
    nics = []
    for host, plugs in hosts.items():
        for at, of_nic in enumerate(_by_nic(draft, plugs)):
            name = names.give(f"{host_ids[host]}-n{at}", "nic")
            for position, number in enumerate(of_nic):
                plug, several = draft.plugs[number], len(of_nic) > 1
                nics.append(
                    Nic(
                        id=port_id(name, position) if several else name,
                        host=host_ids[host],
                        ip=ip_of[number],
                        mac=_MAC_PREFIX + ip_of[number],
                        port=ports.next_of(plug.switch, plug.interface, plug.place),
                        capacity_bps=plug.rate_bps,
                        rail=plug.rail,
                        gpus=plug.gpus,
                        of=name if several else "",
                    )
                )
    return tuple(nics)


def _by_nic(draft: Draft, plugs: list[int]) -> list[list[int]]:
    """Return the plugs of a host by NIC: those that serve the same GPUs are ports of one."""
    found: dict[tuple[int, ...] | int, list[int]] = {}
    for number in plugs:
        found.setdefault(draft.plugs[number].gpus or number, []).append(number)
    return list(found.values())


def _addresses(draft: Draft) -> list[int]:
    """Return each plug's address: 10.0.0.1 and on, leaf by leaf."""
    leaf = {name: at for at, name in enumerate(draft.switches)}
    in_order = sorted(range(len(draft.plugs)), key=lambda number: leaf[draft.plugs[number].switch])
    ips = [0] * len(draft.plugs)
    for count, number in enumerate(in_order, 1):
        ips[number] = FIRST_IP + count
    return ips
