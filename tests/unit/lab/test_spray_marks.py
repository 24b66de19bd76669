"""Marks on the paths of a queue pair that sprays: CNPs take its reverse paths in turn and slow the whole flow."""

from heddle.mininet_topos.nic.dcqcn import DcqcnSettings
from heddle.mininet_topos.nic.spray.receiver import SprayReceiver
from heddle.mininet_topos.nic.spray.sender import SpraySender
from heddle.mininet_topos.wire import roce
from tests.support.packets.queue_pair_ends import LINE_BPS, MS, ROUTE
from tests.support.packets.sprayed import MTU, paths, read

DCQCN = DcqcnSettings.for_line_rate(LINE_BPS)


def test_marked_packets_send_cnps_over_the_reverse_paths_and_lower_the_rate():
    receiver = SprayReceiver({"qpn": 9, "first_psn": 0, "paths": paths(2)}, ROUTE, DCQCN)
    sender = SpraySender(
        {
            "qpn": 7, "peer_ip": "10.0.0.2", "size_bytes": MTU * 100, "mtu_bytes": MTU, "ack_every": 4, "first_psn": 0,
            "window": 128, "timeout_ns": 400 * MS, "rate_bps": LINE_BPS, "start_offset_ns": 0, "paths": paths(4),
        },
        ROUTE, 2 * MS, DCQCN,
    )  # fmt: skip
    ports, rates = [], [sender.rate_bps]
    for number in range(4):
        frame = receiver.on_marked(number * 10 * MS)
        assert frame is not None
        packet = read(frame)
        assert packet.opcode == roce.CNP
        ports.append(packet.udp_source_port)
        assert sender.on_cnp(number * 10 * MS)
        rates.append(sender.rate_bps)
    assert len(set(ports)) == 2
    assert rates[-1] < rates[1] < rates[0] == LINE_BPS
