"""The pins of a job: one for each flow and each stream of others that its pins would divert."""

from heddle.controller.brain.intent import pin_rules_of
from heddle.controller.model.plan import FlowPlan, JobFlows, Stream
from heddle.controller.model.rule import Masked, Match
from tests.unit.brain.driver import shift_job, small_fabric

FABRIC = small_fabric()
UP, DOWN = "leaf1:1>spine1:1", "spine1:2>leaf2:1"


def flow(src, dst, **more):
    usual = dict.fromkeys(("udp_source_port", "rate_bps", "demand_bps", "reverse_udp_source_port", "phase"), 0)
    usual |= dict.fromkeys(("src_rank", "dst_rank", "collective", "queue_pair"), 0)
    links = (UP, DOWN)
    return FlowPlan(
        flow_id="a/0/0-1/0", src_nic=src, dst_nic=dst, links=links, reverse_links=(), pinned=True, **(usual | more)
    )


def stream(src, dst, port):
    return Stream(src_nic=src, dst_nic=dst, udp_source_port=port, links=(UP, DOWN))


def pinned(*flows, guards=(), dead=frozenset()):
    """Return source, destination and port of each pin on the leaf."""
    job = JobFlows(job_id="a", flows=flows, link_loads_bps={}, pinned=True, guards=guards)
    rules = pin_rules_of(FABRIC, shift_job("a"), job, 7, dead).get("leaf1", ())
    names = {nic.ip: nic.host for nic in FABRIC.nics}
    found = []
    for rule in rules:
        match = rule.match
        assert isinstance(match, Match)
        assert isinstance(match.ipv4_src, Masked)
        assert isinstance(match.ipv4_dst, Masked)
        port = None if match.udp_src is None else match.udp_src.value
        found.append((names[match.ipv4_src.value], names[match.ipv4_dst.value], port))
    return sorted(found, key=str)


def test_streams_of_others_are_pinned_by_source_destination_and_port():
    guards = [stream(src, dst, port) for src, dst, port in (
        ("h1-n0", "h3-n0", 50_000), ("h2-n0", "h3-n0", 50_000), ("h1-n0", "h4-n0", 50_000), ("h1-n0", "h3-n0", 50_001),
    )]  # fmt: skip
    assert pinned(guards=(*guards, guards[0])) == [
        ("h1", "h3", 50_000),
        ("h1", "h3", 50_001),
        ("h1", "h4", 50_000),
        ("h2", "h3", 50_000),
    ]


def test_flows_of_the_same_addresses_share_a_pin_and_others_have_their_own():
    flows = (flow("h1-n0", "h3-n0"), flow("h1-n0", "h3-n0", queue_pair=1), flow("h2-n0", "h3-n0"))
    assert pinned(*flows) == [("h1", "h3", None), ("h2", "h3", None)]


def test_nothing_is_pinned_on_a_dead_link_and_nothing_where_source_ports_select_paths():
    guards = (stream("h2-n0", "h3-n0", 50_000),)
    assert pinned(flow("h1-n0", "h3-n0"), guards=guards, dead=frozenset({DOWN})) == []
    assert pinned(flow("h1-n0", "h3-n0"), guards=guards, dead=frozenset({"leaf1:2>spine2:1"})) != []
    unpinned = JobFlows(job_id="a", flows=(flow("h1-n0", "h3-n0"),), link_loads_bps={}, pinned=False)
    assert pin_rules_of(FABRIC, shift_job("a"), unpinned, 7) == {}
