"""Properties of a network interface, and switching off the offloads that change frames.

Offloads matter on veth: the sender's kernel leaves checksums and VLAN tags to a network card that does not exist, and
sends frames of many segments. A sender towards a port by veth must switch them off at its own end
(`switch_off_offloads(name, SENDING)`, or `ethtool -K DEVICE tx off tso off gso off txvlan off`). A port itself
switches off the aggregation of received frames and the stripping of their VLAN tags.
"""

import ctypes
import errno
import fcntl
import os
import socket
import struct
from dataclasses import dataclass

from heddle.dataplane.io.fault import PortError

SIOCGIFFLAGS, SIOCGIFMTU, SIOCETHTOOL = 0x8913, 0x8921, 0x8946
IFF_UP, IFF_RUNNING = 1, 0x40
ETHTOOL_GCHANNELS = 0x3C
ETHTOOL_GFLAGS, ETHTOOL_SFLAGS = 0x25, 0x26
ETH_FLAG_TXVLAN, ETH_FLAG_RXVLAN, ETH_FLAG_LRO = 1 << 7, 1 << 8, 1 << 15
SWITCHES = {"tx": (0x16, 0x17), "tso": (0x1E, 0x1F), "gso": (0x23, 0x24), "gro": (0x2B, 0x2C)}
"""The ethtool commands that get and set an offload."""
SENDING, RECEIVING = ("tx", "tso", "gso"), ("gro",)
MAX_QUEUES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """The properties of an interface when it was read."""

    name: str
    index: int
    mtu_bytes: int
    queues: int
    """Number of receive queues that it can have."""
    up: bool

    @property
    def frame_bytes(self) -> int:
        """The longest frame: the MTU, an Ethernet header and two VLAN tags."""
        return self.mtu_bytes + 14 + 8


def read_interface(name: str) -> Link:
    """Return the properties of an interface in this network namespace; raises PortError if there is none."""
    try:
        index = socket.if_nametoindex(name)
    except OSError:
        raise PortError(f"{name}: there is no such interface in this network namespace; see `ip link`") from None
    flags = struct.unpack("=H", _ioctl(name, SIOCGIFFLAGS, b"")[:2])[0]
    mtu_bytes = struct.unpack("=i", _ioctl(name, SIOCGIFMTU, b"")[:4])[0]
    return Link(name=name, index=index, mtu_bytes=mtu_bytes, queues=_queues(name), up=bool(flags & IFF_UP))


def switch_off_offloads(name: str, which: tuple[str, ...] = (*SENDING, *RECEIVING)) -> tuple[str, ...]:
    """Switch off offloads of an interface, with those of VLAN tags; return those of `which` that stay on."""
    for switch in which:
        _ethtool(name, SWITCHES[switch][1], 0)
    flags = _ethtool(name, ETHTOOL_GFLAGS, 0) or 0
    unwanted = (ETH_FLAG_LRO | ETH_FLAG_RXVLAN if "gro" in which else 0) | (ETH_FLAG_TXVLAN if "tx" in which else 0)
    if flags & unwanted:
        _ethtool(name, ETHTOOL_SFLAGS, flags & ~unwanted)
    return tuple(switch for switch in which if _ethtool(name, SWITCHES[switch][0], 0))


def _queues(name: str) -> int:
    channels = ctypes.create_string_buffer(struct.pack("=9I", ETHTOOL_GCHANNELS, *(0,) * 8), 36)
    try:
        _ioctl(name, SIOCETHTOOL, struct.pack("@P", ctypes.addressof(channels)))
    except OSError:
        return 1
    words = struct.unpack("=9I", channels.raw)
    # struct ethtool_channels: command, max rx, tx, other, combined, then the current numbers
    return min(max(words[5] + words[8], 1), MAX_QUEUES)


def _ethtool(name: str, command: int, value: int) -> int | None:
    """Get or set a value; return None if the interface does not support it."""
    request = ctypes.create_string_buffer(struct.pack("=II", command, value), 8)
    try:
        _ioctl(name, SIOCETHTOOL, struct.pack("@P", ctypes.addressof(request)))
    except OSError as fault:
        if fault.errno == errno.EPERM:
            raise PortError(f"{name}: offloads cannot be switched off: {os.strerror(errno.EPERM)}") from None
        return None
    return int(struct.unpack("=II", request.raw)[1])


def _ioctl(name: str, request: int, content: bytes) -> bytes:
    """Call an ioctl with a `struct ifreq`; return the bytes behind the name."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        reply = fcntl.ioctl(any_socket, request, struct.pack("16s24s", name.encode(), content))
    return reply[16:]
