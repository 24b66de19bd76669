"""One NIC's end of probes that return by the SIDs in their address: no other agent replies to them.

The layout is in `heddle/probing/self_ping.py`; its token is the order's key (8 bytes), 4 of zero, and the number of the
probe. The leaf's MAC address is read before each probe until it is known, then once a second.
"""

import asyncio
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

from heddle.probing.agent.end import ProbeEnd
from heddle.probing.agent.orders import SidOrder
from heddle.probing.self_ping import ADDRESS_BYTES, TOKEN_BYTES, frame, next_hop_in, ping_socket, token_and_address

MAX_BATCH = 256
"""So many packets are read before others have a turn."""
NEXT_HOP_S = 1.0
_TABLES = Path("/proc/thread-self/net")
_KEY_BYTES = 8
_MAX_FRAME_BYTES = 2_048


class ReturningEnd(ProbeEnd[SidOrder]):
    """The socket of one device; needs CAP_NET_RAW. Open it in the NIC's network namespace."""

    def __init__(self, device: str, tables: Path = _TABLES) -> None:
        """Open it, and the tables of next hops of this namespace; raises OSError, PermissionError among them."""
        super().__init__()
        self._device = device
        self._next_hop: bytes | None = None
        self._read_s = 0.0
        with ExitStack() as opened:
            self._routes, self._neighbours = (opened.enter_context((tables / name).open()) for name in ("route", "arp"))
            self._socket = opened.enter_context(ping_socket(device))
            self._opened = opened.pop_all()
        self._mac: bytes = self._socket.getsockname()[4]

    def close(self) -> None:
        """Close what is open."""
        self._opened.close()

    def listen(self) -> None:
        """Take what returns from now on, in the running event loop."""
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    def unlisten(self) -> None:
        """Take nothing more."""
        asyncio.get_running_loop().remove_reader(self._socket)

    def _send_probe(self, order: SidOrder, key: int, number: int) -> bool:
        address = order.probes[number].to_bytes(ADDRESS_BYTES)
        token = key.to_bytes(_KEY_BYTES) + number.to_bytes(TOKEN_BYTES - _KEY_BYTES)
        if (leaf := self._leaf()) is None:
            self.counts["sids_without_next_hop"] += 1
            return False
        try:
            self._socket.send(
                frame((leaf, self._mac), (order.source.to_bytes(ADDRESS_BYTES), address), token, order.dscp)
            )
        except OSError:  # the device is down, a full queue
            self.counts["sids_unsent"] += 1
            return False
        return True

    def _leaf(self) -> bytes | None:
        """Return the MAC address of the leaf; None where it is not known."""
        if self._next_hop is None or monotonic() - self._read_s >= NEXT_HOP_S:
            self._read_s = monotonic()
            tables = []
            for file in (self._routes, self._neighbours):
                file.seek(0)
                tables.append(file.read())
            self._next_hop = next_hop_in(self._device, *tables)
        return self._next_hop

    def _read(self) -> bool:
        """Take the probes that have returned, count anything else; return whether there may be more."""
        for _ in range(MAX_BATCH):
            try:
                token, address = token_and_address(self._socket.recv(_MAX_FRAME_BYTES))
            except OSError:
                return False
            mine = self._open.get(int.from_bytes(token[:_KEY_BYTES]))
            number = int.from_bytes(token[_KEY_BYTES:])
            if mine is None or number >= len(mine.order.probes) or mine.order.probes[number] != address:
                self.counts["sids_unasked"] += 1
            else:
                mine.came(number)
        return True
