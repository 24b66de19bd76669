"""Pause, resume or clear one priority of a port, by prepared netlink messages to its token bucket.

Pausing sets the bucket to one byte per second: queued frames stay, and one full frame still leaves (a bucket smaller
than a frame would discard it), like the frame in transmission when a pause arrives at a real port. Resuming restores
the rate, but the kernel does not check the bucket again before its timer, which is now hours ahead. So a "kick" frame
is sent into a class whose queue holds no frame: it is dropped there, never reaches the wire, and makes the kernel
dequeue. (Changing the rate of an HTB class instead does not work: a sleeping class stays asleep.)

Clearing removes the bucket, and the queued frames with it, and creates an open one.
"""

import socket
from collections.abc import Iterable
from contextlib import suppress

from heddle.mininet_topos.queues.classes import (
    KICK_MINOR,
    LEAF_LIMIT_BYTES,
    OPEN_BURST_BYTES,
    OPEN_RATE_BYTES_PER_S,
    ROOT_MAJOR,
    bucket_handle,
    class_minor,
)
from heddle.mininet_topos.queues.netlink import RouteSocket, bucket_change, bucket_removal
from heddle.mininet_topos.queues.settings import PAUSABLE_FRAME_BYTES
from heddle.mininet_topos.wire.pause_frame import ETH_MAC_CONTROL, FRAME_BYTES, PAUSE_ADDRESS
from heddle.mininet_topos.wire.sockets import SOL_PACKET

PAUSED_RATE_BYTES_PER_S = 1
PACKET_QDISC_BYPASS = 20
_KICK = (PAUSE_ADDRESS + bytes(6) + ETH_MAC_CONTROL.to_bytes(2, "big")).ljust(FRAME_BYTES, b"\0")


class TransmitPauses:
    """Pauses, resumes and clears the priorities of all ports, by interface and priority."""

    def __init__(self, interfaces: Iterable[tuple[str, int]], priorities: Iterable[int]) -> None:
        """Encode the messages for interfaces (name, index) of this network namespace."""
        priorities = tuple(priorities)
        self._index = dict(interfaces)
        self._messages = {
            (name, priority): (_message(index, priority, paused=True), _message(index, priority, paused=False))
            for name, index in self._index.items()
            for priority in priorities
        }
        self._route = RouteSocket()
        self._kick = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._kick.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, ROOT_MAJOR << 16 | KICK_MINOR)

    def errors(self) -> int:
        """Return the number of changes that the kernel has refused since the last call."""
        return self._route.errors()

    def pause(self, interface: str, priority: int) -> None:
        """Stop transmitting the priority."""
        self._route.send(self._messages[interface, priority][0])

    def resume(self, interface: str, priority: int) -> None:
        """Transmit the priority again."""
        self._route.send(self._messages[interface, priority][1])
        with suppress(OSError):  # ENOBUFS is expected: the kick class holds no frame
            self._kick.sendto(_KICK, (interface, ETH_MAC_CONTROL))

    def clear(self, interface: str, priority: int) -> None:
        """Discard the frames that wait, and transmit the priority."""
        index = self._index[interface]
        self._route.send(bucket_removal(index, _parent(priority), bucket_handle(priority) << 16))
        self._route.send(_message(index, priority, paused=False, create=True))


class ControlFrameSender:
    """Sends MAC control frames out of interfaces, bypassing their qdiscs (PACKET_QDISC_BYPASS)."""

    def __init__(self) -> None:
        """Open the socket."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._socket.setsockopt(SOL_PACKET, PACKET_QDISC_BYPASS, 1)

    def send(self, interface: str, frame: bytes) -> bool:
        """Send a frame; return False if the interface is down."""
        try:
            self._socket.sendto(frame, (interface, ETH_MAC_CONTROL))
        except OSError:
            return False
        return True


def _message(interface: int, priority: int, paused: bool, create: bool = False) -> bytes:
    return bucket_change(
        interface,
        _parent(priority),
        bucket_handle(priority) << 16,
        rate_bytes_per_s=PAUSED_RATE_BYTES_PER_S if paused else OPEN_RATE_BYTES_PER_S,
        burst_bytes=PAUSABLE_FRAME_BYTES if paused else OPEN_BURST_BYTES,
        limit_bytes=LEAF_LIMIT_BYTES,
        create=create,
    )


def _parent(priority: int) -> int:
    return ROOT_MAJOR << 16 | class_minor(priority)
