"""Which virtual networks may exist together, by comparing every pair: shares no code with `dataplane/config`."""

from itertools import combinations

ANY = "*"


def is_sound(vpcs, peerings, balancers, border):
    """Return whether these objects may exist together; each VPC is valid by itself.

    Args:
        vpcs: by id.
        peerings: pairs of ids.
        balancers: by id.
        border: rules.
    """
    return (
        all(_share_nothing(one, other) for one, other in combinations(vpcs.values(), 2))
        and all(a != b and a in vpcs and b in vpcs for a, b in peerings)
        and all(_is_clear(centre, vpcs, peerings) for centre in vpcs.values())
        and all(_fits(each, vpcs) for each in balancers.values())
        and all(_serves(one) != _serves(other) for one, other in combinations(balancers.values(), 2))
        and all(_leads(vpc, balancers) for vpc in vpcs.values())
        and all(rule.vpc == ANY or rule.vpc in vpcs for rule in border)
    )


def _share_nothing(one, other):
    public, theirs = ({each.public for each in vpc.floating_ips} for vpc in (one, other))
    vlans = [{each.vlan for each in vpc.direct_connects} for vpc in (one, other)]
    return (
        one.vni != other.vni
        and not vlans[0] & vlans[1]
        and not public & theirs
        and one.nat not in theirs
        and other.nat not in public
    )


def _is_clear(centre, vpcs, peerings):
    near = {a if b == centre.id else b for a, b in peerings if centre.id in (a, b)}
    ring = [centre, *(vpcs[name] for name in near if name in vpcs and name != centre.id)]
    if any(each.realm != centre.realm for each in ring):
        return False
    return not any(
        mine.overlaps(theirs)
        for one, other in combinations(ring, 2)
        for mine in _reach(one)
        for theirs in _reach(other)
    )


def _reach(vpc):
    return [each.prefix for each in vpc.subnets] + [each.customer for each in vpc.direct_connects]


def _fits(each, vpcs):
    vpc = vpcs.get(each.vpc)
    if vpc is None:
        return False
    taken = {end.ip for end in vpc.endpoints} | {subnet.gateway for subnet in vpc.subnets}
    return (
        each.vip not in taken
        and any(each.vip in subnet.prefix for subnet in vpc.subnets)
        and all(end.ip in {one.ip for one in vpc.endpoints} for end in each.back_ends)
    )


def _serves(each):
    return each.vpc, each.vip, each.port


def _leads(vpc, balancers):
    there = {end.ip for end in vpc.endpoints} | {each.vip for each in balancers.values() if each.vpc == vpc.id}
    return all(each.endpoint in there for each in vpc.floating_ips)
