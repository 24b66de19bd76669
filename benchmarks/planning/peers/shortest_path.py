"""The naive controller: networkx's shortest path per flow, with link loads as weights, updated after each flow.

Tutorials of OpenFlow controllers do this. The graph has every switch twice, for the upward and the downward part, so
that a path cannot turn upwards again; otherwise a detour over another leaf may be the shortest path.
"""

from itertools import pairwise

import numpy as np

from heddle.benchmarks.planning.peers.problem import Answer, Problem, no_hops
from heddle.controller.planner.ground.jit import Floats

HOP = 1e-3
"""The weight of an idle link, so that the shorter of two idle paths is chosen."""


def shortest_path(problem: Problem, seed: int) -> Answer:
    """Return the paths of one Dijkstra run per flow; raises ModuleNotFoundError without networkx."""
    import networkx

    topology, load, capacity = problem.topology, problem.base.copy(), problem.capacity
    graph = networkx.DiGraph()
    for cable in np.flatnonzero(problem.live.links[: topology.cables]).tolist():
        low, high = int(topology.lower[cable]), int(topology.upper[cable])
        for ends, link in (
            ((("up", low), ("up", high)), cable),
            ((("down", high), ("down", low)), cable + topology.cables),
        ):
            if graph.has_edge(*ends):
                graph.edges[ends]["links"].append(link)
            else:
                graph.add_edge(*ends, links=[link])
    for upper in np.flatnonzero(topology.tier > 0).tolist():
        graph.add_edge(("up", upper), ("down", upper), links=[], weight=0.0)
    for _, _, edge in graph.edges(data=True):
        _weigh(edge, load, capacity)
    hops = no_hops(problem)
    leaves = problem.leaves
    for f in range(len(problem.flows)):
        a, b = int(leaves[problem.source[f]]), int(leaves[problem.target[f]])
        if a == b:
            continue
        path = networkx.shortest_path(graph, ("up", a), ("down", b), weight="weight")
        column = 0
        for ends in pairwise(path):
            edge = graph.edges[ends]
            if edge["links"]:
                link = min(edge["links"], key=lambda link: load[link] / capacity[link])
                load[link] += problem.demand[f]
                hops[f, column] = link
                column += 1
                _weigh(edge, load, capacity)
    return Answer.of(problem, hops)


def _weigh(edge: dict, load: Floats, capacity: Floats) -> None:
    """Set an edge's weight from its least loaded cable."""
    if edge["links"]:
        edge["weight"] = HOP + min(float(load[link] / capacity[link]) for link in edge["links"])
