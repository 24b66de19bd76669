"""Searches over flows of several phases: the loads that they keep, and what they may not make worse."""

import json
from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric, parse_jobs
from heddle.controller.planner.ground.clos import MAX_HOPS, NO_LINK, Live, topology_of
from heddle.controller.planner.ground.expand import Flows, expand
from heddle.controller.planner.ground.loads import heaviest_phases, layers_of
from heddle.controller.planner.ground.segments import LoadedNet, segments_of
from heddle.controller.planner.search.joint import Joint, above
from heddle.controller.planner.search.layers import carry, phased
from tests.support.examples import examples
from tests.support.fabrics.planning import job_files, sick_fabrics


@given(
    rows=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=12),
    data=st.data(),
)
@settings(max_examples=examples(60))
def test_the_load_of_a_link_is_the_sum_of_the_heaviest_phases_whatever_comes_and_goes(rows, data):
    flows, links = flows_of(sorted(rows)), 3
    places = np.array([[data.draw(st.integers(0, links - 1))] for _ in rows], dtype=np.int64)
    found = phased(layers_of(flows), links)
    assert found is not None
    layer, loads = found
    net = net_of(links)
    for f in range(len(flows)):
        carry(net, loads, places[f, 0], layer[f], float(flows.demand_bps[f]))
    assert net.load.tolist() == heaviest_phases(flows, places, links).tolist()
    gone = data.draw(st.sets(st.integers(0, len(flows) - 1)))
    for f in sorted(gone):
        carry(net, loads, places[f, 0], layer[f], -float(flows.demand_bps[f]))
        places[f, 0] = -1
    assert net.load.tolist() == heaviest_phases(flows, places, links).tolist()
    assert loads.flows.tolist() == np.bincount(places[places >= 0], minlength=links).tolist()


def flows_of(rows):
    """Return flows of these jobs, phases and demands in bit/s."""
    job, phase, demand = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    zero: Any = np.zeros(len(job), dtype=np.int64)
    columns: dict[str, Any] = dict.fromkeys((field.name for field in fields(Flows)), zero)
    return Flows(**{**columns, "job": job, "phase": phase, "demand_bps": demand})


def net_of(links):
    """Return links without a fabric around them."""
    none = np.zeros(1, dtype=np.int64)
    return LoadedNet(
        none, none, none, none, none, np.zeros((1, 1), dtype=np.bool_), none, links, np.zeros(links), np.ones(links)
    )


@given(data=st.data(), shape=sick_fabrics())
@settings(max_examples=examples(40))
def test_a_search_never_raises_the_largest_utilisation_and_keeps_to_live_paths(data, shape):
    fabric = parse_fabric(json.dumps(shape), "fabric.yaml")
    jobs = parse_jobs(json.dumps(data.draw(job_files(shape))), "jobs.yaml", fabric)
    topology = topology_of(fabric)
    live, flows = Live.of(topology, fabric.failed), expand(topology, jobs)
    joint = Joint.of(topology, live, segments_of(topology, live), flows, np.zeros(2 * topology.cables))
    assert joint is not None
    order = np.flatnonzero(topology.nic_leaf[flows.src_nic] != topology.nic_leaf[flows.dst_nic])
    hops = joint.placed(np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64), order)
    held = data.draw(st.lists(st.booleans(), min_size=len(flows), max_size=len(flows)))
    free = np.array(held, dtype=np.bool_)
    for found in (joint.lowered(hops, 0.0, free), joint.settled(hops, free)):
        assert joint.fullest(found) <= joint.fullest(hops) * (1 + 1e-9)
        assert (found[~free] == hops[~free]).all()
        assert ((found[:, 0] < 0) == (hops[:, 0] < 0)).all()
        assert live.links[found[found >= 0]].all()


def test_no_link_goes_above_the_largest_utilisation_where_demands_are_ten_thousand_times_what_links_carry():
    lab = {"kind": "spine_leaf", "spines": 2, "leaves": 3, "hosts_per_leaf": 1, "gbps": 0.02}
    fabric = parse_fabric(json.dumps({"version": 1, "name": "lab", "generate": lab}), "fabric.yaml")
    customs = [
        {"kind": "CUSTOM", "qps_per_flow": qps, "flows": [{"src_rank": 0, "dst_rank": to, "rate_bps": bps}]}
        for to, qps, bps in ((2, 1, 200_000_000_000), (1, 16, 196_000_000_000))
    ]
    job = {"job_id": "one", "ranks": ["h1-n0", "h2-n0", "h3-n0"], "collectives": customs}
    jobs = parse_jobs(json.dumps({"version": 1, "jobs": [job]}), "jobs.yaml", fabric)
    topology = topology_of(fabric)
    live, flows = Live.of(topology, fabric.failed), expand(topology, jobs)
    joint = Joint.of(topology, live, segments_of(topology, live), flows, np.zeros(2 * topology.cables))
    assert joint is not None
    hops = joint.placed(np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64), np.arange(len(flows)))
    assert joint.fullest(hops) == 10_000
    # With a flow of the second collective beside the first one, fewer flows would share a link, but a fuller one.
    assert joint.fullest(joint.settled(hops, np.ones(len(flows), dtype=np.bool_))) <= 10_000 * (1 + 1e-9)


@given(data=st.data(), shape=sick_fabrics())
@settings(max_examples=examples(40))
def test_a_search_never_raises_the_largest_utilisation_of_a_higher_priority(data, shape):
    fabric = parse_fabric(json.dumps(shape), "fabric.yaml")
    jobs = parse_jobs(json.dumps(data.draw(job_files(shape))), "jobs.yaml", fabric)
    topology = topology_of(fabric)
    live, flows, links = Live.of(topology, fabric.failed), expand(topology, jobs), 2 * topology.cables
    row = np.array([2 - job.priority for job in jobs], dtype=np.int64)[flows.job]
    segments, none = segments_of(topology, live), np.zeros(links)
    apart = topology.nic_leaf[flows.src_nic] != topology.nic_leaf[flows.dst_nic]
    start = Joint.of(topology, live, segments, flows, none)
    assert start is not None
    hops = start.placed(np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64), np.flatnonzero(apart))

    def fullest(paths, priority):
        part, own = np.flatnonzero(row <= priority), paths[row == priority]
        loads = heaviest_phases(flows.rows(part), paths[part], links) / topology.capacity[:links]
        return loads[own[own >= 0]].max(initial=0.0)

    limit = np.array([[fullest(hops, 0)], [fullest(hops, 1)]])
    joint = Joint.of(topology, live, segments, flows, none, above(row, np.zeros((2, links)), limit * (1 + 1e-9)))
    assert joint is not None
    free = np.ones(len(flows), dtype=np.bool_)
    for found in (joint.lowered(hops, 0.0, free), joint.settled(hops, free)):
        assert joint.fullest(found) <= joint.fullest(hops) * (1 + 1e-9)
        assert fullest(found, 0) <= limit[0] * (1 + 2e-9)
        assert fullest(found, 1) <= limit[1] * (1 + 2e-9)


def uses(topology, flows, hops, base):
    """Return the utilisation of every link: per job its heaviest phase, summed by hand, and the base load."""
    by_phase: dict[tuple[int, int], np.ndarray] = {}
    for f in range(len(flows)):
        load = by_phase.setdefault((int(flows.job[f]), int(flows.phase[f])), np.zeros(len(base)))
        load[hops[f][hops[f] >= 0]] += int(flows.demand_bps[f])
    jobs = {job for job, _ in by_phase}
    heaviest = [np.max([load for (one, _), load in by_phase.items() if one == job], axis=0) for job in jobs]
    return (base + sum(heaviest, np.zeros(len(base)))) / topology.capacity[: len(base)]


@given(data=st.data(), shape=sick_fabrics(), seed=st.integers(0, 10**6))
@settings(max_examples=examples(40))
def test_evened_paths_are_live_use_no_fuller_link_and_leave_other_flows_alone(data, shape, seed):
    fabric = parse_fabric(json.dumps(shape), "fabric.yaml")
    jobs = parse_jobs(json.dumps(data.draw(job_files(shape))), "jobs.yaml", fabric)
    topology, rng = topology_of(fabric), np.random.default_rng(seed)
    live, flows = Live.of(topology, fabric.failed), expand(topology, jobs)
    links = 2 * topology.cables
    base = np.where(live.links[:links], rng.integers(0, 10**10, links) * rng.integers(0, 2, links), 0).astype(float)
    joint = Joint.of(topology, live, segments_of(topology, live), flows, base)
    assert joint is not None
    order = np.flatnonzero(topology.nic_leaf[flows.src_nic] != topology.nic_leaf[flows.dst_nic])
    hops = joint.placed(np.full((len(flows), MAX_HOPS), NO_LINK, dtype=np.int64), order)
    free = np.array(data.draw(st.lists(st.booleans(), min_size=len(flows), max_size=len(flows))), dtype=np.bool_)
    before, found = uses(topology, flows, hops, base), joint.evened(hops, free)
    after = uses(topology, flows, found, base)
    assert after[found[found >= 0]].max(initial=0.0) <= before[hops[hops >= 0]].max(initial=0.0) * (1 + 1e-8)
    if len({(job, phase) for job, phase in zip(flows.job, flows.phase, strict=True)}) == len(set(flows.job)):
        assert np.square(after).sum() <= np.square(before).sum() * (1 + 1e-9)
    assert (found[~free] == hops[~free]).all()
    assert ((found[:, 0] < 0) == (hops[:, 0] < 0)).all()
    assert live.links[found[found >= 0]].all()
