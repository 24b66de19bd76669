"""In `heddle lab fabric` the flows of a planned workload are measured: in GetJob, on the page, by Prometheus."""

import itertools
import json
import signal
import time
import urllib.request
from collections import defaultdict
from pathlib import Path

import pytest

from heddle.v1 import heddle_pb2 as pb
from heddle.v1 import heddle_pb2_grpc as rpc
from tests.e2e.lab.test_lab_fabric import NEEDS, TIMEOUT_S, running, start, until  # noqa: F401

pytestmark = [pytest.mark.e2e, pytest.mark.alone, *NEEDS]
JOB, NICS = "permutation", 8
WINDOW_NS, MARGIN = 900_000_000, 0.1
"""A report follows the one before after a second or a little more; both rates are between two readings of one count."""


def sent_bytes(directory: Path) -> dict[str, tuple[int, int]]:
    """Return the time of each NIC's counter file, and the bytes that its queue pairs had sent by then."""
    files = [json.loads(path.read_text()) for path in (directory / "nic").glob("*.json")]
    return {
        found["nic"]: (found["timestamp_unix_ns"], sum(pair["tx_bytes"] for pair in found["requesters"]))
        for found in files
    }


def rates_bps(samples: list[tuple[int, int]]) -> list[float]:
    """Return the rates between all samples that are at least a window apart, of one second or two."""
    pairs = itertools.combinations(sorted(set(samples)), 2)
    return [
        (last[1] - first[1]) * 8e9 / (last[0] - first[0])
        for first, last in pairs
        if WINDOW_NS <= last[0] - first[0] <= 2 * WINDOW_NS
    ]


@pytest.fixture
def jobs(running):  # noqa: F811
    return rpc.JobServiceStub(running.channel)


def test_the_flows_of_a_job_are_measured_as_their_nics_have_sent(running, jobs):  # noqa: F811
    def measured() -> dict[str, int]:
        flows = jobs.GetJob(pb.GetJobRequest(job_id=JOB)).flows
        return {flow.src_nic: flow.measured_bps for flow in flows if flow.HasField("measured_bps")}

    traffic = start("traffic", JOB, "--seconds", "60", "--json")
    until(lambda: running.jobs() == 1)
    until(lambda: len(measured()) == NICS)
    sent, seen = defaultdict(list), defaultdict(set)
    end = time.monotonic() + 6
    while time.monotonic() < end:
        for nic, sample in sent_bytes(Path(running.ready["directory"])).items():
            sent[nic].append(sample)
        if time.monotonic() > end - 3:  # then the files have covered what a report is of
            for nic, rate_bps in measured().items():
                seen[nic].add(rate_bps)
        time.sleep(0.05)
    assert len(seen) == NICS
    for nic, found in seen.items():
        own = rates_bps(sent[nic])
        assert min(own) * (1 - MARGIN) <= min(found), nic
        assert max(found) <= max(own) * (1 + MARGIN), nic

    url = running.ready["url"]
    page = json.load(urllib.request.urlopen(f"{url}api/jobs/{JOB}", timeout=TIMEOUT_S))
    assert all(flow["measured_bps"] for flow in page["flows"])
    metrics = urllib.request.urlopen(f"{url}metrics", timeout=TIMEOUT_S).read().decode()
    assert f'heddle_job_measured_flows{{job="{JOB}"}} {NICS}\n' in metrics

    traffic.send_signal(signal.SIGINT)
    traffic.communicate(timeout=TIMEOUT_S)
    until(lambda: running.jobs() == 0)


def test_hashed_traffic_is_not_reported_and_gets_no_paths_of_its_own(running):  # noqa: F811
    traffic = start("traffic", JOB, "--hashed", "--seconds", "5", "--json")
    _, err = traffic.communicate(timeout=TIMEOUT_S)
    assert traffic.returncode == 0, err
    metrics = urllib.request.urlopen(f"{running.ready['url']}metrics", timeout=TIMEOUT_S).read().decode()
    assert "heddle_flow_reports_total 0\n" in metrics
    assert "heddle_observed_jobs_total 0\n" in metrics
