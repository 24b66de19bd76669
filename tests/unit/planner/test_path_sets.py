"""Lists of sprayed flows: templates, what is refused, and what plans do with paths that fail."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from heddle.controller.api.path_sets import every_path
from heddle.controller.api.translate import pages_of, plan_to
from heddle.controller.brain.state import Job
from heddle.controller.config.load import parse_fabric
from heddle.controller.model.admission import problems
from heddle.controller.model.error import InputError
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, Incast, JobRequest, RankPair, Steering
from heddle.controller.model.job_state import JobState
from heddle.controller.model.moves import MoveLimit, Whose
from heddle.controller.model.plan import Plan
from heddle.controller.model.steering import layout_of
from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.planner.ground.rotations import Rotations, rotations_of
from heddle.controller.planner.online import OnlinePlanner
from heddle.controller.planner.ports.steering import path_of_port
from heddle.controller.planner.solve import Draft, draft, solve
from heddle.controller.planner.spread.lists import sprayed
from heddle.controller.planner.spread.template import spaced, template, various
from heddle.controller.runtime.journal import jobs as journal
from heddle.controller.runtime.planning.wire import columns_of
from heddle.controller.runtime.planning.wire import job_of as job_of_columns
from heddle.v1 import heddle_pb2 as pb


def fabric_of(**shape):
    return parse_fabric(json.dumps({"version": 1, "name": "lab", "generate": shape}), "fabric.yaml")


FABRIC = fabric_of(kind="spine_leaf", spines=4, leaves=4, hosts_per_leaf=4)
THREE_TIERS = fabric_of(kind="clos3", pods=2, spines=8, aggs_per_pod=4, leaves=2, hosts_per_leaf=4)
SHIFT = tuple(FlowDemand(src_rank=i, dst_rank=(i + 4) % 16, rate_bps=10**9) for i in range(16))
HEALTHY = Health()


def request(paths=4, job_id="a", **fields):
    one = Collective(kind=CollectiveKind.CUSTOM, flows=SHIFT, paths_per_flow=paths)
    ranks = tuple(nic.id for nic in FABRIC.nics)
    return JobRequest(job_id=job_id, ranks=ranks, collectives=(one,), **fields)


def plan_of(fabric, request, health=HEALTHY) -> Plan:
    plan = solve(fabric, (request,), health=health)
    assert isinstance(plan, Plan)
    return plan


def rotations_in(fabric) -> Rotations:
    found = rotations_of(topology_of(fabric))
    assert found is not None
    return found


def job_of(request, flows):
    return Job(
        request=request, number=1, generation=1, state=JobState.RUNNING, reason="submitted", lease_expires_unix_ms=0,
        flows=flows,
    )  # fmt: skip


@pytest.mark.parametrize(("size", "count"), [(8, 4), (16, 8), (24, 8), (32, 16), (64, 8), (64, 16), (256, 16)])
def test_no_difference_of_various_shifts_is_much_more_frequent_than_the_mean(size, count):
    shifts = various(size, count)
    times = Counter((a - b) % size for a in shifts for b in shifts if a != b)
    assert len(set(shifts)) == count
    assert max(times.values()) <= count * (count - 1) / (size - 1) + 2


def test_spaced_shifts_halve_the_largest_gap_again_and_again():
    assert spaced(16, 4) == (0, 8, 4, 12)


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("fabric", [FABRIC, THREE_TIERS])
def test_the_rotations_of_a_template_differ_until_there_are_no_more(fabric, full):
    rotations = rotations_in(fabric)
    for paths in range(1, rotations.count + 1):
        entries = template(rotations, paths, full=full).tolist()
        assert entries[0] == 0
        assert len(set(entries)) == paths


def test_a_rotation_moves_the_flows_of_a_link_together_to_a_link_of_the_same_tiers():
    topology = topology_of(THREE_TIERS)
    rotations = rotations_in(THREE_TIERS)
    for rotation in range(rotations.count):
        taken = rotations.links(rotation)[: topology.cables]
        assert sorted(taken.tolist()) == list(range(topology.cables))
        assert (topology.tier[topology.lower[taken]] == topology.tier[topology.lower]).all()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"steering": Steering.PIN}, "a pin has one path"),
        ({"incast": Incast.WINDOWS}, "take no turns"),
    ],
)
def test_what_has_one_path_is_refused(changes, why):
    (problem,) = problems(request(**changes), FABRIC)
    assert problem.path == "collectives[0].paths_per_flow"
    assert why in problem.text


def test_a_fixed_port_and_a_fabric_that_hashes_are_refused():
    flows = (FlowDemand(src_rank=0, dst_rank=5, udp_source_port=50_000),)
    one = Collective(kind=CollectiveKind.CUSTOM, flows=flows, paths_per_flow=2)
    fixed = JobRequest(job_id="a", ranks=request().ranks, collectives=(one,))
    assert "fixed udp_source_port" in problems(fixed, FABRIC)[0].text
    text = {"version": 1, "name": "lab", "steering": "hash", "generate": {"kind": "spine_leaf", "spines": 4,
            "leaves": 4, "hosts_per_leaf": 4, "gbps": 100}}  # fmt: skip
    assert "use qps_per_flow" in problems(request(), parse_fabric(json.dumps(text), "fabric.yaml"))[0].text


@pytest.mark.parametrize("paths", [257, 2**32 - 1])
def test_more_paths_than_a_nic_takes_are_refused(paths):
    assert problems(request(paths), FABRIC)[0].path == "collectives[0].paths_per_flow"


def test_more_paths_than_there_are_are_refused_with_their_number():
    with pytest.raises(InputError, match=r"collectives\[0\].paths_per_flow: 5, but .* at most 4 paths"):
        plan_of(FABRIC, request(5), HEALTHY)


def test_a_fabric_whose_leaves_differ_is_refused():
    text = {
        "version": 1, "name": "lab",
        "switches": [{"id": "leaf1", "role": "leaf"}, {"id": "leaf2", "role": "leaf"},
                     {"id": "spine1", "role": "spine"}, {"id": "spine2", "role": "spine"}],
        "links": [{"a": "leaf1:1", "b": "spine1:1", "gbps": 1}, {"a": "leaf1:2", "b": "spine2:1", "gbps": 1},
                  {"a": "leaf2:1", "b": "spine1:2", "gbps": 1}],
        "hosts": [{"id": f"h{n}", "nics": [{"id": f"h{n}-n0", "ip": f"10.0.0.{n}", "port": f"leaf{n}:9", "gbps": 1}]}
                  for n in (1, 2)],
    }  # fmt: skip
    fabric = parse_fabric(json.dumps(text), "fabric.yaml")
    one = Collective(kind=CollectiveKind.ALL_GATHER, size_bytes=9, paths_per_flow=2)
    job = JobRequest(job_id="a", ranks=tuple(nic.id for nic in fabric.nics), collectives=(one,))
    with pytest.raises(InputError, match=r"job a: collectives\[0\].paths_per_flow: needs leaves with equal uplinks"):
        solve(fabric, (job,), health=HEALTHY)


def planned(planner, requests, kept, health=HEALTHY):
    limit = MoveLimit(whose=Whose.ANY, max_flows=100)
    return planner.solve(requests, health=health, kept=kept, limit=limit, has_happened=True)


def test_a_path_that_fails_leaves_the_lists_and_only_flows_on_planned_paths_move():
    planner = OnlinePlanner(FABRIC)
    first = request()
    before = planned(planner, (first,), ())
    assert {len(flow.entries) for flow in before.jobs[0].flows} == {4}
    health = Health(down_cables=frozenset({FABRIC.cables[0].id}))
    after = planned(planner, (), ((first, before.jobs[0]),), health)
    changed = [flow for flow in after.jobs[0].flows if len(flow.entries) == 3]
    crossing = [flow for flow in after.jobs[0].flows if "leaf1" in (flow.links[1] + flow.links[2])]
    assert {flow.flow_id for flow in changed} == {flow.flow_id for flow in crossing}
    assert after.moved["a"].flows <= 2
    dead = {FABRIC.cables[0].up_link, FABRIC.cables[0].down_link}
    assert dead.isdisjoint(after.jobs[0].link_loads_bps)
    again = planned(planner, (), ((first, after.jobs[0]),))
    assert {len(flow.entries) for flow in again.jobs[0].flows} == {4}


def test_the_flows_of_a_job_whose_paths_stay_are_the_same_object():
    planner = OnlinePlanner(FABRIC)
    first = request()
    before = planned(planner, (first,), ())
    after = planned(planner, (request(2, "b"),), ((first, before.jobs[0]),))
    assert after.jobs[0].flows is before.jobs[0].flows


def test_sets_are_the_same_after_a_journey_to_the_planner_and_after_a_restart():
    plan = plan_of(FABRIC, request(), HEALTHY)
    topology = topology_of(FABRIC)
    columns = columns_of(topology, (request(), plan.jobs[0]), None)
    assert job_of_columns(topology, request(), columns, None).flows == plan.jobs[0].flows
    job = job_of(request(), plan.jobs[0])
    read = journal.decode(topology, journal.encode(topology, job), None)
    assert read.flows.flows == plan.jobs[0].flows
    assert read.flows.link_loads_bps == plan.jobs[0].link_loads_bps


def test_flows_that_follow_the_template_are_written_without_their_lists_and_others_with_them():
    planner = OnlinePlanner(FABRIC)
    first = request()
    before = planned(planner, (first,), ())
    health = Health(down_cables=frozenset({FABRIC.cables[0].id}))
    after = planned(planner, (), ((first, before.jobs[0]),), health)
    for found in (before, after):
        message = plan_to(job_of(first, found.jobs[0]).as_plan(found.certificate))
        (one,) = message.path_templates.templates
        for flow, written in zip(found.jobs[0].flows, message.flows, strict=True):
            rotations = tuple(written.path_set.rotations) or tuple(one.uplink_shifts)
            assert rotations == flow.entries
    message = plan_to(job_of(first, before.jobs[0]).as_plan(before.certificate))
    assert not any(flow.HasField("path_set") for flow in message.flows)


def test_every_path_is_written_with_its_source_port_on_request():
    plan = plan_of(FABRIC, request(), HEALTHY)
    write = every_path(FABRIC)
    for flow in plan.jobs[0].flows:
        message = write(flow)
        assert message is not None
        assert tuple(message.paths[0].links) == flow.links
        for path in message.paths:
            layout = layout_of(FABRIC)
            assert path_of_port(FABRIC, layout, flow.src_nic, flow.dst_nic, path.udp_source_port) == tuple(path.links)


def test_pages_of_flows_with_every_path_fit_a_message():
    flows = [plan_of(FABRIC, request(), HEALTHY).jobs[0].flows[0]] * 1000
    many = [replace(flow, entries=flow.entries * 64) for flow in flows]
    pages = list(pages_of(1, many, explicit=lambda flow: pb.PathSet(rotations=[2**31] * 2_000)))
    assert sum(len(page.flows) for page in pages) == 1000
    assert max(page.ByteSize() for page in pages) < 4 << 20


LARGE = fabric_of(kind="spine_leaf", spines=16, leaves=16, hosts_per_leaf=16, gbps=100)
ACROSS = tuple((i, ((i // 16 + 1 + i % 16 % 15) % 16) * 16 + i % 16) for i in range(256))


def sprayed_job(paths, rates_gbps, pairs=ACROSS):
    flows = tuple(
        FlowDemand(src_rank=a, dst_rank=b, rate_bps=10**9 * rates_gbps[n % len(rates_gbps)])
        for n, (a, b) in enumerate(pairs)
    )
    one = Collective(kind=CollectiveKind.CUSTOM, flows=flows, paths_per_flow=paths)
    return JobRequest(job_id="a", ranks=tuple(nic.id for nic in LARGE.nics), collectives=(one,))


@pytest.mark.parametrize("paths", [4, 8, 16])
def test_mixed_demands_are_within_a_hundredth_of_the_bound_for_any_parts(paths):
    certificate = plan_of(LARGE, sprayed_job(paths, (25, 50, 100, 10, 90)), HEALTHY).certificate
    assert certificate.max_link_utilisation <= 1.011 * certificate.lower_bound


@pytest.mark.parametrize("paths", [4, 8])
def test_after_cuts_weights_are_within_a_hundredth_of_the_bound_in_lists_of_at_most_256(paths):
    down = frozenset(cable.id for n, cable in enumerate(LARGE.cables) if n % 21 == 5)
    plan = plan_of(LARGE, sprayed_job(paths, (100,)), Health(down_cables=down))
    assert plan.certificate.max_link_utilisation <= 1.01 * plan.certificate.lower_bound
    lists = [flow.entries for flow in plan.jobs[0].flows]
    assert {len(entries) for entries in lists} <= {64, 128, 256}
    assert max(len(set(entries)) for entries in lists) <= paths


@pytest.mark.parametrize("paths", [4, 8, 16])
def test_denial_alone_of_one_cable_keeps_full_leaves_near_the_bound(paths):
    drafted = draft(LARGE, (sprayed_job(paths, (100,)),), health=HEALTHY)
    assert isinstance(drafted, Draft)
    for cable in (LARGE.cables[3].id, LARGE.cables[200].id):
        live = Live.of(topology_of(LARGE), Health(down_cables=frozenset({cable})))
        found = sprayed(live, drafted.jobs, drafted.whole.flows, drafted.whole.hops, weights=False)
        assert found is not None
        assert found.worst() <= 16 / 15 * (1 + 2 / (paths * (paths - 1)))


@pytest.mark.parametrize(("hosts", "paths"), [(4, 4), (4, 8), (8, 2), (12, 4), (2, 8)])
def test_few_flows_fill_links_as_little_as_entries_allow_where_their_number_divides_the_uplinks(hosts, paths):
    pairs = tuple((a, b) for a, b in ACROSS if a % 16 < hosts)
    certificate = plan_of(LARGE, sprayed_job(paths, (100,), pairs), HEALTHY).certificate
    entries = -(-hosts * paths // 16)
    assert certificate.max_link_utilisation <= entries / paths * 1.000001


def test_a_bound_by_lengths_is_below_what_any_split_reaches():
    down = frozenset(cable.id for n, cable in enumerate(LARGE.cables) if n % 4 == n // 16 % 4)
    request = sprayed_job(16, (100,))
    certificate = plan_of(LARGE, request, Health(down_cables=down)).certificate
    assert certificate.lower_bound <= certificate.max_link_utilisation <= 1.02 * certificate.lower_bound
    assert certificate.spraying is not None
    assert certificate.lower_bound <= certificate.spraying.all_paths_max_link_utilisation


def test_planes_are_sprayed_each_in_itself():
    fabric = fabric_of(kind="spine_leaf", spines=4, leaves=2, hosts_per_leaf=4, planes=2)
    pairs = tuple(RankPair(i, (i + 4) % 8) for i in range(8))
    one = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=9, pairs=pairs, paths_per_flow=4)
    ranks = tuple(dict.fromkeys(nic.rank for nic in fabric.nics))
    plan = plan_of(fabric, JobRequest(job_id="a", ranks=ranks, collectives=(one,)))
    assert plan.certificate.max_link_utilisation == plan.certificate.lower_bound
    assert [len(set(flow.entries)) for flow in plan.jobs[0].flows] == [4] * 16
