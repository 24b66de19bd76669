"""The paths that a planner of others is offered are all shortest ones up and down, by another program's search."""

import json
import math
from itertools import pairwise

import networkx
from hypothesis import given, settings

from heddle.controller.config.load import parse_fabric
from heddle.planners import Demand, Problem
from heddle.planners.answer import wrong_with
from tests.support.examples import examples
from tests.support.fabrics.planning import sick_fabrics

TIER = {"leaf": 0, "agg": 1, "spine": 2, "core": 2}


def rising_then_falling(fabric):
    """Return the live links as edges between (switch, whether the path falls already)."""
    tier = {switch.id: TIER[switch.role.value] for switch in fabric.switches}
    graph = networkx.MultiDiGraph()
    for cable in fabric.cables:
        low, high = sorted((cable.lower.switch, cable.upper.switch), key=lambda name: tier[name])
        if cable.id not in fabric.failed.down_cables and not {low, high} & fabric.failed.down_switches:
            graph.add_edge((low, False), (high, False))
            for fell in (False, True):
                graph.add_edge((high, fell), (low, True))
    return graph


def shortest(graph, source, target):
    """Return the length and the number of the shortest paths, parallel cables counted; None where there is none."""
    if source == target:
        return 0, 1
    if (source, False) not in graph or (target, True) not in graph:
        return None
    try:
        nodes = list(networkx.all_shortest_paths(networkx.DiGraph(graph), (source, False), (target, True)))
    except networkx.NetworkXNoPath:
        return None
    parallel = [math.prod(graph.number_of_edges(a, b) for a, b in pairwise(path)) for path in nodes]
    return len(nodes[0]) - 1, sum(parallel)


@given(file=sick_fabrics())
@settings(max_examples=examples(60))
def test_all_shortest_paths_are_offered_and_each_is_admissible(file):
    fabric = parse_fabric(json.dumps(file), "fabric.yaml")
    graph, first = rising_then_falling(fabric), fabric.nics[0]
    demands = [
        Demand(flow_id=nic.id, job_id="a", src_nic=first.id, dst_nic=nic.id, demand_bps=1)
        for nic in fabric.nics
        if nic.host != first.host
    ]
    problem = Problem(fabric=fabric, demands=tuple(demands))
    for demand in demands:
        found = list(problem.shortest_paths(demand))
        ends = [fabric.nic_by_id[nic] for nic in (demand.src_nic, demand.dst_nic)]
        dead = any(nic.id in fabric.failed.down_nics or nic.port.switch in fabric.failed.down_switches for nic in ends)
        expected = None if dead else shortest(graph, *(nic.port.switch for nic in ends))
        assert ((len(found[0]) - 2, len(found)) if found else None) == expected
        assert len(set(found)) == len(found)
        one = Problem(fabric=fabric, demands=(demand,))
        assert all(wrong_with(one, {demand.flow_id: path}) is None for path in found[:3])
