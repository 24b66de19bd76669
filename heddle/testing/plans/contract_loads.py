"""Loads of links, and lower bounds of the fullest one that hold for any plan, from the contract's sentences."""

from collections import defaultdict
from fractions import Fraction


def crossed(flow):
    """Return the part of a flow that crosses each link: of one that is sprayed over a path set, weight / entries."""
    if "path_set" not in flow:
        return dict.fromkeys(flow["links"], 1)
    parts = defaultdict(Fraction)
    for path in flow["path_set"]["paths"]:
        for link in path["links"]:
            parts[link] += Fraction(path["weight"], flow["path_set"]["entries"])
    return parts


def between_switches(flow):
    """Return the part of a flow that crosses each link between switches."""
    return {link: part for link, part in crossed(flow).items() if link not in (flow["links"][0], flow["links"][-1])}


def heaviest(flows, places_of):
    """Add up, per place, the sum over jobs of the job's heaviest phase there; a mapping of places gives parts."""
    phases = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for flow in flows:
        places = places_of(flow)
        for place in places:
            part = places[place] if isinstance(places, dict) else 1
            phases[place][flow["job"]][flow["phase"]] += flow["demand_bps"] * part
    return {place: sum(max(job.values()) for job in jobs.values()) for place, jobs in phases.items()}


def cuts(network, flows):
    """Yield (links of a cut that are alive, flows that must cross it): every leaf and pod, out and in."""
    pods = network.pods()
    leaves = {name: name for name, role in network.role.items() if role == "leaf"}
    for inside in (leaves, pods):
        for end, other, side in (("src_nic", "dst_nic", 0), ("dst_nic", "src_nic", 1)):
            crossing = defaultdict(list)
            for flow in flows:
                here, there = inside[network.leaf(flow[end])], inside[network.leaf(flow[other])]
                if here != there:
                    crossing[here].append(flow)
            links = defaultdict(list)
            for link in network.alive:
                inner, outer = network.ends[link] if side == 0 else network.ends[link][::-1]
                if inner in inside and inside.get(outer) != inside[inner]:
                    links[inside[inner]].append(link)
            for key, members in crossing.items():
                yield links[key], members


def bounds(network, flows):
    """Return the largest of the leaf cuts, pod cuts, pigeonhole and bin-packing bounds, which hold for any plan."""
    best = Fraction(0)
    for links, members in cuts(network, flows):
        capacities = [network.capacity[link] for link in links]
        if not capacities:
            continue
        widest, total = max(capacities), heaviest(members, lambda _: ("cut",))["cut"]
        best = max(best, Fraction(total, sum(capacities)))
        members = [flow for flow in members if "path_set" not in flow]  # sprayed flows fit into any gaps
        if not members:
            continue
        total = heaviest(members, lambda _: ("cut",))["cut"]
        if min(capacities) == widest:  # loads are whole bits per second
            best = max(best, Fraction(-(-total // len(links)), widest))
        for size in {flow["demand_bps"] for flow in members}:
            count = _most(members, lambda demand, size=size: int(demand >= size))
            best = max(best, Fraction(-(-count // len(links)) * size, widest))
        best = max(best, Fraction(_least_packing(members, len(links), int(best * widest)), widest))
    return best


def _most(flows, weight):
    """Return the sum over jobs of the largest phase, where a flow counts `weight` of its demand."""
    return heaviest([{**flow, "demand_bps": weight(flow["demand_bps"])} for flow in flows], lambda _: (0,))[0]


def _least_packing(flows, links, enough):
    """Return the least load of a link, from `enough` on, at which flows that fit with no other need no more links."""

    def too_small(room):
        return any(
            _most(flows, lambda d, e=e: 0 if d < e else room if d + e > room else d) > links * room
            for e in {flow["demand_bps"] for flow in flows}
        )

    high = max(enough, 2 * max(flow["demand_bps"] for flow in flows))
    while enough < high:
        middle = (enough + high) // 2
        enough, high = (middle + 1, high) if too_small(middle) else (enough, middle)
    return high
