"""One NIC's end of the ping mesh: send the requests of orders, reply to those of other agents, and count."""

import asyncio
import socket
from contextlib import ExitStack
from time import monotonic

from heddle.probing.agent.end import ProbeEnd
from heddle.probing.agent.orders import MeshOrder
from heddle.probing.datagram import MESH_PORT, Datagram, Kind, datagram_in, packet

MAX_REPLIES_PPS = 10_000
"""A NIC replies to so many requests a second; a flood of them is not answered."""
MAX_BATCH = 256
"""So many datagrams are read before others have a turn."""
RECEIVE_BYTES = 1 << 20
_SO_BINDTODEVICE = 25
_MAX_DATAGRAM_BYTES = 256


class MeshEnd(ProbeEnd[MeshOrder]):
    """The sockets of one address; needs CAP_NET_RAW. Open it in the NIC's network namespace."""

    def __init__(self, ip: int, device: str) -> None:
        """Open the sockets; raises OSError, PermissionError among them."""
        super().__init__()
        self._ip = ip
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

    def _send_probe(self, order: MeshOrder, key: int, number: int) -> bool:
        probe = order.probes[number]
        return self._send(probe.dst_ip, probe.port, Datagram(Kind.REQUEST, order.dscp, probe.reply_port, key, number))

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
        probes = mine.order.probes if mine is not None else ()
        if mine is None or reply.number >= len(probes) or probes[reply.number].dst_ip != peer:
            self.counts["mesh_unasked"] += 1
        else:
            mine.came(reply.number)

    def _send(self, dst_ip: int, port: int, sent: Datagram) -> bool:
        try:
            self._out.sendto(packet(self._ip, dst_ip, port, sent), (socket.inet_ntoa(dst_ip.to_bytes(4, "big")), 0))
        except OSError:  # no route, a filter, a full queue
            self.counts["mesh_unsent"] += 1
            return False
        return True
