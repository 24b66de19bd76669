"""Accept a desired state VPC by VPC: what is wrong in one harms that one alone. Pure.

A VPC with a public address that something else on the gateway's networks has stays in the state that is in force,
without what others have claimed meanwhile. Where none is in force, as after a restart of the gateway, it is served
without those addresses. Accepting is a function of the wanted state and of what is served; VPCs that are right are
served as wanted whatever was served before, so a good state repairs a wrong one in any order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from heddle.dataplane.config.acceptance.fitting import claims_by, fitted, fitting_peerings
from heddle.dataplane.config.balancers import VirtualIp
from heddle.dataplane.config.check_served import Reserved, reserved_problems, without_reserved
from heddle.dataplane.config.desired import Desired
from heddle.dataplane.config.network import NetworkConfig, Vpc

KEPT = "its state of before stays in force"
REDUCED = "it is served without the public addresses that are wrong"
ABSENT = "it is not served: its VNI is another VPC's"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What is put into force."""

    network: NetworkConfig
    virtual_ips: tuple[VirtualIp, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)
    """By VPC that is not served as wanted: what is served instead, and why."""


def accepted(wanted: Desired, served: NetworkConfig, virtual_ips: Sequence[VirtualIp], reserved: Reserved) -> Accepted:
    """Return what of a desired state is put into force.

    Args:
        wanted: the desired state.
        served: the network in force, empty for none.
        virtual_ips: those in force.
        reserved: addresses in use on the gateway's networks.
    """
    wrong = _wrong(wanted.network, reserved)
    if not wrong:
        return Accepted(network=wanted.network, virtual_ips=wanted.virtual_ips, kept=wanted.refused)
    places, stale = _places(wanted.network, {vpc.id: vpc for vpc in served.vpcs}, reserved, wrong)
    doubtful = {each for each in wanted.network.peerings if each.a in wrong or each.b in wrong}
    network = replace(
        wanted.network,
        vpcs=tuple(places[vpc.id] for vpc in wanted.network.vpcs if vpc.id in places),
        peerings=fitting_peerings(places, wanted.network.peerings - doubtful, doubtful),
    )
    replying = tuple(each for each in wanted.virtual_ips if each.vpc in places and each.vpc not in stale)
    replying += tuple(each for each in virtual_ips if each.vpc in stale)
    reasons = {
        vpc.id: f"{_instead(places.get(vpc.id), without_reserved(vpc, reserved))}: {wrong[vpc.id]}"
        for vpc in wanted.network.vpcs
        if vpc.id in wrong
    }
    return Accepted(network=network, virtual_ips=replying, kept={**wanted.refused, **reasons})


def _wrong(network: NetworkConfig, reserved: Reserved) -> dict[str, str]:
    """Return the first problem of each VPC that has any, with the number of others."""
    found = {}
    for vpc in network.vpcs:
        if lines := list(reserved_problems(vpc, reserved)):
            found[vpc.id] = lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else "")
    return found


def _places(
    network: NetworkConfig, former: Mapping[str, Vpc], reserved: Reserved, wrong: Mapping[str, str]
) -> tuple[dict[str, Vpc], set[str]]:
    """Return what is served of each VPC, and the ids of those that stay as they are."""
    places = {vpc.id: vpc for vpc in network.vpcs if vpc.id not in wrong}
    claims = claims_by(places.values())
    stale = set[str]()
    for vpc in (vpc for vpc in network.vpcs if vpc.id in wrong and vpc.id in former):
        if (one := fitted(former[vpc.id], claims)) is not None:
            places[vpc.id] = one
            stale.add(vpc.id)
    claims |= claims_by(places[name] for name in stale)
    for vpc in (vpc for vpc in network.vpcs if vpc.id in wrong and vpc.id not in places):
        if (one := fitted(without_reserved(vpc, reserved), claims)) is not None:
            places[vpc.id] = one
    return places, stale


def _instead(served: Vpc | None, reduced: Vpc) -> str:
    """Return what is served of a VPC; the same for as long as it is served."""
    return ABSENT if served is None else REDUCED if served == reduced else KEPT
