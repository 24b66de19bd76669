"""Report whether the kernel holds bytes of a connection that the event loop has not read: then it is not idle."""

import asyncio
import fcntl
import struct
import termios

_INT = struct.Struct("i")


def has_unread(transport: asyncio.BaseTransport) -> bool:
    """Return whether received bytes wait in the kernel (FIONREAD); False for a closed connection."""
    socket = transport.get_extra_info("socket")
    if socket is None or socket.fileno() < 0:
        return False
    return bool(_INT.unpack(fcntl.ioctl(socket.fileno(), termios.FIONREAD, bytes(_INT.size)))[0])
