"""Fabrics as engineers draw them, with all that surrounds them, read back as what they are.

Beside the fabric there may be an out-of-band switch, management ports, a firewall on two leaves, pairs of peers, spines
that lack cables, leaves without hosts and collectors. Nothing here uses the importer.
"""

import json
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.config.foreign import Options
from heddle.controller.config.foreign.read import import_text
from tests.support.examples import examples

NAMES = (
    {"core": "superspine{n}", "upper": "spine{pod}{n}", "leaf": "leaf{pod}{n}", "host": "server{n}"},
    {"core": "dc1-ss-core{n}", "upper": "dc1-p{pod}-agg{n}", "leaf": "dc1-p{pod}-tor{n}", "host": "dc1-gpu{n}"},
)
INTERFACES = ("Ethernet{}", "e1-{}", "eth{}", "swp{}", "Ethernet1/{}")
MANAGEMENT = ("mgmt0", "Management1", "fxp0")


class Drawn:
    """A fabric and its surroundings: the role of each switch, its cables, the NICs of each host, and all links."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.role_of: dict[str, str] = {}
        self.cables: Counter = Counter()
        self.nics: Counter = Counter()
        self.links: list[tuple[str, str]] = []
        self._ports: Counter = Counter()
        self._interface = random.choice(INTERFACES)
        self._names = random.choice(NAMES)

    def name(self, kind: str, number: int, pod: int = 0) -> str:
        return self._names[kind].format(n=number, pod=pod)

    def link(self, a: str, b: str, a_port: str = "", b_port: str = "") -> None:
        ends = [f"{node}:{port or self._next(node)}" for node, port in ((a, a_port), (b, b_port))]
        self.links.append((ends[0], ends[1]) if self.random.random() < 0.5 else (ends[1], ends[0]))

    def cable(self, lower: str, upper: str) -> None:
        self.cables[lower, upper] += 1
        self.link(lower, upper)

    def _next(self, node: str) -> str:
        self._ports[node] += 1
        return (self._interface if node in self.role_of else "ens{}").format(self._ports[node])


def drawn(random: Random) -> Drawn:
    """Return a random fabric of two or three tiers and what surrounds it."""
    found = Drawn(random)
    three, uppers, bundle = random.random() < 0.5, random.randint(2, 3), random.choice((1, 1, 2))
    cores = [found.name("core", n) for n in range(1, 2 * uppers + 1)] if three else []
    found.role_of |= dict.fromkeys(cores, "core")
    hosts: list[str] = []
    for pod in range(1, random.randint(2, 3) + 1 if three else 2):
        above = [found.name("upper", n, pod) for n in range(1, uppers + 1)]
        leaves = [found.name("leaf", n, pod) for n in range(1, random.randint(2, 4) + 1)]
        found.role_of |= dict.fromkeys(above, "agg" if three else "spine") | dict.fromkeys(leaves, "leaf")
        for leaf in leaves:
            lacks = leaf == leaves[-1] and random.random() < 0.3
            for upper in above[:-1] if lacks else above:
                for _ in range(bundle):
                    found.cable(leaf, upper)
        for upper, first in zip(above, range(0, 2 * uppers, 2), strict=True):
            for core in cores[first : first + 2]:
                found.cable(upper, core)
        _add_hosts(found, leaves, hosts)
        _surround(found, leaves, above)
    if random.random() < 0.5:
        port = random.choice(MANAGEMENT)
        for number, node in enumerate((*found.role_of, *hosts)):
            found.link("oob-sw1", node, f"port{number}", port)
    random.shuffle(found.links)
    return found


def _add_hosts(found: Drawn, leaves: list[str], hosts: list[str]) -> None:
    nics = found.random.choice((1, 2, 4))
    for at, _ in enumerate(leaves):
        for _ in range(found.random.randint(1, 2)):
            hosts.append(found.name("host", len(hosts) + 1))
            for nic in range(nics):
                found.link(hosts[-1], leaves[(at + nic) % len(leaves)])
                found.nics[hosts[-1]] += 1


def _surround(found: Drawn, leaves: list[str], above: list[str]) -> None:
    random, first = found.random, leaves[0]
    if random.random() < 0.3:
        found.link(first, leaves[1])
        found.link(first, leaves[1])
    if random.random() < 0.3:
        for leaf in leaves[:2]:
            found.link(f"{first}-fw1", leaf)
    if random.random() < 0.3:
        found.link(f"{first}-collector1", random.choice(above))
    if random.random() < 0.3:
        unused = f"{first}9"
        found.role_of[unused] = "leaf"
        for upper in above:
            found.cable(unused, upper)


def containerlab(found: Drawn) -> str:
    names = {end.partition(":")[0] for link in found.links for end in link}
    kinds = {
        name: "arista_ceos" if name in found.role_of or name.endswith(("sw1", "fw1")) else "linux" for name in names
    }
    nodes = {name: {"kind": kind} for name, kind in sorted(kinds.items())}
    return json.dumps({"topology": {"nodes": nodes, "links": [{"endpoints": list(link)} for link in found.links]}})


def batfish(found: Drawn) -> str:
    ends = [[end.split(":") for end in link] for link in found.links]
    named = [[{"hostname": node, "interfaceName": interface} for node, interface in each] for each in ends]
    return json.dumps({"edges": [{"node1": a, "node2": b} for a, b in named]})


@pytest.mark.parametrize("written_as", [containerlab, batfish])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(60), deadline=None)
def test_a_fabric_reads_back_without_what_surrounds_it(written_as, seed):
    fabric = drawn(Random(seed))
    found = import_text(written_as(fabric), "source", "source", Options()).fabric
    assert {switch.id: switch.role.value for switch in found.switches} == fabric.role_of
    assert Counter((cable.lower.switch, cable.upper.switch) for cable in found.cables) == fabric.cables
    assert Counter(nic.host for nic in found.nics) == fabric.nics
