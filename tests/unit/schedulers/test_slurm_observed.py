"""Assumed jobs are planned again with the pairs that they connect, where the assumption does not explain these."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.model.error import HeddleError, UnavailableError
from heddle.controller.model.job import CollectiveKind
from heddle.controller.schedulers.slurm_jobs import NicOfHost, request_of
from heddle.controller.schedulers.slurm_observed import observed_id, observed_request, ring_pairs
from heddle.programs.console.slurm.observed_jobs import MAX_REPLANS, ObservedJobs
from heddle.v1 import heddle_pb2 as pb

NICS = {f"h{n}": [NicOfHost(f"h{n}", 0)] for n in range(1, 6)}


def ring(hosts=4):
    request = request_of(7, [f"h{n}" for n in range(1, hosts + 1)], NICS, 0)
    assert request is not None
    return request


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
    assert flows_of(found) == [("h1", "h2", 50_000), ("h1", "h3", 0), ("h1", "h3", 0), ("h3", "h1", 0)]
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


class Controller:
    """What is connected, and one flow for each pair of the ring."""

    def __init__(self, connected):
        self.connected, self.fails = connected, None

    def pairs(self, job):
        if self.fails:
            raise self.fails
        return self.connected

    def flows(self, job):
        return [pb.FlowPlan(src_nic="h1", dst_nic="h2", udp_source_port=50_000)]


def passed(observed, known):
    return list(observed.wanted({ring().job_id: ring()}, known))


def test_pairs_are_planned_once_two_readings_agree_and_stay_until_they_differ():
    controller = Controller({("h1", "h3"): 1})
    observed, base = ObservedJobs(controller), ring().job_id
    assert passed(observed, {base: True}) == [base]
    controller.connected = {("h1", "h3"): 2}
    assert passed(observed, {base: True}) == [base]
    (found,) = passed(observed, {base: True})
    assert found == observed_id(ring(), controller.connected)
    assert passed(observed, {found: False}) == passed(ObservedJobs(controller), {found: False}) == [found]
    controller.connected = {}  # a controller that was started anew
    assert passed(observed, {found: False}) == [found]
    assert observed.planned_again == 1


def test_a_job_that_says_what_it_sends_is_left_alone():
    observed, base = ObservedJobs(Controller({("h1", "h3"): 1})), ring().job_id
    assert [passed(observed, {base: False}) for _ in range(3)] == [[base]] * 3


def test_a_job_without_an_end_of_new_pairs_and_one_that_is_refused_keep_a_plan():
    controller = Controller({})
    observed, base = ObservedJobs(controller), ring().job_id
    for number in range(2 * MAX_REPLANS):
        controller.connected = {("h1", "h3"): 1 + number % 16}
        for _ in range(2):
            passed(observed, {base: True})
    assert observed.planned_again == MAX_REPLANS
    observed, controller.connected = ObservedJobs(controller), {("h1", "h3"): 1}
    passed(observed, {base: True})
    observed.refused(passed(observed, {base: True})[0])
    assert [passed(observed, {base: True}) for _ in range(3)] == [[base]] * 3


def test_a_controller_without_such_reports_leaves_assumptions_and_one_out_of_reach_ends_the_pass():
    controller = Controller({})
    controller.fails = HeddleError("GetPairs: Method not found!")
    assert passed(ObservedJobs(controller), {ring().job_id: True}) == [ring().job_id]
    controller.fails = UnavailableError("none")
    with pytest.raises(UnavailableError):
        passed(ObservedJobs(controller), {ring().job_id: True})
