"""Turn what agents report of their ports into what switch ports hear, by the fabric's names.

A port is known by the name that its own switch reports. Of a switch without an agent no port is known: a guess, such as
four lanes a port, could accuse a sound cable.

LLDP is not signed, and hosts are not trusted. So what is heard from a host's side must not accuse a cable between two
switches: at a port of a NIC a switch counts only if the port that it names hears this one; what a host hears is taken
as the other end of a port that hears nothing, and not at a port of such a cable.
"""

from collections.abc import Mapping
from typing import NamedTuple

from heddle.controller.cabling.heard import Neighbour
from heddle.controller.cabling.sources.names import Names, resolve
from heddle.controller.model.fabric import Fabric, PortRef
from heddle.telemetry.neighbours.advertised import Advertised, Collected
from heddle.telemetry.neighbours.heard import Heard

Reports = Mapping[str, Heard]
"""What is heard at ports of switches (`leaf1:3`) and NICs, by their names in the fabric."""


class _Frames(NamedTuple):
    """Reports as frames: of switches' ports, and of each NIC; and what switches call their ports."""

    at_switches: list[Advertised]
    at_nics: dict[str, list[Advertised]]
    own_names: dict[str, dict[str, int]]


def peers(fabric: Fabric, reports: Reports) -> dict[PortRef, Neighbour]:
    """Return what switch ports hear."""
    frames = _frames(fabric, reports)
    found = resolve(fabric, Collected(advertised=frames.at_switches), _unknown, frames.own_names).heard
    for port, nic in _heard_by_nics(fabric, frames).items():
        if port not in found and port not in fabric.cable_by_port:
            found[port] = Neighbour(switch="", port=None, nic=nic)
    return {port: peer for port, peer in found.items() if _is_believed(fabric, port, peer, found)}


def _unknown(_: str) -> None:
    """Number no interface by its name alone."""


def _frames(fabric: Fabric, reports: Reports) -> _Frames:
    frames = _Frames([], {}, {})
    for place, heard in reports.items():
        switch, _, number = place.rpartition(":")
        if place in fabric.nic_by_id:
            frames.at_nics[place] = _advertised(fabric.nic_by_id[place].host, heard)
        elif switch in fabric.switch_by_id and number.isdecimal():
            frames.own_names.setdefault(switch, {})[heard.interface] = int(number)
            frames.at_switches.extend(_advertised(switch, heard))
    return frames


def _advertised(node: str, heard: Heard) -> list[Advertised]:
    """Return frames; of several senders the first is the newest."""
    return [
        Advertised(node=node, interface=heard.interface, age_s=age_s, **sender._asdict())
        for age_s, sender in enumerate(heard.senders)
    ]


def _heard_by_nics(fabric: Fabric, frames: _Frames) -> dict[PortRef, str]:
    """Return the NIC that hears each switch port; of NICs that hear the same one, the one that belongs there."""
    every = [*frames.at_switches, *(frame for each in frames.at_nics.values() for frame in each)]
    names = Names(fabric, every, _unknown, frames.own_names)
    at: dict[PortRef, list[str]] = {}
    for nic, heard in frames.at_nics.items():
        found = [names.neighbour(frame) for frame in heard if frame.has_names]
        ports = {
            PortRef(each.switch, each.port)
            for each in found
            if each.switch in fabric.switch_by_id and each.port is not None
        }
        if len(ports) == 1:
            at.setdefault(ports.pop(), []).append(nic)
    owner = fabric.nic_by_port
    return {
        port: nics[0] if len(nics) == 1 else owner[port].id
        for port, nics in at.items()
        if len(nics) == 1 or (port in owner and owner[port].id in nics)
    }


def _is_believed(fabric: Fabric, port: PortRef, peer: Neighbour, found: Mapping[PortRef, Neighbour]) -> bool:
    if port not in fabric.nic_by_port or peer.nic or peer.port is None or peer.switch not in fabric.switch_by_id:
        return True
    back = found.get(PortRef(peer.switch, peer.port))
    return back is not None and (back.switch, back.port) == (port.switch, port.number)
