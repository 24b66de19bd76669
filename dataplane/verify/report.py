"""Verify one gateway and report: paths that differ from the intent, and reachability between the four networks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, ip_network

from heddle.dataplane.config.balancers import VirtualIp
from heddle.dataplane.config.local import Interface, LocalConfig, ProviderNetwork, Side
from heddle.dataplane.config.network import NetworkConfig
from heddle.dataplane.tables.schema import PORT_ADDRESS, PORT_MAC, PORT_MTU, PORT_SIDE, SIDES, Tables
from heddle.dataplane.verify.compare import MAX_FINDINGS, Comparison, Finding, Names
from heddle.dataplane.verify.installed import installed
from heddle.dataplane.verify.intended import NETWORKS, intended
from heddle.foundation.network import Network


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Result of a verification; `networks[source][target]` is the number of open pairs of address groups."""

    findings: tuple[Finding, ...]
    left_out: int
    """Number of findings beyond the first MAX_FINDINGS."""
    vpcs: int
    endpoints: int
    pairs: int
    networks: dict[str, dict[str, int]]

    @property
    def is_sound(self) -> bool:
        """Whether exactly the intended paths are open."""
        return not self.findings


def local_of(gateway_id: str, networks: Iterable[tuple[str, Iterable[str]]], tables: Tables) -> LocalConfig:
    """Return a remote gateway's configuration: ports from its tables, `networks` (realm, prefixes) from its hello.

    Raises ValueError for a realm or prefix that is none.
    """
    interfaces = tuple(
        Interface(
            name=f"port {port}",
            side=Side(SIDES[int(row[PORT_SIDE])]),
            mac=int(row[PORT_MAC]),
            address=IPv4Address(int(row[PORT_ADDRESS])),
            mtu_bytes=int(row[PORT_MTU]),
        )
        for port, row in enumerate(tables.ports)
    )
    provider = tuple(
        ProviderNetwork(realm=Network(realm), prefixes=tuple(map(ip_network, prefixes))) for realm, prefixes in networks
    )
    return LocalConfig(gateway_id=gateway_id, interfaces=interfaces, provider_networks=provider)


def verify(
    tables: Tables,
    local: LocalConfig,
    network: NetworkConfig,
    partners: Sequence[IPv4Address] = (),
    virtual_ips: Sequence[VirtualIp] = (),
) -> Report:
    """Compare a gateway's tables with the intended network; raises ValueError if the tables are inconsistent."""
    have = installed(tables)
    realms = tuple(realm.value for realm in NETWORKS)
    names = Names({vpc.vni: vpc.id for vpc in network.vpcs}, realms)
    comparison = Comparison(have, intended(local, network, partners, virtual_ips), names)
    found: list[Finding] = []
    left_out = 0
    for finding in comparison.findings():
        if len(found) < MAX_FINDINGS:
            found.append(finding)
        else:
            left_out += 1
    return Report(
        findings=tuple(found),
        left_out=left_out,
        vpcs=len(have.vpcs),
        endpoints=sum(len(vpc.deliveries) for vpc in have.vpcs.values()),
        pairs=comparison.pairs,
        networks={a: {b: comparison.open.get((a, b), 0) for b in realms} for a in realms},
    )
