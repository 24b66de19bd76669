"""Read layer-1 topologies of Batfish (`layer1_topology.json`): edges between interfaces of nodes.

    {"edges": [{"node1": {"hostname": "leaf1", "interfaceName": "swp51"}, "node2": {"hostname": ...}}, ...]}

Batfish compares hostnames in lower case and reads an edge in both directions as one. The file names no kinds: a node
with one neighbour is a host (`nodes`).
"""

import re
from typing import Any

from heddle.controller.config.foreign.draft import Draft, Node, Options, Wire
from heddle.controller.config.foreign.hints import hint_of
from heddle.controller.config.foreign.nodes import fill
from heddle.controller.config.text.complaint import shown
from heddle.controller.config.text.document import parse_document

_EDGES = re.compile(r"""["']?edges["']?\s*:""")
_INTERFACE = re.compile(r"""["']?interfaceName["']?\s*:""")
End = tuple[str, str]


def looks_like(text: str) -> bool:
    """Return whether the text has edges between named interfaces."""
    begin = text[:1_000_000]
    return bool(_EDGES.search(begin) and _INTERFACE.search(begin))


def read(text: str, draft: Draft, options: Options) -> None:
    """Fill the draft; raises InputError."""
    edges = parse_document(text, draft.source).value.get("edges")
    if not isinstance(edges, list):
        draft.refuse("edges", f"must be a list of edges, is {shown(edges)}")
    nodes: dict[str, Node] = {}
    other_end: dict[End, tuple[End, str]] = {}
    wires = []
    for index, edge in enumerate(edges):
        place = f"edges[{index}]"
        if not isinstance(edge, dict):
            draft.refuse(place, f"must be a mapping with node1 and node2, is {shown(edge)}")
        a, b = (_end(draft, edge.get(key), f"{place}.{key}") for key in ("node1", "node2"))
        for end in (a, b):
            nodes.setdefault(end[0], Node(place, None, hint_of(end[0])))
        if _is_new(draft, other_end, a, b, place):
            wires.append(Wire(a[0], b[0], a[1], b[1], place))
    _check_domains(draft, nodes)
    draft.assumed.append(f"every NIC {options.nic_bps / 1e9:g} Gbit/s, every other link {options.cable_bps / 1e9:g}")
    fill(draft, options, nodes, wires)


def _end(draft: Draft, node: Any, place: str) -> End:
    """Return the node and interface of one end of an edge."""
    host, interface = (node.get("hostname"), node.get("interfaceName")) if isinstance(node, dict) else (None, None)
    if not (isinstance(host, str) and host and isinstance(interface, str) and interface):
        draft.refuse(place, "must have a hostname and an interfaceName, both texts")
    return host.lower(), interface


def _check_domains(draft: Draft, nodes: dict[str, Node]) -> None:
    """Refuse a device under two names, with and without its domain: its links would be those of two."""
    for name, node in nodes.items():
        short, _, domain = name.partition(".")
        if short in nodes and re.search("[a-z]", domain):
            line = f"{shown(short)} and {shown(name)} are two nodes here; if they are one device, give it one name"
            draft.refuse(max(node.place, nodes[short].place, key=_index), line)


def _index(place: str) -> int:
    return int(place.removeprefix("edges[").removesuffix("]"))


def _is_new(draft: Draft, other_end: dict[End, tuple[End, str]], a: End, b: End, place: str) -> bool:
    """Return whether an edge is not known yet, in this or the other direction."""
    for end, other in ((a, b), (b, a)):
        known, first = other_end.get(end, (other, place))
        if known != other:
            name = shown(":".join(end))
            draft.refuse(place, f"{name} is linked to {shown(':'.join(known))} by {first}; an interface takes one link")
    if a in other_end:
        return False
    other_end[a], other_end[b] = (b, place), (a, place)
    return True
