"""Which flows may exceed the rates of a plan: those that links between switches slow, none into a NIC that is full."""

from dataclasses import replace

import numpy as np
import pytest

from heddle.controller.config import parse_fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, Incast, JobRequest
from heddle.controller.model.plan import Plan, conserving_count
from heddle.controller.planner.ground.flow_table import FlowTable
from heddle.controller.planner.solve import solve

OVERSUBSCRIBED = "spines: 2, leaves: 2, hosts_per_leaf: 4"
FULL = "spines: 4, leaves: 2, hosts_per_leaf: 4"
FIRST, SECOND = (1, 5, 2, 6), (3, 7, 4, 8)
UPLINK = "leaf1:1>spine1:1"


def fabric_of(generate: str):
    return parse_fabric(f"version: 1\ngenerate: {{kind: spine_leaf, {generate}, gbps: 100}}\n", "fabric")


def job(name: str, hosts, kind=CollectiveKind.RING_ALL_REDUCE, **more) -> JobRequest:
    collective = Collective(kind=kind, size_bytes=10**6)
    return JobRequest(job_id=name, ranks=tuple(f"h{host}-n0" for host in hosts), collectives=(collective,), **more)


def planned(generate: str, *jobs: JobRequest, cut: str = "", kept=()):
    fabric = fabric_of(generate)
    health = replace(Health(), down_cables=frozenset((cut,))) if cut else Health()
    plan = solve(fabric, jobs, health=health, kept=kept)
    assert isinstance(plan, Plan)
    return plan.jobs


def exceeding(*found) -> list[int]:
    return [conserving_count(each.flows) for each in found]


def test_rings_over_links_that_both_overload_may_exceed_their_shares():
    found = planned(OVERSUBSCRIBED, job("a", FIRST), job("b", SECOND))
    assert exceeding(*found) == [4, 4]
    assert {flow.rate_bps for each in found for flow in each.flows} == {50 * 10**9}


def test_where_no_link_is_over_1_no_flow_may_exceed_its_rate():
    assert exceeding(*planned(FULL, job("a", FIRST), job("b", SECOND))) == [0, 0]


@pytest.mark.parametrize("kind", [CollectiveKind.ALL_TO_ALL, CollectiveKind.GATHER])
def test_senders_that_overload_a_nic_keep_to_their_rates(kind):
    assert exceeding(*planned(OVERSUBSCRIBED, job("a", (*FIRST, *SECOND), kind))) == [0]


def test_senders_in_turns_keep_to_their_rates():
    (found,) = planned(OVERSUBSCRIBED, job("a", FIRST, CollectiveKind.GATHER, incast=Incast.WINDOWS))
    assert exceeding(found) == [0]


def test_after_a_cut_the_flows_over_what_is_left_may():
    whole = "spines: 2, leaves: 4, hosts_per_leaf: 2"
    rings = (job("a", (1, 3, 5, 7)), job("b", (2, 4, 6, 8)))
    assert exceeding(*planned(whole, *rings)) == [0, 0]
    found = planned(whole, *rings, cut=UPLINK)
    slowed = [flow for each in found for flow in each.flows if flow.rate_bps < flow.demand_bps]
    assert slowed
    assert all(flow.work_conserving for flow in slowed)
    assert sum(exceeding(*found)) == len(slowed)


def test_a_running_job_whose_neighbour_ends_keeps_to_its_rate_again():
    first, second = job("a", FIRST), job("b", SECOND)
    both = planned(OVERSUBSCRIBED, first, second)
    (alone,) = planned(OVERSUBSCRIBED, kept=((first, both[0]),))
    assert exceeding(both[0], alone) == [4, 0]
    again = planned(OVERSUBSCRIBED, second, kept=((first, alone),))
    assert exceeding(*again) == [4, 4]


def test_the_number_is_the_same_of_a_table_and_of_its_flow_plans():
    (found, _) = planned(OVERSUBSCRIBED, job("a", FIRST), job("b", SECOND))
    table = found.flows
    assert isinstance(table, FlowTable)
    half = table.with_rates(table.rates, None, np.arange(len(table)) % 2 == 0)
    assert conserving_count(half) == conserving_count(list(half)) == 2
    assert half != table
    assert half == table.with_rates(table.rates, None, half.conserving)
