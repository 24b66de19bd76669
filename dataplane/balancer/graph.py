"""The graph of a balancer: the element kinds by number, and the nodes for its interfaces.

    underlay --> parse --> client --> balance --sent--> forward --+--> translate --> send
                                         |                        +--(unchanged)------^
                                         +--refused--> refuse ------------------------^

`underlay`, `parse` and `forward` are shared with the gateway (`dataplane.elements`). An element itself drops, punts or
transmits packets. An outcome names the next node of the packets that continue.
"""

from heddle.dataplane.config.local import LocalConfig, Side
from heddle.dataplane.engine.graph import Graph, Node

UNDERLAY = 0
"""Decapsulate VXLAN of known VTEPs. One outcome."""
PARSE = 1
"""Read and check the IP and transport headers. One outcome."""
CLIENT = 2
"""Drop spoofed sources, and give later fragments their ports. One outcome."""
BALANCE = 3
"""Find the connection or make one, and with it the back end. Outcomes: SENT, REFUSED."""
FORWARD = 4
"""Decrement the TTL, check the MTU. Outcomes: REWRITTEN, UNCHANGED."""
TRANSLATE = 5
"""Full NAT: write addresses and ports. One outcome."""
REFUSE = 6
"""Make the packet a reset, an ICMP error or an echo reply to its sender. One outcome."""
SEND = 7
"""Write the tunnel headers and transmit. No outcome."""

SENT, REFUSED = 0, 1

_LINKS = {
    "underlay": ("parse",),
    "parse": ("client",),
    "client": ("balance",),
    "balance": ("forward", "refuse"),
    "forward": ("translate", "send"),
    "translate": ("send",),
    "refuse": ("send",),
    "send": (),
}
"""The next nodes of each node, by outcome number."""
NAMES = ("underlay", "parse", "client", "balance", "forward", "translate", "refuse", "send")
"""Node names, by kind."""


def graph_of(local: LocalConfig) -> Graph:
    """Return the graph for a balancer's interfaces, all of the underlay."""
    nodes = tuple(Node(name=name, kind=NAMES.index(name), to=to) for name, to in _LINKS.items())
    return Graph(nodes=nodes, entries=(Side.UNDERLAY.value,) * len(local.interfaces))
