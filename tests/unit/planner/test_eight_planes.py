"""Eight planes, one leaf of one plane without a quarter of its uplinks: what weights are worth (docs/files.md)."""

import numpy as np
import pytest

from heddle.controller.planner.ground.clos import Live, topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.controller.planner.ground.loads import link_loads
from heddle.controller.planner.proof.fluid import planned_rates
from heddle.controller.planner.route import Router
from tests.support.fabrics.planner_cases import fabric_of, job_of, plan_of

PLANES, HOSTS, LEAVES, QUEUE_PAIRS = 8, 8, 4, 3
LINE_BPS = PLANES * 100 * 10**9


def cut():
    """Return the fabric, and a job in which each NIC sends to that of the next leaf at line rate."""
    failed = [f"p0-leaf1:{port}>p0-spine{port}:1" for port in (1, 2)]
    fabric = fabric_of(spines=8, leaves=LEAVES, hosts_per_leaf=HOSTS, planes=PLANES, failed=failed)
    count = LEAVES * HOSTS
    pairs = [{"src_rank": rank, "dst_rank": (rank + HOSTS) % count} for rank in range(count)]
    ranks = [f"h{host}-n0" for host in range(1, count + 1)]
    send = {"kind": "SEND_RECV", "bytes": 10**9, "pairs": pairs, "qps_per_flow": QUEUE_PAIRS}
    return fabric, job_of(fabric, send, ranks=ranks)


def test_by_weights_every_nic_sends_at_0_96_of_line_rate_with_all_of_its_data_done_at_once():
    fabric, job = cut()
    plan = plan_of(fabric, job)
    assert plan.certificate.max_link_utilisation == pytest.approx(plan.certificate.lower_bound)
    assert plan.certificate.worst_share == pytest.approx(0.96875, abs=1e-4)
    rates: dict[int, int] = {}
    for flow in plan.jobs[0].flows:
        rates[flow.src_rank] = rates.get(flow.src_rank, 0) + flow.rate_bps
    assert min(rates.values()) >= 0.93 * LINE_BPS


def test_equal_parts_end_with_the_slowest_at_0_75_of_line_rate():
    fabric, job = cut()
    topology = topology_of(fabric)
    flows, live = expand(topology, (job,)), Live.of(topology, fabric.failed)
    none = np.full(len(flows), -1, dtype=np.int64)
    hops = Router(topology=topology, live=live).route(flows, np.zeros(len(flows), dtype=np.int64), [], none, {})
    rates = planned_rates(topology, flows, hops, link_loads(topology, flows, hops))
    assert (rates / flows.demand_bps).min() == pytest.approx(0.75)


def test_path_sets_rotate_within_each_plane():
    fabric = fabric_of(spines=4, leaves=2, hosts_per_leaf=2, planes=2)
    pairs = [{"src_rank": 0, "dst_rank": 2}, {"src_rank": 1, "dst_rank": 3}]
    send = {"kind": "SEND_RECV", "bytes": 10**9, "pairs": pairs, "paths_per_flow": 4}
    plan = plan_of(fabric, job_of(fabric, send, ranks={"all": True}))
    assert (plan.certificate.max_link_utilisation, plan.certificate.lower_bound) == (0.5, 0.5)
    loads = plan.jobs[0].link_loads_bps
    up = {link: load for link, load in loads.items() if ">p" in link and "spine" in link.split(">")[1]}
    assert set(up.values()) == {50 * 10**9}
    assert len(up) == 8
