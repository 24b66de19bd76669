"""Send packets that return to their sender by the addresses that they carry, and see which of them do.

    Ethernet 14 | IPv6 40, no next header (RFC 8200, section 4.7) | token 16 | destination as sent 16

A switch shifts uSIDs out of the destination on the way, so the packet repeats it behind the token. A packet socket
sends and receives: the host needs no IPv6 address, no route and no agent elsewhere. Needs CAP_NET_RAW.
"""

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
_TOKEN_AT = 54
_HEADER = struct.Struct(">6s6sHIHBB16s16s")
_MAX_FRAME_BYTES = 2_048
_SOL_PACKET, _IGNORE_OUTGOING = 263, 23
_TABLES = Path("/proc/thread-self/net")


class SelfPinger:
    """The socket of one NIC; use it in a `with` block, made in the NIC's network namespace."""

    def __init__(self, device: str, source: int, next_hop: bytes, timeout_s: float = TIMEOUT_S) -> None:
        """Open the socket; `next_hop` is the MAC address of the leaf. Raises OSError, PermissionError among them."""
        self.sent = 0
        self._source, self._next_hop, self._timeout_s = source.to_bytes(16), next_hop, timeout_s
        self._token = secrets.token_bytes(TOKEN_BYTES)
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETHERTYPE))
        try:
            self._socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
            self._socket.bind((device, ETHERTYPE))
            self._socket.setblocking(False)
            self._mac = self._socket.getsockname()[4]
        except BaseException:
            self._socket.close()
            raise

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
        sent_to = address.to_bytes(ADDRESS_BYTES)
        inside = self._token + sent_to
        head = (6 << 28, len(inside), NO_NEXT_HEADER, HOP_LIMIT, self._source, sent_to)
        return _HEADER.pack(self._next_hop, self._mac, ETHERTYPE, *head) + inside

    def _receive(self, back: set[int]) -> None:
        """Add what has arrived; packets of others, and of earlier pingers, are passed over."""
        while True:
            try:
                frame = self._socket.recv(_MAX_FRAME_BYTES)
            except BlockingIOError:
                return
            if frame[20:21] == bytes((NO_NEXT_HEADER,)) and frame[_TOKEN_AT : _TOKEN_AT + TOKEN_BYTES] == self._token:
                begin = _TOKEN_AT + TOKEN_BYTES
                back.add(int.from_bytes(frame[begin : begin + ADDRESS_BYTES]))


def next_hop_of(device: str, tables: Path = _TABLES) -> bytes | None:
    """Return the MAC address of a device's leaf: of the gateway of its IPv4 routes, without any of its one neighbour.

    Reads the main table of routes and complete neighbours (proc(5), `net/route` and `net/arp`). None if none is
    known there, or more than one.
    """
    gateways = {
        int(gateway, 16).to_bytes(4, sys.byteorder)
        for name, _, gateway, *_ in _rows(tables / "route")
        if name == device and int(gateway, 16)
    }
    found = {
        bytes.fromhex(mac.replace(":", ""))
        for address, _, flags, mac, _, name in _rows(tables / "arp")
        if name == device and int(flags, 16) & 2 and (not gateways or socket.inet_aton(address) in gateways)
    }
    return found.pop() if len(found) == 1 else None


def _rows(path: Path) -> list[list[str]]:
    return [line.split() for line in path.read_text().splitlines()[1:]]
