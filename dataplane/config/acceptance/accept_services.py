"""Accept what a balancer serves VPC by VPC: a load balancer that is wrong harms its own VPC alone. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from heddle.dataplane.config.acceptance.accept import KEPT
from heddle.dataplane.config.acceptance.fitting import claims_by, fitted
from heddle.dataplane.config.balancers import BalancerConfig
from heddle.dataplane.config.check_balancers import load_balancer_problems

REDUCED = "it is served without the load balancers that are wrong"


class AcceptedServices(NamedTuple):
    """What is put into force; `kept` as in `accept.Accepted`."""

    services: BalancerConfig
    kept: Mapping[str, str]


def accepted_services(wanted: BalancerConfig, served: BalancerConfig) -> AcceptedServices:
    """Return what of a wanted configuration is put into force beside the one that is served."""
    vpcs, wrong, bad = {vpc.id: vpc for vpc in wanted.network.vpcs}, dict[str, str](), set[str]()
    pools = {site.vpc: site.pool for site in wanted.sites}
    for each in wanted.balancers:
        line = next(load_balancer_problems(each, vpcs.get(each.vpc), [pools.get(each.vpc, ())]), None)
        if line is not None:
            wrong.setdefault(each.vpc, line)
            bad.add(each.id)
    if not wrong:
        return AcceptedServices(wanted, {})
    claims = claims_by(vpc for vpc in vpcs.values() if vpc.id not in wrong)
    fits = [fitted(vpc, claims) for vpc in served.network.vpcs if vpc.id in wrong]
    stale = {vpc.id: vpc for vpc in fits if vpc is not None}
    ids = {each.id for each in wanted.balancers if each.vpc not in stale}
    balancers = (
        *(each for each in wanted.balancers if each.vpc not in stale and each.id not in bad),
        *(each for each in served.balancers if each.vpc in stale and each.id not in ids),
    )
    network = replace(wanted.network, vpcs=tuple(stale.get(vpc.id, vpc) for vpc in wanted.network.vpcs))
    kept = {vpc: f"{KEPT if vpc in stale else REDUCED}: {line}" for vpc, line in wrong.items()}
    return AcceptedServices(replace(wanted, network=network, balancers=balancers), kept)
