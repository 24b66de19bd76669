"""One NIC's end of the ping mesh: send the requests of orders, reply to those of other agents, and count.

Everything runs in the agent's event loop. A request counts as answered if its reply has come when its order ends, late
ones too: the round trip shows how late. An order during which this process stood still says so, because its losses may
be its own.
"""

import asyncio
import secrets
import socket
from collections import Counter
from contextlib import ExitStack
from time import monotonic
from typing import NamedTuple

from heddle.probing.agent.orders import MeshOrder, MeshProbe
from heddle.probing.datagram import MESH_PORT, Datagram, Kind, datagram_in, packet

MAX_OPEN_ORDERS = 4
"""Orders of a NIC whose replies are awaited; one more is refused."""
MAX_REPLIES_PPS = 10_000
"""A NIC replies to so many requests a second; a flood of them is not answered."""
MAX_BATCH = 256
"""So many datagrams are read before others have a turn."""
MAX_BATCHES = 64
UNSENT_US = 0xFFFFFFFF
"""The round trip of a probe that could not be sent."""
LATE_PART = 0.5
"""An agent that is late by so much of the time-out may have replied too late to others."""
RECEIVE_BYTES = 1 << 20
_SO_BINDTODEVICE = 25
_MAX_DATAGRAM_BYTES = 256


class MeshResult(NamedTuple):
    """What became of an order: the round trip of each probe in µs, 0 without a reply; requests sent; whether late."""

    rtt_us: list[int]
    sent: int
    late: bool


class _Open(NamedTuple):
    """An order whose replies are awaited: its probes, when each was sent, and the round trips so far."""

    probes: tuple[MeshProbe, ...]
    sent_s: list[float]
    rtt_us: list[int]


class MeshEnd:
    """The sockets of one address; needs CAP_NET_RAW. Open it in the NIC's network namespace.

    `counts` are cumulative.
    """

    def __init__(self, ip: int, device: str) -> None:
        """Open the sockets; raises OSError, PermissionError among them."""
        self.counts: Counter[str] = Counter()
        self._ip = ip
        self._open: dict[int, _Open] = {}
        self._second, self._replies = 0, 0
        self._out, self._in = self._sockets(device)

    def _sockets(self, device: str) -> tuple[socket.socket, socket.socket]:
        with ExitStack() as opened:
            out = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))
            into = opened.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            for end in (out, into):
                end.setsockopt(socket.SOL_SOCKET, _SO_BINDTODEVICE, device.encode())
                end.setblocking(False)
            into.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
            into.bind((socket.inet_ntoa(self._ip.to_bytes(4, "big")), MESH_PORT))
            opened.pop_all()
        return out, into

    def close(self) -> None:
        """Close the sockets."""
        self._out.close()
        self._in.close()

    def listen(self) -> None:
        """Reply to requests from now on, in the running event loop."""
        asyncio.get_running_loop().add_reader(self._in, self._read)

    def unlisten(self) -> None:
        """Reply no more."""
        asyncio.get_running_loop().remove_reader(self._in)

    async def run(self, order: MeshOrder) -> MeshResult:
        """Send the requests of an order, wait for replies, and return what came."""
        key, count = secrets.randbits(64), len(order.probes)
        mine = self._open[key] = _Open(order.probes, [0.0] * count, [0] * count)
        began_s, late, sent, late_s = monotonic(), False, 0, LATE_PART * order.timeout_s
        try:
            for number, probe in enumerate(order.probes):
                due_s = began_s + number / order.rate_pps
                await asyncio.sleep(max(0.0, due_s - monotonic()))
                now_s = monotonic()
                late = late or now_s - due_s > late_s
                mine.sent_s[number] = now_s
                request = Datagram(Kind.REQUEST, order.dscp, probe.reply_port, key, number)
                if self._send(probe.dst_ip, probe.port, request):
                    sent += 1
                else:
                    mine.rtt_us[number] = UNSENT_US
            end_s = monotonic() + order.timeout_s
            await asyncio.sleep(order.timeout_s)
            late = late or monotonic() - end_s > late_s
            for _ in range(MAX_BATCHES):  # what came while this process stood still
                if not self._read():
                    break
        finally:
            del self._open[key]
        answered = sum(0 < rtt_us < UNSENT_US for rtt_us in mine.rtt_us)
        self.counts.update(mesh_probes=sent, mesh_answered=answered, mesh_late=late)
        return MeshResult(mine.rtt_us, sent, late)

    @property
    def is_full(self) -> bool:
        """Return whether no other order fits."""
        return len(self._open) >= MAX_OPEN_ORDERS

    def _read(self) -> bool:
        """Reply to requests, take replies to own ones, count anything else; return whether there may be more."""
        for _ in range(MAX_BATCH):
            try:
                payload, (address, _) = self._in.recvfrom(_MAX_DATAGRAM_BYTES)
            except OSError:
                return False
            came, peer = datagram_in(payload), int.from_bytes(socket.inet_aton(address), "big")
            if came is None:
                self.counts["mesh_malformed"] += 1
            elif came.kind is Kind.REQUEST:
                self._reply(peer, came)
            else:
                self._take(peer, came)
        return True

    def _reply(self, peer: int, request: Datagram) -> None:
        second = int(monotonic())
        self._replies = self._replies + 1 if second == self._second else 1
        self._second = second
        if self._replies > MAX_REPLIES_PPS:
            self.counts["mesh_unanswered"] += 1
            return
        self.counts["mesh_replies"] += self._send(peer, request.reply_port, request._replace(kind=Kind.REPLY))

    def _take(self, peer: int, reply: Datagram) -> None:
        mine = self._open.get(reply.key)
        if mine is None or reply.number >= len(mine.probes) or mine.probes[reply.number].dst_ip != peer:
            self.counts["mesh_unasked"] += 1
        elif mine.sent_s[reply.number] and not mine.rtt_us[reply.number]:
            mine.rtt_us[reply.number] = max(1, int((monotonic() - mine.sent_s[reply.number]) * 1e6))

    def _send(self, dst_ip: int, port: int, sent: Datagram) -> bool:
        try:
            self._out.sendto(packet(self._ip, dst_ip, port, sent), (socket.inet_ntoa(dst_ip.to_bytes(4, "big")), 0))
        except OSError:  # no route, a filter, a full queue
            self.counts["mesh_unsent"] += 1
            return False
        return True
