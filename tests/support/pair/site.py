"""A site for a pair of gateways: hosts with kernel VXLAN, an external network, and bridges that join both gateways.

    red1 blue1   red2 green1                    internet 198.51.100.10
       host1        host2                            |
         |            |                              |
       --+---- under (a bridge) ----+------ wan (a bridge) --
                    |               |            |
                   gw1 ====== two cables ====== gw2
                    +---- man (a bridge) --------+---- controller

VPCs red and blue use the same addresses; green is peered with red; red2 has a floating IP. Every node is a network
namespace, held by a process. The bridges learn MAC addresses, so traffic follows a takeover only when it is announced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, ip_network
from pathlib import Path
from typing import Any

from heddle.dataplane.config.network import (
    Direction,
    Endpoint,
    FloatingIp,
    NetworkConfig,
    Peering,
    Protocol,
    SecurityRule,
    Subnet,
    Vpc,
)
from heddle.dataplane.vtep.bridge_ports import bridge_of
from heddle.dataplane.vtep.desired import wanted
from heddle.dataplane.vtep.linux import LinuxVtep
from heddle.foundation.address import mac_text
from tests.support.packets.namespaces import Namespace, join

UNDERLAY_MTU_BYTES, VPC_MTU_BYTES = 1550, 1500
HOSTS = {"host1": IPv4Address("192.168.100.1"), "host2": IPv4Address("192.168.100.2")}
GATEWAYS = {"gw1": IPv4Address("192.168.100.101"), "gw2": IPv4Address("192.168.100.102")}
WAN_ADDRESS = {"gw1": IPv4Address("203.0.113.2"), "gw2": IPv4Address("203.0.113.3")}
UNDERLAY, WAN = IPv4Network("192.168.100.0/24"), IPv4Network("203.0.113.0/24")
ROUTER, SERVER = IPv4Address("203.0.113.1"), IPv4Address("198.51.100.10")
FLOATING = IPv4Address("203.0.113.20")
FIRST_PORT, LAST_PORT = 7000, 7999
"""TCP and UDP ports that red and green admit from any address, and their peer."""
NAT_PORTS = {"gw1": {"first": 1024, "last": 32767}, "gw2": {"first": 32768, "last": 65535}}
CABLES = ("sync0", "sync1")
"""Links between the two gateways, for heartbeats and replicated state."""
PORTS = ("under0", "wan0")
MANAGEMENT = {"controller": "10.78.0.10", "gw1": "10.78.0.1", "gw2": "10.78.0.2"}
ANYWHERE = ip_network("0.0.0.0/0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A virtual machine of a tenant."""

    name: str
    vpc: str
    host: str
    address: str
    mac: int


MACHINES = (
    Machine(name="red1", vpc="red", host="host1", address="10.0.0.1", mac=0x0200_0000_0001),
    Machine(name="red2", vpc="red", host="host2", address="10.0.0.2", mac=0x0200_0000_0002),
    Machine(name="blue1", vpc="blue", host="host1", address="10.0.0.1", mac=0x0200_0000_0001),
    Machine(name="green1", vpc="green", host="host2", address="10.9.0.1", mac=0x0200_0000_0009),
)
VNIS = {"red": 100, "blue": 200, "green": 300}
SUBNETS = {"red": "10.0.0.0/24", "blue": "10.0.0.0/24", "green": "10.9.0.0/24"}
NAT = {"red": "203.0.113.10", "blue": "203.0.113.11", "green": "203.0.113.12"}


def _open_to(remote: Any) -> tuple[SecurityRule, ...]:
    return tuple(
        SecurityRule(allow=True, direction=Direction.IN, remote=remote, protocol=protocol,
                     port_min=FIRST_PORT, port_max=LAST_PORT)
        for protocol in (Protocol.TCP, Protocol.UDP)
    )  # fmt: skip


def _vpc(name: str) -> Vpc:
    prefix = ip_network(SUBNETS[name])
    return Vpc(
        id=name,
        vni=VNIS[name],
        subnets=(Subnet(prefix=prefix, gateway=prefix[-2]),),
        endpoints=tuple(
            Endpoint(ip=IPv4Address(each.address), mac=each.mac, vtep=HOSTS[each.host])
            for each in MACHINES
            if each.vpc == name
        ),
        rules=_open_to(ANYWHERE) if name != "blue" else (),
        nat=IPv4Address(NAT[name]),
        floating_ips=(FloatingIp(public=FLOATING, endpoint=IPv4Address("10.0.0.2")),) if name == "red" else (),
    )


def network() -> NetworkConfig:
    """Return the VPCs and peerings that the gateways serve."""
    return NetworkConfig(
        generation=1, vpcs=tuple(_vpc(name) for name in VNIS), peerings=frozenset((Peering(a="green", b="red"),))
    )


class Site:
    """The namespaces and links of the site.

    `vteps_of` maps a host to the gateways whose VTEPs its traffic goes to; the first one is configured.
    """

    def __init__(self, vteps_of: Mapping[str, Sequence[str]] | None = None) -> None:
        chosen = vteps_of or dict.fromkeys(HOSTS, ("gw1",))
        names = ("switches", "internet", "controller", *HOSTS, *GATEWAYS, *(machine.name for machine in MACHINES))
        self.spaces: dict[str, Namespace] = {}
        try:
            for name in names:
                self.spaces[name] = Namespace()
            self._make(chosen)
        except BaseException:
            self.close()
            raise

    def pid(self, name: str) -> int:
        """Return the process ID that holds a node's namespace."""
        return self.spaces[name].pid

    def entrance(self, name: str) -> tuple[str, ...]:
        """Return the command prefix that enters a node's namespace."""
        return self.spaces[name].entrance

    def close(self) -> None:
        for space in self.spaces.values():
            space.close()

    def plug(self, gateway: str, *, up: bool) -> None:
        """Set all links of a gateway up or down."""
        for port in (*PORTS, *CABLES):
            self.spaces[gateway].run("ip", "link", "set", port, "up" if up else "down")
        if up:
            for cable in CABLES:
                self._assign_address(gateway, cable)

    def _make(self, vteps_of: Mapping[str, Sequence[str]]) -> None:
        for space in self.spaces.values():
            space.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6", check=False)  # no MLD, no RS
        for bridge in ("under", "wan", "man"):
            self.spaces["switches"].run(
                "ip", "link", "add", bridge, "mtu", str(UNDERLAY_MTU_BYTES), "type", "bridge", "mcast_snooping", "0"
            )
            self.spaces["switches"].run("ip", "link", "set", bridge, "up")
        for place, gateway in enumerate(GATEWAYS, 1):
            for port, bridge, mtu in (("under0", "under", UNDERLAY_MTU_BYTES), ("wan0", "wan", VPC_MTU_BYTES)):
                self._attach(gateway, port, bridge, mtu, f"02:00:aa:00:0{place}:0{1 + (port == 'wan0')}")
        for cable in CABLES:
            join(self.spaces["gw1"], cable, self.spaces["gw2"], cable, VPC_MTU_BYTES)
            for gateway in GATEWAYS:
                self._assign_address(gateway, cable)
        for node, address in MANAGEMENT.items():
            self._attach(node, "man0", "man", VPC_MTU_BYTES)
            self.spaces[node].run("ip", "addr", "add", f"{address}/24", "dev", "man0")
        self._attach("internet", "wan0", "wan", VPC_MTU_BYTES)
        self.spaces["internet"].run("ip", "addr", "add", f"{ROUTER}/{WAN.prefixlen}", "dev", "wan0")
        self.spaces["internet"].run("ip", "addr", "add", f"{SERVER}/32", "dev", "lo")
        for host in HOSTS:
            self._make_host(host, vteps_of[host])

    def _assign_address(self, gateway: str, cable: str) -> None:
        self.spaces[gateway].run("ip", "addr", "replace", f"{cable_address(gateway, cable)}/30", "dev", cable)

    def _attach(self, node: str, port: str, bridge: str, mtu_bytes: int, mac: str = "") -> None:
        """Connect a node's port to a bridge."""
        outer = f"{bridge[0]}{node}"
        join(self.spaces[node], port, self.spaces["switches"], outer, mtu_bytes)
        if mac:
            self.spaces[node].run("ip", "link", "set", port, "address", mac)
        self.spaces["switches"].run("ip", "link", "set", outer, "master", bridge)

    def _make_host(self, host: str, gateways: Sequence[str]) -> None:
        self._attach(host, "under0", "under", UNDERLAY_MTU_BYTES)
        self.spaces[host].run("ip", "addr", "add", f"{HOSTS[host]}/{UNDERLAY.prefixlen}", "dev", "under0")
        ports = {}
        for machine in MACHINES:
            if machine.host == host:
                join(self.spaces[machine.name], "eth0", self.spaces[host], machine.name, VPC_MTU_BYTES)
                self.spaces[machine.name].run("ip", "link", "set", "eth0", "address", mac_text(machine.mac))
                self.spaces[machine.name].run("ip", "addr", "add", f"{machine.address}/24", "dev", "eth0")
                gateway = ip_network(SUBNETS[machine.vpc])[-2]
                self.spaces[machine.name].run("ip", "route", "add", "default", "via", str(gateway))
                ports[VNIS[machine.vpc], machine.mac] = machine.name
        first = GATEWAYS[gateways[0]]
        driver = LinuxVtep(HOSTS[host], UNDERLAY_MTU_BYTES, self.entrance(host))
        driver.apply(wanted(network(), HOSTS[host], dict.fromkeys(VNIS.values(), first)), ports)
        for vni in {vni for vni, _ in ports}:
            self.spaces[host].run("ip", "link", "set", bridge_of(vni), "type", "bridge", "mcast_snooping", "0")


def cable_address(gateway: str, cable: str) -> str:
    """Return a gateway's address on a link to its partner."""
    return f"10.77.{CABLES.index(cable)}.{1 + (gateway == 'gw2')}"


def gateway_config(gateway: str, folder: Path, **partner: Any) -> dict[str, Any]:
    """Return the content of a gateway's config file; `partner` adds keys to its section `partner`."""
    other = "gw2" if gateway == "gw1" else "gw1"
    paths = [
        {"listen": f"{cable_address(gateway, cable)}:4790", "partner": f"{cable_address(other, cable)}:4790"}
        for cable in CABLES
    ]
    taken = (("under0", GATEWAYS[other]), ("wan0", WAN_ADDRESS[other]))
    return {
        "gateway_id": gateway,
        "runtime_dir": str(folder),
        "limits": {"connections": 1 << 16, "mappings": 1 << 16},
        "nat_ports": NAT_PORTS[gateway],
        "interfaces": [
            {"name": "under0", "side": "underlay", "address": str(GATEWAYS[gateway]), "network": str(UNDERLAY),
             "mtu_bytes": UNDERLAY_MTU_BYTES},
            {"name": "wan0", "side": "external", "address": str(WAN_ADDRESS[gateway]), "network": str(WAN),
             "router": str(ROUTER)},
        ],
        "partner": {
            "partner_id": other, "paths": paths,
            "takes_over": [{"interface": port, "address": str(address)} for port, address in taken], **partner,
        },
    }  # fmt: skip
