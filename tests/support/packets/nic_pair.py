"""Two NIC processes in namespaces of their own, and a wire between them that marks, pauses, drops, delays and records.

Namespaces end with their processes, and interfaces with their namespaces: nothing is left, however a test ends. The
wire is this process, which forwards raw frames between both ends.
"""

import heapq
import json
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from heddle.mininet_topos.host.child import Child
from heddle.mininet_topos.nic.dcqcn import DcqcnSettings

LINE_BPS = 20_000_000
MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
IPS = ("10.0.0.1", "10.0.0.2")
TIMEOUT_S = 30.0
Rule = Callable[[bytearray], bool]


class Wire(threading.Thread):
    """Forwards frames; `rule` may modify a frame and returns whether to deliver it, `delay_s` how late."""

    def __init__(self, ends: tuple[str, str]) -> None:
        super().__init__(daemon=True)
        self.rule: Rule = lambda _frame: True
        self.delay_s: Callable[[bytearray], float] = lambda _frame: 0.0
        self._late: list[tuple[float, int, int, bytearray]] = []
        self.frames: list[tuple[int, int, bytes]] = []
        self.stopped = False
        self._sockets = tuple(_raw_socket(end) for end in ends)

    def run(self) -> None:
        buffer = bytearray(16384)
        while not self.stopped:
            rest_s = self._late[0][0] - time.monotonic() if self._late else 0.05
            for ready in select.select(self._sockets, [], [], min(0.05, max(0.0, rest_s)))[0]:
                length = ready.recv_into(buffer)
                frame = buffer[:length]
                if frame[12:14] == b"\x88\x08" or (frame[12:14] == b"\x08\x00" and frame[36:38] == b"\x12\xb7"):
                    self._carry(self._sockets.index(ready), frame)
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, side, frame = heapq.heappop(self._late)
                self._sockets[1 - side].send(frame)

    def inject(self, to: int, frame: bytes) -> None:
        """Send a frame of the wire's own to one end."""
        self._sockets[to].send(frame)

    def close(self) -> None:
        self.stopped = True
        self.join()
        for sock in self._sockets:
            sock.close()

    def _carry(self, side: int, frame: bytearray) -> None:
        arrives = self.rule(frame)
        self.frames.append((time.monotonic_ns(), side, bytes(frame)))
        delay_s = self.delay_s(frame)
        if arrives and delay_s:
            heapq.heappush(self._late, (time.monotonic() + delay_s, len(self.frames), side, frame))
        elif arrives:
            self._sockets[1 - side].send(frame)

    def of(self, side: int, *opcodes: int) -> list[bytes]:
        """Return the frames from one side with one of the opcodes."""
        return [frame for _, origin, frame in list(self.frames) if origin == side and frame[42] in opcodes]


class NicPair:
    """The two NIC processes; in most tests side 0 has the requesters and side 1 the responders."""

    def __init__(self, directory: Path, dcqcn: bool = True, line_bps: int = LINE_BPS) -> None:
        command = ["unshare", "--net", sys.executable, "-S", "-m", "heddle.mininet_topos.nic"]
        self.snapshots = tuple(directory / f"nic{side}.json" for side in (0, 1))
        self.children = tuple(Child(f"NIC {side}", command, dict(os.environ)) for side in (0, 1))
        ends = tuple(f"ht{os.urandom(4).hex()}{side}" for side in (0, 1))
        for side, child in enumerate(self.children):
            _await_own_namespace(child.pid)
            _join(ends[side], child.pid, IPS[side])
        self.wire = Wire(ends)  # type: ignore[arg-type]
        self.wire.start()
        settings = DcqcnSettings.for_line_rate(line_bps)
        for side in (0, 1):
            self.call(
                side, op="configure", nic=f"n{side}", device="eth0", mac=MACS[side], ip=IPS[side],
                catch_up_ns=4_000_000, line_rate_bps=line_bps, dcqcn=settings._asdict() if dcqcn else None,
                snapshot_path=str(self.snapshots[side]), snapshot_period_ns=20_000_000,
            )  # fmt: skip

    def call(self, side: int, **request: Any) -> dict[str, Any]:
        self.children[side].send_request(**request)
        return self.children[side].read_reply()

    def start(self, *flows: dict[str, Any], source: int = 0) -> None:
        """Open a queue pair per flow (numbered from 0) and start sending; a flow overrides these defaults."""
        requesters, responders = [], []
        for number, flow in enumerate(flows):
            common = {"first_psn": 0xFFFFFA, "traffic_class": 26 << 2 | 2}
            requesters.append({
                **common, "qpn": 0x100 + number, "peer_qpn": 0x200 + number, "peer_ip": IPS[1 - source],
                "peer_mac": MACS[1 - source], "udp_source_port": 0xC000 + number, "rate_bps": LINE_BPS,
                "size_bytes": 1_000_000, "start_offset_ns": 0, "mtu_bytes": 4096, "message_bytes": 65536,
                "window": 128, "ack_every": 8, "timeout_ns": 5_000_000_000, **flow,
            })  # fmt: skip
            responders.append({
                **common, "qpn": 0x200 + number, "peer_qpn": 0x100 + number, "peer_ip": IPS[source],
                "peer_mac": MACS[source], "udp_source_port": 0xD000 + number,
            })  # fmt: skip
        self.call(source, op="open", requesters=requesters, responders=[])
        self.call(1 - source, op="open", requesters=[], responders=responders)
        self.call(source, op="run", start_ns=time.monotonic_ns())

    def report(self, side: int) -> dict[str, Any]:
        return self.call(side, op="report")

    def finish(self, source: int = 0) -> None:
        """Wait until all data is acknowledged."""
        wait_for(lambda: all(queue["completed_ns"] for queue in self.report(source)["requesters"]))

    def snapshot(self, side: int) -> dict[str, Any]:
        return json.loads(self.snapshots[side].read_text())

    def close(self) -> None:
        self.wire.close()
        for child in self.children:
            child.close()
            child.reap()


def wait_for(condition: Callable[[], object]) -> None:
    """Wait until the condition holds; fail after `TIMEOUT_S`."""
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "timeout"
        time.sleep(0.01)


def _raw_socket(device: str) -> socket.socket:
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    sock.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE
    sock.setsockopt(263, 23, 1)  # PACKET_IGNORE_OUTGOING
    sock.bind((device, 3))
    return sock


def _await_own_namespace(pid: int) -> None:
    mine = os.readlink("/proc/self/ns/net")
    wait_for(lambda: os.readlink(f"/proc/{pid}/ns/net") != mine)


def _join(end: str, pid: int, ip: str) -> None:
    """Create a veth pair from `end` in this namespace to eth0 in the namespace of a process."""
    ip_in_namespace = ["nsenter", "-t", str(pid), "-n", "ip"]
    for command in (
        [
            "ip",
            "link",
            "add",
            end,
            "mtu",
            "9000",
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "mtu",
            "9000",
            "netns",
            str(pid),
        ],
        [*ip_in_namespace, "addr", "add", f"{ip}/24", "dev", "eth0"],
        [*ip_in_namespace, "link", "set", "eth0", "up"],
        ["ip", "link", "set", end, "up"],
    ):
        subprocess.run(command, check=True)


def pcap(frames: list[bytes]) -> bytes:
    """Return a capture file of Ethernet frames."""
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
    return head + b"".join(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames)
