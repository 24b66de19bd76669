"""The generated traffic, equal for every device: UDP from 4,096 addresses to 64; and the process that sends it.

`python -m heddle.benchmarks.gateway.wire.traffic INTERFACE BYTES tunnel|MAC|FORM` prints `ready`. For each input line
`COUNT PACKETS_PER_S` it sends that many frames in its own namespace, at the full speed of one core if the rate is 0,
and prints a JSON line with what it sent. With `tunnel` each frame is a VXLAN packet, 50 bytes longer, whose inner
destination is a public address instead of the private one; with a MAC the frame goes to that address. Other forms are
those of `benchmarks.gateway.wire.balancer_packets`. Each line continues with the flow at which the line before ended.
"""

import json
import sys
import time
from ipaddress import IPv4Address

import numpy as np

from heddle.benchmarks.gateway.wire import balancer_packets as balanced
from heddle.benchmarks.gateway.wire.course import GENERATOR_IP, INGRESS_IP, INGRESS_MAC
from heddle.benchmarks.gateway.wire.head import frame_head
from heddle.dataplane.config.addresses import gateway_mac
from heddle.dataplane.engine.burst import BURST, TRANSMIT, new_rows
from heddle.dataplane.engine.clock import CLOCK_BYTES, now_ns
from heddle.dataplane.engine.counters import Counters, make_counters
from heddle.dataplane.io.frames.layout import Ports
from heddle.dataplane.io.opening import Backend, open_ports
from heddle.dataplane.io.ports import copy_in, settle
from heddle.dataplane.io.settings import PortSettings, RingSizes
from heddle.dataplane.jit import Bytes, Rows, kernel

SOURCES, TARGETS, FLOWS = 4096, 64, 4096
TUNNEL, MAX_LATE = "tunnel", 256
BLUE = 5
"""The VNI of the VXLAN packets."""
SOURCE_NET, TARGET_NET = 0x0A000000, 0x0A010000
PUBLIC_NET = 0xC6336400
"""Traffic goes from 10.0.x.x to 10.1.0.x, or to 198.51.100.x in VXLAN packets."""


def frames(length: int, to_mac: str = INGRESS_MAC, to_net: int = TARGET_NET) -> np.ndarray:
    """Return FLOWS frames of one length as rows of bytes."""
    chance = np.random.default_rng(3)
    rows = np.zeros((FLOWS, length), np.uint8)
    for row, source, port in zip(
        range(FLOWS), chance.integers(0, SOURCES, FLOWS), chance.integers(1024, 65536, FLOWS), strict=True
    ):
        head = frame_head(length, SOURCE_NET + 1 + int(source), to_net + 1 + row % TARGETS, int(port), to_mac)
        rows[row, : len(head)] = np.frombuffer(head, np.uint8)
    return rows


def tunnelled(length: int) -> np.ndarray:
    """Return VXLAN packets of the generator's VTEP with inner frames of one length to public addresses."""
    inner = frames(length, _text(gateway_mac(BLUE)), PUBLIC_NET)
    outer = bytearray(frame_head(length + 50, _word(GENERATOR_IP), _word(INGRESS_IP), 50000, INGRESS_MAC))
    outer[36:38] = (4789).to_bytes(2, "big")
    outer += b"\x08\0\0\0" + BLUE.to_bytes(3, "big") + b"\0"
    return np.concatenate([np.tile(np.frombuffer(bytes(outer), np.uint8), (len(inner), 1)), inner], axis=1)


def shaped(length: int, form: str) -> np.ndarray:
    """Return frames of one length: in VXLAN packets, to a virtual IP, or to a MAC."""
    if balanced.is_balanced(form):
        return balanced.shaped(length, form)
    return tunnelled(length) if form == TUNNEL else frames(length, form)


def _word(address: str) -> int:
    return int(IPv4Address(address))


def _text(mac: int) -> str:
    return mac.to_bytes(6, "big").hex(":")


@kernel
def send(
    ports: Ports, packets: Rows, source: Bytes, length: int, flows: int, count: int, gap_ns: int, scratch: Bytes,
    counters: Counters, first: int,
) -> int:  # fmt: skip
    """Send `count` frames from flow `first` on, `gap_ns` apart (0: full speed); return the number sent.

    After a stall at most MAX_LATE overdue frames are sent at once: a larger burst would be another load than requested.
    """
    before = counters.ports[0].tx_packets
    start = now_ns(scratch)
    sent = 0
    while sent < count:
        batch = min(BURST, count - sent)
        if gap_ns > 0:
            due = (now_ns(scratch) - start) // gap_ns + 1 - sent
            if due > MAX_LATE:
                start += (due - MAX_LATE) * gap_ns
                due = MAX_LATE
            batch = min(batch, due)
            if batch <= 0:
                continue
        filled = 0
        for i in range(batch):
            if copy_in(ports, 0, source, (first + sent + i) % flows * length, length, packets, filled, counters):
                packets[filled].node = TRANSMIT
                packets[filled].out_port = 0
                filled += 1
        settle(ports, packets, filled, counters)
        sent += filled
    return counters.ports[0].tx_packets - before


def main() -> None:
    interface, length = sys.argv[1], int(sys.argv[2])
    opened = open_ports(
        (PortSettings(interface=interface, receives=False),),
        notify=lambda line: print(line, file=sys.stderr), backend=Backend.AUTO, sizes=RingSizes(transmit=4096),
    )  # fmt: skip
    counters, packets, scratch = make_counters(1), new_rows(), np.zeros(CLOCK_BYTES, np.uint8)
    rows = shaped(length, sys.argv[3])
    source, words = rows.reshape(-1), (rows.shape[1], rows.shape[0])
    send(opened.ports, packets, source, *words, 0, 0, scratch, counters, 0)
    first = 0
    print("ready", flush=True)
    for line in sys.stdin:
        count, rate = int(line.split()[0]), float(line.split()[1])
        gap_ns = round(1e9 / rate) if rate else 0
        begun = time.perf_counter_ns()
        sent = send(opened.ports, packets, source, *words, count, gap_ns, scratch, counters, first)
        first = (first + int(sent)) % len(rows)
        opened.drain(counters)
        took = time.perf_counter_ns() - begun
        print(json.dumps({"sent": int(sent), "ns": took}), flush=True)
    opened.close()


if __name__ == "__main__":
    main()
