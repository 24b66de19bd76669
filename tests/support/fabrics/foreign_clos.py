"""Random Clos fabrics as their builder knows them, and writers of each format that can be imported.

Nothing here uses the importer: roles, links and ports are those that the fabric was drawn with. Names mislead where the
links alone show the role. Beside the fabric there may be leaves without hosts, collectors on upper switches, pairs of
peers and bridges.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

_WORDS = ("spine", "leaf", "core", "agg", "tor", "gpu", "server", "x", "node", "rack1-leaf", "leaf1-gpu")
_HOST_WORDS = ("gpu", "server", "leaf1-gpu")


class End(NamedTuple):
    """A node and the number of its port."""

    node: str
    port: int


@dataclass
class Clos:
    """A fabric as drawn: tiers of switches, cables (lower end, upper end), NICs (host, leaf end), and the rest."""

    tier_of: dict[str, int] = field(default_factory=dict)
    cables: list[tuple[End, End]] = field(default_factory=list)
    nics: list[tuple[str, End]] = field(default_factory=list)
    collectors: list[tuple[str, End]] = field(default_factory=list)
    peers: list[tuple[End, End]] = field(default_factory=list)
    bridges: list[tuple[str, End]] = field(default_factory=list)
    _ports: dict[str, int] = field(default_factory=dict)
    _names: int = 0

    def name(self, random: Random, without: tuple[str, ...] = ()) -> str:
        """Return a new name, whose word may be wrong."""
        self._names += 1
        return f"{random.choice([word for word in _WORDS if word not in without])}{self._names}"

    def end(self, random: Random, node: str) -> End:
        """Return the next free port of a node; some numbers are skipped."""
        self._ports[node] = self._ports.get(node, 0) + random.randint(1, 3)
        return End(node, self._ports[node])

    def join(self, random: Random, lower: str, upper: str, cables: int) -> None:
        self.cables += [(self.end(random, lower), self.end(random, upper)) for _ in range(cables)]


def drawn(random: Random) -> Clos:
    """Return a random fabric of two or three tiers."""
    clos = Clos()
    three, cables = random.random() < 0.5, random.choice((1, 1, 2))
    hosts = random.randint(2, 4)
    uppers = random.randint(2, 3)
    planes = []
    if three:
        planes = [[clos.name(random, _HOST_WORDS) for _ in range(random.randint(1, 2))] for _ in range(uppers)]
    for plane in planes:
        clos.tier_of.update(dict.fromkeys(plane, 2))
    for _ in range(random.randint(2, 3) if three else 1):
        _add_pod(clos, random, uppers, planes, cables, hosts)
    # Were all hosts named as switches, a file without kinds would be one without hosts.
    clos.nics[0] = ("x-host", clos.nics[0][1])
    # Did all names say what nodes are, without contradiction, a lone leaf7 on agg2 would be a leaf.
    clos.nics[1] = ("x0", clos.nics[1][1])
    return clos


def _add_pod(clos: Clos, random: Random, uppers: int, planes: list[list[str]], cables: int, hosts: int) -> None:
    above = [clos.name(random, _HOST_WORDS) for _ in range(uppers)]
    leaves = [clos.name(random) for _ in range(random.randint(2, 4))]
    unused = [clos.name(random, (*_HOST_WORDS, "core")) for _ in range(random.choice((0, 0, 1)))]
    clos.tier_of.update(dict.fromkeys(above, 1) | dict.fromkeys(leaves + unused, 0))
    for leaf in leaves + unused:
        for upper in above:
            clos.join(random, leaf, upper, cables)
    for upper, plane in zip(above, planes, strict=False):
        for core in plane:
            clos.join(random, upper, core, cables)
    for leaf in leaves:
        for _ in range(random.randint(1, hosts)):
            clos.nics.append((clos.name(random), clos.end(random, leaf)))
    if random.random() < 0.4:
        clos.collectors.append((clos.name(random), clos.end(random, random.choice(above))))
    if random.random() < 0.4:
        clos.peers.append((clos.end(random, leaves[0]), clos.end(random, leaves[1])))
    if random.random() < 0.4:
        clos.bridges.append((clos.name(random), clos.end(random, random.choice(above))))


def links(clos: Clos, random: Random, *, bridges: bool) -> list[tuple[End, End]]:
    """Return all links in random order, each from a random end."""
    found = clos.cables + clos.peers
    found += [(End(host, 1), end) for host, end in clos.nics + clos.collectors]
    found += [(End(bridge, 1), end) for bridge, end in clos.bridges] if bridges else []
    random.shuffle(found)
    return [(b, a) if random.random() < 0.5 else (a, b) for a, b in found]


def containerlab(clos: Clos, random: Random, kind: str) -> str:
    """Return a containerlab topology, in which every switch is of `kind`."""
    nodes = {name: {"kind": kind} for name in clos.tier_of}
    nodes |= {host: {"kind": "linux"} for host, _ in clos.nics + clos.collectors}
    nodes |= {bridge: {"kind": "bridge"} for bridge, _ in clos.bridges}
    written = [
        {"endpoints": [f"{end.node}:eth{end.port}" for end in link]} for link in links(clos, random, bridges=True)
    ]
    return json.dumps({"name": "x", "topology": {"nodes": _shuffled(nodes, random), "links": written}})


def batfish(clos: Clos, random: Random) -> str:
    """Return a layer-1 topology, some edges of which stand in both directions."""
    edges = []
    for link in links(clos, random, bridges=False):
        a, b = ({"hostname": end.node, "interfaceName": f"Ethernet{end.port}"} for end in link)
        edges.append({"node1": a, "node2": b})
        if random.random() < 0.3:
            edges.append({"node1": b, "node2": a})
    random.shuffle(edges)
    return json.dumps({"edges": edges})


def hedgehog(clos: Clos, random: Random) -> str:
    """Return a wiring diagram."""
    hosts = dict.fromkeys(host for host, _ in clos.nics + clos.collectors)
    objects = [_object("Switch", name, {"profile": "vs"}) for name in clos.tier_of]
    objects += [_object("Server", name, {}) for name in hosts]
    for number, (a, b) in enumerate(links(clos, random, bridges=False)):
        ends = [{"port": f"{end.node}/E1/{end.port}"} for end in (a, b)]
        if a.node in hosts or b.node in hosts:
            server, switch = ends if a.node in hosts else reversed(ends)
            spec: dict[str, object] = {"unbundled": {"link": {"server": server, "switch": switch}}}
        elif clos.tier_of[a.node] == clos.tier_of[b.node]:
            spec = {"mclagDomain": {"peerLinks": [{"switch1": ends[0], "switch2": ends[1]}]}}
        else:
            low, up = ends if clos.tier_of[a.node] < clos.tier_of[b.node] else reversed(ends)
            spec = {"fabric": {"links": [{"leaf": low, "spine": up}]}}
        objects.append(_object("Connection", f"c{number}", spec))
    random.shuffle(objects)
    return "\n---\n".join(json.dumps(one) for one in objects)


def _object(kind: str, name: str, spec: Mapping[str, object]) -> dict[str, object]:
    return {
        "apiVersion": "wiring.githedgehog.com/v1beta1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def numbered(clos: Clos, random: Random) -> tuple[dict[str, int], list[tuple[End, End]]]:
    """Return the numbers of the nodes, hosts first, and the links, for formats that name nodes by numbers."""
    hosts = [host for host, _ in clos.nics + clos.collectors]
    switches = list(clos.tier_of)
    random.shuffle(switches)
    number_of = {name: number for number, name in enumerate(hosts + switches)}
    return number_of, links(clos, random, bridges=False)


def simulator(clos: Clos, random: Random, *, simai: bool) -> tuple[str, dict[str, int]]:
    """Return a file of SimAI (of one GPU a server) or HPCC, and the number of each node."""
    number_of, joined = numbered(clos, random)
    switches = [number_of[name] for name in clos.tier_of]
    random.shuffle(switches)
    head = (len(number_of), 1, 0, len(switches), len(joined), "H100") if simai else (
        len(number_of), len(switches), len(joined),
    )  # fmt: skip
    lines = [head, switches, *((number_of[a.node], number_of[b.node], "100Gbps", "1us", 0) for a, b in joined)]
    return "".join(" ".join(map(str, line)) + "\n" for line in lines), number_of


def _shuffled(nodes: dict[str, dict[str, str]], random: Random) -> dict[str, dict[str, str]]:
    names = list(nodes)
    random.shuffle(names)
    return {name: nodes[name] for name in names}
