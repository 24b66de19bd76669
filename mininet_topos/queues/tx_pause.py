"""Holds back one priority of a port, and lets it go: the token bucket of its class, changed by one prepared message.

Closing sets the bucket to one byte per second: what waits stays, one full frame slips through (a bucket that could not
hold one would discard it), as the frame on the wire does when a pause arrives at a real port. Opening sets the rate
back, but nothing looks at the bucket again before its own timer, which now lies hours ahead; so a frame is sent into a
class whose queue has no room: the frame ends there and never reaches the wire, and the kernel, having tried to queue
it, looks for what may be sent. (Changing an HTB class's rate instead does not work: a class put to sleep stays asleep.)
"""

import socket
from collections.abc import Iterable
from contextlib import suppress

from mininet_topos.queues.classes import (
    KICK_MINOR,
    LEAF_LIMIT_BYTES,
    OPEN_BURST_BYTES,
    OPEN_RATE_BYTES_PER_S,
    ROOT_MAJOR,
    bucket_handle,
    class_minor,
)
from mininet_topos.queues.netlink import RouteSocket, bucket_change
from mininet_topos.queues.pause_frame import ETH_MAC_CONTROL, FRAME_BYTES, PAUSE_ADDRESS
from mininet_topos.queues.settings import PAUSABLE_FRAME_BYTES

CLOSED_RATE_BYTES_PER_S = 1
SOL_PACKET, PACKET_QDISC_BYPASS = 263, 20
_KICK = (PAUSE_ADDRESS + bytes(6) + ETH_MAC_CONTROL.to_bytes(2, "big")).ljust(FRAME_BYTES, b"\0")


class Gates:
    """The gates of all ports, by interface and priority."""

    def __init__(self, interfaces: Iterable[tuple[str, int]], priorities: Iterable[int]) -> None:
        """Prepare the messages for interfaces of this namespace, each with its index."""
        priorities = tuple(priorities)
        self._messages = {
            (name, priority): (_message(index, priority, closed=True), _message(index, priority, closed=False))
            for name, index in interfaces
            for priority in priorities
        }
        self._route = RouteSocket()
        self._kick = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._kick.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, ROOT_MAJOR << 16 | KICK_MINOR)

    def refusals(self) -> int:
        """Return how many changes the kernel has refused since the last call: of a lab that is whole, none."""
        return self._route.refusals()

    def close_gate(self, interface: str, priority: int) -> None:
        """Hold the priority back."""
        self._route.send(self._messages[interface, priority][0])

    def open_gate(self, interface: str, priority: int) -> None:
        """Let the priority go on."""
        self._route.send(self._messages[interface, priority][1])
        with suppress(OSError):  # "no buffer space" is the kick's success: its queue has no room
            self._kick.sendto(_KICK, (interface, ETH_MAC_CONTROL))


class FrameSender:
    """Sends frames out of interfaces past all queues, as a MAC sends its control frames."""

    def __init__(self) -> None:
        """Open the socket."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)

    def send(self, interface: str, frame: bytes) -> bool:
        """Send a frame; False where the interface is down."""
        try:
            self._socket.sendto(frame, (interface, ETH_MAC_CONTROL))
        except OSError:
            return False
        return True


def _message(interface: int, priority: int, closed: bool) -> bytes:
    return bucket_change(
        interface,
        ROOT_MAJOR << 16 | class_minor(priority),
        bucket_handle(priority) << 16,
        rate_bytes_per_s=CLOSED_RATE_BYTES_PER_S if closed else OPEN_RATE_BYTES_PER_S,
        burst_bytes=PAUSABLE_FRAME_BYTES if closed else OPEN_BURST_BYTES,
        limit_bytes=LEAF_LIMIT_BYTES,
    )
