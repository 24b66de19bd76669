"""After any events, the paths of a session are valid, its loads match them, and its results name all changes."""

import json
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.health import Health
from heddle.controller.model.job import Collective, CollectiveKind, FlowDemand, JobRequest
from heddle.controller.model.moves import NO_MOVES
from heddle.controller.model.plan import Infeasible, Plan
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.expand import joined_flows
from heddle.controller.planner.ground.loads import link_loads
from heddle.controller.planner.session.moves import Movable, Moves
from heddle.controller.planner.session.session import Session
from heddle.controller.planner.solve import solve
from tests.support.examples import examples
from tests.support.fabrics.planning import clos3_shapes, fabric_file, rail_shapes, spine_leaf_shapes
from tests.support.fabrics.service import UNLIMITED, Service, any_flows

FREE = Moves(who=Movable.ALL)
LIMITS = (NO_MOVES, any_flows(1), any_flows(8), UNLIMITED)
KINDS = (CollectiveKind.RING_ALL_REDUCE, CollectiveKind.ALL_TO_ALL, CollectiveKind.GATHER)


@st.composite
def fabrics(draw, planes=(1,)):
    shape = draw(st.one_of(spine_leaf_shapes(), rail_shapes(), clos3_shapes()))
    shape["planes"] = draw(st.sampled_from(planes))
    data = fabric_file(**shape)
    if draw(st.integers(0, 3)) == 0:
        # One more cable makes the fabric irregular.
        drawn = parse_fabric(json.dumps(data), "fabric.yaml")
        upper = drawn.cables[0].upper.switch
        data["links"] = [{"a": f"{drawn.cables[0].lower.switch}:900", "b": f"{upper}:900", "gbps": 100}]
    return parse_fabric(json.dumps(data), "fabric.yaml")


@st.composite
def requests(draw, fabric, number, *, priorities=(0,)):
    nics = list(fabric.ports_of)
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
    """A session, what is out of use, and the rows of the jobs of the last event."""

    def __init__(self, fabric):
        self.fabric, self.topology, self.session = fabric, topology_of(fabric), Session(fabric)
        self.health, self.count = Health(), 0
        self.new = np.empty(0, dtype=np.int64)

    def state(self):
        store = self.session._store
        rows = np.flatnonzero(store.used)
        onward = store.paths[rows] >= 0
        flow = store.s.flow[rows]
        neighbours = flow["after"][onward], flow["before"][onward]
        listed = (store.s.head, *neighbours, store.s.load, store.stranded[rows])
        held = (rows, store.paths[rows], *listed, store.cuts._load, store.cuts._count)
        return [array.copy() for array in held]

    def happens(self, data):
        """Let jobs arrive, one leave, or cables and switches fail or return; return the result, if there is one."""
        jobs = [job.job_id for job in self.session.jobs]
        kind = data.draw(st.sampled_from(["add", "add", "add", "fail", *(["remove"] if jobs else [])]))
        self.new = self.new[:0]
        if kind == "add":
            first, self.count = self.count + 1, self.count + data.draw(st.sampled_from((1, 1, 2, 3)))
            requested = [data.draw(requests(self.fabric, number)) for number in range(first, self.count + 1)]
            found = self.session.add_all(requested)
            if not isinstance(found, Infeasible):
                self.new = self.session.rows(request.job_id for request in requested)
            return found
        if kind == "remove":
            return self.session.remove(data.draw(st.sampled_from(jobs)))
        cables = frozenset(data.draw(st.lists(st.sampled_from(self.topology.cable_ids), max_size=3)))
        switches = st.sampled_from([switch.id for switch in self.fabric.switches])
        self.health = Health(down_cables=cables, down_switches=frozenset(data.draw(st.lists(switches, max_size=1))))
        found = self.session.follow(self.health, (), ())
        self.new = found.rows
        return found

    def moves(self, data, allowed):
        """Let flows move for the last event, or for later jobs; return the result."""
        if data.draw(st.integers(0, 3)) == 0:
            return self.session.make_room(allowed, self.new)
        job = data.draw(st.sampled_from([None, *(job.job_id for job in self.session.jobs)]))
        return self.session.improve(allowed, self.new, again=data.draw(st.booleans()), job_id=job)

    def paths(self):
        """Return the links between switches of each flow by its row, as the session has them."""
        rows = self.session.rows(job.job_id for job in self.session.jobs)
        hops = self.session.all_hops(rows).tolist()
        found = [[self.topology.link_ids[hop] for hop in path if hop >= 0] for path in hops]
        return dict(zip(rows.tolist(), found, strict=True))

    def loads(self):
        jobs = self.session.jobs
        if not jobs:
            return np.zeros(2 * self.topology.cables)
        flows = joined_flows([self.session.flows(job.job_id).as_job(number) for number, job in enumerate(jobs)])
        return link_loads(self.topology, flows, self.session.all_hops(self.session.rows(job.job_id for job in jobs)))[
            : 2 * self.topology.cables
        ]

    def assert_consistent(self):
        assert np.array_equal(self.session._store.s.load, self.loads())
        stranded = {flow for _, flow in self.session.stranded()}
        assert len(stranded) == len(self.session.stranded())
        for links in self.paths().values():
            assert_sound(self.fabric, links, self.health)
        self.assert_ends()

    def assert_ends(self):
        """Check that every path begins and ends at the leaves of its flow."""
        for job in self.session.jobs:
            flows, hops = self.session.flows(job.job_id), self.session.all_hops(self.session.rows([job.job_id]))
            for source, target, path in zip(flows.src_nic, flows.dst_nic, hops, strict=True):
                links = [self.topology.link_ids[hop] for hop in path if hop >= 0]
                here, there = (self.fabric.nics[nic].port.switch for nic in (source, target))
                assert not links or (links[0].split(":")[0], links[-1].split(">")[1].split(":")[0]) == (here, there)


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


def all_equal(one, other):
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@given(data=st.data(), fabric=fabrics(planes=(1, 1, 2)))
@settings(max_examples=examples(40), deadline=None)
def test_a_session_is_consistent_after_any_events(data, fabric):
    watched = Watched(fabric)
    for _ in range(data.draw(st.integers(1, 8))):
        before = watched.state()
        if isinstance(watched.happens(data), Infeasible):
            assert all_equal(before, watched.state())
            continue
        watched.assert_consistent()
        allowed, before, was = data.draw(moves), watched.state(), watched.paths()
        found = watched.moves(data, allowed)
        watched.assert_consistent()
        now = watched.paths()
        assert set(found.rows.tolist()) >= {row for row in was if was[row] != now[row]}
        assert found.moved <= (found.moved if allowed.budget is None else allowed.budget)
        assert found.moved == 0 or allowed.who is not Movable.NONE
        if data.draw(st.booleans()):
            watched.session.revert()
            assert all_equal(before, watched.state())


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(25), deadline=None)
def test_a_session_whose_flows_may_all_move_is_as_good_as_a_full_plan(data, fabric):
    watched = Watched(fabric)
    for _ in range(data.draw(st.integers(1, 5))):
        watched.happens(data)
    watched.session.improve(FREE)
    jobs = list(watched.session.jobs)
    whole = solve(fabric, [as_wished(job) for job in jobs], health=watched.health)
    if isinstance(whole, Plan):
        fullest = whole.certificate.max_link_utilisation
        assert watched.session.max_link_utilisation() <= 1.05 * fullest + 1e-12
        assert watched.session.lower_bound() <= fullest * (1 + 1e-12)


def as_wished(job):
    """Return a job without its limit: the test compares utilisation only."""
    return JobRequest(job_id=job.job_id, ranks=job.ranks, collectives=job.collectives, priority=job.priority)


@given(data=st.data(), fabric=fabrics())
@settings(max_examples=examples(25), deadline=None)
def test_a_job_that_moves_no_other_flow_is_as_good_as_a_plan_that_leaves_the_others_alone(data, fabric):
    service = Service(fabric)
    for number in range(data.draw(st.integers(1, 4))):
        service.arrive(as_wished(data.draw(requests(fabric, number))), data.draw(st.sampled_from(LIMITS)))
    last = as_wished(data.draw(requests(fabric, 9)))
    beside = solve(fabric, [last], health=Health(), kept=service.kept)
    found = service.answer([last])
    if isinstance(beside, Plan) and not isinstance(found, Infeasible):
        assert found.certificate.max_link_utilisation <= beside.certificate.max_link_utilisation * (1 + 1e-9)


@given(data=st.data(), fabric=fabrics(planes=(1, 1, 2)))
@settings(max_examples=examples(10), deadline=None)
def test_the_same_events_give_the_same_paths(data, fabric):
    sessions = [Session(fabric) for _ in range(3)]
    for cables in (frozenset({fabric.cables[-1].id}), frozenset[str]()):
        sessions[2].follow(Health(down_cables=cables), (), ())
    for number in range(data.draw(st.integers(1, 3))):
        request = data.draw(requests(fabric, number))
        answers = [session.add_all([request]) for session in sessions]
        assert len({isinstance(answer, Infeasible) for answer in answers}) == 1
        for session in sessions:
            session.improve(FREE)
    jobs = [job.job_id for job in sessions[0].jobs]
    one, *others = [session.all_hops(session.rows(jobs)) for session in sessions]
    assert all(np.array_equal(one, other) for other in others)
