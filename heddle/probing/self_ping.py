"""Send packets that return to their sender by the addresses that they carry, and see which of them do.

    Ethernet 14 | IPv6 40, no next header (RFC 8200, section 4.7) | token 16 | destination as sent 16

A switch shifts uSIDs out of the destination on the way, so the packet repeats it behind the token. A packet socket
sends and receives: the host needs no IPv6 address, no route and no agent elsewhere. A filter leaves other packets, such
as data with an outer IPv6 header, to their own receivers. Needs CAP_NET_RAW.
"""

import ctypes
import secrets
import select
import socket
import struct
import sys
import time
from collections.abc import Collection
from pathlib import Path
from types import TracebackType

TIMEOUT_S = 0.3
ETHERTYPE, NO_NEXT_HEADER, HOP_LIMIT = 0x86DD, 59, 64
ADDRESS_BYTES = TOKEN_BYTES = 16
_NEXT_HEADER_AT, _TOKEN_AT = 20, 54
_HEADER = struct.Struct(">6s6sHIHBB16s16s")
FRAME_BITS = 8 * (_HEADER.size + TOKEN_BYTES + ADDRESS_BYTES + 4 + 20)
"""What a packet takes of a link: with Ethernet's checksum, preamble and gap between frames."""
_MAX_FRAME_BYTES = 2_048
_SOL_PACKET, _IGNORE_OUTGOING, _SO_ATTACH_FILTER = 263, 23, 26
_LOAD_BYTE, _JUMP_EQUAL, _RETURN = 0x30, 0x15, 0x06
_FILTER = b"".join(
    struct.pack("@HBBI", *instruction)
    for instruction in (
        (_LOAD_BYTE, 0, 0, _NEXT_HEADER_AT), (_JUMP_EQUAL, 0, 1, NO_NEXT_HEADER),
        (_RETURN, 0, 0, _MAX_FRAME_BYTES), (_RETURN, 0, 0, 0),
    )
)  # fmt: skip
"""Of IPv6 packets, those without a next header (classic BPF, socket(7))."""
_TABLES = Path("/proc/thread-self/net")


class SelfPinger:
    """The socket of one NIC; use it in a `with` block, made in the NIC's network namespace."""

    def __init__(self, device: str, source: int, next_hop: bytes, timeout_s: float = TIMEOUT_S) -> None:
        """Open the socket; `next_hop` is the MAC address of the leaf. Raises OSError, PermissionError among them."""
        self.sent = 0
        self._source, self._next_hop, self._timeout_s = source.to_bytes(16), next_hop, timeout_s
        self._token = secrets.token_bytes(TOKEN_BYTES)
        self._socket = ping_socket(device)
        self._mac = self._socket.getsockname()[4]

    def __enter__(self) -> "SelfPinger":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, addresses: Collection[int]) -> frozenset[int]:
        """Send a packet to each address, and return those that came back before the time-out."""
        back: set[int] = set()
        for address in addresses:
            self._socket.send(self._frame(address))
            self.sent += 1
            self._receive(back)
        deadline_s = time.monotonic() + self._timeout_s
        while len(back) < len(set(addresses)) and (rest_s := deadline_s - time.monotonic()) > 0:
            if select.select([self._socket], [], [], rest_s)[0]:
                self._receive(back)
        return frozenset(back & set(addresses))

    def _frame(self, address: int) -> bytes:
        return frame((self._next_hop, self._mac), (self._source, address.to_bytes(ADDRESS_BYTES)), self._token)

    def _receive(self, back: set[int]) -> None:
        """Add what has arrived; packets of others, and of earlier pingers, are passed over."""
        while True:
            try:
                token, address = token_and_address(self._socket.recv(_MAX_FRAME_BYTES))
            except BlockingIOError:
                return
            if token == self._token:
                back.add(address)


def ping_socket(device: str) -> socket.socket:
    """Open the socket of a device, which does not block; raises OSError, PermissionError among them."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        opened.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
        program = ctypes.create_string_buffer(_FILTER)
        count = len(_FILTER) // 8
        opened.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", count, ctypes.addressof(program)))
        opened.bind((device, ETHERTYPE))
        opened.setblocking(False)
    except BaseException:
        opened.close()
        raise
    return opened


def frame(macs: tuple[bytes, bytes], addresses: tuple[bytes, bytes], token: bytes, dscp: int = 0) -> bytes:
    """Return the frame of a packet.

    Args:
        macs: of the leaf and of the NIC.
        addresses: of the NIC (IPv6), and the one by whose SIDs the packet returns.
        token: 16 bytes, by which the sender knows it.
        dscp: of the packet.
    """
    inside = token + addresses[1]
    head = (6 << 28 | dscp << 22, len(inside), NO_NEXT_HEADER, HOP_LIMIT, *addresses)
    return _HEADER.pack(*macs, ETHERTYPE, *head) + inside


def token_and_address(received: bytes) -> tuple[bytes, int]:
    """Return the token of a frame, and the address to which it was sent."""
    begin = _TOKEN_AT + TOKEN_BYTES
    return received[_TOKEN_AT:begin], int.from_bytes(received[begin : begin + ADDRESS_BYTES])


def next_hop_of(device: str, tables: Path = _TABLES) -> bytes | None:
    """Return the MAC address of a device's leaf by proc(5), `net/route` and `net/arp`; None where it is not known."""
    return next_hop_in(device, (tables / "route").read_text(), (tables / "arp").read_text())


def next_hop_in(device: str, routes: str, neighbours: str) -> bytes | None:
    """Return the MAC address of a device's leaf: of the gateway of its IPv4 routes, else of its one neighbour.

    Reads the main table of routes and complete neighbours (proc(5), `net/route` and `net/arp`). None if none is
    known there, or more than one.
    """
    gateways = {
        int(gateway, 16).to_bytes(4, sys.byteorder)
        for name, _, gateway, *_ in _rows(routes)
        if name == device and int(gateway, 16)
    }
    found = {
        bytes.fromhex(mac.replace(":", ""))
        for address, _, flags, mac, _, name in _rows(neighbours)
        if name == device and int(flags, 16) & 2 and (not gateways or socket.inet_aton(address) in gateways)
    }
    return found.pop() if len(found) == 1 else None


def _rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()[1:]]
