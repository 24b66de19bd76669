"""Split the nodes of a source that does not distinguish hosts and switches, by their links; then fill the draft.

A node with one neighbour is a host, a node next to such a host is a switch. (Where all names can be trusted, `spine3`
on `leaf1` alone is a switch that lacks cables.) Hints decide about the rest: nodes with several neighbours, none of
which is such a host. Without a hint these are hosts if the source has kinds of switches, and switches if it has none.
A node of a switch's kind is a host only if it is named so and no host hangs on it.
"""

from collections.abc import Mapping

from heddle.controller.config.foreign.draft import Draft, DraftLink, DraftPlug, Node, Options, Wire
from heddle.controller.config.foreign.hints import Hint
from heddle.controller.config.foreign.out_of_band import without_management

_NEXT_TIERS = {frozenset(pair) for pair in ((Hint.LEAF, Hint.SPINE), (Hint.LEAF, Hint.CORE), (Hint.SPINE, Hint.CORE))}
_JOINED_TIERS = _NEXT_TIERS | {frozenset((Hint.HOST, Hint.LEAF)), frozenset((Hint.HOST, Hint.SPINE))}
"""What the names of two neighbours say where names can be trusted, but for two leaves that are peers."""


def fill(draft: Draft, options: Options, nodes: Mapping[str, Node], wires: list[Wire]) -> None:
    """Record nodes and wires in the draft as hosts, switches, NICs and links; raises InputError."""
    nodes, wires = without_management(draft, nodes, wires)
    hosts = _hosts(draft, nodes, wires)
    for name, node in nodes.items():
        if name in hosts:
            draft.hosts[name] = node.place
        else:
            draft.add_switch(name, node.place, hint=node.hint, bridge=node.bridge or node.hint is Hint.OUTSIDE)
    nics: dict[str, int] = {}
    for wire in wires:
        _add(draft, options, hosts, wire, nics)
    draft.assumed.append("hosts and switches by their links, then by kind, label, group and name; tiers by the links")
    guessed = [name for name, node in nodes.items() if node.forwards is None and name not in hosts]
    if guessed and len(guessed) < len(nodes) - len(hosts):
        draft.assumed.append(f"switches, because they forward: {_first(guessed)}")
    if not draft.plugs:
        kept = [name for name in nodes if name not in hosts]
        what = f"the file has {len(kept)} switch(es)" + (f" ({_first(kept)})" if kept else "")
        remedy = "add the links of hosts, or say which node is one: --role NODE=host"
        draft.refuse("", f"no host is linked to a switch, so there is nothing to plan for; {what}: {remedy}")


def _first(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _hosts(draft: Draft, nodes: Mapping[str, Node], wires: list[Wire]) -> set[str]:
    """Return the names of the hosts."""
    near: dict[str, set[str]] = {name: set() for name in nodes}
    for wire in wires:
        if wire.a != wire.b:
            near[wire.a].add(wire.b)
            near[wire.b].add(wire.a)
    pinned = {name: role is Hint.HOST for name, role in draft.pinned.items() if name in nodes}
    ends = _ends(nodes, near, pinned)
    is_host: dict[str, bool] = dict.fromkeys(ends, True) | pinned
    has_kinds = any(node.forwards and not node.bridge for node in nodes.values())
    for name, node in nodes.items():
        if name in is_host:
            continue
        if any(other in ends or pinned.get(other) for other in near[name]):
            is_host[name] = node.forwards is False
        elif node.forwards is None:
            said = has_kinds if node.hint in (None, Hint.OUTSIDE) else node.hint is Hint.HOST
            is_host[name] = said or not near[name]
        else:
            is_host[name] = not node.forwards or (node.hint is Hint.HOST and not node.bridge)
    return {name for name, said in is_host.items() if said}


def _ends(nodes: Mapping[str, Node], near: Mapping[str, set[str]], pinned: Mapping[str, bool]) -> set[str]:
    """Return the nodes that are hosts because they have one neighbour.

    There are none if all are named as switches: then the source has no hosts at all.
    """
    ends = {
        name
        for name, node in nodes.items()
        if len(near[name]) == 1
        and pinned.get(name, True)
        and (node.forwards is not True or (node.hint is Hint.HOST and not node.bridge))
    } - _half_cabled(nodes, near)
    if all(nodes[name].hint not in (None, Hint.HOST, Hint.OUTSIDE) for name in ends) and not any(
        nodes[name].hint is Hint.HOST for name in nodes
    ):
        return set()
    return ends


def _half_cabled(nodes: Mapping[str, Node], near: Mapping[str, set[str]]) -> set[str]:
    """Return the nodes with one neighbour that are switches which lack other cables: both names say so, of two tiers.

    That counts only in a file in which every name says what its node is, and no neighbours contradict each other.
    """
    for name, others in near.items():
        pairs = [frozenset((nodes[name].hint, nodes[other].hint)) for other in others]
        peers = {frozenset((Hint.LEAF,))} if len(others) > 1 else set()
        if not all(pair in _JOINED_TIERS | peers or Hint.OUTSIDE in pair for pair in pairs):
            return set()
    alone = {name for name, node in nodes.items() if node.forwards is None and len(near[name]) == 1}
    return {name for name in alone if frozenset(nodes[each].hint for each in (name, *near[name])) in _NEXT_TIERS}


def _add(draft: Draft, options: Options, hosts: set[str], wire: Wire, nics: dict[str, int]) -> None:
    ends = [(wire.a, wire.a_interface), (wire.b, wire.b_interface)]
    switches = [end for end in ends if end[0] not in hosts]
    if wire.a == wire.b:
        draft.leave_out("link of a node to itself", wire.place)
    elif not switches:
        draft.leave_out("link between two hosts", wire.place)
    elif len(switches) == 1:
        (switch, interface), (host,) = switches[0], [name for name, _ in ends if name in hosts]
        rail = nics.setdefault(host, 0)
        nics[host] += 1
        draft.add_plug(DraftPlug(host, switch, options.nic_bps, wire.place, rail, interface=interface))
    else:
        (a, a_interface), (b, b_interface) = switches
        draft.add_link(DraftLink(a, b, options.cable_bps, wire.place, a_interface, b_interface))
