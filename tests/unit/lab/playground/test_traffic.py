"""What `heddle lab traffic` accepts, which demands it makes, and what it prints."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from heddle.controller.model.error import HeddleError, InputError
from heddle.controller.model.job import CollectiveKind
from heddle.mininet_topos.measure.flow_run import FlowRequest
from heddle.mininet_topos.playground.client import find_lab
from heddle.mininet_topos.playground.result import MAX_FLOWS_SHOWN, FlowRow, Moment, TrafficResult, table
from heddle.mininet_topos.playground.traffic import _workload, request_of, traffic_request
from heddle.mininet_topos.traffic.cast import paced
from heddle.mininet_topos.traffic.stage import _spread
from heddle.v1 import heddle_pb2 as pb
from tests.support.fabrics.small_fabrics import spine_leaf


def result(flows: int = 3) -> TrafficResult:
    rows = tuple(
        FlowRow(
            flow_id=f"f{n}", src_nic=f"h{n}-n0", dst_nic="h0-n0", planned_bps=20_000_000, goodput_bps=(n + 1) * 10**6,
            lost_packets=n, retransmitted_packets=0, moves=0,
        )
        for n in range(flows)
    )  # fmt: skip
    return TrafficResult(
        lab="abcd", workload="ring", mode="planned", seed=1, duration_ns=4_000_000_000, flows=rows, marked_packets=5,
        cnps=4, pfc_frames=3, dropped_packets=2, moments=(Moment(at_ns=10**9, kind="decision", text="leaf1:1 down"),),
        problems=("3 packets were lost",),
    )  # fmt: skip


def printed(found: TrafficResult) -> str:
    console = Console(width=100, record=True, file=StringIO())
    console.print(table(found))
    return console.export_text() + "\n".join(found.summary())


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("rings", True, 5, None, 1), r"'rings' is no workload, did you mean ring\? it is one of permutation, ring,"),
        (("ring", True, 0, None, 1), r"--seconds 0: must be 1 to 3,600"),
        (("ring", True, float("nan"), None, 1), r"--seconds nan: must be 1 to 3,600"),
        (("ring", True, 5, 0, 1), r"--rate 0: must be at least 0.1 Mbit/s"),
        (("ring", True, 5, float("inf"), 1), r"--rate inf: must be at least 0.1 Mbit/s"),
        (
            ("ring", False, 5, None, 1, True),
            r"--exceed: only planned flows have rates to exceed, leave it or --hashed out",
        ),
        (("ring", True, 5, None, 1, False, 257), r"--paths 257: must be 1 to 256, or left out"),
        (("ring", True, 5, None, 1, False, -1), r"--paths -1: must be 1 to 256, or left out"),
        (
            ("ring", False, 5, None, 1, False, 4),
            r"--paths: only planned workloads other than hog",
        ),
        (
            ("storm", True, 5, None, 1, False, 4),
            r"--paths: only planned workloads other than hog",
        ),
        (("storm", True, 5, 3, 1), r"--rate: the rates of storm are fixed, leave it out"),
    ],
)
def test_a_bad_option_is_one_line(words, problem):
    with pytest.raises(InputError, match=f"^{problem}") as refusal:
        traffic_request(*words)
    assert len(refusal.value.problems) == 1


@pytest.mark.parametrize("message", [{}, {"workload": "ring", "planned": 1, "seconds": "x", "rate_bps": 0, "seed": 1}])
def test_a_malformed_message_is_refused(message):
    with pytest.raises(InputError, match=r"^malformed request: "):
        request_of(message)


def test_a_rate_becomes_the_demand_of_every_flow_of_the_job():
    found = _workload(spine_leaf(2, 2, 4), traffic_request("permutation", True, 5, 3, 1))
    (collective,) = found.job.collectives
    assert collective.kind is CollectiveKind.CUSTOM
    assert {flow.rate_bps for flow in collective.flows} == {flow.rate_bps for flow in found.flows} == {3_000_000}
    assert len(collective.flows) == 4


def test_a_rate_above_the_line_is_refused():
    with pytest.raises(InputError, match=r"^--rate 21: NICs of this lab have 20 Mbit/s$"):
        _workload(spine_leaf(2, 2, 4), traffic_request("ring", True, 5, 21, 1))


def test_the_slowest_flows_are_printed_first_and_a_long_table_ends():
    text = printed(result(MAX_FLOWS_SHOWN + 2))
    assert [line.split()[0] for line in text.splitlines()[2:5]] == ["h0-n0", "h1-n0", "h2-n0"]
    assert "and 2 faster ones" in text
    assert "goodput 595.0 Mbit/s (planned 680.0 with headers), slowest flow 1.00" in text
    assert "1.00 s  leaf1:1 down" in text
    assert "note: 3 packets were lost" in text


def test_a_late_machine_is_named_beside_the_rates_that_it_costs():
    late = "note: this machine was late: its switches waited 5% and its NICs 41% of the time for a processor"
    assert late in printed(replace(result(), switches_waited=0.05, nics_waited=0.41))
    assert "late" not in printed(replace(result(), switches_waited=0.05, nics_waited=0.05))


def test_a_result_survives_json():
    assert TrafficResult.of_json(result().to_json()) == result()


def test_without_a_lab_the_remedy_is_named(monkeypatch, tmp_path):
    monkeypatch.setenv("HEDDLE_RUN_DIR", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(HeddleError, match=r"^no lab runs here; start one with `heddle lab fabric`$"):
        find_lab(None)
    with pytest.raises(HeddleError, match=r"^no lab alpha runs here; running: none$"):
        find_lab("alpha")


def test_another_user_than_root_is_refused(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(HeddleError, match=r"^labs belong to root: run this with sudo$"):
        find_lab(None)


def test_a_part_in_a_plane_with_nothing_left_has_1_bit_a_second_and_begins_with_the_others():
    rate_bps = paced(pb.FlowPlan(rate_bps=1))
    assert rate_bps == 1
    flow = FlowRequest(
        flow_id="f", src_nic="h1-n0/p0", dst_nic="h2-n0/p0", udp_source_port=0xC000, reverse_udp_source_port=0xC000,
        rate_bps=rate_bps, size_bytes=1,
    )  # fmt: skip
    assert max(one.start_offset_ns for one in _spread([flow, replace(flow, flow_id="g")])) < 10**9
