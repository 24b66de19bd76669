"""Read topologies of containerlab (containerlab.dev/manual/topo-def-file): `topology.nodes` and `topology.links`.

A node is a host or a switch by its label `role` (or `graph-icon`), its group, its name, else its kind: `linux` and its
like are hosts. Leaves are the switches that are labelled or named so, or have hosts; the tiers above follow from the
links.
"""

import re
from typing import Any

from heddle.controller.config.foreign.draft import Draft, DraftLink, DraftPlug, Options
from heddle.controller.config.text.complaint import place as key_path
from heddle.controller.config.text.complaint import shown
from heddle.controller.config.text.document import parse_document

_TOPOLOGY = re.compile(r"""^\s*(\{\s*)?["']?topology["']?\s*:""", re.MULTILINE)
_HOST_KINDS = {"linux", "ext-container", "k8s-kind", "generic_vm", "vr-linux", "keysight_ixia-c-one", "host"}
_HOST_WORDS = ("host", "client", "server", "srv", "gpu", "worker", "compute")
_LEAF_WORDS = ("leaf", "tor", "asw", "access", "border", "edge", "rail")
_UPPER_WORDS = ("spine", "superspine", "super-spine", "agg", "core", "psw", "dsw", "dist", "fabric")
_SWITCH_WORDS = ("switch", "router")
_OUTSIDE = {"host", "mgmt-net", "macvlan", "vxlan", "vxlan-stitch", "dummy"}
_HOST, _LEAF, _SWITCH = "host", "leaf", "switch"


def looks_like(text: str) -> bool:
    """Return whether the text has the key `topology`."""
    return bool(_TOPOLOGY.search(text[:1_000_000]))


def read(text: str, draft: Draft, options: Options) -> None:
    """Fill the draft; raises InputError."""
    document = parse_document(text, draft.source).value
    topology = _mapping(draft, document, "topology")
    name = document.get("name")
    draft.fabric_name = name if isinstance(name, str) else draft.fabric_name
    nodes = _mapping(draft, topology, "nodes", "topology")
    kind_of = {}
    for node in nodes:
        place = key_path(("topology", "nodes", node))
        kind_of[node] = _kind(draft, topology, node, place)
        if kind_of[node] == _HOST:
            draft.hosts[node] = place
        else:
            draft.add_switch(node, place, tier=0 if kind_of[node] == _LEAF else None)
    links = topology.get("links") or []
    if not isinstance(links, list):
        draft.refuse("topology.links", f"must be a list, is {shown(links)}")
    nics: dict[str, int] = {}
    used: dict[tuple[str, str], str] = {}
    for index, link in enumerate(links):
        place = f"topology.links[{index}]"
        ends = _ends(draft, link, place, nodes)
        if ends is None:
            draft.leave_out("link to outside the lab", place)
            continue
        for end in ends:
            if used.setdefault(end, place) != place:
                draft.refuse(place, f"{shown(':'.join(end))} is used at {used[end]} too; an interface takes one link")
        _join(draft, options, place, [node for node, _ in ends], kind_of, nics)
    draft.assumed.append(f"every NIC {options.nic_bps / 1e9:g} Gbit/s, every other link {options.cable_bps / 1e9:g}")
    draft.assumed.append("hosts, leaves and other switches by label, group, name or kind; tiers by the links")


def _mapping(draft: Draft, within: Any, key: str, above: str = "") -> dict[str, Any]:
    value = within.get(key)
    if not isinstance(value, dict):
        missing = "missing; is this a containerlab topology?" if value is None else f"a mapping, is {shown(value)}"
        draft.refuse(f"{above}.{key}" if above else key, missing if value is None else f"must be {missing}")
    return value


def _kind(draft: Draft, topology: dict[str, Any], node: str, place: str) -> str:
    """Return the type of a node: host, leaf or (other) switch."""
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
    for hint in (labels.get("role"), group_name, node, labels.get("graph-icon")):
        if (said := _said(hint)) is not None:
            return said
    return _HOST if kind in _HOST_KINDS else _SWITCH


def _part(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _said(hint: Any) -> str | None:
    """Return the type that a role, group or name suggests, None if it suggests none."""
    if not isinstance(hint, str):
        return None
    word = hint.lower()
    for words, kind in ((_UPPER_WORDS, _SWITCH), (_LEAF_WORDS, _LEAF), (_HOST_WORDS, _HOST), (_SWITCH_WORDS, _SWITCH)):
        if word.startswith(words) or any(part.startswith(words) for part in re.split(r"[-_.]", word)):
            return kind
    return None


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


def _join(
    draft: Draft, options: Options, place: str, ends: list[str], kind_of: dict[str, str], nics: dict[str, int]
) -> None:
    hosts = [node for node in ends if kind_of[node] == _HOST]
    if len(hosts) == 2:
        draft.leave_out("link between two hosts", place)
    elif len(hosts) == 1:
        host, (switch,) = hosts[0], [node for node in ends if kind_of[node] != _HOST]
        draft.add_plug(DraftPlug(host, switch, options.nic_bps, place, nics.setdefault(host, 0)))
        nics[host] += 1
    elif ends[0] == ends[1]:
        draft.leave_out("link of a switch to itself", place)
    else:
        draft.add_link(DraftLink(ends[0], ends[1], options.cable_bps, place))
