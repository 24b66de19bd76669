"""A goal makes jobs faster on average, keeps the limits of moves, and moves only jobs whose senders drain."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.model.fabric import Fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, JobRequest
from heddle.controller.model.moves import MAX_MOVES, NO_MOVES, Cause, MoveLimit, Whose
from heddle.controller.model.plan import Infeasible, JobFlows, Replan
from heddle.controller.planner.online import OnlinePlanner
from tests.oracles.job_shares import job_shares
from tests.support.examples import examples
from tests.support.fabrics.small_fabrics import clos3, rails
from tests.unit.brain.driver import small_fabric

FABRICS = (small_fabric(2, 3, 2), small_fabric(3, 2, 3), clos3(2, 2, 2, 2, 10**9), rails(10**9))
ANY = MoveLimit(whose=Whose.ANY, max_flows=MAX_MOVES)
OWN_LIMITS = st.sampled_from(
    [
        (),
        (),
        (),
        ((Cause.CONVERGENCE, NO_MOVES),),
        ((Cause.CONVERGENCE, MoveLimit(whose=Whose.ANY, max_flows=1)),),
        ((Cause.ARRIVAL, NO_MOVES),),
    ]
)


@st.composite
def jobs(draw: st.DrawFn, fabric: Fabric, name: str) -> JobRequest:
    """Draw a ring with an all-to-all, at random places."""
    count = draw(st.integers(2, min(5, len(fabric.nics))))
    places = st.lists(st.integers(0, len(fabric.nics) - 1), min_size=count, max_size=count, unique=True)
    ranks = tuple(fabric.nics[place].id for place in draw(places))
    sent = [Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=10**6)]
    if draw(st.booleans()):
        sent.append(Collective(kind=CollectiveKind.ALL_TO_ALL, size_bytes=10**6, phase=draw(st.integers(0, 1))))
    return JobRequest(
        job_id=name, ranks=ranks, collectives=tuple(sent),
        drains_before_moves=draw(st.sampled_from([True, True, True, False])), move_limits=draw(OWN_LIMITS),
    )  # fmt: skip


def paths(job: JobFlows) -> list[tuple[str, ...]]:
    return [flow.links for flow in job.flows]


def arrived(fabric: Fabric, planner: OnlinePlanner, requests: list[JobRequest]) -> list[tuple[JobRequest, JobFlows]]:
    """Let jobs arrive one by one, without moves."""
    kept: list[tuple[JobRequest, JobFlows]] = []
    for request in requests:
        plan = planner.solve((request,), health=Health(), kept=kept)
        assert isinstance(plan, Replan)
        kept = list(zip((*(known for known, _ in kept), request), plan.jobs, strict=True))
    return kept


@given(data=st.data(), fabric=st.sampled_from(FABRICS), most=st.sampled_from([1, 4, MAX_MOVES, MAX_MOVES, MAX_MOVES]))
@settings(max_examples=examples(40), deadline=None)
def test_a_goal_is_faster_and_keeps_the_limits(data: st.DataObject, fabric: Fabric, most: int) -> None:
    requests = [data.draw(jobs(fabric, f"job{number}")) for number in range(data.draw(st.integers(1, 4)))]
    planner = OnlinePlanner(fabric)
    kept = arrived(fabric, planner, requests)
    found = planner.solve((), health=Health(), kept=kept, limit=replace(ANY, max_flows=most), converge=True)
    if isinstance(found, Infeasible):
        return
    assert found.speeds is not None
    before, goal = found.speeds.before, found.speeds.goal
    assert sum(goal.values()) >= sum(before.values())
    moved = {job.job_id: sum(a != b for a, b in zip(paths(was), paths(job), strict=True)) for (_, was), job in
             zip(kept, found.jobs, strict=True)}  # fmt: skip
    assert moved == {name: found.moved[name].flows if name in found.moved else 0 for name in moved}
    assert sum(moved.values()) <= most
    for request, _ in kept:
        own = dict(request.move_limits).get(Cause.CONVERGENCE, ANY)
        stays = own.moves_none or not request.drains_before_moves
        assert moved[request.job_id] <= (0 if stays else own.max_flows)


@given(data=st.data(), fabric=st.sampled_from(FABRICS))
@settings(max_examples=examples(40), deadline=None)
def test_jobs_have_the_speeds_that_a_goal_claims(data: st.DataObject, fabric: Fabric) -> None:
    """A ring of one phase is as fast as the share of its slowest flow, which an oracle computes."""
    order = data.draw(st.permutations([nic.id for nic in fabric.nics]))
    size = data.draw(st.integers(2, 3))
    ring = Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=10**6, qps_per_flow=2)
    requests = [
        JobRequest(
            job_id=f"job{begin}",
            ranks=tuple(order[begin : begin + size]),
            collectives=(ring,),
            drains_before_moves=True,
        )
        for begin in range(0, len(order) - size + 1, size)
    ]
    planner = OnlinePlanner(fabric)
    kept = arrived(fabric, planner, requests)
    found = planner.solve((), health=Health(), kept=kept, limit=ANY, converge=True)
    if isinstance(found, Infeasible):
        return
    assert found.speeds is not None
    for speeds, jobs_now in ((found.speeds.before, [job for _, job in kept]), (found.speeds.goal, found.jobs)):
        for name, (_, worst) in shares(fabric, jobs_now).items():
            assert abs(speeds[name] - float(worst)) < 1e-3


def shares(fabric: Fabric, planned: Sequence[JobFlows]) -> dict[str, tuple[Fraction, Fraction]]:
    """Return the mean and the worst share of every job with flows."""
    capacity = {link: cable.capacity_bps for cable in fabric.cables for link in (cable.up_link, cable.down_link)}
    capacity |= {link: nic.capacity_bps for nic in fabric.nics for link in (nic.up_link, nic.down_link)}
    return job_shares([(job.job_id, flow.links, flow.demand_bps) for job in planned for flow in job.flows], capacity)
