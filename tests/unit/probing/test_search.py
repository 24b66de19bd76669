"""The search for ports on fabrics of synthetic routers: what is found is on the path, and how many probes it takes."""

import random
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.probing.flow import Wanted
from heddle.probing.search import BUDGET_FACTOR, Search
from tests.fakes.probing.hashing_fabric import HashingFabric, crc_modulo, crc_scaled, mixing, xor
from tests.support.examples import examples

HASHES = [crc_modulo, crc_scaled, xor, mixing]


class Addresses(defaultdict):
    """Gives every link that is asked for an address, and names the link of an address."""

    def __init__(self):
        super().__init__()
        self.of_link = {}

    def address(self, link):
        if link not in self.of_link:
            self.of_link[link] = len(self.of_link) + 1
            self[self.of_link[link]] = link
        return self.of_link[link]


def ring(fabric, ranks, qps=1, seed=0):
    """Return the flows of a ring, each with a random path."""
    drawn = random.Random(seed)
    flows = []
    for rank in range(ranks):
        for qp in range(qps):
            src, dst = 1000 + rank, 1000 + (rank + 1) % ranks
            way = tuple(drawn.randrange(width) for width in fabric._widths)
            flows.append(Wanted(f"f{rank}/{qp}", src, dst, fabric.links(src, dst, way)))
    return flows


def run(fabric, flows, ways, silent=lambda question: False, link_at=None):
    """Ask until the search is over; return it and the number of rounds."""
    addresses = Addresses()
    search, rounds = Search(flows, addresses, ways), 0
    while not search.is_over:
        rounds += 1
        for src_ip, questions in search.questions().items():
            links = {question: fabric.ask(src_ip, question) for question in questions if not silent(question)}
            search.heard(src_ip, {question: addresses.address(link) for question, link in links.items() if link})
    return search, rounds


@settings(max_examples=examples(40), deadline=None)
@given(
    st.sampled_from(HASHES),
    st.sampled_from([(4,), (8,), (2, 4), (4, 4)]),
    st.booleans(),
    st.integers(1, 3),
    st.integers(),
)
def test_a_port_that_is_found_leads_the_flow_over_its_planned_path(hashes, widths, equal_seeds, qps, seed):
    fabric = HashingFabric(widths, hashes, equal_seeds)
    flows = ring(fabric, 8, qps, seed)
    ways = 1
    for width in widths:
        ways *= width
    search, _ = run(fabric, flows, ways)
    for flow in flows:
        if (port := search.ports.get(flow.flow_id)) is not None:
            assert fabric.links(flow.src_ip, flow.dst_ip, fabric.way(flow.src_ip, flow.dst_ip, port)) == flow.path
    assert {*search.ports, *search.missing} == {flow.flow_id for flow in flows}
    taken = [(flow.src_ip, flow.dst_ip, search.ports[flow.flow_id]) for flow in flows if flow.flow_id in search.ports]
    assert len(set(taken)) == len(taken)


def test_a_ring_over_64_spines_takes_about_64_probes_a_flow_and_misses_few():
    fabric = HashingFabric((64,), mixing)
    flows = ring(fabric, 1024)
    search, _ = run(fabric, flows, 64)
    assert fabric.probes / len(flows) < 2 * 64
    assert len(search.missing) <= 5


def test_no_flow_takes_more_probes_than_its_budget_and_a_batch():
    fabric = HashingFabric((16,), lambda header, seed, n: 0)  # one path for all ports
    flows = [flow for flow in ring(fabric, 4) if "(0,)" not in flow.path[1]]
    search, _ = run(fabric, flows, 16)
    assert search.missing == [flow.flow_id for flow in flows]
    assert fabric.probes <= len(flows) * (BUDGET_FACTOR * 16 + 16)


def test_on_a_polarised_fabric_the_flows_of_unreachable_paths_are_missing():
    fabric = HashingFabric((8, 8), crc_modulo, equal_seeds=True)  # both tiers choose alike: 8 of 64 paths are in use
    alike = [fabric.links(1, 2, (way, way)) for way in range(8)]
    apart = [fabric.links(1, 2, (way, (way + 3) % 8)) for way in range(8)]
    flows = [Wanted(f"f{number}", 1, 2, path) for number, path in enumerate(alike + apart)]
    search, _ = run(fabric, flows, 64)
    assert search.missing == [f"f{number}" for number in range(8, 16)]


def test_a_silent_router_leaves_its_flows_without_a_port_and_no_other():
    fabric = HashingFabric((4,), mixing)
    flows = ring(fabric, 8)
    search, _ = run(fabric, flows, 4, silent=lambda question: question.ttl == 3 and question.dst_ip == 1001)
    assert search.missing == ["f0/0"]


def test_a_flow_between_nics_of_one_leaf_needs_no_probe():
    search = Search([Wanted("f", 1, 2, ("1>leaf", "leaf>2"))], {}, 4)
    assert search.is_over
    assert list(search.ports) == ["f"]


def test_replies_from_addresses_that_no_cable_has_are_counted_and_say_nothing():
    fabric = HashingFabric((2,), mixing)
    search = Search(ring(fabric, 2), {}, 2)
    for src_ip, questions in search.questions().items():
        search.heard(src_ip, dict.fromkeys(questions, 99))
    assert search.unknown_addresses > 0
    assert not search.ports


@pytest.mark.parametrize("hashes", HASHES)
def test_a_port_whose_way_down_is_another_is_not_taken(hashes):
    class Crossed(HashingFabric):
        def ask(self, src_ip, question):
            link = super().ask(src_ip, question)
            return "elsewhere" if question.ttl == 3 and question.port % 2 else link

    fabric = Crossed((4,), hashes)
    search, _ = run(fabric, ring(fabric, 8), 4)
    assert all(port % 2 == 0 for port in search.ports.values())
    assert search.astray > 0


def test_a_port_that_still_leads_over_the_path_is_confirmed_by_a_probe_a_hop():
    fabric = HashingFabric((4,), mixing)
    flows = ring(fabric, 8)
    first, _ = run(fabric, flows, 4)
    fabric.probes = 0
    again = [flow._replace(port=first.ports[flow.flow_id]) for flow in flows]
    second, _ = run(fabric, again, 4)
    assert second.ports == first.ports
    assert fabric.probes == 2 * len(flows)


def test_of_a_port_that_leads_elsewhere_now_the_path_is_named_and_no_other_is_sought():
    fabric = HashingFabric((4,), mixing)
    flows = ring(fabric, 8)
    first, _ = run(fabric, flows, 4)
    rehashed = HashingFabric((4,), crc_modulo)
    second, _ = run(rehashed, [flow._replace(port=first.ports[flow.flow_id]) for flow in flows], 4)
    assert second.elsewhere
    for flow in flows:
        port = first.ports[flow.flow_id]
        path = fabric.links(flow.src_ip, flow.dst_ip, rehashed.way(flow.src_ip, flow.dst_ip, port))
        if path == flow.path:
            assert second.ports[flow.flow_id] == port
        else:
            assert second.elsewhere[flow.flow_id] == path
            assert flow.flow_id in second.missing
    assert rehashed.probes == 2 * len(flows)
