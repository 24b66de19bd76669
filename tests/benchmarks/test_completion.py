import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric, parse_jobs
from heddle.controller.model.plan import Plan
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.ground.loads import link_places
from heddle.controller.planner.solve import solve
from heddle.library.fluid.completion import completion_times, path_outcome
from tests.support.fabrics.planner_cases import custom, fabric_of, job_of
from tests.support.fabrics.planning import fabric_file, job_files, shapes

GBPS = 10**9


def one_link(sizes_bits, *, capacity=1, **options):
    """Flows over one link of `capacity` bit/ns."""
    places = np.zeros((len(sizes_bits), 1), dtype=np.int64)
    return completion_times(places, np.array([capacity * 1e9]), np.array(sizes_bits) / 8, **options)


def test_a_flow_that_ends_leaves_its_share_to_the_others():
    found = one_link([10.0, 30.0])
    assert found.completion_ns.tolist() == [20, 40]
    assert found.finished


def test_a_flow_that_begins_later_takes_its_share_from_then_on():
    found = one_link([20.0, 10.0], start_ns=np.array([0.0, 10.0]))
    assert found.completion_ns.tolist() == [30, 20]


def test_a_capped_flow_leaves_the_rest_of_the_link_to_others():
    found = one_link([10.0, 30.0], max_bps=np.array([0.25e9, 1e9]))
    assert found.completion_ns.tolist() == [40, 40]


def test_flows_that_take_turns_use_the_link_during_their_slots():
    found = one_link([10.0, 10.0, 10.0], slots=np.array([4, 4, 1]))
    assert found.completion_ns.tolist() == [40, 40, 20]


def test_a_flow_over_a_link_without_capacity_never_ends():
    assert one_link([10.0, 0.0], capacity=0).completion_ns.tolist() == [np.inf, 0]


def test_flows_that_cross_nothing_are_done_at_once():
    found = completion_times(np.full((2, 3), -1, dtype=np.int64), np.ones(1), np.array([5.0, 0.0]))
    assert found.completion_ns.tolist() == [0, 0]


def test_a_simulation_that_reaches_its_limit_is_marked_unfinished():
    sizes = np.arange(1.0, 9.0)
    found = one_link(sizes, max_fillings=10)
    assert not found.finished
    # One flow was done at the limit; the seven others keep their rates of that time.
    assert found.completion_ns.tolist() == [8, 15, 22, 29, 36, 43, 50, 57]


def test_ends_within_the_tolerance_are_one_event():
    sizes = 1000 + np.arange(50.0)
    assert one_link(sizes).events == 51
    merged = one_link(sizes, tolerance=0.02)
    assert merged.events < 10
    assert np.allclose(merged.completion_ns, one_link(sizes).completion_ns, rtol=0.02)


def outcome_of(fabric, hops, *collectives, **options):
    topology = topology_of(fabric)
    flows = expand(topology, [job_of(fabric, *collectives)])
    links = [[topology.link_index[link] for link in path] for path in hops]
    return path_outcome(topology, flows, np.array(links, dtype=np.int64).reshape(len(flows), -1), **options)


def test_flows_hashed_onto_one_spine_take_twice_as_long_as_apart():
    fabric = fabric_of()
    flows = custom((0, 2), (1, 3), bytes=1000)
    both = [["leaf1:1>spine1:1", "spine1:2>leaf2:1"], ["leaf1:1>spine1:1", "spine1:2>leaf2:1"]]
    apart = [["leaf1:1>spine1:1", "spine1:2>leaf2:1"], ["leaf1:2>spine2:1", "spine2:2>leaf2:2"]]
    hashed, planned = outcome_of(fabric, both, flows).figures(), outcome_of(fabric, apart, flows).figures()
    assert (hashed["min_rate_bps"], planned["min_rate_bps"]) == (50 * GBPS, 100 * GBPS)
    assert (hashed["p99_completion_ns"], planned["p99_completion_ns"]) == (160, 80)
    assert (hashed["mean_slowdown"], planned["max_slowdown"]) == (2, 1)


def test_an_outcome_is_that_of_the_heaviest_phase():
    fabric = fabric_of()
    path = ["leaf1:1>spine1:1", "spine1:2>leaf2:1"]
    light, heavy = custom((0, 2, GBPS), bytes=1), custom((1, 3, 2 * GBPS), bytes=1, phase=1)
    assert outcome_of(fabric, [path, path], light, heavy).rows.tolist() == [1]


def test_flows_without_a_size_send_for_a_second():
    fabric = fabric_of()
    found = outcome_of(fabric, [["leaf1:1>spine1:1", "spine1:2>leaf2:1"]], custom((0, 2, GBPS)), size_bytes=np.zeros(1))
    assert found.completion_ns.tolist() == [1e9]


def test_no_flows_have_no_figures():
    fabric = fabric_of()
    topology = topology_of(fabric)
    empty = np.empty((0, 4), dtype=np.int64)
    assert path_outcome(topology, expand(topology, ()), empty).figures() == {}


@settings(max_examples=40)
@given(st.data())
def test_flows_at_their_planned_rates_are_never_delayed(data):
    """The predicted time of an iteration equals the simulation of its phase beside all other jobs."""
    fabric_data = fabric_file(**data.draw(shapes()))
    jobs_data = data.draw(job_files(fabric_data))
    for job in jobs_data["jobs"]:
        for collective in job["collectives"]:
            collective["phase"] = 0
            collective["bytes"] = 10**6
    fabric = parse_fabric(json.dumps(fabric_data), "fabric")
    requests = parse_jobs(json.dumps(jobs_data), "jobs", fabric)
    plan = solve(fabric, requests, health=fabric.failed)
    assert isinstance(plan, Plan)
    topology = topology_of(fabric)
    tables = [job.flows for job in plan.jobs if isinstance(job.flows, FlowTable)]
    assert len(tables) == len(plan.jobs)
    # Flows that take turns are simulated at their average rate.
    turns = [table.turns.slots if table.turns else np.zeros(len(table), dtype=np.int64) for table in tables]
    rates = np.concatenate([table.rates for table in tables]) / np.maximum(np.concatenate(turns), 1)
    sizes = np.concatenate([table.flows.size_bytes for table in tables])
    places = np.concatenate([link_places(topology, table.flows, table.hops) for table in tables])
    # Demands are rounded to whole bits: flows that exactly fill a link may demand a bit per second too much.
    found = completion_times(
        places, (topology.capacity + len(rates)).astype(np.float64), sizes, max_bps=rates
    ).completion_ns
    ends = np.split(found, np.cumsum([len(table) for table in tables])[:-1])
    simulated = [end.max(initial=0.0) for end in ends]
    assert [job.predicted_completion_ns for job in plan.jobs] == pytest.approx(simulated, rel=1e-6, abs=1)
