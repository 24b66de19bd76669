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
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, Incast, JobRequest, Steering
from heddle.controller.model.job_state import JobState
from heddle.controller.model.moves import MoveLimit, Whose
from heddle.controller.model.steering import layout_of
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.rotations import rotations_of
from heddle.controller.planner.online import OnlinePlanner
from heddle.controller.planner.ports.steering import path_of_port
from heddle.controller.planner.solve import solve
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
    rotations = rotations_of(topology_of(fabric))
    for paths in range(1, rotations.count + 1):
        entries = template(rotations, paths, full=full).tolist()
        assert entries[0] == 0
        assert len(set(entries)) == paths


def test_a_rotation_moves_the_flows_of_a_link_together_to_a_link_of_the_same_tiers():
    topology = topology_of(THREE_TIERS)
    rotations = rotations_of(topology)
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
        solve(FABRIC, (request(5),), health=HEALTHY)


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
    with pytest.raises(InputError, match="job a: paths_per_flow needs leaves with equal uplinks"):
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
    plan = solve(FABRIC, (request(),), health=HEALTHY)
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
    plan = solve(FABRIC, (request(),), health=HEALTHY)
    write = every_path(FABRIC)
    for flow in plan.jobs[0].flows:
        message = write(flow)
        assert tuple(message.paths[0].links) == flow.links
        for path in message.paths:
            layout = layout_of(FABRIC)
            assert path_of_port(FABRIC, layout, flow.src_nic, flow.dst_nic, path.udp_source_port) == tuple(path.links)


def test_pages_of_flows_with_every_path_fit_a_message():
    flows = [solve(FABRIC, (request(),), health=HEALTHY).jobs[0].flows[0]] * 1000
    many = [replace(flow, entries=flow.entries * 64) for flow in flows]
    pages = list(pages_of(1, many, explicit=lambda flow: pb.PathSet(rotations=[2**31] * 2_000)))
    assert sum(len(page.flows) for page in pages) == 1000
    assert max(page.ByteSize() for page in pages) < 4 << 20
