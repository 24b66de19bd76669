from heddle.controller.model.event import Submit
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.model.plan import JobPlan
from heddle.controller.views.view import explain, link_loads_bps
from tests.unit.brain.driver import Driver, small_fabric


def phased(job_id, rates_bps):
    """Ranks 0 to 1 on two leaves, a flow of the given rate in each phase."""
    collectives = tuple(
        Collective(
            kind=CollectiveKind.CUSTOM, phase=phase, flows=(FlowDemand(src_rank=0, dst_rank=1, rate_bps=rate_bps),)
        )
        for phase, rate_bps in enumerate(rates_bps)
    )
    return JobRequest(job_id=job_id, ranks=("h1-n0", "h3-n0"), collectives=collectives)


def test_a_link_carries_the_heaviest_phase_of_each_job_and_the_sum_over_jobs():
    driver = Driver(small_fabric())
    driver.connect_all()
    driver.feed(Submit(reply=1, request=phased("a", [100, 300, 200])))
    driver.feed(Submit(reply=2, request=phased("b", [50, 40])))
    loads = link_loads_bps(driver.state)
    assert loads["h1-n0>leaf1:3"] == loads["leaf2:3>h3-n0"] == 350
    assert sum(load for link, load in loads.items() if link.startswith("leaf1:") and "spine" in link) >= 350


def test_a_job_names_every_link_of_its_flows_and_no_other():
    driver = Driver(small_fabric())
    driver.connect_all()
    driver.feed(Submit(reply=1, request=phased("a", [100])))
    plan = driver.reply_to(1)
    assert isinstance(plan, JobPlan)
    flows = plan.flows
    assert set(flows.link_loads_bps) == {link for flow in flows.flows for link in flow.links}


def test_the_explanation_of_a_flow_has_the_incast_of_its_own_job_only():
    driver = Driver(small_fabric())
    driver.connect_all()
    gather = Collective(kind=CollectiveKind.GATHER, size_bytes=1)
    ranks = tuple(f"h{i}-n0" for i in range(1, 9))
    driver.feed(Submit(reply=1, request=JobRequest(job_id="gather", ranks=ranks, collectives=(gather,))))
    one = Collective(kind=CollectiveKind.CUSTOM, flows=(FlowDemand(src_rank=0, dst_rank=1),))
    driver.feed(Submit(reply=2, request=JobRequest(job_id="one", ranks=("h3-n0", "h1-n0"), collectives=(one,))))
    mine, other = (explain(driver.state, flow).text for flow in ("gather/0/1-0/0", "one/0/0-1/0"))
    assert "incast of 7 senders into h1-n0" in mine
    assert "incast" not in other
    assert "sends into h1-n0 beside other jobs" in other
