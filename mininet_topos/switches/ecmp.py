"""Equal-cost multipath (ECMP) by static rules: the baseline that planned paths are compared with.

Each switch with several next hops hashes the 5-tuple (addresses, protocol, ports) with a seed of its own, so that no
tier repeats the choice of the tier below (no polarisation). Open vSwitch accepts hash and seed in OpenFlow 1.5 select
groups only: in 1.3 it silently ignores the selection method, and its default hash does not cover UDP ports. So the
bridges accept OpenFlow 1.5 as well, but only while these rules are loaded or cleared.
"""

import zlib
from collections.abc import Collection, Sequence
from math import gcd

from heddle.controller.model.address import ip_text
from heddle.controller.model.fabric import Cable
from heddle.controller.model.next_hops import next_hops
from heddle.mininet_topos.switches.fabric_net import FabricNet

HASH_FIELDS = "ip_src,ip_dst,nw_proto,tcp_src,tcp_dst,udp_src,udp_dst"
UP_GROUP = 1
FIRST_DOWN_GROUP = 2
DETOUR_GROUP = 1000
LOCAL_PRIORITY, DETOUR_PRIORITY, DOWN_PRIORITY, UP_PRIORITY = 200, 150, 100, 10


class EcmpRules:
    """Static hash routing on all switches of a lab, for use without a controller."""

    def __init__(self, net: FabricNet, seed: int = 0) -> None:
        """Use this network; `seed` varies the hashes of all switches together."""
        self._net, self._seed = net, seed

    def load(self, failed: Collection[str] = ()) -> None:
        """Replace all rules of the switches by hash routing around the cables that have `failed`, as BGP would."""
        self._set_protocols("OpenFlow13,OpenFlow15")
        for switch, bridge in self._net.bridge_of.items():
            groups, flows = self.rules(switch, failed)
            added = [f"group add {group}" for group in groups] + [f"flow add {flow}" for flow in flows]
            self._bundle(bridge, added)
        self._set_protocols("OpenFlow13")

    def clear(self) -> None:
        """Remove every rule and group from every switch."""
        self._set_protocols("OpenFlow13,OpenFlow15")
        for bridge in self._net.bridge_of.values():
            self._bundle(bridge, [])
        self._set_protocols("OpenFlow13")

    def _bundle(self, bridge: str, added: list[str]) -> None:
        """Delete all flows and groups of a switch and add new ones in one transaction."""
        lines = ["flow delete", "group delete", *added]
        self._net.ovs.ofctl("-O", "OpenFlow15", "bundle", bridge, "-", text="\n".join(lines))

    def rules(self, switch: str, failed: Collection[str] = ()) -> tuple[list[str], list[str]]:
        """Return one switch's groups and flows in the syntax of `ovs-ofctl`; `failed` are ids of cables."""
        fabric = self._net.fabric
        groups: list[str] = []
        flows = ["priority=65535,dl_type=0x8808,actions=drop"]
        for nic in fabric.nics_of_leaf.get(switch, ()):
            flows += _both(LOCAL_PRIORITY, nic.ip, f"output:{nic.port.number}", nic.port.number)
        for number, down in enumerate(fabric.down_groups.get(switch, ()), start=FIRST_DOWN_GROUP):
            ports = [cable.upper.number for cable in down.cables]
            action = f"output:{ports[0]}" if len(ports) == 1 else f"group:{number}"
            if len(ports) > 1:
                groups.append(self._group(switch, number, down.cables, ports))
            for nic in (nic for leaf in down.leaves for nic in fabric.nics_of_leaf.get(leaf, ())):
                flows += _both(DOWN_PRIORITY, nic.ip, action, ports[0])
        up = fabric.up_choices[switch]
        if up:
            ports = [cable.lower.number for cable in up]
            groups.append(self._group(switch, UP_GROUP, up, ports))
            flows.append(f"priority={UP_PRIORITY},ip,actions=group:{UP_GROUP}")
            flows.append(f"priority={UP_PRIORITY},arp,actions=output:{ports[0]}")
        return groups + self._detour_groups(switch, failed), flows + self._detour_flows(switch, failed)

    def _detours(self, switch: str, failed: Collection[str]) -> dict[str, dict[int, Cable]]:
        """Return the next hops of a switch, by port, for each leaf to which failed cables leave fewer."""
        leaves = (leaf for leaf in self._net.fabric.leaves if leaf != switch)
        hops = {leaf: self._next_hops(switch, leaf, failed) for leaf in leaves}
        return {leaf: found for leaf, found in hops.items() if found and found != self._next_hops(switch, leaf, ())}

    def _next_hops(self, switch: str, leaf: str, failed: Collection[str]) -> dict[int, Cable]:
        """Return the live cables, by port, over which a leaf is reached."""
        return {hop.own.number: hop.cable for hop in next_hops(self._net.fabric, switch, leaf, failed)}

    def _detour_groups(self, switch: str, failed: Collection[str]) -> list[str]:
        detours = enumerate(self._detours(switch, failed).values(), start=DETOUR_GROUP)
        return [self._group(switch, number, list(hops.values()), list(hops)) for number, hops in detours]

    def _detour_flows(self, switch: str, failed: Collection[str]) -> list[str]:
        fabric = self._net.fabric
        return [
            flow
            for number, (leaf, hops) in enumerate(self._detours(switch, failed).items(), start=DETOUR_GROUP)
            for nic in fabric.nics_of_leaf.get(leaf, ())
            for flow in _both(DETOUR_PRIORITY, nic.ip, f"group:{number}", next(iter(hops)))
        ]

    def _group(self, switch: str, number: int, cables: Sequence[Cable], ports: Sequence[int]) -> str:
        seed = zlib.crc32(f"{self._seed}/{switch}/{number}".encode())
        unit = gcd(*(cable.capacity_bps for cable in cables))
        buckets = "".join(
            f",bucket=bucket_id:{port},weight:{cable.capacity_bps // unit},watch_port:{port},actions=output:{port}"
            for cable, port in zip(cables, ports, strict=True)
        )
        method = f"selection_method=hash,selection_method_param={seed},fields({HASH_FIELDS})"
        return f"group_id={number},type=select,{method}{buckets}"

    def _set_protocols(self, protocols: str) -> None:
        arguments = (
            argument
            for bridge in self._net.bridge_of.values()
            for argument in ("--", "set", "bridge", bridge, f"protocols={protocols}")
        )
        self._net.ovs.vsctl(*arguments)


def _both(priority: int, ip: int, action: str, port: int) -> list[str]:
    """Return the rules that apply `action` to IP packets for an address, and send ARP requests for it out of `port`."""
    return [
        f"priority={priority},ip,nw_dst={ip_text(ip)},actions={action}",
        f"priority={priority},arp,arp_tpa={ip_text(ip)},actions=output:{port}",
    ]
