"""What an agent carries out: orders from its own addresses, of bounded size, at its own rate at most."""

from typing import Any

import pytest

from heddle.probing.agent.orders import MAX_QUESTIONS, MeshProbe, OrderError, mesh_order_in, order_in, sid_order_in
from heddle.probing.probe import Question
from heddle.v1 import heddle_pb2 as pb

OWN = {0x0A000001}


def order(**changed: Any) -> pb.ProbeOrder:
    asked = [pb.ProbeQuestion(dst_ip="10.0.0.2", port=50_000, ttl=2)]
    usual: dict[str, Any] = {"order_id": 7, "src_ip": "10.0.0.1", "questions": asked, "rate_pps": 50.0}
    return pb.ProbeOrder(**usual | {"timeout_ms": 250} | changed)


def test_an_order_is_read():
    found = order_in(order(), OWN, 1_000)
    assert (found.number, found.src_ip, found.questions) == (7, 0x0A000001, (Question(0x0A000002, 50_000, 2),))
    assert found.pace == (50.0, 0.25)
    assert (found.qpn, found.dscp) == (0, 0)


def test_an_order_has_the_queue_pair_number_and_dscp_of_its_probes():
    found = order_in(order(qpn=0xABCDEF, dscp=26), OWN, 1_000)
    assert (found.qpn, found.dscp) == (0xABCDEF, 26)


def test_an_agent_asks_no_faster_than_its_own_rate():
    assert order_in(order(rate_pps=1e6), OWN, 1_000).pace.rate_pps == 1_000


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"src_ip": "10.0.0.9"}, "src_ip: 10.0.0.9 is no address of this agent"),
        ({"src_ip": "here"}, "src_ip: no IPv4 address"),
        ({"questions": []}, "questions: must be 1 to"),
        ({"questions": [pb.ProbeQuestion()] * (MAX_QUESTIONS + 1)}, "questions: must be 1 to"),
        ({"rate_pps": 0.0}, "rate_pps"),
        ({"rate_pps": float("nan")}, "rate_pps"),
        ({"rate_pps": float("inf")}, "rate_pps"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"qpn": 1 << 24}, "qpn: must be 0 to 16,777,215"),
        ({"dscp": 64}, "dscp: must be 0 to 63"),
        ({"timeout_ms": 1 << 31}, "timeout_ms"),
        ({"questions": [pb.ProbeQuestion(dst_ip="10.0.0.2", port=80, ttl=2)]}, r"questions\[0\].port: must be 49152"),
        ({"questions": [pb.ProbeQuestion(dst_ip="10.0.0.2", port=50_000)]}, r"questions\[0\].ttl"),
        ({"questions": [pb.ProbeQuestion(dst_ip="10.0.0.2", port=50_000, ttl=64)]}, r"questions\[0\].ttl"),
        ({"questions": [pb.ProbeQuestion(dst_ip="224.0.0.1", port=50_000, ttl=2)]}, r"questions\[0\].dst_ip"),
    ],
)
def test_an_order_that_an_agent_does_not_carry_out_is_refused(changed, text):
    with pytest.raises(OrderError, match=text):
        order_in(order(**changed), OWN, 1_000)


def mesh_order(count: int = 1, **changed: Any) -> pb.ProbeOrder:
    probe: dict[str, Any] = {"dst_ip": "10.0.0.2", "port": 50_000, "reply_port": 60_000} | changed
    return order(questions=[], mesh=[pb.MeshProbe(**probe)] * count, dscp=26)


def test_an_order_of_mesh_probes_is_read():
    found = mesh_order_in(mesh_order(), OWN, 20.0)
    assert found.probes == (MeshProbe(0x0A000002, 50_000, 60_000),)
    assert (found.number, found.src_ip, found.rate_pps, found.timeout_s, found.dscp) == (7, 0x0A000001, 20.0, 0.25, 26)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"port": 4791}, r"mesh\[0\].port: must be 49152"),
        ({"reply_port": 0}, r"mesh\[0\].reply_port: must be 49152"),
        ({"dst_ip": "255.255.255.255"}, r"mesh\[0\].dst_ip: 255.255.255.255 is no address of a NIC"),
        ({"count": MAX_QUESTIONS + 1}, "mesh: must be 4,096 at most"),
    ],
)
def test_other_orders_of_mesh_probes_are_refused(changed, text):
    with pytest.raises(OrderError, match=text):
        mesh_order_in(mesh_order(**changed), OWN, 1_000)
    with pytest.raises(OrderError, match="is no address of this agent"):
        mesh_order_in(mesh_order(), {0x0A000009}, 1_000)


def sid_order(**changed: Any) -> pb.ProbeOrder:
    usual: dict[str, Any] = {"sids": ["fcbb:0:e001::"], "srv6_source": "fcbb:0:1:e003::", "dscp": 26}
    return order(questions=[], **usual | changed)


def test_an_order_of_probes_that_return_by_their_sids_is_read():
    found = sid_order_in(sid_order(), OWN, 20.0)
    assert (found.source, found.probes) == (0xFCBB_0000_0001_E003 << 64, (0xFCBB_0000_E001 << 80,))
    assert (found.number, found.src_ip, found.rate_pps, found.timeout_s, found.dscp) == (7, 0x0A000001, 20.0, 0.25, 26)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"src_ip": "10.0.0.9"}, "src_ip: 10.0.0.9 is no address of this agent"),
        ({"sids": ["fcbb::", "10.0.0.1"]}, r"sids\[1\]: no IPv6 address"),
        ({"sids": ["ff02::1"]}, r"sids\[0\]: ff02::1 holds no SIDs"),
        ({"sids": ["fe80::1"]}, r"sids\[0\]: fe80::1 holds no SIDs"),
        ({"srv6_source": ""}, "srv6_source: no IPv6 address"),
        ({"sids": ["fcbb::"] * (MAX_QUESTIONS + 1)}, "sids: must be 4,096 at most"),
    ],
)
def test_an_order_of_such_probes_that_an_agent_does_not_carry_out_is_refused(changed, text):
    with pytest.raises(OrderError, match=text):
        sid_order_in(sid_order(**changed), OWN, 1_000)
