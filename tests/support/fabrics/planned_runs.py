"""Run the flows of plans in a lab, and compare what the capture has counted with what was planned."""

from collections.abc import Iterable
from dataclasses import replace

from heddle.controller.config.write import fabric_text
from heddle.controller.model.fabric import Fabric
from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest, RunResult
from heddle.v1 import heddle_pb2 as pb

PACE = 0.97
LOST = ("lost_packets", "retransmitted_packets", "packet_seq_err", "local_ack_timeout_err")


def text_of(fabric: Fabric) -> str:
    """Return the fabric file that lists all parts of a fabric."""
    return "\n".join(fabric_text(fabric, (), numbered=True)) + "\n"


def paced(flow: pb.FlowPlan) -> int:
    """Return the rate of a flow that leaves its links a little room, in bit/s."""
    return int(flow.rate_bps * PACE)


def requests_of(plan: pb.JobPlan, size_bytes: int) -> list[FlowRequest]:
    """Return the flows of a plan, each of so many bytes."""
    return [
        FlowRequest(
            flow_id=flow.flow_id, src_nic=flow.src_nic, dst_nic=flow.dst_nic, udp_source_port=flow.udp_source_port,
            reverse_udp_source_port=flow.reverse_udp_source_port, rate_bps=paced(flow), size_bytes=size_bytes,
        )
        for flow in plan.flows
    ]  # fmt: skip


def assert_no_packet_lost(result: RunResult) -> None:
    """Check that every flow has completed, and that no packet was lost, dropped or sent again."""
    assert result.completed
    assert result.valid, result.integrity
    assert {field: sum(getattr(flow, field) for flow in result.flows) for field in LOST} == dict.fromkeys(LOST, 0)
    assert not result.queue_drops


def assert_on_planned_links(lab: Lab, result: RunResult, plans: Iterable[Iterable[pb.FlowPlan]]) -> None:
    """Check that each packet was captured on exactly the links that some generation plans for its flow and port."""
    planned = {(flow.flow_id, flow.udp_source_port): list(flow.links) for flows in plans for flow in flows}
    elsewhere: dict[tuple[str, int], object] = {}
    for found in result.flows:
        request, sent = found.request, 0
        for port in dict.fromkeys((request.udp_source_port, *(move.new_udp_source_port for move in found.moves))):
            counted = result.capture.links_of(lab.stream_of(replace(request, udp_source_port=port)))
            links = planned[request.flow_id, port]
            packets = counted.get(links[0], 0)
            if counted != (dict.fromkeys(links, packets) if packets else {}):
                elsewhere[request.flow_id, port] = (counted, links)
            sent += packets
        assert sent == found.tx_packets
    assert elsewhere == {}, "\n".join(map(str, elsewhere.items()))


def flows_by_link(lab: Lab, result: RunResult) -> dict[str, int]:
    """Return how many flows were captured on each directed link."""
    found: dict[str, int] = {}
    for flow in result.flows:
        for link in result.capture.links_of(lab.stream_of(flow.request)):
            found[link] = found.get(link, 0) + 1
    return found
