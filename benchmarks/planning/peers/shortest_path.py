"""The naive controller: networkx's shortest path per flow, with the links' load as weight, updated after each flow.

What the tutorials of OpenFlow controllers do. The graph has every switch twice, on the way up and on the way down,
so that a path can not turn upwards again: without that a detour over another leaf may be the shortest.
"""

from itertools import pairwise

import numpy as np

from benchmarks.planning.peers.problem import Answer, Problem, no_hops
from controller.planner.jit import Floats

HOP = 1e-3
"""A link's weight when it is empty, so that of two empty paths the shorter is taken."""


def shortest_path(problem: Problem, seed: int) -> Answer:
    """Return the paths that one Dijkstra run per flow finds; raises ModuleNotFoundError where networkx is missing."""
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
    """Weigh an edge by its least loaded cable."""
    if edge["links"]:
        edge["weight"] = HOP + min(float(load[link] / capacity[link]) for link in edge["links"])
