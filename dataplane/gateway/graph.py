"""The graph of a gateway: the element kinds by number, and the nodes for a gateway's interfaces.

    underlay  ---+
    external  ---+--> parse --> check_source --> track --hit--------------> forward --+--> rewrite --> output
    customer  ---+                                  +--miss--> admit ---------^       +--(unchanged)---^
    provider  ---+

An element itself drops, punts or transmits packets. An outcome names the next node of the packets that continue.
The numbers are constants, so that kernels can compare with them.
"""

from heddle.dataplane.config.local import LocalConfig
from heddle.dataplane.engine.graph import Graph, Node
from heddle.dataplane.tables.schema import SIDES

UNDERLAY, EXTERNAL_SIDE, CUSTOMER_SIDE, PROVIDER_SIDE = 0, 1, 2, 3
"""Entries by side, in the order of `schema.SIDES`: check the frame's destination and find its VPC. One outcome.

`underlay.underlay` decapsulates VXLAN; `sides.customer` reads the VLAN tag; `sides.untagged` serves the other two."""
PARSE = 4
"""Read and check the IP and transport headers. One outcome."""
CHECK_SOURCE = 5
"""Drop spoofed source addresses. One outcome."""
TRACK = 6
"""Find the connection. Outcomes: HIT, MISS."""
ADMIT = 7
"""Route a new connection, apply rules and choose its translation. One outcome: the next hop is known."""
FORWARD = 8
"""Apply the next hop: local delivery, TTL, and the MTU of packets that must not be fragmented.

Outcomes: `forward.REWRITTEN`, `UNCHANGED`."""
REWRITE = 9
"""Write the connection's translated addresses and ports. One outcome."""
OUTPUT = 10
"""Write the link or tunnel headers and transmit. No outcome."""

HIT, MISS = 0, 1

NAMES = (
    "underlay",
    "external",
    "customer",
    "provider",
    "parse",
    "check_source",
    "track",
    "admit",
    "forward",
    "rewrite",
    "output",
)
"""Node names, by kind."""

_LINKS = {
    "parse": ("check_source",),
    "check_source": ("track",),
    "track": ("forward", "admit"),
    "admit": ("forward",),
    "forward": ("rewrite", "output"),
    "rewrite": ("output",),
    "output": (),
}
"""The next nodes of each node, by outcome number."""


def graph_of(local: LocalConfig) -> Graph:
    """Return the graph for a gateway's interfaces; port numbers follow the order of the interfaces."""
    entries = tuple(interface.side.value for interface in local.interfaces)
    sides = [Node(name=side, kind=NAMES.index(side), to=("parse",)) for side in SIDES if side in entries]
    inner = [Node(name=name, kind=NAMES.index(name), to=to) for name, to in _LINKS.items()]
    return Graph(nodes=(*sides, *inner), entries=entries)
