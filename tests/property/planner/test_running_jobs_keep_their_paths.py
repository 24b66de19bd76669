"""While jobs come and go, steered, pinned or with fixed ports, each stream stays on its planned links."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.event import Release, Submit
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest, Steering
from heddle.controller.rules.listing import group_rows, rows
from tests.oracles.openflow_interpreter import Network
from tests.property.planner.test_planner_steering import walked
from tests.unit.brain.driver import Driver, small_fabric

FABRIC = small_fabric(spines=3, leaves=2, hosts_per_leaf=1)
PORTS = st.sampled_from([0, 0, 49153, 53249, 57345, 60000])
FLOWS = st.lists(
    st.builds(
        lambda forth, rate, port: FlowDemand(
            src_rank=0 if forth else 1, dst_rank=1 if forth else 0, rate_bps=rate, udp_source_port=port
        ),
        st.booleans(),
        st.sampled_from([10**6, 10**8]),
        PORTS,
    ),
    min_size=1,
    max_size=4,
)


@st.composite
def requests(draw) -> JobRequest:
    flows = tuple(draw(FLOWS))
    queue_pairs = 1 if any(flow.udp_source_port for flow in flows) else draw(st.integers(1, 4))
    one = Collective(kind=CollectiveKind.CUSTOM, flows=flows, qps_per_flow=queue_pairs)
    return JobRequest(
        job_id=draw(st.sampled_from("abcd")),
        ranks=("h1-n0", "h2-n0"),
        collectives=(one,),
        priority=draw(st.integers(0, 1)),
        steering=draw(st.sampled_from(Steering)),
    )


def off_path(fabric: Fabric, driver: Driver) -> list[tuple[str, str, int]]:
    """Return the streams that are not on the links of their plan."""
    network = Network(fabric, rows(fabric, driver.held), group_rows(fabric, driver.held))
    found = []
    for job in driver.state.jobs.values():
        for flow in job.flows.flows:
            streams = (
                ("data", flow.src_nic, flow.dst_nic, flow.udp_source_port, flow.links),
                ("ACKs", flow.dst_nic, flow.src_nic, flow.reverse_udp_source_port, flow.reverse_links),
            )
            for what, source, target, port, links in streams:
                if walked(fabric, network, source, target, port) != links:
                    found.append((what, flow.flow_id, port))
    return found


@given(events=st.lists(st.one_of(requests(), st.sampled_from("abcd")), min_size=2, max_size=8))
@settings(deadline=None)
def test_jobs_that_come_and_go_move_no_other_job(events):
    driver = Driver(FABRIC)
    driver.connect_all()
    for reply, event in enumerate(events):
        driver.feed(
            Release(reply=reply, job_id=event) if isinstance(event, str) else Submit(reply=reply, request=event)
        )
        assert driver.differing() == []
        assert off_path(FABRIC, driver) == []


def request(job_id: str, steering: Steering, *flows: tuple[int, int, int]) -> JobRequest:
    """Return a job of flows (source rank, destination rank, port)."""
    demands = tuple(FlowDemand(src_rank=a, dst_rank=b, rate_bps=10**6, udp_source_port=port) for a, b, port in flows)
    one = Collective(kind=CollectiveKind.CUSTOM, flows=demands)
    return JobRequest(job_id=job_id, ranks=("h1-n0", "h2-n0"), collectives=(one,), steering=steering)


def test_a_fixed_port_that_a_pin_by_addresses_once_guarded_takes_the_guarded_path():
    driver = Driver(FABRIC)
    driver.connect_all()
    # The ACKs of job a use this tuple; b guards them, and keeps the guard after a has ended.
    driver.feed(Submit(reply=0, request=request("a", Steering.SOURCE_PORT, (0, 1, 0))))
    port = driver.state.jobs["a"].flows.flows[0].reverse_udp_source_port
    driver.feed(Submit(reply=1, request=request("b", Steering.PIN, (1, 0, 0), (1, 0, 53249))))
    assert driver.state.jobs["b"].flows.guards
    driver.feed(Release(reply=2, job_id="a"))
    driver.feed(Submit(reply=3, request=request("c", Steering.SOURCE_PORT, (1, 0, port))))
    assert "c" in driver.state.jobs
    assert off_path(FABRIC, driver) == []


def test_a_pin_by_addresses_that_keeps_its_path_while_flows_move_does_not_take_a_later_job_off_its_path():
    driver = Driver(FABRIC)
    driver.connect_all()
    # The move that makes room for c is undone, as b keeps the pin where it is: c has to stay with the pin, too.
    fast = replace(request("a", Steering.SOURCE_PORT, (0, 1, 49153)), priority=1)
    for reply, job in enumerate((fast, request("b", Steering.PIN, (0, 1, 0)), replace(fast, job_id="c"))):
        rate = 10**6 if job.job_id == "b" else 10**8
        flows = (FlowDemand(src_rank=0, dst_rank=1, rate_bps=rate, udp_source_port=49153 if job is fast else 0),)
        one = replace(job.collectives[0], flows=flows)
        driver.feed(Submit(reply=reply, request=replace(job, collectives=(one,))))
        assert off_path(FABRIC, driver) == []
    assert set(driver.state.jobs) == {"a", "b", "c"}
