"""The flow graph of a gateway: an entry for each side that it has a port on, then one way for all."""

from dataplane.config.local import LocalConfig
from dataplane.engine.graph import Graph, Node
from dataplane.gateway.kinds import NAMES
from dataplane.gateway.tables.schema import SIDES

_AHEAD = {
    "parse": ("check_source",),
    "check_source": ("track",),
    "track": ("forward", "admit"),
    "admit": ("forward",),
    "forward": ("rewrite", "output"),
    "rewrite": ("output",),
    "output": (),
}
"""Outcomes in the order of their numbers in `kinds`."""


def graph_of(local: LocalConfig) -> Graph:
    """Return the graph for a gateway's interfaces; port numbers count them in their order."""
    entries = tuple(interface.side.value for interface in local.interfaces)
    sides = [Node(name=side, kind=NAMES.index(side), to=("parse",)) for side in SIDES if side in entries]
    ahead = [Node(name=name, kind=NAMES.index(name), to=to) for name, to in _AHEAD.items()]
    return Graph(nodes=(*sides, *ahead), entries=entries)
