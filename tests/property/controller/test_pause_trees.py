"""The root of random trees of PFC pauses, against the NICs that a model of back-pressure has started them at."""

from collections import defaultdict
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.views.congestion import congestion
from heddle.telemetry.detection.signal import Signal, SignalKind
from tests.support.fabrics.small_fabrics import clos3, spine_leaf

PRIORITY = 3


def raised(port, kind):
    return Signal(
        kind=kind, port=port, priority=PRIORITY, raised=True, value=1.0, threshold=0.9, since_unix_ns=1,
        sampled_unix_ns=2,
    )  # fmt: skip


def climbs(fabric, switch, levels=2):
    """Yield every way up from a switch: its top, and the cables to it."""
    yield switch, ()
    for cable in fabric.cables if levels else ():
        if cable.lower.switch == switch:
            for top, cables in climbs(fabric, cable.upper.switch, levels - 1):
                yield top, (cable, *cables)


def shortest_paths(fabric, src, dst):
    """Return the links of every path that goes up only as far as it must, and then down."""
    found = []
    for top, rise in climbs(fabric, src.port.switch):
        for other, fall in climbs(fabric, dst.port.switch):
            if top == other and len(rise) == len(fall):
                up = [f"{cable.lower}>{cable.upper}" for cable in rise]
                down = [f"{cable.upper}>{cable.lower}" for cable in reversed(fall)]
                found.append([f"{src.id}>{src.port}", *up, *down, f"{dst.port}>{dst.id}"])
    return [path for path in found if len(path) == min(map(len, found))]


class Pauses:
    """The pauses that storms cause: a paused egress port fills its switch, which pauses the ports that feed it."""

    def __init__(self, fabric, paths, storms, spreads):
        self.next_ports = defaultdict(set)
        feeds = defaultdict(list)
        for path in paths:
            for link, following in pairwise(path):
                feeds[following.split(">")[0]].append(link)
                self.next_ports[link].add(following.split(">")[0])
        self.link_from = {link.split(">")[0]: link for path in paths for link in path}
        self.paused, self.pausing = {}, set(storms)
        todo = [str(fabric.nic_by_id[nic].port) for nic in storms]
        while todo:
            port = todo.pop()
            if port not in self.paused:
                self.paused[port] = True
                for link in feeds[port]:
                    if spreads(link):
                        self.pausing.add(link.split(">")[1])
                        todo.append(link.split(">")[0])
        self.nic_behind = {str(fabric.nic_by_id[nic].port): nic for nic in storms}

    def roots(self, port):
        """Return the NICs in storm to which paused ports lead along the flows that cross a paused port."""
        found, seen, todo = set(), set(), [port]
        while todo:
            here = todo.pop()
            if here in seen or here not in self.paused:
                continue
            seen.add(here)
            if here in self.nic_behind:
                found.add(self.nic_behind[here])
            todo += self.next_ports[self.link_from.get(here, "")]
        return found

    def pfc(self):
        ports = {*self.paused, *self.pausing}
        return {(port, PRIORITY): (port in self.paused, port in self.pausing) for port in ports}


FABRICS = [spine_leaf(2, 4, 8), spine_leaf(3, 3, 3), clos3(2, 2, 2, 2), clos3(3, 1, 2, 4)]


@st.composite
def trees(draw):
    fabric = draw(st.sampled_from(FABRICS))
    storms = draw(st.lists(st.sampled_from([nic.id for nic in fabric.nics]), min_size=1, max_size=2, unique=True))
    ends = st.lists(st.sampled_from(fabric.nics), min_size=2, max_size=2, unique=True)
    pairs = draw(st.lists(ends, max_size=12))
    paths = [draw(st.sampled_from(shortest_paths(fabric, *pair))) for pair in pairs]
    held_back = draw(st.sets(st.sampled_from(sorted({link for path in paths for link in path} or {""}))))
    return fabric, paths, storms, Pauses(fabric, paths, storms, lambda link: link not in held_back)


def roots_found(fabric, paths, pauses):
    flows = [SimpleNamespace(flow_id=str(number), links=path) for number, path in enumerate(paths)]
    loads = {link: 1 for path in paths for link in path}
    jobs = {"job": SimpleNamespace(flows=SimpleNamespace(flows=flows, link_loads_bps=loads))} if paths else {}
    storms = [raised(port, SignalKind.STORM) for port in sorted(pauses.nic_behind)]
    signals = [raised(port, SignalKind.PAUSING) for port in sorted({*pauses.paused, *pauses.pausing})]
    state: Any = SimpleNamespace(fabric=fabric, jobs=jobs)
    found = congestion(state, [*storms, *signals], pauses.pfc())
    assert all(one.root_cause == pauses.nic_behind[one.signal.port] for one in found[: len(storms)])
    return {one.signal.port: one.root_cause for one in found}


@given(trees())
def test_with_a_plan_every_pause_has_a_nic_in_storm_as_root_to_which_its_own_flows_lead(tree):
    fabric, paths, _, pauses = tree
    for port, root in roots_found(fabric, paths, pauses).items():
        assert root in pauses.roots(port) or (port not in pauses.paused and root in pauses.nic_behind.values()), port


@given(trees())
def test_without_a_plan_the_root_is_a_nic_in_storm_and_never_a_port_between_switches_or_a_circle(tree):
    fabric, _, storms, pauses = tree
    assert set(roots_found(fabric, [], pauses).values()) <= set(storms)
