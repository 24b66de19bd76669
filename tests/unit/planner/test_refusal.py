from tests.unit.planner.cases import custom, fabric_of, job_of, plan_of, refusal_of

ALL = {"kind": "ALL_TO_ALL", "bytes": 1}


def test_a_leaf_that_is_cut_off_is_named_with_the_cut():
    fabric = fabric_of(failed=["leaf1:1>spine1:1", "leaf1:2>spine2:1"])
    why = refusal_of(fabric, job_of(fabric, ALL))
    for word in ("job/0/0-2/0", "leaf1 and leaf2", "leaf1:1>spine1:1", "leaf1:2>spine2:1", "8 flow(s)"):
        assert word in why


def test_a_nic_whose_leaf_is_down_is_named():
    fabric = fabric_of(failed=["leaf2"])
    assert "NIC h3-n0" in refusal_of(fabric, job_of(fabric, ALL))


def test_a_job_that_stays_clear_of_what_is_down_is_planned():
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


def test_a_newcomer_may_not_push_a_running_job_over_its_limit():
    fabric = fabric_of(spines=1)
    first = job_of(fabric, custom((0, 2)), job_id="first", require_utilisation=1.0)
    second = job_of(fabric, custom((1, 3)), job_id="second")
    placed = plan_of(fabric, first)
    assert "job first" in refusal_of(fabric, second, kept=[(first, placed.jobs[0])])
