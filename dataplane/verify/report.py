"""The verdict about one gateway: paths that differ, and how the four networks stand to each other."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

from dataplane.config.local import LocalConfig
from dataplane.config.network import NetworkConfig
from dataplane.gateway.tables.schema import Tables
from dataplane.verify.compare import MAX_FINDINGS, Comparison, Finding, Names
from dataplane.verify.installed import installed
from dataplane.verify.intended import REALMS, intended


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found. `networks` tells by pair of the four networks how many classes of pairs may talk, 0 for none."""

    findings: tuple[Finding, ...]
    left_out: int
    """Findings beyond the first MAX_FINDINGS."""
    vpcs: int
    endpoints: int
    pairs: int
    networks: dict[str, dict[str, int]]

    @property
    def is_sound(self) -> bool:
        """Say whether exactly the intended paths are there."""
        return not self.findings


def verify(tables: Tables, local: LocalConfig, network: NetworkConfig, partners: Sequence[IPv4Address] = ()) -> Report:
    """Hold a gateway's tables against what was wanted of it.

    Raises:
        ValueError: the tables are such as nothing could look up.
    """
    have = installed(tables)
    realms = tuple(realm.value for realm in REALMS)
    names = Names({vpc.vni: vpc.id for vpc in network.vpcs}, realms)
    comparison = Comparison(have, intended(local, network, partners), names)
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
