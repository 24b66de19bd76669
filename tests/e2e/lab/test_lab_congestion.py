"""NICs and the queue model together: ECN, PFC, rates, admission windows and path changes on a small lab."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from heddle.controller.model.plan import AdmissionWindow
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowChange, FlowRequest
from heddle.mininet_topos.nic.settings import NicSettings
from heddle.mininet_topos.queues.settings import QueueSettings
from heddle.mininet_topos.switches.queue_model import why_unavailable
from heddle.telemetry.agent.sources.emulated import EmulatedNics
from tests.support.fabrics.small_fabrics import spine_leaf

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.alone,
    pytest.mark.skipif(why_unavailable() is not None, reason=f"no queue model here: {why_unavailable()}"),
]
LINE_BPS = 20_000_000


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    fabric = spine_leaf(2, 2, 4)
    settings = replace(NicSettings.for_fabric(fabric), dcqcn=True)
    with Lab(fabric, settings=settings, queues=QueueSettings()) as lab:
        lab.ecmp.load()
        yield lab


def incast(rate_bps: int, size_bytes: int = 1_500_000, **more: object) -> list[FlowRequest]:
    return [
        FlowRequest(
            flow_id=f"in{number}", src_nic=f"h{number}-n0", dst_nic="h4-n0", udp_source_port=0xC000 + number,
            reverse_udp_source_port=0xD000 + number, rate_bps=rate_bps, size_bytes=size_bytes, **more,  # type: ignore
        )
        for number in (1, 2, 3)
    ]  # fmt: skip


def pauses(result) -> int:
    return sum(nic.counters["rx_prio3_pause"] for nic in result.nics.values())


def test_an_incast_is_slowed_by_marks_and_loses_nothing(lab):
    result = lab.run_flows(incast(LINE_BPS), timeout_s=60)
    assert result.completed
    assert result.integrity.valid, str(result.integrity)
    assert result.queue_drops == {}
    for flow in result.flows:
        assert flow.np_ecn_marked_roce_packets >= flow.np_cnp_sent == flow.rp_cnp_handled > 0
        assert flow.retransmitted_packets == 0
    receiver = result.nics["h4-n0"].counters
    assert receiver["np_cnp_sent"] == sum(flow.np_cnp_sent for flow in result.flows)
    assert receiver["np_ecn_marked_roce_packets"] == sum(flow.np_ecn_marked_roce_packets for flow in result.flows)


def test_senders_at_the_rates_of_a_plan_see_no_pause(lab):
    result = lab.run_flows(incast(LINE_BPS * 95 // 300), timeout_s=60)
    assert result.completed
    assert (pauses(result), result.queue_drops) == (0, {})


def test_senders_in_different_admission_windows_each_use_the_whole_line_and_lose_nothing(lab):
    requests = [
        replace(request, window=AdmissionWindow(slot=slot, slots=3, slot_ns=60_000_000), size_bytes=500_000)
        for slot, request in enumerate(incast(LINE_BPS * 9 // 10))
    ]
    result = lab.run_flows(requests, timeout_s=60)
    assert result.completed
    assert result.integrity.valid, str(result.integrity)
    assert (result.queue_drops, sum(flow.retransmitted_packets for flow in result.flows)) == ({}, 0)


def test_a_flow_moves_to_another_path_while_it_runs_and_loses_nothing(lab):
    request = replace(incast(4_000_000)[0], size_bytes=1_000_000)
    streams = {port: lab.stream_of(request)._replace(udp_source_port=port) for port in range(0xC100, 0xC140)}
    here = lab.path_of(lab.stream_of(request))
    port, there = next((port, path) for port, stream in streams.items() if (path := lab.path_of(stream)) != here)
    moved: list[float] = []

    def move(elapsed_s: float) -> None:
        if elapsed_s > 0.5 and not moved:
            moved.append(elapsed_s)
            lab.modify_flow(request.flow_id, FlowChange(udp_source_port=port, rate_bps=8_000_000))

    result = lab.run_flows([request], timeout_s=60, on_progress=move)
    flow = result.flows[0]
    before, after = result.capture.links_of(lab.stream_of(request)), result.capture.links_of(streams[port])
    assert result.completed
    assert result.valid, str(result.integrity)
    assert (set(before), set(after)) == (set(here), set(there))
    assert max(before.values()) + max(after.values()) == flow.tx_packets == flow.packets
    assert flow.out_of_sequence == 0


def test_every_nic_writes_its_counters_to_a_file_that_the_agent_reads(lab):
    result = lab.run_flows(incast(5_000_000, 50_000)[:1], timeout_s=60)
    found = asyncio.run(EmulatedNics(lab.counters_directory).read(0))
    samples = {sample.port: sample for device in found for sample in device.samples}
    assert result.completed
    assert {device.device for device in found} == {"h1", "h2", "h3", "h4"}
    assert set(samples) == {nic.id for nic in lab.fabric.nics}
    assert samples["h1-n0"].tx_packets > 0
    assert {queue.priority for queue in samples["h1-n0"].queues} == set(range(8))
