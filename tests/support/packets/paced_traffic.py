"""Program that runs in a host: send paced RoCE-like frames by its device, and count received frames.

The load is constant; of a NIC's reactions it has one: it stops for pause frames, unless disabled by an option.
It prints "ready", waits for a line with the start time, and prints its counts as a JSON line. Shares no code
with the lab.
"""

import argparse
import json
import socket
import struct
import sys
import time

ETH_P_ALL = 3
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
PAYLOAD_BYTES = 4096
PAUSED_PRIORITY = 3


def frame(source: str, destination: str, port: int, traffic_class: int, macs: tuple[bytes, bytes]) -> bytes:
    """Build Ethernet, IPv4 and UDP to port 4791, with the right header checksum."""
    length = 20 + 8 + 12 + PAYLOAD_BYTES + 4
    addresses = socket.inet_aton(source) + socket.inet_aton(destination)
    header = struct.pack(">BBHHHBBH", 0x45, traffic_class, length, 0, 0x4000, 64, 17, 0) + addresses
    total = sum(struct.unpack(">10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    header = header[:10] + checksum.to_bytes(2, "big") + header[12:]
    udp = struct.pack(">HHHH", port, 4791, length - 20, 0)
    return macs[1] + macs[0] + b"\x08\x00" + header + udp + bytes(length - 28)


def open_device(device: str) -> socket.socket:
    """Open a raw socket that sees what arrives."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
    sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    sock.bind((device, ETH_P_ALL))
    sock.setblocking(False)
    return sock


class Host:
    """One sender and receiver."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.given, self.socket = arguments, open_device(arguments.device)
        self.paused_until = 0.0
        self.counts = {"tx": 0, "rx": 0, "ce": 0, "pauses": 0, "resumes": 0}

    def receive(self) -> None:
        while True:
            try:
                got = self.socket.recv(16384)
            except BlockingIOError:
                return
            if got[12:14] == b"\x88\x08" and got[17] >> PAUSED_PRIORITY & 1:
                self.pause(int.from_bytes(got[18 + 2 * PAUSED_PRIORITY : 20 + 2 * PAUSED_PRIORITY], "big"))
            elif got[12:14] == b"\x08\x00" and got[23] == 17 and got[36:38] == b"\x12\xb7":
                self.counts["rx"] += 1
                self.counts["ce"] += got[15] & 3 == 3

    def pause(self, quanta: int) -> None:
        self.counts["pauses" if quanta else "resumes"] += 1
        if not self.given.deaf:
            self.paused_until = time.monotonic() + quanta * 512 / self.given.line if quanta else 0.0

    def run(self) -> None:
        given = self.given
        macs = (bytes.fromhex(given.source_mac), bytes.fromhex(given.destination_mac))
        data = frame(given.source, given.destination, given.port, given.traffic_class, macs)
        gap = len(data) * 8 / given.rate if given.rate else 0.0
        print("ready", flush=True)
        start = due = float(sys.stdin.readline())
        stop, end = start + given.seconds, start + given.seconds + given.drain
        while (now := time.monotonic()) < end:
            self.receive()
            if gap and start <= now < stop and now >= max(due, self.paused_until):
                self.socket.send(data)
                self.counts["tx"] += 1
                due = max(due + gap, now - 2 * gap)  # catches up two frames at most
                continue
            time.sleep(0.0003)
        self.receive()
        print(json.dumps(self.counts))


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("device", "source", "destination", "source-mac", "destination-mac"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("rate", "line", "seconds", "drain"):
        parser.add_argument(f"--{name}", type=float, required=True)
    parser.add_argument("--port", type=int, default=0xC001)
    parser.add_argument("--traffic-class", type=int, default=26 << 2 | 2)
    parser.add_argument("--deaf", action="store_true")
    Host(parser.parse_args()).run()


if __name__ == "__main__":
    main()
