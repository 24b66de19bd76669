"""Ports on veth pairs in two network namespaces of the test's own: the gateway's side and the far side.

A namespace lives as long as a process of the test's; the interfaces end with it, however the test ends.
"""

import errno
import os
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import numpy as np

from heddle.dataplane.engine.burst import BURST, PACKET
from heddle.dataplane.engine.counters import Counters, make_counters
from heddle.dataplane.io.forward import forward
from heddle.dataplane.io.frames.layout import FREE, KIND, TAP
from heddle.dataplane.io.opening import Backend, OpenPorts, open_ports
from heddle.dataplane.io.ports import copy_out, receive, settle
from heddle.dataplane.io.settings import PortSettings, RingSizes
from heddle.mininet_topos.host.namespace import network_namespace
from tests.support.packets.nic_pair import wait_for

SOL_PACKET, PACKET_IGNORE_OUTGOING, ETH_P_ALL = 263, 23, 3
QUIET = ("net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")


class Namespace:
    """A network namespace, for as long as this lives."""

    def __init__(self) -> None:
        # The process reads from this one, so it ends with it, even if `close` is not called.
        self._holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE)
        self.pid = self._holder.pid
        own = os.readlink("/proc/self/ns/net")
        wait_for(lambda: os.readlink(f"/proc/{self.pid}/ns/net") != own)
        self.run("sysctl", "-q", "-w", *QUIET)

    def run(self, *command: str) -> str:
        """Run a command in the namespace; return its output."""
        inside = ["nsenter", "-t", str(self.pid), "-n", *command]
        return subprocess.run(inside, check=True, text=True, capture_output=True).stdout

    def close(self) -> None:
        self._holder.kill()
        self._holder.communicate()


class Wires:
    """Cables between the gateway's interfaces g0, g1, ... and the far ones f0, f1, ..., with raw sockets there."""

    def __init__(self, count: int = 2, mtu: int = 1500, queues: int = 1) -> None:
        self.near, self.far = Namespace(), Namespace()
        for number in range(count):
            many = ("numrxqueues", str(queues), "numtxqueues", str(queues))
            self.near.run(
                "ip", "link", "add", f"g{number}", "mtu", str(mtu), *many, "type", "veth",
                "peer", "name", f"f{number}", "mtu", str(mtu), *many, "netns", str(self.far.pid),
            )  # fmt: skip
            self.far.run("ip", "link", "set", f"f{number}", "up")
            self.near.run("ip", "link", "set", f"g{number}", "up")
        self.names = tuple(f"g{number}" for number in range(count))
        self._sockets: list[socket.socket] = []
        with network_namespace(self.far.pid):
            for number in range(count):
                sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
                self._sockets.append(sock)
                sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
                sock.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
                sock.bind((f"f{number}", ETH_P_ALL))
                sock.settimeout(0)

    def wait_until_up(self) -> None:
        """Wait until `ip` reports all interfaces as up, which is shortly after they carry frames."""
        for side in (self.near, self.far):
            wait_for(partial(self._all_up, side))

    def _all_up(self, side: Namespace) -> bool:
        return side.run("ip", "-o", "link", "show", "up").count(" state UP ") == len(self.names)

    def send(self, port: int, frame: bytes) -> None:
        """Send a frame to the gateway's port."""
        self._sockets[port].send(frame)

    def arrived(self, port: int) -> list[bytes]:
        """Return what the gateway has sent by a port since the last call."""
        frames = []
        while True:
            try:
                frames.append(self._sockets[port].recv(1 << 16))
            except BlockingIOError:
                return frames
            except OSError as fault:
                if fault.errno != errno.ENETDOWN:  # reported once, when the interface went down
                    raise

    def close(self) -> None:
        for sock in self._sockets:
            sock.close()
        self.near.close()
        self.far.close()


class Gateway:
    """Open ports on the near side of some wires, with the state of a run loop."""

    def __init__(
        self, wires: Wires, backend: Backend, sizes: RingSizes | None = None, *, settings: Sequence[PortSettings] = ()
    ) -> None:
        self.notices: list[str] = []
        wanted = settings or [PortSettings(interface=name) for name in wires.names]
        with network_namespace(wires.near.pid):
            self.open: OpenPorts = open_ports(wanted, notify=self.notices.append, backend=backend, sizes=sizes)
        self.ports = self.open.ports
        self.counters: Counters = make_counters(len(wanted))
        self.packets = np.zeros(BURST, PACKET)

    def forward(self, *to: int, rounds: int = 4) -> int:
        """Send what waits at port n out of port `to[n]`, until nothing waits any more."""
        total = 0
        while count := forward(self.ports, self.packets, np.array(to), rounds, self.counters):
            total += count
        return total

    def forward_first(self, count: int, *to: int) -> None:
        """Forward until so many frames have come in at port 0: the kernel may hand them over in parts."""

        def all_came() -> bool:
            self.forward(*to)
            return bool(self.counters.ports["rx_packets"][0] >= count)

        wait_for(all_came)

    def receive(self, port: int) -> int:
        return receive(self.ports, port, self.packets, BURST, self.counters)

    def receive_all(self, port: int, count: int) -> None:
        """Wait until so many frames are in the first rows, in however many parts they come."""
        held = 0

        def all_came() -> bool:
            nonlocal held
            held += receive(self.ports, port, self.packets[held:], count - held, self.counters)
            return held == count

        wait_for(all_came)

    def settle(self, count: int) -> None:
        settle(self.ports, self.packets, count, self.counters)

    def content(self, row: int) -> bytes:
        """Return the frame of a row, all its pieces."""
        packet, target = self.packets[row], np.zeros(1 << 14, np.uint8)
        return target[: copy_out(self.ports, packet, packet["at"], target, 0, target.size)].tobytes()

    def counters_balance(self) -> bool:
        """Whether received and injected frames are transmitted, punted or dropped, by port and by reason alike."""
        ports, drops, punts = self.counters.ports, self.counters.drops.sum(), self.counters.punts.sum()
        into, out = ports["rx_packets"].sum() + ports["rx_injected"].sum(), ports["tx_packets"].sum()
        return into == out + drops + punts and drops == ports["dropped"].sum() and punts == ports["punted"].sum()

    def lost_buffers(self) -> int:
        """Return how many buffers are in no place, between bursts."""
        frames, free = self.ports.free.size, int(self.ports.pool[FREE])
        assert len(set(self.ports.free[:free].tolist())) == free
        if self.ports.pool[KIND] == TAP:
            return frames - free
        return frames - free - int(self.ports.queues["posted"].sum() + self.ports.queues["sent"].sum())

    def close(self) -> None:
        self.open.drain(self.counters)
        self.open.close()


@contextmanager
def gateway_on(wires: Wires, backend: Backend, sizes: RingSizes | None = None) -> Iterator[Gateway]:
    """Have open ports on all wires for the block."""
    gateway = Gateway(wires, backend, sizes)
    try:
        yield gateway
    finally:
        gateway.close()


def frame_of(length: int, mark: int = 0) -> bytes:
    """Return a frame without a receiver (local experimental EtherType), distinguished by `mark`."""
    head = bytes.fromhex("020000000001020000000002") + b"\x88\xb5" + mark.to_bytes(4, "big")
    return (head + bytes(n * 7 % 251 for n in range(length)))[:length]
