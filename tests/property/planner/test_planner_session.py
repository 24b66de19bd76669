"""After any events, the paths of a session are valid, its loads match them, and its deltas are complete."""

import json
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.model.plan import Infeasible, Plan
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.expand import joined_flows
from heddle.controller.planner.ground.loads import link_loads
from heddle.controller.planner.session.moves import Movable, Moves
from heddle.controller.planner.session.session import Session
from heddle.controller.planner.solve import solve
from tests.support.examples import examples
from tests.support.fabrics.planning import clos3_shapes, fabric_file, rail_shapes, spine_leaf_shapes

FREE = Moves(who=Movable.ALL)
KINDS = (CollectiveKind.RING_ALL_REDUCE, CollectiveKind.ALL_TO_ALL, CollectiveKind.GATHER)


@st.composite
def fabrics(draw):
    shape = draw(st.one_of(spine_leaf_shapes(), rail_shapes(), clos3_shapes()))
    data = fabric_file(**shape)
    if draw(st.integers(0, 3)) == 0:
        # One more cable makes the fabric irregular.
        drawn = parse_fabric(json.dumps(data), "fabric.yaml")
        upper = drawn.cables[0].upper.switch
        data["links"] = [{"a": f"{drawn.cables[0].lower.switch}:900", "b": f"{upper}:900", "gbps": 100}]
    return parse_fabric(json.dumps(data), "fabric.yaml")


@st.composite
def requests(draw, fabric, number, *, priorities=(0,)):
    nics = [nic.id for nic in fabric.nics]
    ranks = tuple(draw(st.permutations(nics))[: draw(st.integers(1, min(len(nics), 6)))])
    collectives = []
    for phase in range(draw(st.sampled_from((1, 1, 1, 2)))):
        size = len(ranks)
        flows: tuple[FlowDemand, ...] = ()
        if draw(st.booleans()):
            kind = draw(st.sampled_from(KINDS))
        else:
            pair = st.tuples(st.integers(0, size - 1), st.integers(0, size - 1), st.sampled_from((0, 25, 50, 70)))
            kind = CollectiveKind.CUSTOM
            flows = tuple(
                FlowDemand(src_rank=a, dst_rank=b, rate_bps=rate * 10**9)
                for a, b, rate in draw(st.lists(pair, max_size=4))
            )
        collectives.append(
            Collective(
                kind=kind, size_bytes=1000, flows=flows, qps_per_flow=draw(st.sampled_from((1, 1, 3))), phase=phase
            )
        )
    return JobRequest(
        job_id=f"job{number}",
        ranks=ranks,
        collectives=tuple(collectives),
        tenant=draw(st.sampled_from(("red", "blue"))),
        priority=draw(st.sampled_from(priorities)),
        require_utilisation=draw(st.sampled_from((0.0, 0.0, 0.0, 1.0))),
    )


moves = st.one_of(
    st.just(FREE),
    st.builds(Moves, budget=st.sampled_from((0, 1, 3, None)), who=st.sampled_from(tuple(Movable))),
)


class Watched:
    """A session and the paths that result from its deltas."""

    def __init__(self, fabric):
        self.fabric, self.topology, self.session = fabric, topology_of(fabric), Session.begin(fabric)
        self.reported: dict[str, tuple[str, ...]] = {}
        self.count = 0

    def state(self):
        store = self.session._store
        rows = np.flatnonzero(store.used)
        onward = store.paths[rows] >= 0
        flow = store.s.flow[rows]
        neighbours = flow["after"][onward], flow["before"][onward]
        listed = (store.s.head, *neighbours, store.s.load, store.stranded[rows])
        held = (rows, store.paths[rows], *listed, store.cuts._load, store.cuts._count)
        return [array.copy() for array in held]

    def event(self, data):
        """Apply a random event; return its moves and its result."""
        allowed, session = data.draw(moves), self.session
        switches = [switch.id for switch in self.fabric.switches]
        jobs = [job.job_id for job in session.jobs]
        actions = ["add", "link_down", "link_up", "switch_down", "switch_up", "drain", "undrain", "improve"]
        action = data.draw(st.sampled_from(["add", "add", *actions, *(["remove"] if jobs else [])]))
        if action == "add":
            first, self.count = self.count + 1, self.count + data.draw(st.sampled_from((1, 1, 2, 3)))
            new = [data.draw(requests(self.fabric, number)) for number in range(first, self.count + 1)]
            return allowed, session.add_all(new, allowed)
        if action == "remove":
            return allowed, session.remove(data.draw(st.sampled_from(jobs)), allowed)
        if action == "improve":
            job = data.draw(st.sampled_from([None, *jobs]))
            return allowed, session.improve(allowed, job_id=job)
        if action.startswith("link"):
            target = data.draw(st.sampled_from(self.topology.cable_ids))
        elif action.startswith("switch"):
            target = data.draw(st.sampled_from(switches))
        else:
            target = data.draw(st.sampled_from(self.topology.cable_ids + switches))
        return allowed, getattr(session, action)(target, allowed)

    def follow(self, delta):
        for change in delta:
            if change.old_links is None:
                assert change.flow_id not in self.reported
            else:
                assert self.reported.pop(change.flow_id) == change.old_links
            if change.new_links is not None:
                self.reported[change.flow_id] = change.new_links

    def paths(self):
        """Return the links between switches of each flow by id, as the session has them."""
        found = {}
        for request in self.session.jobs:
            flows, hops = self.session.flows(request.job_id), self.session.hops(request.job_id)
            for row in range(len(flows)):
                ranks = f"{flows.src_rank[row]}-{flows.dst_rank[row]}"
                flow = f"{request.job_id}/{flows.collective[row]}/{ranks}/{flows.queue_pair[row]}"
                found[flow] = [self.topology.link_ids[hop] for hop in hops[row].tolist() if hop >= 0]
        return found

    def loads(self):
        jobs = self.session.jobs
        if not jobs:
            return np.zeros(2 * self.topology.cables)
        flows = joined_flows([self.session.flows(job.job_id).as_job(number) for number, job in enumerate(jobs)])
        hops = np.concatenate([self.session.hops(job.job_id) for job in jobs])
        return link_loads(self.topology, flows, hops)[: 2 * self.topology.cables]


def assert_sound(fabric, links, health):
    """Check one path: it is connected, goes up and then down, and has no switch twice and nothing out of use."""
    switches = []
    tier = {switch.id: switch.role.tier for switch in fabric.switches}
    for near, far in (link.split(">") for link in links):
        a, b = near.rsplit(":", 1)[0], far.rsplit(":", 1)[0]
        assert not switches or switches[-1] == a
        switches = [*(switches or [a]), b]
        assert fabric.cable_by_link[f"{near}>{far}"].id not in health.down_cables
    tiers = [tier[switch] for switch in switches]
    top = tiers.index(max(tiers)) if tiers else 0
    assert all(x < y for x, y in pairwise(tiers[: top + 1]))
    assert all(x > y for x, y in pairwise(tiers[top:]))
    assert len(set(switches)) == len(switches)
    assert not set(switches) & health.down_switches


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(40), deadline=None)
def test_a_session_is_consistent_after_any_events(data, fabric):
    watched = Watched(fabric)
    for _ in range(data.draw(st.integers(1, 10))):
        before = watched.state()
        allowed, answer = watched.event(data)
        if isinstance(answer, Infeasible):
            assert all(np.array_equal(a, b) for a, b in zip(before, watched.state(), strict=True))
            continue
        watched.follow(answer)
        assert np.array_equal(watched.session._store.s.load, watched.loads())
        known = {flow: list(links[1:-1]) for flow, links in watched.reported.items()}
        paths = watched.paths()
        assert {flow: paths[flow] for flow in known} == known
        assert all(not links for flow, links in paths.items() if flow not in known)
        for links in known.values():
            assert_sound(fabric, links, watched.session.health)
        assert answer.moved <= (answer.moved if allowed.budget is None else allowed.budget)
        assert answer.moved == 0 or allowed.who is not Movable.NONE
        assert (
            answer.lower_bound <= answer.max_link_utilisation * (1 + 1e-9) or answer.stranded or len(known) < len(paths)
        )


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(25), deadline=None)
def test_a_session_whose_flows_may_all_move_is_as_good_as_a_full_plan(data, fabric):
    watched = Watched(fabric)
    for _ in range(data.draw(st.integers(1, 5))):
        watched.event(data)
    answer = watched.session.improve(FREE)
    jobs = list(watched.session.jobs)
    whole = solve(fabric, [as_wished(job) for job in jobs], health=watched.session.health)
    if isinstance(whole, Plan):
        assert answer.max_link_utilisation <= 1.05 * whole.certificate.max_link_utilisation + 1e-12
        assert answer.lower_bound <= whole.certificate.max_link_utilisation * (1 + 1e-12)


def as_wished(job):
    """Return a job without its limit: the test compares utilisation only."""
    return JobRequest(job_id=job.job_id, ranks=job.ranks, collectives=job.collectives, priority=job.priority)


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(25), deadline=None)
def test_a_job_that_moves_no_other_flow_is_as_good_as_a_plan_that_leaves_the_others_alone(data, fabric):
    session = Session.begin(fabric)
    for number in range(data.draw(st.integers(1, 4))):
        session.add(as_wished(data.draw(requests(fabric, number))), data.draw(moves))
    jobs, last = list(session.jobs), as_wished(data.draw(requests(fabric, 9)))
    hops = np.concatenate([np.empty((0, 4), dtype=np.int64), *(session.hops(job.job_id) for job in jobs)])
    running = solve(fabric, jobs, health=Health(), hops=hops)
    assert isinstance(running, Plan)
    beside = solve(fabric, [last], health=Health(), kept=list(zip(jobs, running.jobs, strict=True)))
    answer = session.add(last, Moves(budget=0, who=Movable.ALL))
    if isinstance(beside, Plan) and not isinstance(answer, Infeasible):
        assert answer.max_link_utilisation <= beside.certificate.max_link_utilisation * (1 + 1e-9)


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(10), deadline=None)
def test_the_same_events_give_the_same_paths(data, fabric):
    one, other = Session.begin(fabric), Session.begin(fabric)
    health = Health(down_cables=frozenset((fabric.cables[-1].id,)))
    two = Session.begin(fabric, health)
    two.link_up(fabric.cables[-1].id)
    for number in range(data.draw(st.integers(1, 3))):
        request = data.draw(requests(fabric, number))
        answers = [session.add(request, FREE) for session in (one, other, two)]
        assert len({isinstance(answer, Infeasible) for answer in answers}) == 1
    for job in one.jobs:
        assert np.array_equal(one.hops(job.job_id), other.hops(job.job_id))
        assert np.array_equal(one.hops(job.job_id), two.hops(job.job_id))
