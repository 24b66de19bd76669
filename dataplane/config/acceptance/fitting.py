"""Fit an earlier state of a VPC beside newer ones of others: what these have by now is theirs. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from heddle.dataplane.config import limit
from heddle.dataplane.config.check import Claims, claims_of, neighbours_of, ring_problems
from heddle.dataplane.config.network import Peering, Vpc


def claims_by(vpcs: Iterable[Vpc]) -> dict[tuple[str, int], str]:
    """Return the claims of these VPCs."""
    return {claim: vpc.id for vpc in vpcs for claim, _ in claims_of(vpc)}


def fitted(vpc: Vpc, claims: Claims) -> Vpc | None:
    """Return a VPC without the public addresses and VLANs that others have claimed; None where its VNI is another's."""

    def is_taken(number: int, *kinds: str) -> bool:
        return any(claims.get((kind, number), vpc.id) != vpc.id for kind in kinds)

    if is_taken(vpc.vni, "vni"):
        return None
    return replace(
        vpc,
        nat=None if vpc.nat is not None and is_taken(int(vpc.nat), "floating") else vpc.nat,
        floating_ips=tuple(each for each in vpc.floating_ips if not is_taken(int(each.public), "floating", "nat")),
        direct_connects=tuple(each for each in vpc.direct_connects if not is_taken(each.vlan, "vlan")),
    )


def fitting_peerings(
    vpcs: Mapping[str, Vpc], sure: frozenset[Peering], doubtful: Iterable[Peering]
) -> frozenset[Peering]:
    """Return the peerings in `sure`, and those of `doubtful` by which every address still means one thing."""
    found, peers = set(sure), {vpc: set(others) for vpc, others in neighbours_of(sure).items()}
    for peering in sorted(set(doubtful) - sure):
        if not {peering.a, peering.b} <= vpcs.keys():
            continue
        pair = ((peering.a, peering.b), (peering.b, peering.a))
        for one, other in pair:
            peers.setdefault(one, set()).add(other)
        if peering.a != peering.b and all(_fits(one, vpcs, peers) for one, _ in pair):
            found.add(peering)
        else:
            for one, other in pair:
                peers[one].discard(other)
    return frozenset(found)


def _fits(vpc: str, vpcs: Mapping[str, Vpc], peers: Mapping[str, set[str]]) -> bool:
    """Return whether a VPC may have these peers."""
    return len(peers[vpc]) <= limit.MAX_PEERINGS_OF_A_VPC and not any(ring_problems(vpc, vpcs, peers))
