"""Ports of the VPCs' bridges: which interface is attached, that no port learns, and one static entry per endpoint.

An endpoint's port gets no frame to unknown, broadcast and multicast MACs. A VXLAN device gets those of the endpoints
and sends them to the VPC's gateway.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from heddle.dataplane.vtep.desired import HostState
from heddle.foundation.address import mac_text

FLAGS = ("learning", "flood", "mcast_flood", "bcast_flood")
ENDPOINT_FLAGS, TUNNEL_FLAGS = (False, False, False, False), (False, True, True, True)


class BridgePort(NamedTuple):
    """An interface: its bridge, "" for none, and the port's flags in the order of FLAGS."""

    bridge: str
    flags: tuple[bool, ...] = ()


class BridgeEntry(NamedTuple):
    """An entry of a bridge: frames to a MAC leave by a port."""

    bridge: str
    mac: int
    port: str


def bridge_of(vni: int) -> str:
    """Return the name of a VPC's bridge."""
    return f"hb{vni}"


def device_of(vni: int) -> str:
    """Return the name of a VPC's VXLAN device."""
    return f"hx{vni}"


def ports_of(links: Iterable[Mapping[str, Any]]) -> dict[str, BridgePort]:
    """Return the present interfaces by name, from the output of `ip -j -d link show`."""
    found = {}
    for link in links:
        data = link.get("linkinfo", {}).get("info_slave_data", {})
        found[link["ifname"]] = BridgePort(link.get("master", ""), tuple(data[name] for name in FLAGS if name in data))
    return found


def stations_of(rows: Iterable[Mapping[str, Any]]) -> tuple[set[BridgeEntry], set[BridgeEntry]]:
    """Return the static entries of all bridges and the learned ones, from the output of `bridge -j fdb show`.

    The addresses of the ports themselves, which the kernel enters, are left out.
    """
    static, learned = set[BridgeEntry](), set[BridgeEntry]()
    for row in rows:
        if "master" in row and row.get("state") != "permanent":
            station = BridgeEntry(row["master"], int(row["mac"].replace(":", ""), 16), row["ifname"])
            (static if row.get("state") == "static" else learned).add(station)
    return static, learned


def attached(want: HostState, ports: Mapping[tuple[int, int], str]) -> set[BridgeEntry]:
    """Return the desired static entries; `ports` maps (VNI, MAC) to the interfaces that are present."""
    return {
        BridgeEntry(bridge_of(each.vni), each.mac, ports[each.vni, each.mac])
        for each in want.locals
        if (each.vni, each.mac) in ports
    }


def port_changes(have: Mapping[str, BridgePort], want: HostState, ports: Mapping[tuple[int, int], str]) -> list[str]:
    """Return the lines for `ip -batch` that attach endpoints' interfaces to their bridges and detach all others."""
    ours = {bridge_of(vni): device_of(vni) for vni in want.vnis | {vni for vni, _ in ports}}
    homes = {station.port: station.bridge for station in attached(want, ports)}
    lines = []
    for name, port in sorted(have.items()):
        if name in homes:
            if port.bridge != homes[name]:
                lines.append(f"link set dev {name} master {homes[name]} up")
            if port != BridgePort(homes[name], ENDPOINT_FLAGS):
                lines.append(_flags(name, ENDPOINT_FLAGS))
        elif port.bridge in ours and name != ours[port.bridge]:
            lines.append(f"link set dev {name} nomaster")
    tunnels = [device_of(vni) for vni in sorted(want.vnis)]
    return lines + [
        _flags(name, TUNNEL_FLAGS) for name in tunnels if have.get(name, BridgePort("")).flags != TUNNEL_FLAGS
    ]


def _flags(name: str, flags: tuple[bool, ...]) -> str:
    switches = " ".join(f"{flag} {'on' if on else 'off'}" for flag, on in zip(FLAGS, flags, strict=True))
    return f"link set dev {name} type bridge_slave {switches}"


def station_changes(
    have: tuple[set[BridgeEntry], set[BridgeEntry]], want: set[BridgeEntry], vnis: Iterable[int]
) -> list[str]:
    """Return the lines for `bridge -batch` that leave exactly the desired entries on the ports of these VPCs' bridges.

    Entries of a detached port are gone. `replace` moves an entry from a wrong port.
    """
    static, learned = have
    ports = {station.port for station in want} | {device_of(vni) for vni in vnis}
    kept = {(station.bridge, station.mac) for station in want}
    foreign = [each for each in sorted(static | learned) if each.port in ports and (each.bridge, each.mac) not in kept]
    return [
        *(f"fdb del {mac_text(each.mac)} dev {each.port} master" for each in foreign),
        *(f"fdb replace {mac_text(each.mac)} dev {each.port} master static" for each in sorted(want - static)),
    ]
