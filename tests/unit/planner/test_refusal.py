from dataclasses import replace

from tests.support.fabrics.planner_cases import custom, fabric_of, job_of, plan_of, refusal_of

ALL = {"kind": "ALL_TO_ALL", "bytes": 1}


def test_a_leaf_that_is_cut_off_is_named_with_the_cut():
    fabric = fabric_of(failed=["leaf1:1>spine1:1", "leaf1:2>spine2:1"])
    why = refusal_of(fabric, job_of(fabric, ALL))
    for word in ("job/0/0-2/0", "leaf1 and leaf2", "leaf1:1>spine1:1", "leaf1:2>spine2:1", "8 flow(s)"):
        assert word in why


def test_a_nic_whose_leaf_is_down_is_named():
    fabric = fabric_of(failed=["leaf2"])
    assert "NIC h3-n0" in refusal_of(fabric, job_of(fabric, ALL))


def test_the_refusal_for_a_partitioned_fabric_has_both_sides_the_flows_and_the_whole_cut():
    """Only leaf1 and leaf2 reach spine1, only leaf3 and leaf4 reach spine2."""
    cut = ["leaf1:2>spine2:1", "leaf2:2>spine2:2", "leaf3:1>spine1:3", "leaf4:1>spine1:4"]
    fabric = fabric_of(leaves=4, hosts_per_leaf=1, failed=cut)
    why = refusal_of(fabric, job_of(fabric, ALL))
    assert "8 flow(s) have no path, job/0/0-2/0, job/0/0-3/0, job/0/1-2/0, job/0/1-3/0, job/0/2-0/0 and 3 more" in why
    assert "no live path joins any of leaf1, leaf2 with any of leaf3, leaf4" in why
    assert f"the cut is {', '.join(cut[:3])} and 1 more" in why


def test_a_switch_that_is_out_of_use_is_named_and_not_its_cables():
    fabric = fabric_of(failed=["spine1", "leaf2:2>spine2:2"])
    why = refusal_of(fabric, job_of(fabric, ALL))
    assert "the cut is spine1, leaf2:2>spine2:2 (out of use)" in why


def test_only_one_side_is_named_where_it_alone_is_the_cut():
    fabric = fabric_of(leaves=3, failed=["leaf1:1>spine1:1", "leaf1:2>spine2:1", "leaf3:1>spine1:3"])
    why = refusal_of(fabric, job_of(fabric, ALL))
    assert "joins any of leaf1 with any of leaf2, leaf3" in why
    assert "the cut is leaf1:1>spine1:1, leaf1:2>spine2:1 (out of use)" in why


def test_the_cut_between_pods_is_at_their_aggs():
    clos = {"kind": "clos3", "spines": 2, "leaves": 2, "pods": 2, "aggs_per_pod": 2}
    fabric = fabric_of(**clos, failed=["pod1-agg1:3>core1:1", "core2", "pod2-leaf1:1>pod2-agg1:1"])
    why = refusal_of(fabric, job_of(fabric, ALL))
    assert "joins any of pod1-leaf1, pod1-leaf2 with any of pod2-leaf1, pod2-leaf2" in why
    assert "the cut is pod1-agg1:3>core1:1, core2 (out of use)" in why


def test_bringing_the_named_cut_back_joins_the_leaves():
    cut = ["leaf1:2>spine2:1", "leaf2:1>spine1:2"]
    fabric = fabric_of(failed=cut)
    assert all(name in refusal_of(fabric, job_of(fabric, ALL)) for name in cut)
    for back in cut:
        healed = fabric_of(failed=[name for name in cut if name != back])
        plan_of(healed, job_of(healed, ALL))


def test_leaves_that_no_cables_join_are_refused_without_a_cut():
    whole = fabric_of()
    fabric = replace(whole, cables=tuple(c for c in whole.cables if c.lower.switch[-1] == c.upper.switch[-1]))
    why = refusal_of(fabric, job_of(fabric, ALL))
    assert "no live path joins leaf1 and leaf2" in why
    assert why.endswith("the fabric has no cables between them: add some")


def test_every_nic_that_is_out_of_use_is_named():
    fabric = fabric_of(failed=["h1-n0>leaf1:3", "h3-n0>leaf2:3"])
    why = refusal_of(fabric, job_of(fabric, ALL))
    assert "10 flow(s) have no path, job/0/0-1/0" in why
    assert "NIC h1-n0 or its leaf leaf1" in why
    assert "NIC h3-n0 or its leaf leaf2" in why


def test_a_job_beside_a_failure_is_planned():
    fabric = fabric_of(failed=["spine1", "leaf2"], leaves=3)
    plan_of(fabric, job_of(fabric, custom((0, 4), (4, 1))))


def test_a_limit_that_no_plan_can_meet_names_the_link_and_the_proof():
    fabric = fabric_of()
    why = refusal_of(fabric, job_of(fabric, custom((0, 2), (1, 3)), require_utilisation=0.5))
    assert "leaf1:1>spine1:1" in why
    assert "no plan can go below 1.000" in why


def test_a_limit_that_is_met_is_no_refusal():
    fabric = fabric_of()
    assert plan_of(fabric, job_of(fabric, custom((0, 2), (1, 3)), require_utilisation=1.0)).jobs


def test_a_new_job_must_not_push_a_running_job_over_its_limit():
    fabric = fabric_of(spines=1)
    first = job_of(fabric, custom((0, 2)), job_id="first", require_utilisation=1.0)
    second = job_of(fabric, custom((1, 3)), job_id="second")
    placed = plan_of(fabric, first)
    assert "job first" in refusal_of(fabric, second, kept=[(first, placed.jobs[0])])
