"""Hogs join a link and leave it in any rhythm: few moves, no job slower than without them, all caps undone."""

from fractions import Fraction
from itertools import pairwise

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from heddle.controller.brain.settings import Settings
from heddle.controller.model.event import Congested, Submit
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.model.moves import DEFAULT_MOVES, NO_MOVES, Cause
from tests.oracles.job_shares import job_shares
from tests.support.examples import examples
from tests.support.fabrics.hot_links import hot_link
from tests.unit.brain.driver import Driver, small_fabric

PERIOD_MS, PAUSE_MS = 200, 2_000
LINE_BPS = 10**9
ROUNDING = Fraction(1, 10**6)
"""Demands are whole bit/s."""
PAIRS = st.lists(st.integers(0, 5), min_size=2, max_size=2, unique=True).map(tuple)
RATES = st.sampled_from([0, 4 * 10**8, LINE_BPS])
FLOWS = st.tuples(PAIRS, RATES)
JOBS = st.lists(st.lists(FLOWS, min_size=1, max_size=4, unique_by=lambda flow: flow[0]), min_size=1, max_size=3)
RHYTHM = st.lists(st.integers(1, 8), min_size=1, max_size=8)
"""How many periods a hog sends, then does not, and so on."""


def started(jobs: list[list[tuple[tuple[int, int], int]]], *, moves: bool) -> Driver:
    limits = DEFAULT_MOVES if moves else {**DEFAULT_MOVES, Cause.CONGESTION: NO_MOVES}
    driver = Driver(
        small_fabric(spines=2, leaves=3),
        Settings(period_ms=PERIOD_MS, congestion_pause_ms=PAUSE_MS, moves=limits),
    )
    driver.connect_all()
    ranks = tuple(nic.id for nic in driver.fabric.nics)
    for number, wanted in enumerate(jobs):
        flows = tuple(FlowDemand(src_rank=a, dst_rank=b, rate_bps=rate_bps) for (a, b), rate_bps in wanted)
        one = Collective(kind=CollectiveKind.CUSTOM, flows=flows)
        driver.feed(Submit(reply=number, request=JobRequest(job_id=f"j{number}", ranks=ranks, collectives=(one,))))
    return driver


def planned_bps(driver: Driver, link: str) -> int:
    """Return the sum of the planned rates on a link."""
    flows = [flow for job in driver.state.jobs.values() for flow in job.flows.flows]
    return sum(flow.rate_bps for flow in flows if link in flow.links)


def a_period(driver: Driver, link: str, hog_bps: int, *, congested: bool) -> None:
    driver.now += PERIOD_MS
    found = hot_link(driver.state, link, planned_bps(driver, link) + hog_bps)
    over = (("h6-n0", hog_bps),) if hog_bps else ()
    known = found.port in driver.state.hot_ports
    driver.feed(
        Congested(hot=(found,), over=over)
        if congested
        else Congested(hot=(), calm=(found,) if known else (), over=over)
    )


def shares(driver: Driver, link: str, hog_bps: int) -> dict[str, tuple[Fraction, Fraction]]:
    """Return the mean and the worst share of every job beside a hog."""
    capacity = {each: LINE_BPS for cable in driver.fabric.cables for each in (cable.up_link, cable.down_link)}
    capacity |= {each: LINE_BPS for nic in driver.fabric.nics for each in (nic.up_link, nic.down_link)}
    capacity[link] -= hog_bps
    flows = [
        (job_id, flow.links, flow.demand_bps) for job_id, job in driver.state.jobs.items() for flow in job.flows.flows
    ]
    return job_shares(flows, capacity)


@given(jobs=JOBS, part=st.integers(1, 9), data=st.data(), on=RHYTHM)
@settings(max_examples=examples(30), deadline=None)
def test_a_hog_in_any_rhythm_moves_flows_once_per_pause_and_no_job_is_ever_slower_than_without(jobs, part, data, on):
    acting, idle = started(jobs, moves=True), started(jobs, moves=False)
    links = sorted({flow.links[1] for job in idle.state.jobs.values() for flow in job.flows.flows if flow.links[2:]})
    assume(links)
    link, hog_bps = data.draw(st.sampled_from(links)), part * LINE_BPS // 10
    # Jobs that arrive may move flows of those before.
    begun, moved_ms = len(acting.state.moves), list[int]()
    assert len(idle.state.moves) == begun
    for turn, periods in enumerate(on):
        here_bps = 0 if turn % 2 else hog_bps
        for number in range(periods):
            for driver in (acting, idle):
                full = planned_bps(driver, link) + here_bps > LINE_BPS
                a_period(driver, link, here_bps, congested=full and number >= 2)
            moved_ms += [acting.now] * (len(acting.state.moves) - begun - len(moved_ms))
        with_loop, without = shares(acting, link, here_bps), shares(idle, link, here_bps)
        for job, was in without.items():
            assert all(now >= before * (1 - ROUNDING) for now, before in zip(with_loop[job], was, strict=True))
    times = sorted(set(moved_ms))
    assert all(later - earlier >= PAUSE_MS for earlier, later in pairwise(times))
    assert len(idle.state.moves) == begun


@given(
    senders=st.lists(st.integers(1, 4), min_size=1, max_size=4, unique=True),
    rate_bps=st.sampled_from([0, 3 * 10**8, LINE_BPS]),
    excess=st.lists(st.integers(0, 10), min_size=1, max_size=5),
    others=st.integers(1, 3),
)
@settings(max_examples=examples(30), deadline=None)
def test_an_incast_leaves_room_for_others_and_its_senders_their_fair_share_until_the_others_have_gone(
    senders, rate_bps, excess, others
):
    driver = started([[((sender, 0), rate_bps) for sender in senders]], moves=True)
    link = driver.fabric.nics[0].down_link

    def rates() -> list[int]:
        return [flow.rate_bps for flow in driver.state.jobs["j0"].flows.flows]

    before = rates()
    for tenths in excess:
        driver.now += 64 * PAUSE_MS
        hot = hot_link(driver.state, link, sum(rates()) + tenths * LINE_BPS // 10)
        over = tuple((f"o{number}", LINE_BPS // 10) for number in range(others))
        driver.feed(Congested(hot=(hot,), over=over))
        others_bps = driver.state.hot_ports[hot.port].excess_bps
        part = 0.95 * LINE_BPS - others_bps if len(senders) > 1 else LINE_BPS - others_bps / 0.95
        assert sum(rates()) <= part + 10
        slack_bps = LINE_BPS // 20 + 10  # of changes that are too small to act on
        fair_bps = 0.95 * LINE_BPS / (len(senders) + others)
        assert all(now >= min(was, fair_bps) - slack_bps for now, was in zip(rates(), before, strict=True))
    for _ in range(2):
        driver.now += 100 * PAUSE_MS
        driver.feed(Congested(hot=()))
    assert rates() == before
