"""One client begins and cancels calls without an end (CVE-2023-44487): another's call has a reply."""

import asyncio
import socket
import struct

from tests.unit.api.conftest import running

DATA, HEADERS, RST_STREAM, SETTINGS, PING = 0, 1, 3, 4, 6
END_HEADERS, END_STREAM, ACK = 4, 1, 1
CANCEL = struct.pack("!I", 8)
CALLS = 800
"""Of each of four connections: together more than the 3,000 that gRPC's core holds by default."""


def frame(kind, flags=0, stream=0, content=b""):
    """Return a frame (RFC 9113, 4.1)."""
    return struct.pack("!I", len(content))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + content


def literal(name, value):
    """Return a header without index or Huffman code (RFC 7541, 6.2.2)."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


HEAD = b"".join(
    literal(name, value)
    for name, value in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/heddle.v1.JobService/ListJobs"),
        (b":authority", b"x"), (b"content-type", b"application/grpc"), (b"te", b"trailers"),
    )
)  # fmt: skip
NO_MESSAGE = b"\x00" + bytes(4)


def call(stream):
    return frame(HEADERS, END_HEADERS, stream, HEAD) + frame(DATA, END_STREAM, stream, NO_MESSAGE)


class Client:
    """A connection of HTTP/2 in raw bytes; its methods block, so that the server's event loop takes no call."""

    def __init__(self, address):
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS) + frame(SETTINGS, ACK))
        self._received = bytearray()

    def send(self, frames):
        """Send frames, and return once the server's core has read them."""
        self.socket.sendall(frames + frame(PING, content=b"are read"))
        while self.next_frame() != (PING, ACK, 0):
            pass

    def next_frame(self):
        length = int.from_bytes(self._exactly(9)[:3], "big")
        kind, flags, stream = struct.unpack("!BBI", self._received[3:9])
        self._exactly(9 + length)
        del self._received[: 9 + length]
        return kind, flags, stream

    def _exactly(self, size):
        while len(self._received) < size:
            received = self.socket.recv(1 << 16)
            assert received, "the server has closed the connection"
            self._received += received
        return self._received


async def test_calls_that_one_client_begins_and_cancels_cancel_no_call_of_another():
    async with running() as controller:
        address = controller.addresses["grpc"]
        flood, other = [Client(address) for _ in range(4)], Client(address)
        streams = range(1, 2 * CALLS, 2)
        for client in flood:
            client.send(b"".join(map(call, streams)))
        for client in flood:
            client.send(b"".join(frame(RST_STREAM, 0, stream, CANCEL) for stream in streams))
        other.send(call(1))
        kinds = []
        while (DATA, 1) not in kinds:
            kind, _, stream = await asyncio.to_thread(other.next_frame)
            kinds.append((kind, stream))
            assert kind != RST_STREAM, kinds
        for client in (*flood, other):
            client.socket.close()
