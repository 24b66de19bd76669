"""`python -m heddle.benchmarks iterations` without its lab: what each mode sends, and what counts as disturbed."""

import io
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from heddle.benchmarks.fabric import iterations
from heddle.benchmarks.fabric.iterations import (
    LINE_BPS,
    MODES,
    PLAN,
    SCENES,
    Row,
    _iterated,
    _mean_ms,
    _plan,
    _row,
)
from heddle.mininet_topos.traffic.cast import PACE
from heddle.v1 import heddle_pb2 as pb

RING = SCENES[0].rings[0]
FLOWS = [
    pb.FlowPlan(
        flow_id=f"a/0/{number}", src_nic=f"h{number}-n0", dst_nic="h9-n0", udp_source_port=50_000 + number,
        reverse_udp_source_port=51_000, rate_bps=LINE_BPS // 4, work_conserving=number == 1,
    )
    for number in (1, 2)
]  # fmt: skip
ROW = Row(
    iteration_ms={"a": 550.0, "b": 400.0}, pfc_frames=3, marked=5, dropped=0, late_ms=1.0, waiting=0.0, valid=True
)


def rates(mode):
    requests = _iterated(RING, pb.JobPlan(flows=FLOWS), mode, 0).requests
    return [(request.rate_bps, request.floor_bps) for request in requests]


def test_caps_keep_to_the_plan_floors_let_conserving_flows_exceed_it_and_ecmp_all():
    planned, line = int(LINE_BPS // 4 * PACE), int(LINE_BPS * PACE)
    assert rates("caps") == [(planned, 0), (planned, 0)]
    assert rates("floors") == [(line, planned), (planned, 0)]
    assert rates("ECMP") == [(line, 0), (line, 0)]


def test_the_modes_of_a_repetition_have_the_same_computations_and_phases_and_ecmp_alone_other_ports():
    jobs = {mode: _iterated(RING, pb.JobPlan(flows=FLOWS), mode, 1) for mode in MODES}
    assert len({(job.compute_ns, job.requests[0].start_offset_ns) for job in jobs.values()}) == 1
    ports = {mode: [request.udp_source_port for request in job.requests] for mode, job in jobs.items()}
    assert ports["caps"] == ports["floors"] == [50_001, 50_002] != ports["ECMP"]
    assert _iterated(RING, pb.JobPlan(flows=FLOWS), "caps", 2).compute_ns != jobs["caps"].compute_ns


def test_an_iteration_is_the_time_between_two_ends():
    assert _mean_ms([1_000_000, 3_000_000, 9_000_000]) == 4.0
    assert math.isnan(_mean_ms([1_000_000]))


def test_a_row_sums_marks_and_drops_and_has_the_lateness_that_few_exceed():
    nics = {f"h{n}": SimpleNamespace(counters={"np_ecn_marked_roce_packets": n}) for n in (1, 2)}
    result: Any = SimpleNamespace(nics=nics, queue_drops={"a": 3, "b": 4}, integrity=SimpleNamespace(valid=True))
    progress: Any = SimpleNamespace(
        lateness_ns=[*range(1_000_000, 101_000_000, 1_000_000)], ended_ns={"a": [0, 2_000_000]}
    )
    row = _row(result, progress, 8, 0.01)
    assert (row.marked, row.dropped, row.pfc_frames, row.late_ms) == (3, 7, 8, 95.0)
    assert row.iteration_ms == {"a": 2.0}


@pytest.mark.parametrize(
    ("change", "disturbed"),
    [({}, False), ({"late_ms": 10.1}, True), ({"waiting": 0.051}, True), ({"valid": False}, True)],
)
def test_a_machine_that_was_late_or_a_run_that_is_invalid_is_disturbed(change, disturbed):
    assert replace(ROW, **change).disturbed is disturbed


def test_the_table_has_each_mode_relative_to_the_jobs_alone():
    out = io.StringIO()
    iterations._print(out, SCENES[0], {mode: [ROW] for mode in MODES}, 1, 12.0)
    lines = out.getvalue().splitlines()
    assert [line.split()[0] for line in lines[2:]] == list(MODES)
    assert "550 (550 to 550)" in lines[2]
    assert "1.050" in lines[2]  # 550 of 500 ms, and 400 of 400
    assert lines[2].endswith("0 of 1")


def test_repetitions_and_seconds_are_those_of_the_environment(monkeypatch):
    monkeypatch.setenv(PLAN, "5x20")
    assert _plan() == (5, 20.0)
    for wrong in ("5", "0x20", "5xlong"):
        monkeypatch.setenv(PLAN, wrong)
        with pytest.raises(ValueError, match="such as 5x20"):
            _plan()
