"""After the lowest maximum, a plan slows as few flows as it can."""

import json

import numpy as np
import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest, RankPair
from heddle.controller.model.plan import Plan
from heddle.controller.planner.solve import solve
from tests.support.fabrics.planning import fabric_file


def shift(fabric, by, *, queue_pairs=1):
    """Return a job in which every NIC sends to the one `by` places on."""
    count = len(fabric.nics)
    pairs = tuple(RankPair(src_rank=i, dst_rank=(i + by) % count) for i in range(count))
    send = Collective(kind=CollectiveKind.SEND_RECV, size_bytes=1000, pairs=pairs, qps_per_flow=queue_pairs)
    return JobRequest(job_id="shift", ranks=tuple(nic.id for nic in fabric.nics), collectives=(send,))


def without(fabric, leaf, cables):
    """Fail the first cables of one leaf."""
    lower = [cable.id for cable in fabric.cables if cable.lower.switch == leaf]
    return Health(down_cables=frozenset(lower[:cables]))


def certificate(fabric, jobs, health):
    plan = solve(fabric, jobs, health=health)
    assert isinstance(plan, Plan)
    return plan.certificate


@pytest.mark.parametrize(
    ("down", "queue_pairs", "fullest", "slowed"),
    [
        (1, 1, 2.0, 6),  # one flow more than links out of the leaf and one into it: two pairs share
        (8, 1, 2.0, 32),  # every flow of the leaf shares, in both directions, and no other
        (1, 4, 1.25, 48),  # four flows more than places on 15 links, each way: five on each of four links
    ],
)
def test_only_the_flows_of_a_leaf_without_cables_share_links(down, queue_pairs, fullest, slowed):
    shape = fabric_file(kind="spine_leaf", spines=16, leaves=8, hosts_per_leaf=16)
    fabric = parse_fabric(json.dumps(shape), "fabric.yaml")
    found = certificate(fabric, [shift(fabric, 16 * 3 + 5, queue_pairs=queue_pairs)], without(fabric, "leaf3", down))
    assert found.max_link_utilisation == fullest
    assert 0 < found.flows_slowed <= slowed


def test_a_failed_cable_in_three_tiers_slows_few_flows():
    shape = fabric_file(kind="clos3", pods=8, aggs_per_pod=4, leaves=4, hosts_per_leaf=4, spines=16)
    fabric = parse_fabric(json.dumps(shape), "fabric.yaml")
    leaf = next(switch.id for switch in fabric.switches if switch.role.tier == 0)
    found = certificate(fabric, [shift(fabric, 16 * 3 + 5)], without(fabric, leaf, 1))
    assert found.max_link_utilisation == 2.0
    assert 0 < found.flows_slowed <= 8


def test_rings_and_all_to_alls_of_several_tenants_share_links_as_their_phases_allow():
    shape = fabric_file(kind="rail_optimised", spines=8, leaves=8, hosts_per_leaf=8, nics_per_host=4)
    fabric = parse_fabric(json.dumps(shape), "fabric.yaml")
    order, jobs = np.random.default_rng(3).permutation(len(fabric.nics)), []
    for tenant, ranks in enumerate(np.split(order, 4)):
        ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=1000)
        spread = Collective(kind=CollectiveKind.ALL_TO_ALL, size_bytes=1000, phase=1)
        names = tuple(fabric.nics[rank].id for rank in ranks.tolist())
        jobs.append(JobRequest(job_id=f"tenant{tenant}", ranks=names, collectives=(ring, spread)))
    found = certificate(fabric, jobs, Health())
    assert found.max_link_utilisation <= 1.25


def test_the_same_flows_share_the_links_of_both_leaves_that_lack_cables():
    shape = fabric_file(kind="spine_leaf", spines=16, leaves=8, hosts_per_leaf=16)
    fabric = parse_fabric(json.dumps(shape), "fabric.yaml")
    down = [without(fabric, leaf, 1).down_cables for leaf in ("leaf3", "leaf6")]
    found = certificate(fabric, [shift(fabric, 16 * 3, queue_pairs=4)], Health(down_cables=frozenset().union(*down)))
    assert found.max_link_utilisation == 1.25
    # Four links of five flows each: out of leaf3 and into leaf6 they carry the same flows.
    assert 0 < found.flows_slowed <= 60
