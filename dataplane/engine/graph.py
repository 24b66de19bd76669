"""The packet-processing graph of a data process: its description, and its arrays for kernels.

A node has an element kind, and a next node for each numbered outcome. The graph has no cycles: `arrays_of` sorts the
nodes topologically, so one pass over them takes every packet of a burst to its fate.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from heddle.dataplane.jit import Grid, Ints

OUTCOMES = 8
NO_NODE = -1
MAX_NODES = 64
NEXT = 0
"""The outcome of elements that have only one."""


class GraphArrays(NamedTuple):
    """The graph as kernels read it; rows are nodes in topological order."""

    kind: Ints
    next: Grid
    """Shape (nodes, OUTCOMES): the next node of each outcome, or NO_NODE."""
    entry: Ints
    """By port: the node at which received packets enter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A named node of an element kind; `to` names the next node of each outcome, in order."""

    name: str
    kind: int
    to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes, and the name of the node at which each port's packets enter."""

    nodes: tuple[Node, ...]
    entries: tuple[str, ...]
    """By port number."""


def arrays_of(graph: Graph) -> GraphArrays:
    """Return the arrays of a graph.

    Raises:
        ValueError: duplicate names, unknown next nodes, a cycle, or more nodes or outcomes than the limits.
    """
    nodes = {node.name: node for node in graph.nodes}
    if len(nodes) != len(graph.nodes):
        raise ValueError("two nodes have the same name")
    if len(nodes) > MAX_NODES:
        raise ValueError(f"{len(nodes)} nodes; at most {MAX_NODES}")
    for name, target in [(node.name, to) for node in graph.nodes for to in node.to] + [("", e) for e in graph.entries]:
        if target not in nodes:
            raise ValueError(f"{name or 'an entry'} names {target}, which is no node")
    ordered = _ordered(nodes)
    row = {name: number for number, name in enumerate(ordered)}
    following = np.full((len(ordered), OUTCOMES), NO_NODE, dtype=np.int64)
    for name in ordered:
        to = nodes[name].to
        if len(to) > OUTCOMES:
            raise ValueError(f"{name} has {len(to)} outcomes; at most {OUTCOMES}")
        following[row[name], : len(to)] = [row[target] for target in to]
    return GraphArrays(
        kind=np.array([nodes[name].kind for name in ordered], dtype=np.int64),
        next=following,
        entry=np.array([row[name] for name in graph.entries], dtype=np.int64),
    )


def _ordered(nodes: Mapping[str, Node]) -> list[str]:
    """Return the names in topological order (Kahn's algorithm); ties keep the given order."""
    waiting = dict.fromkeys(nodes, 0)
    for node in nodes.values():
        for target in set(node.to):
            waiting[target] += 1
    ready = [name for name, count in waiting.items() if not count]
    ordered = []
    while ready:
        name = ready.pop(0)
        ordered.append(name)
        for target in dict.fromkeys(nodes[name].to):
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    if len(ordered) < len(nodes):
        cycle = ", ".join(sorted(set(nodes) - set(ordered)))
        raise ValueError(f"the graph has a cycle among {cycle}")
    return ordered
