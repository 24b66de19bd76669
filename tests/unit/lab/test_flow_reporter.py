"""Queue pairs of a lab's NICs become reports, and reach a gRPC server per host."""

import grpc

from heddle.mininet_topos.measure.flow_reporter import FlowReporter
from heddle.mininet_topos.measure.observed_flows import observed_flows
from heddle.v1 import heddle_pb2 as pb
from tests.support.controllers.plan_server import PlanServer, serving
from tests.support.fabrics.small_fabrics import rails
from tests.support.packets.nic_pair import wait_for

PLANS = pb.JobPlan(job_id="job")
FAST_RECONNECT = [("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 50)]


def listing(ip: str, *queue_pairs: dict) -> dict:
    return {"ip": ip, "timestamp_unix_ns": 77, "queue_pairs": list(queue_pairs)}


def test_the_queue_pairs_of_all_nics_of_a_host_are_in_its_message():
    entry = {"qpn": 1, "peer_qpn": 2, "peer_ip": "10.0.0.2", "udp_source_port": 50_000, "sent_bytes": 9}
    listings = {nic.id: listing(f"10.0.0.{nic.id[1]}", entry) for nic in rails().nics}
    found = observed_flows(rails(), {**listings, "h2-n1": listing("10.0.0.12")})
    flow = pb.ObservedFlow(
        src_ip="10.0.0.1", dst_ip="10.0.0.2", udp_source_port=50_000, src_qpn=1, dst_qpn=2, sent_bytes=9,
        timestamp_unix_ns=77,
    )  # fmt: skip
    assert found["h1"] == pb.ObservedFlows(host="h1", flows=[flow, flow])
    assert len(found["h2"].flows) == 1


def test_of_the_queue_pairs_only_those_with_the_numbers_wanted_are_in_it():
    pairs = [
        {"qpn": number, "peer_qpn": 9, "peer_ip": "10.0.0.2", "udp_source_port": 50_000, "sent_bytes": 0}
        for number in (1, 3)
    ]
    listings = {nic.id: listing("10.0.0.1", *pairs) for nic in rails().nics}
    found = observed_flows(rails(), listings, only={3})
    assert {flow.src_qpn for message in found.values() for flow in message.flows} == {3}
    assert found.keys() == {"h1", "h2"}


def test_at_its_end_every_host_has_reported_that_it_has_no_queue_pairs():
    plans = PlanServer(PLANS, ())
    with serving(plans) as address, grpc.insecure_channel(address) as channel, FlowReporter(channel) as reporter:
        busy = [pb.ObservedFlow(src_ip="10.0.0.1", src_qpn=1, dst_qpn=2)]
        reporter.report({host: pb.ObservedFlows(host=host, flows=busy) for host in ("h1", "h2")})
        reporter.end()
        assert [len(plans.reports[host][-1].flows) for host in ("h1", "h2")] == [0, 0]


def test_each_host_reports_on_a_stream_that_stays_open():
    plans = PlanServer(PLANS, ())
    with serving(plans) as address, grpc.insecure_channel(address) as channel, FlowReporter(channel) as reporter:
        reporter.report({host: pb.ObservedFlows(host=host) for host in ("h1", "h2")})
        wait_for(lambda: plans.reports.keys() == {"h1", "h2"})
        reporter.report({"h2": pb.ObservedFlows(host="h2")})
        wait_for(lambda: len(plans.reports["h2"]) == 2)
        assert plans.report_streams == 2


def test_after_a_restart_of_the_server_reports_arrive_again():
    first, second = PlanServer(PLANS, ()), PlanServer(PLANS, ())
    with serving(first) as address:
        channel = grpc.insecure_channel(address, options=FAST_RECONNECT)
        reporter = FlowReporter(channel)
        reporter.report({"h1": pb.ObservedFlows(host="h1")})
        wait_for(lambda: first.reports)
    with serving(second, address), channel, reporter:

        def arrives() -> bool:
            reporter.report({"h1": pb.ObservedFlows(host="h1")})
            return bool(second.reports)

        wait_for(arrives)
