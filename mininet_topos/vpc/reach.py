"""The question who reaches whom in the lab, asked of its packets and of a gateway's tables alike.

The tables are judged by `dataplane.verify`, which shares no code with what treats packets. Either side says which node
answers, "" for nobody.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address, ip_interface

from dataplane.config.network import Address
from dataplane.gateway.tables.schema import Tables
from dataplane.verify.installed import installed
from dataplane.verify.reach import FromCustomer, FromEndpoint, FromInternet, FromProvider, Judge, Source, Verdict
from mininet_topos.vpc.description import (
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
from mininet_topos.vpc.net import VpcNet
from mininet_topos.vpc.probes import GATEWAY, PING, SERVICES, Answer, Node, Question, Service

OUTSIDE: Mapping[str, Address] = {
    "internet": INTERNET_SERVER, "site": SITE_SERVER, "storage": STORAGE_SERVER, "management": MANAGEMENT_SERVER,
}  # fmt: skip
_BEHIND = {"internet": "internet", "site": "customer", "storage": "network", "management": "network"}
"""Which way of a gateway's leads to each of them."""
FLOATING_OWNER = "red2"
_MACHINES = {machine.name: machine for machine in MACHINES}
_OWN = {
    **{name: tuple(ip_interface(text).ip for text in machine.addresses) for name, machine in _MACHINES.items()},
    **{name: (address,) for name, address in OUTSIDE.items()},
}


@dataclass(frozen=True, slots=True)
class Row:
    """A question, and who answers it: by packets, and by the gateway's tables."""

    question: Question
    packets: str
    tables: str
    stray: frozenset[str] = frozenset()
    """Nodes that the question arrived at beside the one that should answer."""

    @property
    def agrees(self) -> bool:
        """Say whether packets and tables say the same, and nobody else saw the packets."""
        return self.packets == self.tables and not self.stray

    def __str__(self) -> str:
        asked = f"{self.question.source} to {self.question.target}, {self.question.service.name}"
        seen = f", seen by {', '.join(sorted(self.stray))}" if self.stray else ""
        return f"{asked}: packets say {self.packets or 'nobody'}, tables say {self.tables or 'nobody'}{seen}"


def nodes(net: VpcNet) -> dict[str, Node]:
    """Return all who ask and answer."""
    return {
        name: Node(net.host(name).pid, {address.version: address for address in addresses})
        for name, addresses in _OWN.items()
    }


def questions(sources: Iterable[str] = tuple(_OWN)) -> list[Question]:
    """Return what is asked: every node, every address of a VPC and of the outside, every service."""
    addresses = dict.fromkeys(address for name in _MACHINES for address in _OWN[name])
    targets: list[Address] = [*addresses, *OUTSIDE.values(), FLOATING]
    found = []
    for source in sources:
        families = {address.version for address in _OWN[source]}
        found += [
            Question(source, target, service)
            for target in targets
            if target.version in families and target not in _OWN[source] and not _are_neighbours(source, target)
            for service in SERVICES
        ]
        if source in _MACHINES:
            gates = [ip_address(gate) for _, gate in SUBNETS[_MACHINES[source].vpc]]
            found += [Question(source, gate, SERVICES[0]) for gate in gates if gate.version in families]
    return found


def own_addresses(node: str) -> frozenset[str]:
    """Return a node's addresses as texts."""
    return frozenset(str(address) for address in _OWN[node])


def compared(answers: Mapping[Question, Answer], tables: Tables) -> list[Row]:
    """Hold what packets said against what tables say."""
    judge = Judge(installed(tables))
    rows = []
    for question, answer in answers.items():
        expected = expected_by(judge, question)
        rows.append(Row(question, answer.by, expected, frozenset(answer.seen - {expected})))
    return rows


def expected_by(judge: Judge, question: Question) -> str:
    """Return the node that answers a question by a gateway's tables, "" for nobody."""
    service = question.service
    verdict = judge.verdict(source_of(question), question.target, service.protocol, service.port)
    return _who(verdict, question.target, service) if verdict.passes else ""


def source_of(question: Question) -> Source:
    """Return a question's sender as a gateway sees it."""
    (own,) = [address for address in _OWN[question.source] if address.version == question.target.version]
    if question.source in _MACHINES:
        machine = _MACHINES[question.source]
        return FromEndpoint(vni=VNIS[machine.vpc], vtep=HOSTS[machine.host], address=own)
    if question.source == "site":
        return FromCustomer(vlan=SITE_VLAN, address=own)
    return FromInternet(address=own) if question.source == "internet" else FromProvider(address=own)


def _who(verdict: Verdict, target: Address, service: Service) -> str:
    if verdict.where == "gateway":
        return GATEWAY if service.protocol == PING else ""
    if verdict.where == "vpc":
        if target == FLOATING:
            return FLOATING_OWNER
        return next((m.name for m in MACHINES if VNIS[m.vpc] == verdict.vni and _has(m, target)), "")
    return next((name for name, address in OUTSIDE.items() if address == target and _BEHIND[name] == verdict.where), "")


def _are_neighbours(source: str, target: Address) -> bool:
    """Say whether no gateway is between them: the provider's servers share a segment."""
    return source in OUTSIDE and OUTSIDE[source] in PROVIDER and target in PROVIDER


def _has(machine: Machine, address: Address) -> bool:
    return address in _OWN[machine.name]
