"""Read topologies of containerlab (containerlab.dev/manual/topo-def-file): `topology.nodes` and `topology.links`.

A node is of a switch's kind, or of one that may be either (`linux` and its like): `nodes` decides by the links. Label
`role`, group, name and `graph-icon` are hints. An interface gives its port's number.
"""

import re
from typing import Any

from heddle.controller.config.foreign.draft import Draft, Node, Options, Wire
from heddle.controller.config.foreign.hints import Hint, hint_of
from heddle.controller.config.foreign.nodes import fill
from heddle.controller.config.text.complaint import place as key_path
from heddle.controller.config.text.complaint import shown
from heddle.controller.config.text.document import parse_document

_TOPOLOGY = re.compile(r"""^[ \t]*["']?topology["']?[ \t]*:|\A\s*\{[\s\S]*"topology"\s*:\s*\{""", re.MULTILINE)
_OPEN_KINDS = {"linux", "ext-container", "k8s-kind", "generic_vm", "vr-linux", "host"}
"""Kinds of nodes that are hosts or switches."""
_HOST_KINDS = {"keysight_ixia-c-one"}
_BRIDGE_KINDS = {"bridge", "ovs-bridge"}
_FIREWALL_KINDS = {
    *("fortinet_fortigate", "paloalto_panos", "vr-pan", "juniper_vsrx", "vr-vsrx", "checkpoint_cloudguard"),
    *("cisco_asav", "cisco_ftdv", "vr-ftdv"),
}
_OUTSIDE = {"host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy"}


def looks_like(text: str) -> bool:
    """Return whether the text has the key `topology`."""
    return bool(_TOPOLOGY.search(text[:1_000_000]))


def read(text: str, draft: Draft, options: Options) -> None:
    """Fill the draft; raises InputError."""
    document = parse_document(text, draft.source).value
    topology = _mapping(draft, document, "topology")
    name = document.get("name")
    draft.fabric_name = name if isinstance(name, str) else draft.fabric_name
    names = _mapping(draft, topology, "nodes", "topology")
    links = topology.get("links") or []
    if not links and document.get("links"):
        draft.refuse("links", "links belong under topology, as topology.links; containerlab reads no others")
    if not isinstance(links, list):
        draft.refuse("topology.links", f"must be a list, is {shown(links)}")
    nodes = {node: _node(draft, topology, node, key_path(("topology", "nodes", node))) for node in names}
    draft.assumed.append(f"every NIC {options.nic_bps / 1e9:g} Gbit/s, every other link {options.cable_bps / 1e9:g}")
    fill(draft, options, nodes, _wires(draft, links, names))


def _wires(draft: Draft, links: list[Any], nodes: dict[str, Any]) -> list[Wire]:
    used: dict[tuple[str, str], str] = {}
    wires = []
    for index, link in enumerate(links):
        place = f"topology.links[{index}]"
        ends = _ends(draft, link, place, nodes)
        if ends is None:
            draft.leave_out("link to outside the lab", place)
            continue
        for end in ends:
            if used.setdefault(end, place) != place:
                draft.refuse(place, f"{shown(':'.join(end))} is used at {used[end]} too; an interface takes one link")
        (a, a_interface), (b, b_interface) = ends
        wires.append(Wire(a, b, a_interface, b_interface, place))
    return wires


def _mapping(draft: Draft, within: Any, key: str, above: str = "") -> dict[str, Any]:
    value = within.get(key)
    if not isinstance(value, dict):
        missing = "missing; is this a containerlab topology?" if value is None else f"a mapping, is {shown(value)}"
        draft.refuse(f"{above}.{key}" if above else key, missing if value is None else f"must be {missing}")
    return value


def _node(draft: Draft, topology: dict[str, Any], node: str, place: str) -> Node:
    """Return what kind, labels, group and name say of a node."""
    own = topology["nodes"][node]
    if own is not None and not isinstance(own, dict):
        draft.refuse(place, f"must be a mapping, is {shown(own)}")
    own = own or {}
    defaults = _part(topology.get("defaults"))
    group_name = own.get("group") or _part(_part(topology.get("kinds")).get(str(own.get("kind")))).get("group")
    group_name = group_name or defaults.get("group")
    group = _part(_part(topology.get("groups")).get(str(group_name)))
    kind = str(own.get("kind") or group.get("kind") or defaults.get("kind") or "")
    of_kind = _part(_part(topology.get("kinds")).get(kind))
    labels: dict[str, Any] = {}
    for level in (defaults, of_kind, group, own):
        labels |= _part(level.get("labels"))
    texts = (labels.get("role"), group_name, node, labels.get("graph-icon"))
    hint: Hint | None = next((said for text in texts if (said := hint_of(text)) is not None), None)
    if kind in _FIREWALL_KINDS:
        hint = Hint.OUTSIDE
    forwards = False if kind in _HOST_KINDS else None if kind in _OPEN_KINDS else True
    return Node(place, forwards, hint, kind in _BRIDGE_KINDS)


def _part(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _ends(draft: Draft, link: Any, place: str, nodes: dict[str, Any]) -> list[tuple[str, str]] | None:
    """Return the (node, interface) pairs of a link, None if one end is outside of the lab."""
    if not isinstance(link, dict):
        draft.refuse(place, f"must be a mapping, is {shown(link)}")
    if link.get("type", "veth") != "veth":
        return None
    ends = link.get("endpoints")
    if not isinstance(ends, list) or len(ends) != 2:
        draft.refuse(f"{place}.endpoints", 'must be a list of two, such as ["leaf1:e1-1", "spine1:e1-1"]')
    found = [_end(draft, end, f"{place}.endpoints[{at}]") for at, end in enumerate(ends)]
    for at, (node, _) in enumerate(found):
        if node not in nodes and node not in _OUTSIDE:
            draft.refuse(f"{place}.endpoints[{at}]", f"no node named {shown(node)}")
    return None if any(node not in nodes for node, _ in found) else found


def _end(draft: Draft, end: Any, place: str) -> tuple[str, str]:
    if isinstance(end, dict):
        node, interface = end.get("node"), end.get("interface")
    else:
        node, _, interface = end.partition(":") if isinstance(end, str) else (None, "", None)
    if not isinstance(node, str) or not node or not isinstance(interface, str) or not interface:
        draft.refuse(place, f'{shown(end)} is no endpoint such as "leaf1:e1-1"')
    return node, interface
