"""Read the ports of the NICs that a fabric file lists: one, or several in as many planes."""

from dataclasses import replace
from typing import TypeVar

from heddle.controller.config.fabric_file import HostShape, NicShape, PortShape
from heddle.controller.config.generate import Parts, port_id
from heddle.controller.model.admission import Problem
from heddle.controller.model.fabric import Nic
from heddle.controller.model.planes import components
from heddle.foundation.network import Network

_MAC_PREFIX = 0x0200 << 32
"""The MAC address of a NIC without `mac` is 02:00 and its IPv4 address: 10.0.0.1 gives 02:00:0a:00:00:01."""

T = TypeVar("T")


def nic_ports(host: HostShape, shape: NicShape, macs: set[int], place: str) -> list[tuple[Nic, str]]:
    """Return the ports of a NIC with their places in the file, a `Nic` each.

    The address of a port is that of the NIC, and one more for each port before it, where the file gives none.
    """
    if shape.ports is None:
        ports = [PortShape.model_construct(port=shape.port, capacity_bps=shape.capacity_bps)]
        return [(_nic_of(host, shape, ports[0], 0, macs), place)]
    return [
        (
            replace(_nic_of(host, shape, port, at, macs), id=port_id(shape.id, at), of=shape.id, plane=_plane(port)),
            f"{place}.ports[{at}]",
        )
        for at, port in enumerate(shape.ports)
    ]


def in_planes(parts: Parts, place_of: dict[int, str]) -> tuple[list[Nic], list[Problem]]:
    """Return the NICs with the planes of their ports, and a problem for each second port of a NIC in a plane.

    A port is in the plane of its switch, if the file says no other. `place_of` has the places of NICs by identity, and
    gets those of the returned ones.
    """
    plane_of = components(
        (switch.id for switch in parts.switches), ((each.lower.switch, each.upper.switch) for each in parts.cables)
    )
    taken: dict[tuple[str, str, int], Nic] = {}
    nics, found = [], []
    for nic in parts.nics:
        plane = nic.plane if nic.of and nic.plane != _OF_SWITCH else plane_of.get(nic.port.switch, 0)
        one = nic if plane == nic.plane else replace(nic, plane=plane)
        place = place_of.get(id(nic), "")
        if place:
            place_of[id(one)] = place
        nics.append(one)
        other = taken.setdefault((one.host, one.rank, plane), one)
        if one.of and other is not one:
            both = f"{one.port} is in plane {plane}, as {other.port}"
            remedy = "a NIC has one port a plane; plug it into a switch of another, or give each port its `plane`"
            found.append(Problem(f"{place}.port", f"{both}: {remedy}"))
    return nics, found


_OF_SWITCH = -1
"""Stands for the plane of the switch until all switches are known."""


def _plane(port: PortShape) -> int:
    return _OF_SWITCH if port.plane is None else port.plane


def _nic_of(host: HostShape, shape: NicShape, port: PortShape, at: int, macs: set[int]) -> Nic:
    ip = _first(port.ip, shape.ip + at)
    mac = _first(port.mac, None if shape.mac is None else shape.mac + at)
    return Nic(
        id=shape.id,
        host=host.id,
        ip=ip,
        mac=_free_mac(ip, macs) if mac is None else mac,
        port=port.port,
        capacity_bps=port.capacity_bps,
        rail=shape.rail,
        network=Network(shape.network),
        gpus=tuple(shape.gpus),
        nvlink_domain=host.nvlink_domain or "",
        paths_per_flow=shape.paths_per_flow,
    )


def _first(given: T | None, otherwise: T) -> T:
    return otherwise if given is None else given


def _free_mac(ip: int, macs: set[int]) -> int:
    """Return the MAC address 02:00 and the IPv4 address; if that is in use, 02:01 and so on."""
    mac = _MAC_PREFIX + ip
    while mac in macs:
        mac += 1 << 32
    macs.add(mac)
    return mac
