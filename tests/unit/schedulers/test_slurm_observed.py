"""Assumed jobs are planned again with the pairs that they connect, where the assumption does not explain these."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.error import HeddleError, UnavailableError
from heddle.controller.model.job import CollectiveKind
from heddle.controller.schedulers import slurm_observed
from heddle.controller.schedulers.slurm_jobs import NicOfHost, Reconciler, request_of
from heddle.controller.schedulers.slurm_observed import observed_id, observed_request, ring_pairs
from heddle.programs.console.slurm.observed_jobs import MAX_REPLANS, READ_PERIOD_S, ObservedJobs
from heddle.v1 import heddle_pb2 as pb

NICS = {f"h{n}": [NicOfHost(f"h{n}", 0)] for n in range(1, 6)}


def assumed_of(hosts):
    request = request_of(7, hosts, NICS, 0)
    assert request is not None
    return request


def ring():
    return assumed_of(["h1", "h2", "h3", "h4"])


def flows_of(request):
    (one,) = request.collectives
    assert one.kind is CollectiveKind.CUSTOM
    return [(request.ranks[flow.src_rank], request.ranks[flow.dst_rank], flow.udp_source_port) for flow in one.flows]


def test_both_ends_of_the_assumed_ring_leave_the_assumption():
    both = {pair: 4 for src, dst in ring_pairs(ring()) for pair in ((src, dst), (dst, src))}
    assert observed_id(ring(), both) == observed_id(ring(), {}) == ring().job_id


def test_other_pairs_are_planned_with_their_queue_pairs_beside_those_of_the_ring_that_connect():
    connected = {("h1", "h2"): 4, ("h2", "h1"): 4, ("h1", "h3"): 2, ("h3", "h1"): 1, ("h1", "elsewhere"): 9}
    found = observed_request(ring(), connected, {("h1", "h2"): [50_000], ("h2", "h3"): [50_001]})
    assert flows_of(found) == [
        ("h1", "h2", 50_000),
        *[("h1", "h2", 0)] * 3,
        *[("h1", "h3", 0)] * 2,
        ("h3", "h1", 0),
    ]
    assert (found.assumed, found.job_id) == (False, observed_id(ring(), connected))
    assert found.job_id != ring().job_id


@given(st.dictionaries(st.tuples(*[st.sampled_from(["h1", "h2", "h3", "h4", "x"])] * 2), st.integers(0, 2**32 - 1)))
def test_a_request_has_each_connected_pair_of_the_job_at_least_once_in_one_direction(connected):
    if observed_id(ring(), connected) == ring().job_id:
        assert all({pair, pair[::-1]} & ring_pairs(ring()) or "x" in pair or pair[0] == pair[1] for pair in connected)
        return
    planned = {(src, dst) for src, dst, _ in flows_of(observed_request(ring(), connected, {}))}
    assert all(pair in planned or pair[::-1] in planned for pair in connected if "x" not in pair and pair[0] != pair[1])
    assert planned <= {end for pair in connected for end in (pair, pair[::-1])}


def test_no_more_ports_are_fixed_than_one_request_may(monkeypatch):
    monkeypatch.setattr(slurm_observed, "MAX_REQUEST_PINS", 3)
    connected = {("h1", "h2"): 2, ("h1", "h3"): 2, ("h1", "h4"): 1}
    found = observed_request(ring(), connected, {pair: [50_000, 50_001, 50_002] for pair in connected})
    assert [port for _, _, port in flows_of(found)] == [50_000, 50_001, 50_000, 0, 0]


def fabric(steering):
    generated = "generate: {kind: spine_leaf, spines: 2, leaves: 2, hosts_per_leaf: 2, gbps: 100}"
    return parse_fabric(f"version: 1\nname: f\nsteering: {steering}\n{generated}\n", "f")


class Site:
    """An agent that restarts and its controller, which plans, previews and keeps what is connected.

    `plans` are the flows of jobs, `refuses` says which requests it does not plan.
    """

    def __init__(self, connected):
        self.connected, self.fails, self.refuses = connected, None, lambda request: False
        self.plans, self.assumed = {}, {}
        self.now_s, self.hosts, self.steered_by = 0.0, ["h1", "h2", "h3", "h4"], "openflow"
        self.previews, self.requests = 0, []
        self.sends, self.lines = "", []
        self.restart()

    def restart(self):
        self.observed, self.reconciler = ObservedJobs(self, self.is_admitted, self.lines.append), Reconciler(90)

    def fabric(self):
        return fabric(self.steered_by)

    def pairs(self, job):
        if self.fails:
            raise self.fails
        return self.connected, self.sends

    def flows(self, job):
        return self.plans[job]

    def is_admitted(self, request):
        self.previews += 1
        return not self.refuses(request)

    def pass_(self, seconds=10):
        """Run a pass, and return the planned jobs."""
        self.now_s += seconds
        request = assumed_of(self.hosts)
        wanted = self.observed.wanted({request.job_id: request}, dict(self.assumed), self.now_s)
        steps = self.reconciler.steps(wanted, [*self.plans], self.now_s)
        for job in steps.release:
            del self.plans[job], self.assumed[job]
        for each in steps.submit:
            if self.refuses(each):
                self.reconciler.refused(each.job_id, self.now_s)
                self.observed.refused(each.job_id)
                continue
            assert each.collectives, "what is planned is known"
            self.requests.append(each)
            self.assumed[each.job_id] = each.assumed
            is_custom = each.collectives[0].kind is CollectiveKind.CUSTOM
            pairs = [flow[:2] for flow in flows_of(each)] if is_custom else ring_pairs(each)
            self.plans[each.job_id] = [
                pb.FlowPlan(src_nic=src, dst_nic=dst, udp_source_port=50_000 + n) for n, (src, dst) in enumerate(pairs)
            ]
        return list(self.plans)


BASE = ring().job_id
OTHER = {("h1", "h3"): 1}


def observed_of(connected):
    return observed_id(ring(), connected)


def test_pairs_are_planned_once_readings_agree_for_10_s_and_stay_until_they_differ():
    site = Site(OTHER)
    assert site.pass_() == site.pass_() == [BASE]
    site.connected = {("h1", "h3"): 2}
    assert [site.pass_(seconds) for seconds in (10, 0, 1, 4)] == [[BASE]] * 4  # hooks wake passes at any time
    assert site.pass_(5) == [observed_of(site.connected)]
    site.connected = {}  # a controller that was started anew
    assert [site.pass_() for _ in range(3)] == [[observed_of({("h1", "h3"): 2})]] * 3
    assert site.observed.planned_again == 1


def test_another_agent_keeps_the_plan_that_it_finds_until_other_pairs_are_read_or_other_nodes():
    site = Site(OTHER)
    found = [site.pass_() for _ in range(3)][-1]
    assert found == [observed_of(OTHER)]
    for connected in ({}, OTHER):  # hosts have not reported yet, or have
        site.connected = connected
        site.restart()
        assert [site.pass_() for _ in range(3)] == [found] * 3
    site.connected = {("h1", "h4"): 1, ("h1", "h3"): 2}
    assert [site.pass_() for _ in range(2)] == [found, [observed_of(site.connected)]]
    site.restart()
    site.hosts = ["h1", "h2", "h3"]
    assert site.pass_() == [assumed_of(site.hosts).job_id]


def test_a_plan_that_another_agent_kept_and_the_controller_lost_is_the_assumption_again():
    site = Site(OTHER)
    for _ in range(3):
        site.pass_()
    site.restart()
    site.pass_()
    site.plans, site.assumed, site.connected = {}, {}, {}
    assert site.pass_() == [BASE]


def test_a_pair_of_the_plan_gets_further_queue_pairs_and_is_planned_for_them_once():
    site = Site({("h1", "h2"): 3, ("h1", "h3"): 2})
    (found,) = [site.pass_() for _ in range(3)][-1]
    assert [(flow.src_nic, flow.dst_nic) for flow in site.plans[found]] == [("h1", "h2")] * 3 + [("h1", "h3")] * 2


@pytest.mark.parametrize(("steered_by", "is_fixed"), [("openflow", True), ("hash", False), ("srv6", False)])
def test_ports_of_the_plan_are_fixed_only_where_the_steering_takes_fixed_ports(steered_by, is_fixed):
    site = Site({("h1", "h2"): 1, ("h1", "h3"): 1})
    site.steered_by = steered_by
    for _ in range(3):
        site.pass_()
    assert [port > 0 for _, _, port in flows_of(site.requests[-1])] == [is_fixed, False]


def test_a_job_that_says_what_it_sends_is_left_alone():
    site = Site(OTHER)
    site.pass_()
    site.assumed[BASE] = False
    assert [site.pass_() for _ in range(3)] == [[BASE]] * 3


def test_a_job_without_an_end_of_new_pairs_keeps_its_last_plan():
    site = Site({})
    for number in range(2 * MAX_REPLANS):
        site.connected = {("h1", "h3"): 1 + number % 16}
        for _ in range(3):
            site.pass_()
    assert site.observed.planned_again == MAX_REPLANS
    assert site.pass_() == [observed_of({("h1", "h3"): MAX_REPLANS})]


def test_a_refused_plan_releases_none_and_is_tried_again_a_few_times():
    site = Site(OTHER)
    site.refuses = lambda request: request.job_id == observed_of({("h2", "h4"): 1})
    found = [site.pass_() for _ in range(3)][-1]
    site.connected = {("h2", "h4"): 1}
    released = [site.pass_() for _ in range(40)]
    assert released == [found] * 40
    assert (site.previews, site.observed.planned_again) == (MAX_REPLANS, 1)


@pytest.mark.parametrize("had", [{}, OTHER])
def test_a_plan_that_is_refused_after_its_preview_gives_way_to_the_one_before(had):
    site = Site(had)
    before = [site.pass_() for _ in range(3)][-1]
    site.connected = {("h2", "h4"): 1}
    site.refuses = lambda request: request.job_id == observed_of({("h2", "h4"): 1})
    site.observed._is_admitted = lambda request: True
    assert [site.pass_() for _ in range(2)] == [before, []]
    assert [site.pass_() for _ in range(3)] == [before] * 3


def test_a_controller_without_such_reports_leaves_assumptions_and_one_out_of_reach_ends_the_pass():
    site = Site({})
    site.fails = HeddleError("GetPairs: Method not found!")
    assert site.pass_() == site.pass_() == [BASE]
    site.fails = UnavailableError("none")
    with pytest.raises(UnavailableError):
        site.pass_()


# What a job's environment says


SENDS = "collective=ALL_TO_ALL qps=2"


def test_a_job_is_planned_as_its_environment_says_at_once_and_stays_whatever_it_connects():
    site = Site(OTHER)
    assert site.pass_() == site.pass_() == [BASE]
    site.sends = SENDS
    assert site.pass_(READ_PERIOD_S - 0.1) == [BASE]  # a pass that a hook wakes reads nothing
    (said,) = site.pass_(0.1)
    assert said != BASE
    (collective,) = site.requests[-1].collectives
    assert (collective.kind, collective.qps_per_flow, site.requests[-1].assumed) == (
        CollectiveKind.ALL_TO_ALL,
        2,
        False,
    )
    site.sends = ""  # a controller that was started anew has not heard it yet
    assert [site.pass_() for _ in range(5)] == [[said]] * 5
    assert site.previews == 1


def test_an_agent_that_starts_anew_keeps_the_plan_that_the_environment_says():
    site = Site({})
    site.pass_()
    site.sends = SENDS
    (said,) = site.pass_()
    site.restart()
    assert [site.pass_() for _ in range(3)] == [[said]] * 3
    assert len(site.requests) == 2


def test_what_an_environment_says_wrongly_is_one_line_and_pairs_count_as_before():
    site = Site(OTHER)
    site.pass_()
    site.sends = "collective=ALL_TO_ALL ports=2"
    passes = [site.pass_() for _ in range(4)]
    assert len(site.lines) == 1
    assert "HEDDLE_SENDS: 'ports=2' is none of" in site.lines[0]
    assert passes[-1] == [observed_id(ring(), OTHER)]


def test_a_plan_that_the_controller_refuses_is_tried_once_and_the_one_before_stays():
    site = Site({})
    site.refuses = lambda request: not request.assumed
    site.pass_()
    site.sends = SENDS
    assert [site.pass_() for _ in range(4)] == [[BASE]] * 4
    assert site.previews == 1
