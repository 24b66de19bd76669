"""How many paths a template of path sets has, as the contract has it; nothing is imported from what is checked."""

from collections import Counter
from math import prod

from heddle.testing.plans import contract_planes

ONE_PATH = (1, 1)


def template_paths(network):
    """Return the uplinks of a leaf, with three tiers times the cables of an agg to the cores; 1 if irregular."""
    planes = contract_planes.planes_of(network.role, network.cables)
    above = {name: [] for name in network.role}
    for link in filter(network.rises, network.switch_links):
        lower, upper = network.ends[link]
        above[lower].append((upper, network.capacity[link]))
    found = {
        _cables(network, above, [name for name, plane in planes.items() if plane == number])
        for number in {planes[name] for name, role in network.role.items() if role == "leaf"}
    }
    return prod(found.pop()) if len(found) == 1 else 1


def _cables(network, above, inside):
    """Return the cables up of each leaf and of each agg in a plane."""
    leaves, aggs = ([name for name in inside if network.role[name] == role] for role in ("leaf", "agg"))
    uppers = [sorted(above[leaf]) for leaf in leaves]
    parallel = {tuple(sorted(Counter(upper for upper, _ in each).values())) for each in uppers}
    if len(parallel) != 1 or len(set(*parallel)) != 1:
        return ONE_PATH
    if not aggs:
        return (len(uppers[0]), 1) if all(each == uppers[0] for each in uppers) else ONE_PATH
    pods, by_pod = network.pods(), {}
    for leaf, each in zip(leaves, uppers, strict=True):
        by_pod.setdefault(pods[leaf], []).append(each)
    cores = {pod: sorted(sorted(above[agg]) for agg in aggs if pods[agg] == pod) for pod in by_pod}
    rates = [{rate for name in names for _, rate in above[name]} for names in (leaves, aggs)]
    regular = (
        all(upper in aggs for each in uppers for upper, _ in each)
        and all(each == alike[0] for alike in by_pod.values() for each in alike)
        and all(each == cores[pods[leaves[0]]] for each in cores.values())
        and len({len(above[agg]) for agg in aggs}) == 1
        and all(len(each) == 1 for each in rates)
    )
    return (len(uppers[0]), len(above[aggs[0]])) if regular else ONE_PATH
