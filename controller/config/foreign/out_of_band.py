"""Leave out what manages a fabric and is no part of it: links to management ports, and the switches that join these.

A management port is known by its name (`mgmt0`, `Management1`, `fxp0`). `eth0` and its like are management ports only
of a switch whose other ports are named otherwise: `swp1` beside `eth0`. An out-of-band switch is one that joins the
management ports of others, and apart from these hosts only, or the one switch of its uplink. Without this rule it looks
like a leaf or a spine, or like a host.
"""

import re
from collections.abc import Iterator, Mapping

from heddle.controller.config.foreign.draft import Draft, Node, Wire
from heddle.controller.config.foreign.hints import Hint

_MANAGEMENT = re.compile(
    r"(?:(?:re[0-9]:)?mgmt(?:eth)?|management|fxp[0-9]|meth|mge(?!-)|m-gigabitethernet|bmc|ipmi|ilo|idrac)(?![a-z])",
    re.IGNORECASE,
)
_BESIDE_OTHERS = re.compile(r"(?:eth0|em[01]|ma[01]|me0|vme)\Z", re.IGNORECASE)
"""Names of management ports that are those of data ports elsewhere."""
_NUMBERED = re.compile(r"[^a-z].*\Z")
_BY_NAME = re.compile(r"(?:^|[-_.])(?:oob|mgmt|management|console)(?![a-z])", re.IGNORECASE)
_SWITCHES = (Hint.LEAF, Hint.SPINE, Hint.CORE, Hint.SWITCH)
_End = tuple[str, str]


def without_management(
    draft: Draft, nodes: Mapping[str, Node], wires: list[Wire]
) -> tuple[dict[str, Node], list[Wire]]:  # fmt: skip
    """Return nodes and wires without the management network, which is counted in the draft.

    What `--role` names is kept.
    """
    managed = _management_ports(nodes, wires)
    joined: dict[str, set[str]] = {}
    for port, other in _both_directions(wires):
        if port in managed and other not in managed:
            joined.setdefault(other[0], set()).add(port[0])
    apart = _out_of_band(nodes, wires, joined, managed) - draft.pinned.keys()
    kept = []
    for wire in wires:
        if not draft.pinned.keys().isdisjoint((wire.a, wire.b)):
            kept.append(wire)
        elif wire.a in apart or wire.b in apart:
            draft.leave_out("link of an out-of-band switch", wire.place)
        elif any(_MANAGEMENT.match(interface) for _, interface in wire.ends):
            draft.leave_out("link to a management port", wire.place)
        else:
            kept.append(wire)
    for name in nodes:
        if name in apart:
            draft.leave_out("out-of-band switch", nodes[name].place)
    return {name: node for name, node in nodes.items() if name not in apart}, kept


def _management_ports(nodes: Mapping[str, Node], wires: list[Wire]) -> set[_End]:
    """Return the ports that are for management by their names, or by those of the other ports of a switch."""
    ports: dict[str, list[str]] = {}
    for (name, interface), _ in _both_directions(wires):
        ports.setdefault(name, []).append(interface)
    found: set[_End] = set()
    for name, names in ports.items():
        for one in names:
            beside = _BESIDE_OTHERS.match(one) and _is_switch(nodes[name]) and _is_alone(names, one)
            if _MANAGEMENT.match(one) or beside:
                found.add((name, one))
    return found


def _is_alone(names: list[str], name: str) -> bool:
    """Return whether a switch has several ports, and no other one begins with the same letters as this one."""
    stems = [_NUMBERED.sub("", each.lower()) for each in names]
    return len(names) > 1 and stems.count(_NUMBERED.sub("", name.lower())) == 1


def _is_switch(node: Node) -> bool:
    """Return whether kind or name says that a node is a switch."""
    return node.hint in _SWITCHES if node.forwards is None else node.forwards and node.hint is not Hint.HOST


def _out_of_band(
    nodes: Mapping[str, Node], wires: list[Wire], joined: Mapping[str, set[str]], managed: set[_End]
) -> set[str]:
    """Return the switches that join management ports: of two switches or more, or of any if their names say so."""
    several = {name for name, others in joined.items() if sum(_is_switch(nodes[other]) for other in others) > 1}
    found = {
        name
        for name in joined
        if _BY_NAME.search(name) or (name in several and nodes[name].hint in (None, Hint.SWITCH))
    }
    before: set[str] = set()
    while found != before:
        before = set(found)
        for here, other in _both_directions(wires):
            is_data = here not in managed and other not in managed and other[0] not in before
            if is_data and _is_switch(nodes[other[0]]):
                found.discard(here[0])
    return found | _with_one_uplink(nodes, wires, several - found, managed)


def _with_one_uplink(nodes: Mapping[str, Node], wires: list[Wire], names: set[str], managed: set[_End]) -> set[str]:
    """Return those of the nodes that have one neighbour apart from management, so that they would be hosts."""
    near: dict[str, set[str]] = {name: set() for name in names if nodes[name].hint is not Hint.HOST}
    for here, other in _both_directions(wires):
        if here[0] in near and here[0] != other[0] and here not in managed and other not in managed:
            near[here[0]].add(other[0])
    return {name for name, others in near.items() if len(others) == 1}


def _both_directions(wires: list[Wire]) -> Iterator[tuple[_End, _End]]:
    for wire in wires:
        a, b = wire.ends
        yield a, b
        yield b, a
