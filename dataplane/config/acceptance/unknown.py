"""Keep in force what a controller does not know: VPCs of generations before its state began, with what is theirs. Pure.

A controller that has lost its state learns of VPCs one file after the other. What its generations do not name is not
deleted thereby: it stays as it was, beside what they name, until a generation names or deletes it, or the controller
declares that it knows all.
"""

from dataclasses import replace

from heddle.dataplane.config.acceptance.fitting import claims_by, fitted, fitting_peerings
from heddle.dataplane.config.desired import Desired


def with_unknown(named: Desired, former: Desired, unknown: frozenset[str], *, keeps_border: bool) -> Desired:
    """Return a desired state with VPCs that it does not name, as they were in `former`.

    Args:
        named: what the controller has sent.
        former: the state in force before.
        unknown: ids of VPCs that stay in force, where no VPC that is named has their VNI.
        keeps_border: whether the controller has sent no border rules, so that those before stay in force.
    """
    own = {vpc.id: vpc for vpc in named.network.vpcs}
    claims = claims_by(own.values())
    fits = [fitted(vpc, claims) for vpc in former.network.vpcs if vpc.id in unknown - own.keys()]
    kept = {vpc.id: vpc for vpc in fits if vpc is not None}
    doubtful = (each for each in former.network.peerings if not kept.keys().isdisjoint((each.a, each.b)))
    rules = tuple(rule for rule in former.network.border if rule.vpc in kept)
    ids = {each.id for each in named.load_balancers}
    return replace(
        named,
        network=replace(
            named.network,
            vpcs=(*named.network.vpcs, *kept.values()),
            peerings=fitting_peerings(own | kept, named.network.peerings, doubtful),
            border=former.network.border if keeps_border else (*named.network.border, *rules),
        ),
        gateways=named.gateways or former.gateways,
        load_balancers=(
            *named.load_balancers,
            *(each for each in former.load_balancers if each.vpc in kept and each.id not in ids),
        ),
        virtual_ips=(*named.virtual_ips, *(each for each in former.virtual_ips if each.vpc in kept)),
        unknown=frozenset(kept),
    )
