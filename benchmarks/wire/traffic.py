"""What is sent: UDP from 4,096 addresses to 64, the same for every device; and the process that sends it.

`python -m benchmarks.wire.traffic INTERFACE BYTES` says `ready` and then, for each line `COUNT PACKETS_PER_S`, sends so
many frames in the namespace that it is in, as fast as one core can where the rate is 0, and prints a JSON line with
what it sent and the processor time of it.
"""

import json
import struct
import sys
import time

import numpy as np

from benchmarks.wire.course import GENERATOR_MAC, INGRESS_MAC
from dataplane.engine.burst import BURST, PACKET, TRANSMIT
from dataplane.engine.clock import CLOCK_BYTES, now_ns
from dataplane.engine.counters import Counters, make_counters
from dataplane.io.layout import Ports
from dataplane.io.opening import Backend, open_ports
from dataplane.io.ports import bring, settle
from dataplane.io.settings import PortSettings, RingSizes
from dataplane.jit import Bytes, Rows, kernel

SOURCES, TARGETS, FLOWS = 4096, 64, 4096
SOURCE_NET, TARGET_NET = 0x0A000000, 0x0A010000
"""10.0.x.x to 10.1.0.x."""


def frames(length: int, to_mac: str = INGRESS_MAC) -> np.ndarray:
    """Return FLOWS frames of a length as rows of bytes."""
    chance = np.random.default_rng(3)
    rows = np.zeros((FLOWS, length), np.uint8)
    for row, source, port in zip(
        range(FLOWS), chance.integers(0, SOURCES, FLOWS), chance.integers(1024, 65536, FLOWS), strict=True
    ):
        head = frame_head(length, SOURCE_NET + 1 + int(source), TARGET_NET + 1 + row % TARGETS, int(port), to_mac)
        rows[row, : len(head)] = np.frombuffer(head, np.uint8)
    return rows


def frame_head(length: int, source: int, target: int, port: int, to_mac: str) -> bytes:
    ethernet = bytes.fromhex((to_mac + GENERATOR_MAC).replace(":", "")) + b"\x08\x00"
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, length - 14, 0, 0x4000, 64, 17, 0, source, target)
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    udp = struct.pack("!HHHH", port, 9000, length - 34, 0)
    return ethernet + ip[:10] + struct.pack("!H", checksum) + ip[12:] + udp


@kernel
def send(
    ports: Ports, packets: Rows, source: Bytes, length: int, flows: int, count: int, gap_ns: int, scratch: Bytes,
    counters: Counters,
) -> int:  # fmt: skip
    """Send `count` frames, `gap_ns` apart (0: as fast as it goes); return how many left this process."""
    before = counters.ports[0].tx_packets
    start = now_ns(scratch)
    sent = 0
    while sent < count:
        most = min(BURST, count - sent)
        if gap_ns > 0:
            due = (now_ns(scratch) - start) // gap_ns + 1 - sent
            most = min(most, due)
            if most <= 0:
                continue
        filled = 0
        for i in range(most):
            if bring(ports, 0, source, (sent + i) % flows * length, length, packets, filled, counters):
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
    counters, packets, scratch = make_counters(1), np.zeros(BURST, PACKET), np.zeros(CLOCK_BYTES, np.uint8)
    source, words = frames(length).reshape(-1), (np.int64(length), np.int64(FLOWS))
    send(opened.ports, packets, source, *words, np.int64(0), np.int64(0), scratch, counters)
    print("ready", flush=True)
    for line in sys.stdin:
        count, rate = int(line.split()[0]), float(line.split()[1])
        gap_ns = round(1e9 / rate) if rate else 0
        begun, used = time.perf_counter_ns(), time.process_time_ns()
        sent = send(opened.ports, packets, source, *words, np.int64(count), np.int64(gap_ns), scratch, counters)
        opened.drain(counters)
        took = time.perf_counter_ns() - begun
        print(json.dumps({"sent": int(sent), "ns": took, "cpu_ns": time.process_time_ns() - used}), flush=True)
    opened.close()


if __name__ == "__main__":
    main()
