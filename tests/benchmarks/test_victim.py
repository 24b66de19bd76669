"""`heddle bench victim`: which flows it asks for, and how it reads a run."""

from types import SimpleNamespace
from typing import Any

from heddle.benchmarks.fabric.victim import ALONE_S, LINE_BPS, MODES, VICTIM, job, requests, row_of
from heddle.mininet_topos.measure.flow_run import GOODPUT_PERIOD_NS
from heddle.v1 import heddle_pb2 as pb

PLAN = [
    pb.FlowPlan(flow_id=f"f{number}", src_nic=f"h{source}-n0", dst_nic=f"h{target}-n0", udp_source_port=50_000 + number,
                rate_bps=1_000_000)
    for number, (source, target) in enumerate([VICTIM, (5, 1), (6, 1)])
]  # fmt: skip


def test_the_job_has_the_victim_and_seven_senders_to_one_nic() -> None:
    [collective] = job().collectives
    pairs = [(flow.src_rank + 1, flow.dst_rank + 1) for flow in collective.flows]
    assert pairs == [(16, 2), *((sender, 1) for sender in range(5, 12))]


def test_the_victim_starts_alone_and_planned_flows_have_the_ports_of_the_plan() -> None:
    planned = requests(MODES[-1], PLAN, 1)
    assert [request.start_offset_ns for request in planned] == [0, ALONE_S * 1e9, ALONE_S * 1e9]
    assert [request.udp_source_port for request in planned] == [50_000, 50_001, 50_002]
    assert all(request.rate_bps < 1_000_000 for request in planned)


def test_eight_queue_pairs_share_the_line_and_each_seed_draws_its_own_ports() -> None:
    mode = next(mode for mode in MODES if mode.queue_pairs == 8)
    first, second = requests(mode, PLAN, 1), requests(mode, PLAN, 2)
    assert len(first) == 8 * len(PLAN)
    assert sum(request.rate_bps for request in first[:8]) <= LINE_BPS
    assert [request.udp_source_port for request in first] != [request.udp_source_port for request in second]


def test_goodput_is_read_second_by_second() -> None:
    a_second = int(1e9 / GOODPUT_PERIOD_NS)
    per_second = {"victim": [9, 8, 4, 2, 4, 6], "other": [0, 0, 1, 1, 1, 1]}
    flows = [
        SimpleNamespace(
            request=SimpleNamespace(src_nic="h16-n0" if name == "victim" else "h5-n0"),
            goodput_bytes=tuple(each * 125_000 // a_second for each in values for _ in range(a_second)),
        )
        for name, values in per_second.items()
    ]
    result: Any = SimpleNamespace(flows=flows, integrity=SimpleNamespace(valid=True))
    row = row_of(result, 7)
    assert (row.alone, row.beside, row.incast, row.pfc_frames) == (8, [4, 2, 4, 6], 1, 7)
    assert (row.kept, row.worst) == (0.5, 0.25)
