"""The two ends of a queue pair without sockets: a sender and a receiver with one route."""

from typing import Any

from heddle.mininet_topos.nic.dcqcn import DcqcnSettings
from heddle.mininet_topos.nic.receiver import ReceiveQueue
from heddle.mininet_topos.nic.sender import SendQueue
from heddle.mininet_topos.wire import roce

MS = 1_000_000
LINE_BPS = 20_000_000
DCQCN = DcqcnSettings.for_line_rate(LINE_BPS)
ROUTE = roce.Route(
    source_mac=bytes.fromhex("020000000001"),
    destination_mac=bytes.fromhex("020000000002"),
    source_ip=0x0A000001,
    destination_ip=0x0A000002,
    udp_source_port=0xC123,
    destination_qp=0xABC,
    traffic_class=26 << 2 | 2,
)


def sender(dcqcn: DcqcnSettings | None = None, **changes: Any) -> SendQueue:
    """Return a sender of 1,000 packets; `changes` override its description."""
    description = {
        "qpn": 7, "peer_ip": "10.0.0.2", "size_bytes": 4096 * 1000, "message_bytes": 4096 * 64, "mtu_bytes": 4096,
        "ack_every": 8, "first_psn": 100, "window": 512, "timeout_ns": 400 * MS, "rate_bps": LINE_BPS,
        "start_offset_ns": 0,
    }  # fmt: skip
    return SendQueue({**description, **changes}, ROUTE, 2 * MS, dcqcn)


def read(frame: bytearray) -> roce.Packet:
    packet = roce.parse(frame, len(frame))
    assert packet is not None
    return packet


def send(queue: SendQueue, now_ns: int) -> roce.Packet:
    """Return the next packet, sent now."""
    frame = queue.next_frame(now_ns)
    queue.sent(len(frame), now_ns, 0)
    return read(frame)


def receiver(dcqcn: DcqcnSettings | None = DCQCN, first_psn: int = 0, **changes: Any) -> ReceiveQueue:
    return ReceiveQueue({"qpn": 9, "first_psn": first_psn, **changes}, ROUTE, dcqcn)
