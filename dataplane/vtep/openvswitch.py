"""Driver for Open vSwitch as a VTEP: one bridge for all VPCs, the VNI of a packet in register 0.

Four flow tables. ARRIVAL determines the VPC: by the tunnel's VNI, or by port and source MAC of a local endpoint, and
drops router advertisements, redirects, and neighbour advertisements that are unsolicited or of another address. SOURCE
admits ARP, IPv4 and IPv6 with an address of the endpoint as their source. FORWARD answers ARP and sends each MAC to its
port or VTEP; unknown MACs go to the VPC's gateway, or are dropped if they came from the tunnel. SPREAD sends a
flow to a virtual IP to one of the balancers, by a hash in register 1 of addresses and TCP ports (fragments of UDP have
no ports). All flows are replaced
in one bundle, atomically. The gateway answers IPv6 neighbour discovery.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence
from ipaddress import IPv4Address
from typing import Any

from heddle.dataplane.config.balancers import balancer_mac
from heddle.dataplane.vtep.desired import ANY_MAC, HostState
from heddle.dataplane.vtep.linux import VXLAN_PORT, VtepError
from heddle.dataplane.vtep.sources import Source, sources
from heddle.foundation.address import mac_text

OVS_TIMEOUT_S = 30.0
ARRIVAL, SOURCE, FORWARD, SPREAD = 0, 1, 2, 3
_ROUTER, _ADVERTISEMENT, _REDIRECT = 134, 136, 137
"""Types of ICMPv6 messages (RFC 4861, 4)."""
_SOLICITED = (0x4000_0000, 0x6000_0000)
"""Flags of a neighbour advertisement: solicited, with and without override; never of a router."""
_UNTAGGED = "vlan_tci=0x0000/0x1fff"
TUNNEL = "hxflow"
"""The VXLAN port; each flow sets VNI and remote VTEP."""
MARK = "heddle"
"""Key in external_ids of an interface: the bridge to which the agent attached it."""
_OFCTL = ("ovs-ofctl", "-O", "OpenFlow14")
_REPLY_ARP = (
    "move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],set_field:{mac}->eth_src,set_field:2->arp_op,"
    "move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],set_field:{mac}->arp_sha,"
    "move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],set_field:{ip}->arp_spa,IN_PORT"
)


class OpenVSwitchVtep:
    """One bridge of an Open vSwitch that carries VXLAN."""

    def __init__(
        self, vtep: IPv4Address, bridge: str, entrance: Sequence[str] = (), database: str | None = None
    ) -> None:
        """Prepare a driver for an existing bridge.

        Args:
            vtep: the host's VTEP address.
            bridge: name of the bridge.
            entrance: command prefix that enters the host's namespace.
            database: ovs-vsctl's --db; None for its default.
        """
        self._vtep, self._bridge, self._entrance = vtep, bridge, tuple(entrance)
        self._database = () if database is None else (f"--db={database}",)

    def check(self) -> None:
        """Raise VtepError if Open vSwitch does not respond or has no such bridge."""
        if self._bridge not in self._vsctl("list-br").split():
            raise VtepError(f"Open vSwitch has no bridge {self._bridge}; make it by `ovs-vsctl add-br {self._bridge}`")

    def apply(self, wanted: HostState, ports: Mapping[tuple[int, int], str]) -> int:
        """Install the desired state; return the number of changes.

        An interface that does not exist yet is attached by a later call. Raises VtepError; the previous flows stay.

        Args:
            wanted: desired state.
            ports: interfaces of local endpoints by (VNI, MAC).
        """
        here = {(local.vni, local.mac) for local in wanted.locals}
        present = {link["ifname"] for link in self.links()}
        names = {key: name for key, name in ports.items() if key in here and name in present}
        attached = set(self._vsctl("list-ports", self._bridge).split())
        new = sorted({TUNNEL, *names.values()} - attached)
        old = sorted((set(ports.values()) | self._attached_by_agent()) & attached - set(names.values()) - {TUNNEL})
        if new:
            self._vsctl(*self._added(new))
        lines = flows(wanted, {key: self._port_number(name) for key, name in names.items()}, self._port_number(TUNNEL))
        changed = self._replace("".join(f"{line}\n" for line in lines))
        if old:
            self._vsctl(*[word for name in old for word in ("--", "--if-exists", "del-port", self._bridge, name)][1:])
        return changed + len(new) + len(old)

    def _added(self, names: Sequence[str]) -> list[str]:
        mark = f"external_ids:{MARK}={self._bridge}"
        words = [
            word
            for name in names
            for word in ("--", "--may-exist", "add-port", self._bridge, name, "--", "set", "interface", name, mark)
        ][1:]
        if TUNNEL in names:
            words += ["--", "set", "interface", TUNNEL, "type=vxlan", f"options:local_ip={self._vtep}"]
            words += ["options:remote_ip=flow", "options:key=flow", f"options:dst_port={VXLAN_PORT}"]
        return words

    def _replace(self, text: str) -> int:
        """Replace the flows that differ, in one bundle; return the number of differing lines."""
        differences = self._run((*_OFCTL, "diff-flows", self._bridge, "/dev/stdin"), text, good=(0, 2))
        if differences.strip():
            self._run((*_OFCTL, "--bundle", "replace-flows", self._bridge, "-"), text)
        return len([line for line in differences.splitlines() if line.startswith(("+", "-"))])

    def _attached_by_agent(self) -> set[str]:
        """Return the interfaces that an agent attached to the bridge, also those that no longer exist."""
        mark = f"external_ids:{MARK}={self._bridge}"
        return set(self._vsctl("--bare", "--columns=name", "find", "interface", mark).split())

    def links(self) -> list[dict[str, Any]]:
        """Return the present interfaces in the form of `ip -j link show`; raises VtepError."""
        found: list[dict[str, Any]] = json.loads(self._run(("ip", "-j", "link", "show"), ""))
        return [link for link in found if "ifname" in link]

    def _port_number(self, interface: str) -> int:
        known = ("wait-until", "interface", interface, "ofport>0")
        return int(self._vsctl(*known, "--", "get", "interface", interface, "ofport"))

    def _vsctl(self, *words: str) -> str:
        return self._run(("ovs-vsctl", "--timeout=10", *self._database, *words), "")

    def _run(self, command: Sequence[str], text: str, good: Sequence[int] = (0,)) -> str:
        words = [*self._entrance, *command]
        try:
            done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=OVS_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise VtepError(f"{command[0]}: {error}") from None
        if done.returncode not in good:
            reason = (done.stderr.strip() or "no reason given").splitlines()[-1]
            raise VtepError(f"{command[0]}: {reason}")
        return done.stdout


def flows(want: HostState, ports: Mapping[tuple[int, int], int], tunnel: int) -> list[str]:
    """Return all flows of the bridge in ovs-ofctl's syntax; `ports` maps (VNI, MAC) to OpenFlow port numbers."""
    lines = [f"table={table},priority=0,actions=drop" for table in (ARRIVAL, SOURCE, FORWARD, SPREAD)]
    lines += [
        f"table={ARRIVAL},priority=10,in_port={tunnel},tun_id={vni},actions=set_field:{vni}->reg0,goto_table:{FORWARD}"
        for vni in sorted(want.vnis)
    ]
    for source in sources(want, ports):
        lines += _arrivals(source)
        lines += _sources(source)
    return lines + _forwards(want, ports, tunnel)


def _arrivals(source: Source) -> list[str]:
    """Return the flows that determine the VPC of an endpoint's frames, and drop messages that only routers send."""
    port, mac = f"table={ARRIVAL},in_port={source.port}", mac_text(source.mac)
    own, enter = f"dl_src={mac},{_UNTAGGED}", f"actions=set_field:{source.vni}->reg0,goto_table:{SOURCE}"
    return [
        f"{port},priority=10,{own},{enter}",
        *(f"{port},priority=20,arp,arp_op=1,arp_tpa={ip},actions=drop" for ip in source.v4),
        *(f"{port},priority=20,icmp6,icmp_type={kind},actions=drop" for kind in (_ROUTER, _ADVERTISEMENT, _REDIRECT)),
        *(
            f"{port},priority=30,{own},icmp6,icmp_type={_ADVERTISEMENT},nd_target={ip},nd_reserved={flags},{enter}"
            for ip in source.v6
            for flags in _SOLICITED
        ),
    ]


def _sources(source: Source) -> list[str]:
    """Return the flows that admit an endpoint's own addresses."""
    mac, forward = mac_text(source.mac), f"actions=goto_table:{FORWARD}"
    own = f"table={SOURCE},priority=10,in_port={source.port},dl_src={mac}"
    return [
        *(f"{own},arp,arp_sha={mac},arp_spa={ip},{forward}" for ip in source.v4),
        *([f"{own},arp,arp_op=1,arp_sha={mac},arp_spa=0.0.0.0,{forward}"] if source.v4 else ()),
        *(f"{own},ip,nw_src={ip},{forward}" for ip in source.v4),
        *(f"{own},ipv6,ipv6_src={ip},{forward}" for ip in source.v6),
        *(f"{own},{'ip,nw_src' if ip.version == 4 else 'ipv6,ipv6_src'}={ip},{forward}" for ip in source.virtual),
    ]


def _forwards(want: HostState, ports: Mapping[tuple[int, int], int], tunnel: int) -> list[str]:
    table = f"table={FORWARD}"
    lines = [f"{table},priority=15,in_port={tunnel},actions=drop"]
    for (vni, mac), port in sorted(ports.items()):
        lines.append(f"{table},priority=20,reg0={vni},dl_dst={mac_text(mac)},actions=output:{port}")
    for vni, ip, mac in sorted(want.neighbours, key=str):
        if ip.version == 4:
            reply = _REPLY_ARP.format(mac=mac_text(mac), ip=ip)
            lines.append(f"{table},priority=30,reg0={vni},arp,arp_op=1,arp_tpa={ip},actions={reply}")
    for vni, mac, vtep in sorted(want.forwards):
        send = f"set_field:{vni}->tun_id,set_field:{vtep}->tun_dst,output:{tunnel}"
        match = "priority=10" if mac == ANY_MAC else f"priority=12,dl_dst={mac_text(mac)}"
        lines.append(f"{table},{match},reg0={vni},actions={send}")
    for vni, vteps in sorted(want.spreads):
        chosen = f"multipath(symmetric_l3l4,0,hrw,{len(vteps)},0,NXM_NX_REG1[]),goto_table:{SPREAD}"
        lines.append(f"{table},priority=12,reg0={vni},dl_dst={mac_text(balancer_mac(vni))},actions={chosen}")
        for i, vtep in enumerate(vteps):
            send = f"set_field:{vni}->tun_id,set_field:{vtep}->tun_dst,output:{tunnel}"
            lines.append(f"table={SPREAD},priority=10,reg0={vni},reg1={i},actions={send}")
    return lines
