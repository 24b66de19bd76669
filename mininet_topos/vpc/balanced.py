"""Load balancers of the VPC lab: nginx on real back ends, the balancer's file, and requests of real clients by curl.

Red and blue have the same virtual IP. Red's back ends reply directly, to clients of the peer VPC and of the internet as
well; blue's know nothing of the virtual IP.
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, ip_network
from pathlib import Path
from typing import Any

from heddle.controller.config.network_file import Network
from heddle.controller.model.error import PrerequisiteError
from heddle.dataplane.config.balancers import (
    BackEnd,
    HealthCheck,
    LoadBalancer,
    Mode,
    Probe,
    VirtualIp,
    balancer_mac,
    pool_mac,
)
from heddle.dataplane.config.network import (
    Address,
    Direction,
    Endpoint,
    FloatingIp,
    NetworkConfig,
    Protocol,
    SecurityRule,
)
from heddle.dataplane.tables.schema import Tables
from heddle.dataplane.verify.installed import installed
from heddle.dataplane.verify.reach import Judge
from heddle.mininet_topos.vpc import probes
from heddle.mininet_topos.vpc.description import (
    BALANCER,
    BALANCER_VTEP,
    MACHINES,
    UNDERLAY,
    UNDERLAY_MTU_BYTES,
    network,
)
from heddle.mininet_topos.vpc.lab import VpcLab
from heddle.mininet_topos.vpc.processes import NodeProcess
from heddle.mininet_topos.vpc.reach import source_of

VIP, PORT = IPv4Address("10.0.0.100"), 80
FLOATING_VIP = IPv4Address("203.0.113.21")
BACK_ENDS = {"red": ("red1", "red2"), "blue": ("blue1", "blue2")}
POOLS: Mapping[str, tuple[Address, ...]] = {"blue": (IPv4Address("10.0.0.201"),)}
CLIENTS = (
    ("red", "red3", VIP), ("red", "green1", VIP), ("red", "internet", FLOATING_VIP),
    ("blue", "blue1", VIP), ("blue", "blue3", VIP), ("blue", "site", VIP),
)  # fmt: skip
"""VPC of the virtual IP, node of the client, address: another subnet, a peer, the internet; a neighbour, a customer."""
REQUESTS, TIMEOUT_S = 12, 5
SAFE_KERNEL = 6, 17
"""Before it, the kernel's VXLAN may crash the machine where virtual IPs are spread (docs/balancer.md)."""
_CHECK = HealthCheck(kind=Probe.HTTP, interval_ms=500, timeout_ms=400, rise=1, fall=2)


def balanced() -> Network:
    """Return the lab's network with a load balancer of red and one of blue, and a floating IP to red's virtual IP."""
    web = SecurityRule(
        allow=True, direction=Direction.IN, remote=ip_network("0.0.0.0/0"), protocol=Protocol.TCP, port_min=PORT,
        port_max=PORT,
    )  # fmt: skip
    floating = FloatingIp(public=FLOATING_VIP, endpoint=VIP)
    config = network()
    vpcs = tuple(
        replace(vpc, rules=(*vpc.rules, web), floating_ips=(*vpc.floating_ips, floating)) if vpc.id == "red" else vpc
        for vpc in config.vpcs
    )
    modes = {"red": Mode.DIRECT_RETURN, "blue": Mode.FULL_NAT}
    services = tuple(
        LoadBalancer(
            id=f"{vpc}-web", tenant=f"tenant-{vpc}", vpc=vpc, vip=VIP, port=PORT, mode=modes[vpc], health=_CHECK,
            back_ends=tuple(BackEnd(ip=_address_of(name), port=PORT) for name in names),
        )
        for vpc, names in BACK_ENDS.items()
    )  # fmt: skip
    return Network(replace(config, vpcs=vpcs), services)


def _address_of(machine: str) -> IPv4Address:
    return next(IPv4Address(each.addresses[0].split("/")[0]) for each in MACHINES if each.name == machine)


def as_a_gateway_sees(
    network: NetworkConfig, services: Sequence[LoadBalancer]
) -> tuple[NetworkConfig, tuple[VirtualIp, ...]]:
    """Return a network with virtual IPs and pool addresses as endpoints behind the balancer, and their repliers."""
    vpcs, replying = [], []
    for vpc in network.vpcs:
        mine = [each for each in services if each.vpc == vpc.id]
        owned = [(each.vip, balancer_mac(vpc.vni)) for each in mine]
        owned += [(ip, pool_mac(BALANCER_VTEP)) for ip in POOLS.get(vpc.id, ()) if mine]
        more = tuple(Endpoint(ip=ip, mac=mac, vtep=BALANCER_VTEP) for ip, mac in owned)
        vpcs.append(replace(vpc, endpoints=(*vpc.endpoints, *more)))
        replying += [
            VirtualIp(vpc=vpc.id, ip=each.vip, vteps=(BALANCER_VTEP,), back_ends=tuple(e.ip for e in each.back_ends))
            for each in mine
            if each.mode is Mode.DIRECT_RETURN
        ]
    return replace(network, vpcs=tuple(vpcs)), tuple(replying)


def may_spread(vteps: Mapping[str, str]) -> bool:
    """Return whether hosts with these kinds of VTEPs may have load balancers on this machine's kernel."""
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    is_safe = found is not None and (int(found[1]), int(found[2])) >= SAFE_KERNEL
    return is_safe or "kernel" not in vteps.values()


def balancer_config(server: str, directory: Path) -> dict[str, Any]:
    """Return the balancer's configuration file as a mapping."""
    return {
        "balancer_id": BALANCER, "controller": server, "runtime_dir": str(directory), "connections": 1 << 14,
        "interfaces": [{"name": "underlay", "address": str(BALANCER_VTEP), "network": str(UNDERLAY),
                        "mtu_bytes": UNDERLAY_MTU_BYTES}],
        "sites": [
            {"vpc": vpc, "source_pool": [str(ip) for ip in POOLS.get(vpc, ())], "probe_device": vpc}
            for vpc in BACK_ENDS
        ],
    }  # fmt: skip


def web_servers(lab: VpcLab) -> dict[str, NodeProcess]:
    """Start nginx on all back ends, each of which replies with its name; raises PrerequisiteError without nginx."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None or shutil.which("curl") is None:
        raise PrerequisiteError("the load balancers of the lab need nginx and curl: apt-get install nginx curl")
    for device in ("all", *BACK_ENDS):  # equal addresses on two interfaces: replies come by the one of their VPC
        lab.net.run(BALANCER, "sysctl", "-qw", f"net.ipv4.conf.{device}.rp_filter=0")
    for name in BACK_ENDS["red"]:  # with direct return a back end has the virtual IP, without a word of it in ARP
        lab.net.run(name, "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1", "net.ipv4.conf.all.arp_announce=2")
        lab.net.run(name, "ip", "addr", "add", f"{VIP}/32", "dev", "lo")
    return {f"nginx {name}": _server(lab, program, name) for names in BACK_ENDS.values() for name in names}


def _server(lab: VpcLab, program: str, name: str) -> NodeProcess:
    directory = lab.entry.directory / f"nginx-{name}"
    directory.mkdir()
    kept = "".join(f"{kind}_temp_path {directory}/{kind}; " for kind in ("proxy", "fastcgi", "uwsgi", "scgi"))
    config = directory / "nginx.conf"
    config.write_text(
        f"daemon off; master_process off; user root; pid {directory}/pid; error_log stderr;\n"
        f"events {{ }}\nhttp {{ access_log off; client_body_temp_path {directory}/body; {kept}\n"
        f'server {{ listen {PORT}; location / {{ return 200 "{name}\\n"; }} }} }}\n'
    )
    words, log = ["-p", str(directory), "-c", str(config)], directory / "log"
    entrance = tuple(lab.net.host(name).entrance)
    return NodeProcess(f"nginx {name}", entrance, words, lab.entry.environment, log, (program,))


@dataclass(frozen=True, slots=True)
class Requested:
    """Replies to the requests of one client to a virtual IP, each by a connection of its own."""

    vpc: str
    client: str
    address: IPv4Address
    replies: Counter[str]
    """Number of replies by back end."""
    is_open: bool
    """Whether the gateway's tables let the client's packets pass."""

    @property
    def agrees(self) -> bool:
        """Whether back ends of this VPC replied to all requests, or none may."""
        strangers = self.replies.keys() - set(BACK_ENDS[self.vpc])
        return not strangers and self.replies.total() == (REQUESTS if self.is_open else 0)


def request_all(lab: VpcLab, tables: Tables, services: Sequence[LoadBalancer]) -> list[Requested]:
    """Let all clients send requests to the lab's virtual IPs, as far as a load balancer serves them."""
    served = {(each.vpc, each.vip, each.port) for each in services}
    judge = Judge(installed(tables))
    http = probes.Service("http", probes.TCP, PORT)
    found = []
    for vpc, client, address in CLIENTS:
        if (vpc, VIP, PORT) in served:
            verdict = judge.verdict(source_of(probes.Probe(client, address, http)), address, probes.TCP, PORT)
            found.append(Requested(vpc, client, address, _replies(lab, client, address), verdict.passes))
    return found


def _replies(lab: VpcLab, client: str, address: IPv4Address) -> Counter[str]:
    command = (
        f"curl -s --no-progress-meter --max-time {TIMEOUT_S} -H 'Connection: close' 'http://{address}/[1-{REQUESTS}]'"
    )
    return Counter(lab.net.run(client, "sh", "-c", f"{command} || true").split())
