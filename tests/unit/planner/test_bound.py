from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import JobRequest
from tests.support.fabrics.planner_cases import custom, fabric_of, job_of, plan_of

LINK_BPS = 100 * 10**9


def bound_of(fabric: Fabric, *jobs: JobRequest) -> tuple[int, str]:
    """Return the bound in bit/s of a link, and its kind."""
    certificate = plan_of(fabric, *jobs).certificate
    return round(certificate.lower_bound * LINK_BPS), certificate.lower_bound_kind


def test_a_heavier_phase_of_small_flows_hides_no_pigeonhole_of_large_ones():
    fabric = fabric_of()
    large, other = custom((0, 2, 5), (1, 3, 5)), job_of(fabric, custom((0, 2, 5)), job_id="other")
    small = custom(*[(0, 2, 1)] * 11, phase=1)
    assert bound_of(fabric, job_of(fabric, large), other) == (10, "pigeonhole")
    assert bound_of(fabric, job_of(fabric, large, small), other) == (10, "pigeonhole")


def test_flows_that_fit_with_no_other_leave_fewer_links_to_the_rest():
    fabric = fabric_of(spines=3)
    flows = custom((0, 2, 9), (0, 3, 9), (1, 2, 3), (1, 3, 3), (0, 2, 3), (1, 3, 3))
    assert bound_of(fabric, job_of(fabric, flows)) == (12, "bin_packing")


def test_equal_links_share_a_cut_in_whole_bits_per_second():
    fabric = fabric_of(spines=3)
    flows = custom(*[(0, 2, 3), (1, 3, 3)] * 3, (0, 3, 1))  # 19 bit/s on three links
    assert bound_of(fabric, job_of(fabric, flows)) == (7, "cut")


def test_flows_between_pods_have_only_the_cores_that_both_pods_reach():
    shape = {"kind": "clos3", "aggs_per_pod": 1, "spines": 3, "pods": 2, "leaves": 2}
    whole, cut_off = fabric_of(**shape), ["pod1-agg1:3>core1:1", "pod2-agg1:4>core2:2"]
    flows = custom((0, 4, 5), (2, 6, 5))
    assert bound_of(whole, job_of(whole, flows)) == (5, "cut")
    broken = fabric_of(failed=cut_off, **shape)
    assert bound_of(broken, job_of(broken, flows)) == (10, "cut")


def test_a_destination_that_lost_a_spine_has_fewer_uplinks_of_every_leaf():
    fabric = fabric_of(spines=3, leaves=3, failed=["leaf2:1>spine1:2"])
    flows = custom((0, 2, 5), (0, 3, 5), (1, 2, 5), (4, 2, 1))
    assert bound_of(fabric, job_of(fabric, flows)) == (10, "pigeonhole")
