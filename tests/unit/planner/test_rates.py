from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.planner.proof.fluid import max_min_rates
from heddle.testing.plans.contract_rates import max_min
from tests.support.fabrics.planner_cases import custom, fabric_of, flows_of, job_of, plan_of

GBPS = 10**9


def test_senders_into_one_nic_share_95_per_cent_of_it():
    flows = flows_of(fabric_of(spines=4), {"kind": "GATHER", "bytes": 1, "root": 0})
    assert {flow.rate_bps for flow in flows} == {95 * GBPS // 3}


def test_one_sender_may_fill_a_nic():
    assert flows_of(fabric_of(), custom((2, 0), qps_per_flow=4))[0].rate_bps == 25 * GBPS


def test_flows_on_an_overloaded_link_have_max_min_shares():
    flows = flows_of(fabric_of(spines=1), custom((0, 2, 90 * GBPS), (1, 3, 30 * GBPS)))
    assert [flow.rate_bps for flow in flows] == [70 * GBPS, 30 * GBPS]


def test_phases_of_one_job_do_not_compete():
    flows = flows_of(fabric_of(spines=1), custom((0, 2, 90 * GBPS)), custom((1, 3, 30 * GBPS), phase=1))
    assert [flow.rate_bps for flow in flows] == [90 * GBPS, 30 * GBPS]


def test_a_phase_competes_with_other_jobs():
    fabric = fabric_of(spines=1)
    phased = job_of(fabric, custom((0, 2, 80 * GBPS)), custom((0, 2, 10 * GBPS), phase=1), job_id="phased")
    plan = plan_of(fabric, phased, job_of(fabric, custom((1, 3, 80 * GBPS)), job_id="other"))
    rates = [[flow.rate_bps for flow in job.flows] for job in plan.jobs]
    assert rates == [[50 * GBPS, 10 * GBPS], [50 * GBPS]]


def shares_of(plan) -> tuple[int, float, float, int]:
    found = plan.certificate
    return found.flows_slowed, found.mean_share, found.worst_share, found.links_over_capacity


def test_the_certificate_counts_the_flows_that_share_a_full_link():
    fabric = fabric_of(spines=1)
    plan = plan_of(fabric, job_of(fabric, custom((0, 2, 90 * GBPS), (1, 3, 30 * GBPS))))
    assert shares_of(plan) == pytest.approx((1, (7 / 9 + 1) / 2, 7 / 9, 2))


def test_a_flow_within_a_leaf_is_slowed_by_a_full_nic():
    fabric = fabric_of()
    plan = plan_of(fabric, job_of(fabric, custom((0, 1, 80 * GBPS), (2, 1, 80 * GBPS))))
    assert shares_of(plan) == (2, 0.625, 0.625, 0)


def test_the_headroom_of_an_incast_slows_no_flow():
    fabric = fabric_of(spines=4)
    plan = plan_of(fabric, job_of(fabric, {"kind": "ALL_TO_ALL", "bytes": 1}))
    assert {flow.rate_bps < flow.demand_bps for flow in plan.jobs[0].flows} == {True}
    assert shares_of(plan) == (0, 1.0, 1.0, 0)


def test_an_incast_beside_an_overloaded_link_counts_only_the_flows_of_that_link_as_slowed():
    fabric = fabric_of(spines=1, leaves=3)
    gather = job_of(fabric, custom((0, 5), (1, 5)), job_id="gather")
    other = job_of(fabric, custom((2, 4, 80 * GBPS)), job_id="other")
    plan = plan_of(fabric, gather, other)
    # 50 + 50 + 80 Gbit/s into leaf3: 100 / 3 each.
    assert shares_of(plan) == pytest.approx((3, (2 / 3 + 2 / 3 + 5 / 12) / 3, 5 / 12, 1))


def test_a_share_is_that_beside_the_heaviest_phase_of_each_other_job():
    fabric = fabric_of(spines=1)
    phased = job_of(fabric, custom((0, 2, 80 * GBPS)), custom((0, 2, 10 * GBPS), phase=1), job_id="phased")
    plan = plan_of(fabric, phased, job_of(fabric, custom((1, 3, 80 * GBPS)), job_id="other"))
    assert shares_of(plan) == pytest.approx((2, (0.625 + 0.625 + 1) / 3, 0.625, 2))


def test_a_nic_that_is_over_by_the_rounding_of_demands_makes_no_phase_heavier():
    fabric = fabric_of(spines=1, hosts_per_leaf=3, gbps=0.02)
    incast = custom((0, 3), (1, 3), (2, 3), phase=1)  # 3 x 6,666,667 bit/s
    phased = job_of(fabric, custom((0, 1, 12 * 10**6)), incast, job_id="phased")
    plan = plan_of(fabric, phased, job_of(fabric, custom((0, 2, 12 * 10**6)), job_id="other"))
    # Only the first NIC is overloaded, and the phase with 12 Mbit/s there is heavier than that with 6.7.
    assert shares_of(plan) == pytest.approx((2, (5 / 6 + 5 / 6 + 3) / 5, 5 / 6, 0))


def test_a_plan_without_flows_slows_none():
    fabric = fabric_of()
    assert shares_of(plan_of(fabric)) == (0, 1.0, 1.0, 0)


def test_an_iteration_takes_as_long_as_the_slowest_flow_of_each_phase_in_turn():
    fabric = fabric_of()
    job = job_of(fabric, {"kind": "RING_ALL_REDUCE", "bytes": 10**9}, custom((0, 2, GBPS), bytes=10**6, phase=1))
    # 1.5 GB at 100 Gbit/s, then 1 MB at 1 Gbit/s.
    assert plan_of(fabric, job).jobs[0].predicted_completion_ns == 120_000_000 + 8_000_000


@given(
    capacity=st.lists(st.integers(1, 20), min_size=3, max_size=6),
    flows=st.lists(st.tuples(st.sets(st.integers(0, 2), min_size=1), st.integers(1, 20)), min_size=1, max_size=8),
)
def test_progressive_filling_gives_max_min_shares(capacity, flows):
    places = np.full((len(flows), 3), -1, dtype=np.int64)
    for row, (links, _) in enumerate(flows):
        places[row, : len(links)] = sorted(links)
    most = np.array([demand for _, demand in flows], dtype=np.float64)
    found = max_min_rates(places, np.array(capacity, dtype=np.float64), most)
    plain = [{"flow_id": n, "links": links, "demand_bps": demand} for n, (links, demand) in enumerate(flows)]
    wanted = max_min(plain, {link: Fraction(rate) for link, rate in enumerate(capacity)})
    assert np.allclose(found, [float(wanted[n]) for n in range(len(flows))])
