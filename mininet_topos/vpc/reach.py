"""Compare reachability in the lab by real packets with that computed from a gateway's tables.

`dataplane.verify` evaluates the tables without the packet kernels' code. Both sides name the node that replies, "" for
none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface

from heddle.dataplane.config.network import Address
from heddle.dataplane.tables.schema import Tables
from heddle.dataplane.verify.installed import installed
from heddle.dataplane.verify.reach import FromCustomer, FromEndpoint, FromInternet, FromProvider, Judge, Source, Verdict
from heddle.mininet_topos.vpc.description import (
    FLOATING,
    HOSTS,
    INTERNET_SERVER,
    MACHINES,
    MANAGEMENT_SERVER,
    PROVIDER,
    SITE_SERVER,
    SITE_VLAN,
    STORAGE_SERVER,
    SUBNETS,
    VNIS,
    Machine,
)
from heddle.mininet_topos.vpc.net import VpcNet
from heddle.mininet_topos.vpc.probes import GATEWAY, PING, SERVICES, Node, Probe, ProbeResult, Service

OUTSIDE: Mapping[str, Address] = {
    "internet": INTERNET_SERVER, "site": SITE_SERVER, "storage": STORAGE_SERVER, "management": MANAGEMENT_SERVER,
}  # fmt: skip
_BEHIND = {"internet": "internet", "site": "customer", "storage": "network", "management": "network"}
"""Kind of route (`Verdict.where`) that leads to each of them."""
FLOATING_OWNER = "red2"
_MACHINES = {machine.name: machine for machine in MACHINES}
_OWN = {
    **{name: tuple(ip_interface(text).ip for text in machine.addresses) for name, machine in _MACHINES.items()},
    **{name: (address,) for name, address in OUTSIDE.items()},
}


@dataclass(frozen=True, slots=True)
class Row:
    """A probe, with the node that replied and the node that should reply by the gateway's tables."""

    probe: Probe
    packets: str
    tables: str
    stray: frozenset[str] = frozenset()
    """Other nodes at which the probe arrived."""

    @property
    def agrees(self) -> bool:
        """Whether packets and tables agree, and the probe arrived at no other node."""
        return self.packets == self.tables and not self.stray

    def __str__(self) -> str:
        probe = f"{self.probe.source} to {self.probe.target}, {self.probe.service.name}"
        seen = f", seen by {', '.join(sorted(self.stray))}" if self.stray else ""
        return f"{probe}: packets reach {self.packets or 'none'}, tables say {self.tables or 'none'}{seen}"


def nodes(net: VpcNet) -> dict[str, Node]:
    """Return the nodes between which probes are sent."""
    return {
        name: Node(net.host(name).pid, {address.version: address for address in addresses})
        for name, addresses in _OWN.items()
    }


def all_probes(sources: Iterable[str] = tuple(_OWN)) -> list[Probe]:
    """Return the probes from these nodes to every address of a VPC and of the outside, for every service."""
    addresses = dict.fromkeys(address for name in _MACHINES for address in _OWN[name])
    targets: list[Address] = [*addresses, *OUTSIDE.values(), FLOATING]
    found = []
    for source in sources:
        families = {address.version for address in _OWN[source]}
        found += [
            Probe(source, target, service)
            for target in targets
            if target.version in families and target not in _OWN[source] and not _are_neighbours(source, target)
            for service in SERVICES
        ]
        if source in _MACHINES:
            gates = [ip_address(gate) for _, gate in SUBNETS[_MACHINES[source].vpc]]
            found += [Probe(source, gate, SERVICES[0]) for gate in gates if gate.version in families]
    return found


def own_addresses(node: str) -> frozenset[str]:
    """Return a node's addresses as text."""
    return frozenset(str(address) for address in _OWN[node])


def compared(results: Mapping[Probe, ProbeResult], tables: Tables) -> list[Row]:
    """Return a row per probe: its result, and the node that should reply by the tables."""
    judge = Judge(installed(tables))
    rows = []
    for probe, result in results.items():
        expected = expected_by(judge, probe)
        rows.append(Row(probe, result.by, expected, frozenset(result.seen - {expected})))
    return rows


def expected_by(judge: Judge, probe: Probe) -> str:
    """Return the node that should reply to a probe by a gateway's tables, "" for none."""
    service = probe.service
    verdict = judge.verdict(source_of(probe), probe.target, service.protocol, service.port)
    return _who(verdict, probe.target, service) if verdict.passes else ""


def source_of(probe: Probe) -> Source:
    """Return a probe's sender as the gateway receives it."""
    (own,) = [address for address in _OWN[probe.source] if address.version == probe.target.version]
    if probe.source in _MACHINES:
        machine = _MACHINES[probe.source]
        return FromEndpoint(vni=VNIS[machine.vpc], vtep=HOSTS[machine.host], address=own)
    if probe.source == "site":
        return FromCustomer(vlan=SITE_VLAN, address=own)
    return FromInternet(address=own) if probe.source == "internet" else FromProvider(address=own)


def _who(verdict: Verdict, target: Address, service: Service) -> str:
    if verdict.where == "gateway":
        return GATEWAY if service.protocol == PING else ""
    if verdict.where == "vpc":
        if target == FLOATING:
            return FLOATING_OWNER
        return next((m.name for m in MACHINES if VNIS[m.vpc] == verdict.vni and _has(m, target)), "")
    return next((name for name, address in OUTSIDE.items() if address == target and _BEHIND[name] == verdict.where), "")


def _are_neighbours(source: str, target: Address) -> bool:
    """Return whether two nodes share a segment without a gateway: the provider's servers do."""
    return source in OUTSIDE and OUTSIDE[source] in PROVIDER and target in PROVIDER


def _has(machine: Machine, address: Address) -> bool:
    return address in _OWN[machine.name]
