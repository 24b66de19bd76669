"""Read wiring diagrams of Hedgehog (docs.hedgehog.cloud): objects of kinds Switch, Server and Connection.

A port is `device/port`, such as `leaf-01/E1/5`. A connection has a kind (`fabric`, `unbundled`, `mclag` ...) and links,
each a pair of ports. The output of `kubectl get ... -o yaml`, a `List`, is read too. A wiring names no rates.
"""

import re
from collections.abc import Iterator
from typing import Any

from heddle.controller.config.foreign.draft import Draft, Node, Options, Wire
from heddle.controller.config.foreign.hints import hint_of
from heddle.controller.config.foreign.nodes import fill
from heddle.controller.config.text.complaint import shown
from heddle.controller.config.text.document import parse_document

_GROUP = "wiring.githedgehog.com/"
_SEPARATOR = re.compile(r"^---[ \t]*(?:#.*)?\r?$", re.MULTILINE)
_BLANK = re.compile(r"^\s*(?:#.*)?$")
_LINKS = ("link", "links", "peerLinks", "sessionLinks", "sessionLink")
_OUTSIDE = {"external", "staticExternal", "gateway", "management", "nat"}
_LOOPBACK = "vpcLoopback"
_End = tuple[str, str]


def looks_like(text: str) -> bool:
    """Return whether the text names the group of the wiring's objects."""
    return _GROUP in text[:1_000_000]


def read(text: str, draft: Draft, options: Options) -> None:
    """Fill the draft; raises InputError."""
    nodes: dict[str, Node] = {}
    connections: list[tuple[str, dict[str, Any]]] = []
    for place, one in _objects(text, draft):
        kind = one.get("kind")
        if kind not in ("Switch", "Server", "Connection") or not str(one.get("apiVersion", "")).startswith(_GROUP):
            continue
        metadata, spec = _mapping(draft, one, "metadata", place), _mapping(draft, one, "spec", place)
        name = metadata.get("name")
        if not isinstance(name, str) or not name:
            draft.refuse(f"{place}.metadata.name", f"must be a text, is {shown(name)}")
        if kind == "Connection":
            connections.append((place, spec))
            continue
        if name in nodes:
            draft.refuse(place, f"a second device named {shown(name)}; the first is {nodes[name].place}")
        nodes[name] = Node(place, kind == "Switch", hint_of(spec.get("role")) or hint_of(name))
    wires = [wire for place, spec in connections for wire in _wires(draft, place, spec, nodes)]
    _check_ports(draft, wires)
    draft.assumed.append(f"every NIC {options.nic_bps / 1e9:g} Gbit/s, every other link {options.cable_bps / 1e9:g}")
    fill(draft, options, nodes, wires)


def _objects(text: str, draft: Draft) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of all documents, with their places; those of a List one by one."""
    at = 0
    for document in _SEPARATOR.split(text):
        if all(_BLANK.match(line) for line in document.splitlines()):
            continue
        at += 1
        value = parse_document(document, f"{draft.source}: document {at}").value
        items = value.get("items") if value.get("kind") == "List" else None
        if not isinstance(items, list):
            yield f"documents[{at - 1}]", value
            continue
        for number, item in enumerate(items):
            if isinstance(item, dict):
                yield f"documents[{at - 1}].items[{number}]", item


def _mapping(draft: Draft, one: dict[str, Any], key: str, place: str) -> dict[str, Any]:
    """Return the mapping of a key; an empty one where it is left out."""
    value = one.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        draft.refuse(f"{place}.{key}", f"must be a mapping, is {shown(value)}")
    return value


def _wires(draft: Draft, place: str, spec: dict[str, Any], nodes: dict[str, Node]) -> Iterator[Wire]:
    """Yield the links of a connection; those to the outside and loops of a switch are left out."""
    for kind, value in spec.items():
        if not isinstance(value, dict):
            continue
        for key in _LINKS:
            links = value.get(key, [])
            for number, link in enumerate(links if isinstance(links, list) else [links]):
                where = f"{place}.spec.{kind}.{key}" + (f"[{number}]" if isinstance(links, list) else "")
                if not isinstance(link, dict):
                    draft.refuse(where, f"must be a mapping of two ports, is {shown(link)}")
                if kind in _OUTSIDE or kind == _LOOPBACK:
                    text = "loop of a switch to itself" if kind == _LOOPBACK else f"{kind} link"
                    draft.leave_out(text, where)
                    continue
                ends = [_end(draft, end, f"{where}.{side}", nodes) for side, end in link.items()]
                if len(ends) != 2:
                    draft.refuse(where, f"{len(ends)} ports; a link has two")
                (a, a_port), (b, b_port) = ends
                yield Wire(a, b, a_port, b_port, where)


def _end(draft: Draft, end: Any, place: str, nodes: dict[str, Node]) -> _End:
    port = end.get("port") if isinstance(end, dict) else None
    device, _, name = port.partition("/") if isinstance(port, str) else ("", "", "")
    if not device or not name:
        draft.refuse(f"{place}.port", f"{shown(port)} is no port such as leaf-01/E1/5")
    if device not in nodes:
        draft.refuse(f"{place}.port", f"no Switch or Server is named {shown(device)}")
    return device, name


def _check_ports(draft: Draft, wires: list[Wire]) -> None:
    used: dict[_End, str] = {}
    for wire in wires:
        for end in ((wire.a, wire.a_interface), (wire.b, wire.b_interface)):
            if used.setdefault(end, wire.place) != wire.place:
                draft.refuse(wire.place, f"{shown('/'.join(end))} is used at {used[end]} too; a port takes one link")
