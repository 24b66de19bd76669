"""Static SIDs in the routers of a lab, as lines for `ip -batch` (ip-route(8), seg6local): constant, whatever the plan.

Ports have link-local addresses made of their MAC addresses, and permanent neighbours, so that nothing is resolved. What
a kernel drops of a port that goes down, `lines` set again.
"""

from collections.abc import Iterator, Mapping

from heddle.controller.model.address import ipv6_text
from heddle.controller.model.fabric import Fabric, PortRef
from heddle.controller.model.srv6 import Action, Entry, Sids, prefix_text
from heddle.foundation.address import mac_text

PORT_MAC = 0x02FD00000000
"""The address of the n-th end of a cable is this plus n: locally administered."""
NEEDS = "Linux 6.17 with seg6local (6.1 with `srv6: {style: cable}`) and iproute2 6.1"
FLAVOR = "flavors next-csid lblen 32 nflen 16"
OWN_DEVICE, OTHER_END = "sr0", "sr1"
"""The entries of a switch's own uSIDs need a device that stays up: a port's would go with it, and lo refuses them."""
OWN_PACKETS = "rule add iif lo lookup 100 pref 100"
"""A line for `ip -6`: what a router itself sends, such as ICMPv6 errors, has other routes: seg6local only forwards."""
_ERROR_TABLE = "table 100"
_LINK_LOCAL = 0xFE80 << 112
_HOST_BITS = 64
SETTINGS = {
    "conf/all/forwarding": 1,
    "conf/all/seg6_enabled": 1,
    "conf/default/seg6_enabled": 1,
    "conf/default/accept_dad": 0,
    "icmp/ratelimit": 0,
}
PORT_SETTINGS = {"seg6_enabled": 1, "addr_gen_mode": 1, "accept_dad": 0}


class StaticSids:
    """The SIDs of all routers of a fabric."""

    def __init__(self, fabric: Fabric, nic_port_macs: Mapping[str, int]) -> None:
        """Use the addresses that leaves have on their ports to NICs."""
        self._sids, self._fabric = Sids(fabric), fabric
        ends = [port for cable in fabric.cables for port in (cable.lower, cable.upper)]
        self.mac_of = {port: PORT_MAC + number for number, port in enumerate(ends)}
        self.peer_mac_of: dict[PortRef, int] = {}
        for cable in fabric.cables:
            self.peer_mac_of |= {cable.lower: self.mac_of[cable.upper], cable.upper: self.mac_of[cable.lower]}
        for nic in fabric.nics:
            self.mac_of[nic.port], self.peer_mac_of[nic.port] = nic_port_macs[nic.id], nic.mac

    def first_lines(self) -> list[str]:
        """Return the lines that a router needs once."""
        return [
            f"link add {OWN_DEVICE} type veth peer name {OTHER_END}",
            f"link set dev {OTHER_END} up",
            f"link set dev {OWN_DEVICE} up",
        ]

    def lines(self, switch: str, names: Mapping[PortRef, str]) -> list[str]:
        """Return the lines of a router's addresses, neighbours and entries; `names` has its ports that are up."""
        found = []
        for port, device in names.items():
            peer = self.peer_mac_of[port]
            found.append(f"addr replace {link_local(self.mac_of[port])}/64 dev {device} nodad")
            found.append(f"neigh replace {link_local(peer)} lladdr {mac_text(peer)} dev {device} nud permanent")
        return [*found, *self._entries(switch, names), *self._of_errors(switch, names)]

    def _of_errors(self, switch: str, names: Mapping[PortRef, str]) -> Iterator[str]:
        """Yield a router's address as the sender of errors, and its routes to NICs of its own and neighbouring leaves.

        What is forwarded does not see them: a ping that comes back to a wrong leaf has to be lost.
        """
        own = self._sids.locator(switch) | 1
        yield f"addr replace {ipv6_text(own)}/128 dev {OWN_DEVICE}"
        for nic in self._fabric.nics_of_leaf.get(switch, ()):
            if nic.port in names:
                source = ipv6_text(self._sids.source(nic) >> _HOST_BITS << _HOST_BITS)
                yield f"route replace {source}/64 via {link_local(nic.mac)} dev {names[nic.port]} {_ERROR_TABLE}"
        hops: dict[str, list[str]] = {}
        for cable in self._fabric.down_cables[switch]:
            if cable.upper in names:
                peer = link_local(self.peer_mac_of[cable.upper])
                hops.setdefault(cable.lower.switch, []).append(f"nexthop via {peer} dev {names[cable.upper]}")
        for below, found in hops.items():
            yield f"route replace {prefix_text(self._sids.locator(below))} {_ERROR_TABLE} {' '.join(found)}"

    def _entries(self, switch: str, names: Mapping[PortRef, str]) -> Iterator[str]:
        for entry in self._sids.entries(switch):
            if entry.port is not None and entry.port not in names:
                continue
            prefix = prefix_text(self._sids.prefix(entry.usid, switch))
            yield f"route replace {prefix} {self._target(entry, names)}"

    def _target(self, entry: Entry, names: Mapping[PortRef, str]) -> str:
        if entry.port is None:
            return f"encap seg6local action End {FLAVOR} dev {OWN_DEVICE}"
        peer, device = link_local(self.peer_mac_of[entry.port]), names[entry.port]
        if entry.action is Action.ROUTE:
            return f"via {peer} dev {device}"
        return f"encap seg6local action End.X nh6 {peer} oif {device} {FLAVOR} dev {device}"


def link_local(mac: int) -> str:
    """Return the link-local address that a port with this MAC address has here."""
    return ipv6_text(_LINK_LOCAL | mac)
