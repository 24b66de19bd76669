"""One probe of one back end, by plain sockets.

- TCP: the handshake succeeds.
- HTTP: the status of a GET is 200 to 399; the rest of the reply is not read.
- UDP: an empty datagram causes no ICMP error within the time-out. A service that does not reply counts as up: only
  a request of its own protocol could show more.

A socket may be bound to a device, by which the probe reaches its VPC: addresses of VPCs may be equal.
"""

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass

from heddle.dataplane.config.balancers import HealthCheck, Probe
from heddle.dataplane.config.network import Address

MAX_STATUS_LINE_BYTES = 1024
OK = range(200, 400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A back end to probe."""

    ip: Address
    port: int
    check: HealthCheck
    device: str | None = None


async def probe(target: Target) -> bool:
    """Return whether one probe succeeds; it takes the time-out of the check at most."""
    try:
        async with asyncio.timeout(target.check.timeout_ms / 1000):
            return await _PROBES[target.check.kind](target)
    except TimeoutError:
        return target.check.kind is Probe.UDP  # silence is its success, also where this process ran too late
    except OSError:
        return False


async def _connected(target: Target, kind: socket.SocketKind) -> socket.socket:
    """Return a connected socket; raises OSError."""
    family = socket.AF_INET if target.ip.version == 4 else socket.AF_INET6
    end = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        if target.device is not None:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, target.device.encode())
        await asyncio.get_running_loop().sock_connect(end, (str(target.ip), target.port))
    except BaseException:
        end.close()
        raise
    return end


async def _tcp(target: Target) -> bool:
    with await _connected(target, socket.SOCK_STREAM) as end:
        # Closed by a reset: the back end keeps no connection in TIME-WAIT for a probe.
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    return True


async def _http(target: Target) -> bool:
    host = str(target.ip) if target.ip.version == 4 else f"[{target.ip}]"
    request = f"GET {target.check.path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: heddle\r\nConnection: close\r\n\r\n"
    loop, received = asyncio.get_running_loop(), b""
    with await _connected(target, socket.SOCK_STREAM) as end:
        await loop.sock_sendall(end, request.encode())
        while b"\n" not in received and len(received) < MAX_STATUS_LINE_BYTES:
            more = await loop.sock_recv(end, MAX_STATUS_LINE_BYTES)
            if not more:
                break
            received += more
    words = received.split(b"\n")[0].split()
    return len(words) >= 2 and words[0].startswith(b"HTTP/1.") and words[1].isdigit() and int(words[1]) in OK


async def _udp(target: Target) -> bool:
    with await _connected(target, socket.SOCK_DGRAM) as end:
        end.send(b"")
        with suppress(TimeoutError):
            async with asyncio.timeout(target.check.timeout_ms / 2000):
                await asyncio.get_running_loop().sock_recv(end, 1)  # raises OSError for an ICMP error
    return True


_PROBES = {Probe.TCP: _tcp, Probe.HTTP: _http, Probe.UDP: _udp}
