"""Pairs that hosts report of a job: what is kept of them, and the limits of one job and of all."""

import pytest

from heddle.controller.api.services import connected_pairs
from heddle.controller.api.services.connected_pairs import ConnectedPairs
from heddle.controller.model.error import BudgetExceededError
from heddle.v1 import heddle_pb2 as pb
from tests.unit.brain.driver import small_fabric

NICS = small_fabric().nic_by_id


def report(kept, job, host, peers, jobs=("a", "b")):
    rows = [pb.ConnectedPair(src_nic=f"{host}-n0", dst_nic=f"{peer}-n0", queue_pairs=1) for peer in peers]
    kept.report(pb.JobPairs(job_id=job, host=host, pairs=rows), NICS, jobs)


def count(kept, job):
    return len(pb.JobPairs.FromString(kept.pairs(job)).pairs)


def test_an_empty_report_ends_the_one_before_and_nothing_is_kept_of_a_host_without_pairs():
    kept = ConnectedPairs()
    report(kept, "a", "h1", ["h2", "h3"])
    report(kept, "a", "h1", [])
    report(kept, "a", "invented", [])
    assert count(kept, "a") == 0
    assert not any(kept._jobs.values())


@pytest.mark.parametrize(("of_a_job", "of_all"), [(2, 9), (9, 2)])
def test_a_report_beyond_the_limits_is_refused_as_a_whole_and_a_host_s_own_makes_room(monkeypatch, of_a_job, of_all):
    monkeypatch.setattr(connected_pairs, "MAX_PAIRS", of_a_job)
    monkeypatch.setattr(connected_pairs, "MAX_ALL_PAIRS", of_all)
    kept = ConnectedPairs()
    report(kept, "a", "h1", ["h2", "h3"])
    with pytest.raises(BudgetExceededError):
        report(kept, "a" if of_a_job < of_all else "b", "h2", ["h1"])
    report(kept, "a", "h1", ["h4", "h3"])
    assert count(kept, "a") == 2
