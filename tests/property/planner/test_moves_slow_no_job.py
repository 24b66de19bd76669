"""No decision lowers a job's mean or worst max-min share by moves, compared with the same event without any move."""

from fractions import Fraction

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.model.moves import DEFAULT_MOVES, MAX_MOVES, NO_MOVES, Cause, MoveLimit, Whose
from heddle.controller.model.plan import Infeasible, JobFlows, Replan
from heddle.controller.planner.online import OnlinePlanner
from tests.oracles.job_shares import job_shares
from tests.support.examples import examples
from tests.support.fabrics.small_fabrics import clos3, rails
from tests.unit.brain.driver import small_fabric

FABRICS = (
    small_fabric(2, 3, 2),
    small_fabric(3, 2, 3),
    clos3(2, 2, 2, 2, 10**9),
    clos3(3, 2, 2, 4, 10**9),
    rails(10**9),
)
LIMITS = st.builds(
    MoveLimit, whose=st.sampled_from([Whose.ANY, Whose.ANY, *Whose]), max_flows=st.sampled_from([1, 3, 64, MAX_MOVES])
)
ROUNDING = Fraction(1, 10**6)
"""Demands are whole bit/s."""


@st.composite
def requests(draw: st.DrawFn, fabric: Fabric, name: str) -> JobRequest:
    """Draw a job of flows that all run together."""
    nics = [nic.id for nic in fabric.nics]
    pair = st.lists(st.integers(0, len(nics) - 1), min_size=2, max_size=2, unique=True).map(tuple)
    pairs = draw(st.lists(pair, min_size=1, max_size=6, unique=True))
    rate = draw(st.sampled_from([0, 0, 4 * 10**8, 10**9]))
    flows = tuple(FlowDemand(src_rank=a, dst_rank=b, rate_bps=rate) for a, b in pairs)
    one = Collective(kind=CollectiveKind.CUSTOM, flows=flows, qps_per_flow=draw(st.sampled_from([1, 1, 2])))
    priority = draw(st.sampled_from([0, 0, 0, 1]))
    return JobRequest(job_id=name, ranks=tuple(nics), collectives=(one,), priority=priority)


def shares(fabric: Fabric, health: Health, jobs: tuple[JobFlows, ...]) -> dict[str, tuple[Fraction, Fraction]]:
    """Return the mean and the worst share of every job."""
    capacity = {link: cable.capacity_bps for link, cable in fabric.cable_by_link.items()}
    for cable in fabric.cables:
        capacity |= dict.fromkeys((cable.up_link, cable.down_link), cable.capacity_bps)
    for nic in fabric.nics:
        capacity |= dict.fromkeys((nic.up_link, nic.down_link), nic.capacity_bps)
    dead = {
        link for cable in fabric.cables if cable.id in health.down_cables for link in (cable.up_link, cable.down_link)
    }
    flows = [
        (job.job_id, flow.links if dead.isdisjoint(flow.links) else None, flow.demand_bps)
        for job in jobs
        for flow in job.flows
    ]
    return job_shares(flows, capacity)


def backgrounds(fabric: Fabric) -> st.SearchStrategy[dict[str, int]]:
    """Draw the load that traffic of no job puts on links, mostly none."""
    links = st.sampled_from(sorted(fabric.cable_by_link))
    some = st.dictionaries(links, st.sampled_from([10**8, 5 * 10**8, 9 * 10**8]), max_size=3)
    return st.one_of(st.just({}), some)


@given(data=st.data(), fabric=st.sampled_from(FABRICS))
@settings(max_examples=examples(60), deadline=None)
def test_moves_lower_no_jobs_share(data: st.DataObject, fabric: Fabric) -> None:
    planner, kept, cables = OnlinePlanner(fabric), [], [cable.id for cable in fabric.cables]
    health = Health()
    for number in range(data.draw(st.integers(2, 5))):
        arriving: list[JobRequest] = []
        event = data.draw(st.sampled_from(["arrival", "arrival", "release", "failure"]))
        if event == "release" and kept:
            kept.pop(data.draw(st.integers(0, len(kept) - 1)))
        elif event == "failure":
            health = Health(down_cables=frozenset(data.draw(st.lists(st.sampled_from(cables), max_size=2))))
        else:
            arriving = [data.draw(requests(fabric, f"job{number}"))]
        subject = arriving[0].job_id if arriving else ""
        limit = data.draw(LIMITS) if subject else MoveLimit(whose=Whose.ANY, max_flows=data.draw(st.integers(1, 64)))
        traffic = data.draw(backgrounds(fabric))
        without = OnlinePlanner(fabric).solve(
            arriving, health=health, kept=kept, limit=NO_MOVES, subject=subject, background=traffic
        )
        found = planner.solve(arriving, health=health, kept=kept, limit=limit, subject=subject, background=traffic)
        if isinstance(found, Infeasible) or isinstance(without, Infeasible):
            assert type(found) is type(without)
            continue
        check(fabric, health, without, found)
        known = [request for request, _ in kept] + arriving
        kept = list(zip(known, found.jobs, strict=True))


def check(fabric: Fabric, health: Health, without: Replan, found: Replan) -> None:
    stay, moved = (shares(fabric, health, plan.jobs) for plan in (without, found))
    lower = {
        job: (stay[job], moved[job])
        for job in stay
        if any(now < was * (1 - ROUNDING) for was, now in zip(stay[job], moved[job], strict=True))
    }
    assert not lower


@given(demand=st.integers(5, 100), traffic=st.integers(1, 110), flows=st.integers(1, 2))
@settings(max_examples=examples(60), deadline=None)
def test_flows_leave_a_link_that_other_traffic_overloads_where_another_has_room(
    demand: int, traffic: int, flows: int
) -> None:
    assume(demand + traffic > 101 and flows * demand <= 100)
    fabric = small_fabric(2, 2, 2)
    line_bps = fabric.cables[0].capacity_bps
    nics = [nic.id for nic in fabric.nics]
    some = tuple(FlowDemand(src_rank=n, dst_rank=2 + n, rate_bps=demand * line_bps // 100) for n in range(flows))
    sent = Collective(kind=CollectiveKind.CUSTOM, flows=some)
    request = JobRequest(job_id="a", ranks=tuple(nics), collectives=(sent,))
    planner = OnlinePlanner(fabric)
    plan = planner.solve((request,), health=Health(), kept=())
    assert isinstance(plan, Replan)
    link = plan.jobs[0].flows[0].links[1]
    limit = DEFAULT_MOVES[Cause.CONGESTION]
    found = planner.solve(
        (), health=Health(), kept=((request, plan.jobs[0]),), limit=limit, background={link: traffic * line_bps // 100}
    )
    assert isinstance(found, Replan)
    assert all(link not in flow.links for flow in found.jobs[0].flows)
