"""The flow graph of a data process as a value, its form as arrays, and the difference of two of them.

A node is an element of some kind with a parameter (a port, say), and leads by numbered outcomes to other nodes. Links
go forward only: nodes are kept in an order in which each comes before those that it leads to, so one walk through
the nodes takes every packet of a burst to its end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dataplane.jit import Grid, Ints

OUTCOMES = 8
NO_NODE = -1
MAX_NODES = 64


class GraphArrays(NamedTuple):
    """What a run loop reads. Rows are nodes in walking order."""

    kind: Ints
    parameter: Ints
    next: Grid
    """Shape (nodes, OUTCOMES): the node of each outcome, or NO_NODE."""
    entry: Ints
    """By port: the node that takes what the port received."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """An element in its place; `to` names the nodes of its outcomes, in order."""

    name: str
    kind: int
    parameter: int = 0
    to: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """Nodes by name, and the node at which each port's packets enter."""

    nodes: tuple[Node, ...]
    entries: tuple[str, ...]
    """By port number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphChange:
    """What differs between two graphs, by the names of nodes."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    entries: tuple[int, ...]
    """Ports whose packets enter elsewhere."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.entries)


def difference(old: Graph, new: Graph) -> GraphChange:
    """Return what has to change for `old` to become `new`."""
    before, after = {node.name: node for node in old.nodes}, {node.name: node for node in new.nodes}
    ports = range(max(len(old.entries), len(new.entries)))
    return GraphChange(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=tuple(name for name, node in after.items() if name in before and before[name] != node),
        entries=tuple(port for port in ports if old.entries[port : port + 1] != new.entries[port : port + 1]),
    )


def arrays_of(graph: Graph) -> GraphArrays:
    """Return the graph for a run loop; raises ValueError where it is none (names, links, a circle, its size)."""
    nodes = {node.name: node for node in graph.nodes}
    if len(nodes) != len(graph.nodes):
        raise ValueError("two nodes have the same name")
    if len(nodes) > MAX_NODES:
        raise ValueError(f"{len(nodes)} nodes; at most {MAX_NODES}")
    for name, target in [(node.name, to) for node in graph.nodes for to in node.to] + [("", e) for e in graph.entries]:
        if target not in nodes:
            raise ValueError(f"{name or 'an entry'} leads to {target}, which is no node")
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
        parameter=np.array([nodes[name].parameter for name in ordered], dtype=np.int64),
        next=following,
        entry=np.array([row[name] for name in graph.entries], dtype=np.int64),
    )


def _ordered(nodes: Mapping[str, Node]) -> list[str]:
    """Return the names such that each comes before those it leads to (Kahn); ties as they were given."""
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
        circle = ", ".join(sorted(set(nodes) - set(ordered)))
        raise ValueError(f"packets would go round in a circle among {circle}")
    return ordered
