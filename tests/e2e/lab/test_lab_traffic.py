"""Real packets on a 2 x 2 x 4 lab under hash routing: the kernel's and the NICs', counted on every link."""

from collections.abc import Iterator
from itertools import permutations

import pytest

from heddle.mininet_topos.lab import Lab
from heddle.mininet_topos.measure.flow_run import FlowRequest
from tests.support.fabrics.small_fabrics import rails, spine_leaf

pytestmark = pytest.mark.e2e

SERVER = "import socket as s;l=s.create_server(('',9000));c=l.accept()[0];print(sum(iter(lambda:len(c.recv(65536)),0)))"
CLIENT = "import socket as s;c=s.create_connection(('10.0.0.4',9000),10);c.sendall(bytes(300000));c.close()"


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab(spine_leaf(2, 2, 4)) as lab:
        lab.ecmp.load()
        yield lab


def flow(number: int, source: str, destination: str, rate_bps: int, size_bytes: int = 400_000) -> FlowRequest:
    return FlowRequest(
        flow_id=f"f{number}",
        src_nic=source,
        dst_nic=destination,
        udp_source_port=0xC000 + number,
        reverse_udp_source_port=0xD000 + number,
        rate_bps=rate_bps,
        size_bytes=size_bytes,
    )


def pairs(lab: Lab) -> list[tuple[str, str]]:
    return list(permutations((nic.id for nic in lab.fabric.nics), 2))


def test_all_hosts_reach_each_other_by_arp_and_ping(lab):
    for host in ("h1", "h2", "h3", "h4"):
        for last_octet in range(1, 5):
            assert " 0% packet loss" in lab.net.host(host).cmd(f"ping -c 1 -W 5 10.0.0.{last_octet}")


def test_tcp_works_between_hosts_on_different_leaves(lab):
    server = lab.net.host("h4").popen(["python3", "-c", SERVER], text=True)
    lab.net.host("h4").cmd("while ! ss -ltn | grep -q :9000; do sleep 0.02; done")
    lab.net.host("h1").cmd(f'python3 -c "{CLIENT}"')
    assert server.communicate(timeout=30)[0].strip() == "300000"


def test_kernels_send_no_icmp_errors_for_roce(lab):
    lab.run_flows([flow(0, "h1-n0", "h4-n0", 5_000_000)], timeout_s=30)
    names, values = (line.split() for line in lab.net.host("h4").cmd("grep ^Icmp: /proc/net/snmp").splitlines())
    assert values[names.index("OutDestUnreachs")] == "0"


def test_every_flow_arrives_and_every_frame_is_accounted_for(lab):
    requests = [flow(n, src, dst, 3_000_000) for n, (src, dst) in enumerate(pairs(lab))]
    result = lab.run_flows(requests, timeout_s=60)
    assert result.completed
    assert result.valid, str(result.integrity)
    assert [(f.delivered_bytes, f.acked_bytes) for f in result.flows] == [(400_000, 400_000)] * len(requests)
    assert sum(nic.rx_data_packets for nic in result.nics.values()) == sum(f.tx_packets for f in result.flows)


def test_the_capture_equals_the_nics_counts_on_exactly_the_traced_links(lab):
    requests = [flow(n, src, dst, 3_000_000) for n, (src, dst) in enumerate(pairs(lab))]
    result = lab.run_flows(requests, timeout_s=60)
    for f in result.flows:
        stream = lab.stream_of(f.request)
        assert result.capture.links_of(stream) == dict.fromkeys(lab.path_of(stream), f.tx_packets)


def test_acknowledgements_are_captured_apart_and_on_their_traced_links(lab):
    request = flow(3, "h1-n0", "h3-n0", 5_000_000)
    result = lab.run_flows([request], timeout_s=60)
    back = lab.reverse_stream_of(request)
    carried = {link: counts[back] for link, counts in result.capture.acks.items() if back in counts}
    assert carried == dict.fromkeys(lab.path_of(back), result.nics["h3-n0"].tx_ack_packets)


def test_overload_loses_packets_and_still_delivers_and_accounts_for_all(lab):
    requests = [flow(n, src, "h4-n0", 20_000_000) for n, src in enumerate(("h1-n0", "h2-n0", "h3-n0"))]
    result = lab.run_flows(requests, timeout_s=60)
    assert result.integrity.valid, str(result.integrity)
    assert sum(result.queue_drops.values()) == sum(f.lost_packets for f in result.flows) > 0
    assert [f.delivered_bytes for f in result.flows] == [400_000] * 3
    assert sum(f.retransmitted_packets for f in result.flows) > 0


def test_a_flow_that_the_switches_drop_times_out_and_is_reported_as_incomplete(lab):
    request = flow(7, "h1-n0", "h4-n0", 5_000_000)
    link = lab.path_of(lab.stream_of(request))[1]
    lab.ecmp.clear()
    try:
        result = lab.run_flows([request], timeout_s=1)
    finally:
        lab.ecmp.load()
    assert link.startswith("leaf1:")
    assert not result.completed
    assert not result.integrity.valid  # the switches dropped what no rule matched, and no queue counted it


def test_pulling_a_cable_moves_the_hash_to_the_other(lab):
    stream = lab.stream_of(flow(9, "h1-n0", "h4-n0", 1))
    before = lab.path_of(stream)[1]
    lab.net.set_cable(before, up=False)
    lab.ovs.vsctl("--timeout=5", "wait-until", "interface", _interface(lab, before), "link_state=down")
    try:
        assert lab.path_of(stream)[1] not in ("", before)
    finally:
        lab.net.set_cable(before, up=True)


def _interface(lab: Lab, link: str) -> str:
    return lab.net.interface_of[lab.fabric.cable_by_link[link].lower]


def test_hosts_with_two_nics_and_parallel_cables():
    fabric = rails()
    ports = range(0xC000, 0xC020)
    with Lab(fabric) as lab:
        lab.ecmp.load()
        requests = [flow(0, "h1-n0", "h2-n0", 5_000_000), flow(1, "h1-n1", "h2-n0", 5_000_000)]
        result = lab.run_flows(requests, timeout_s=30)
        streams = [lab.stream_of(requests[1])._replace(udp_source_port=port) for port in ports]
        used = {link for stream in streams for link in lab.path_of(stream)}
    assert result.completed
    assert result.valid
    assert used >= {"leaf2:1>spine1:3", "leaf2:2>spine1:4", "spine1:1>leaf1:1", "spine1:2>leaf1:2"}
