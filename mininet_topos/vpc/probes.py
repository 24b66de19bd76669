"""Probe reachability with real packets: one process with sockets in every node of the lab.

A socket stays in the network namespace in which it was created, so one thread sends and replies for all nodes. A probe
carries a number; every node records the numbers it received, and a reply names its sender. Since VPCs have equal
addresses, this shows *which* machine was reached, and detects probes that arrive without a reply.
"""

import errno
import selectors
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from heddle.dataplane.config.network import Address
from heddle.mininet_topos.host.namespace import network_namespace

PING, TCP, UDP = 1, 6, 17
SEND_AT_S = (0.0, 0.4, 1.0, 1.8)
"""First packets may be lost during neighbour resolution; the kernel retransmits a lost SYN after 1 s."""
TIMEOUT_S = 3.0
GATEWAY = "gateway"
"""Sender of replies to probes that no node received."""
FIRST_IDENTIFIER = 0x4800
_MARK = b"heddle lab"
_ECHO = {4: (8, 0), 6: (128, 129)}
_SILENT = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EADDRNOTAVAIL, errno.ECONNREFUSED}


class Service(NamedTuple):
    """A service to probe: `protocol` is PING, TCP or UDP."""

    name: str
    protocol: int
    port: int = 0


SERVICES = (
    Service("ping", PING),
    Service("ssh", TCP, 22),
    Service("nfs", TCP, 2049),
    Service("dns", UDP, 53),
    Service("roce", UDP, 4791),
)


class Probe(NamedTuple):
    """A probe of one service, from a node to an address."""

    source: str
    target: Address
    service: Service


@dataclass(slots=True)
class ProbeResult:
    """Result of a probe."""

    by: str = ""
    """The node that replied, "" for none."""
    seen: set[str] = field(default_factory=set)
    """Nodes at which the probe arrived."""
    replied: bool = False
    """A reply arrived; `by` is known once all packets have been read."""


class Node(NamedTuple):
    """A node: a process in its namespace, and its address by family."""

    pid: int
    addresses: Mapping[int, Address]


class Prober:
    """Sockets in every node while the context lasts; `run` sends probes."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._stack = ExitStack()
        self._events = selectors.DefaultSelector()
        self._echo: dict[tuple[str, int], socket.socket] = {}
        self._udp: dict[tuple[str, int], socket.socket] = {}
        self._sent: list[Probe] = []
        self._results: dict[Probe, ProbeResult] = {}
        self._first = 0

    def __enter__(self) -> "Prober":
        self._stack.callback(self._events.close)
        try:
            for name, node in self._nodes.items():
                with network_namespace(node.pid):
                    for family, address in node.addresses.items():
                        self._listen(name, family, str(address))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, probes: Iterable[Probe]) -> dict[Probe, ProbeResult]:
        """Send all probes at once; return the results after TIMEOUT_S, or earlier if all got a reply."""
        self._first += len(self._sent)  # late replies to earlier probes are ignored
        self._sent = list(probes)
        self._results = {probe: ProbeResult() for probe in self._sent}
        begun, sent = time.monotonic(), 0
        with ExitStack() as connections:
            self._connect_all(connections)
            while (passed := time.monotonic() - begun) < TIMEOUT_S:
                if sent < len(SEND_AT_S) and passed >= SEND_AT_S[sent]:
                    self._send_all()
                    sent += 1
                self._receive(0.05)
                if all(result.replied for result in self._results.values()):
                    break
            self._receive(0.0)
        for result in self._results.values():
            if result.replied and not result.by:
                result.by = min(result.seen, default=GATEWAY)
        return self._results

    def _receive(self, seconds: float) -> None:
        for key, _ in self._events.select(seconds):
            key.data(key.fileobj)

    def _listen(self, name: str, family: int, address: str) -> None:
        """Open a node's sockets, in its namespace."""
        kind = socket.AF_INET if family == 4 else socket.AF_INET6
        echo = self._open(kind, socket.SOCK_RAW, socket.IPPROTO_ICMP if family == 4 else socket.IPPROTO_ICMPV6)
        echo.bind((address, 0))
        self._echo[name, family] = echo
        self._on(echo, lambda end: self._echo_received(name, family, end))
        udp = self._open(kind, socket.SOCK_DGRAM)
        udp.bind((address, 0))
        self._udp[name, family] = udp
        self._on(udp, self._reply_received)
        for service in SERVICES:
            if service.protocol == PING:
                continue
            end = self._open(kind, socket.SOCK_STREAM if service.protocol == TCP else socket.SOCK_DGRAM)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            end.bind((address, service.port))
            if service.protocol == TCP:
                end.listen(128)
                self._on(end, lambda end: _accept(name, end))
            else:
                self._on(end, lambda end: self._probe_received(name, end))

    def _open(self, kind: int, sort: int, protocol: int = 0) -> socket.socket:
        end = self._stack.enter_context(socket.socket(kind, sort, protocol))
        end.setblocking(False)
        return end

    def _on(self, end: socket.socket, handler: Callable[[socket.socket], None]) -> None:
        self._events.register(end, selectors.EVENT_READ, handler)

    def _send_all(self) -> None:
        for number, probe in enumerate(self._sent, self._first):
            if self._results[probe].replied or probe.service.protocol == TCP:
                continue
            family, target = probe.target.version, str(probe.target)
            text = _MARK + struct.pack("!Q", number)
            with suppress(OSError):  # no route, or the queue is full: no reply then
                if probe.service.protocol == UDP:
                    self._udp[probe.source, family].sendto(text, (target, probe.service.port))
                else:
                    self._echo[probe.source, family].sendto(self._request(probe, number, text), (target, 0))

    def _request(self, probe: Probe, number: int, text: bytes) -> bytes:
        """Return an echo request; each node uses its own identifier, as each `ping` process does."""
        identifier = FIRST_IDENTIFIER + list(self._nodes).index(probe.source)
        return echo_request(probe.target.version, identifier, number & 0xFFFF, text)

    def _connect_all(self, connections: ExitStack) -> None:
        for source in self._nodes:
            wanted = [q for q in self._sent if q.source == source and q.service.protocol == TCP]
            with network_namespace(self._nodes[source].pid):
                for probe in wanted:
                    self._connect(probe, connections)

    def _connect(self, probe: Probe, connections: ExitStack) -> None:
        family = probe.target.version
        end = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_STREAM)
        connections.callback(self._forget, end)
        end.setblocking(False)
        end.bind((str(self._nodes[probe.source].addresses[family]), 0))
        failed = end.connect_ex((str(probe.target), probe.service.port))
        if failed in (0, errno.EINPROGRESS):
            self._on(end, lambda end: self._greeting_received(probe, end))
        elif failed not in _SILENT:
            raise OSError(failed, f"{probe.source} to {probe.target}")

    def _forget(self, end: socket.socket) -> None:
        with suppress(KeyError, ValueError):
            self._events.unregister(end)
        end.close()

    def _greeting_received(self, probe: Probe, end: socket.socket) -> None:
        """Read the name that the server sends; an error means that the connection was refused."""
        try:
            name = end.recv(64).decode()
        except OSError:
            name = ""
        self._events.unregister(end)
        if name:
            self._results[probe] = ProbeResult(by=name, seen={name}, replied=True)

    def _echo_received(self, name: str, family: int, end: socket.socket) -> None:
        while (packet := _received(end)) is not None:
            body = packet[(packet[0] & 15) * 4 :] if family == 4 else packet
            probe = self._probe_of(body[8:])
            if probe is None or probe.service.protocol != PING:
                continue
            if body[0] == _ECHO[family][0]:
                self._results[probe].seen.add(name)
            elif body[0] == _ECHO[family][1] and name == probe.source:
                self._results[probe].replied = True

    def _probe_received(self, name: str, end: socket.socket) -> None:
        with suppress(OSError):
            while True:
                text, sender = end.recvfrom(256)
                if (probe := self._probe_of(text)) is not None:
                    self._results[probe].seen.add(name)
                with suppress(OSError):
                    end.sendto(text + name.encode(), sender)

    def _reply_received(self, end: socket.socket) -> None:
        while (text := _received(end)) is not None:
            if (probe := self._probe_of(text)) is not None:
                self._results[probe].replied = True
                self._results[probe].by = text[len(_MARK) + 8 :].decode()

    def _probe_of(self, text: bytes) -> Probe | None:
        """Return the probe whose number a packet carries; None for foreign packets and earlier probes."""
        if not text.startswith(_MARK) or len(text) < len(_MARK) + 8:
            return None
        number = int(struct.unpack_from("!Q", text, len(_MARK))[0]) - self._first
        return self._sent[number] if 0 <= number < len(self._sent) else None


def _received(end: socket.socket) -> bytes | None:
    """Return a received datagram; None if there is none, or for a pending ICMP error."""
    try:
        return end.recv(2048)
    except OSError:
        return None


def _accept(name: str, end: socket.socket) -> None:
    """Accept all pending connections and send the node's name on each."""
    with suppress(OSError):
        while True:
            connection, _ = end.accept()
            with connection:
                connection.send(name.encode())


def echo_request(family: int, identifier: int, sequence: int, text: bytes) -> bytes:
    """Return an echo request (RFC 792, RFC 4443); the kernel fills in the checksum of ICMPv6."""
    body = struct.pack("!BBHHH", _ECHO[family][0], 0, 0, identifier, sequence) + text
    if family == 6:
        return body
    padded = body + b"\0" * (len(body) % 2)
    words = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    words = (words >> 16) + (words & 0xFFFF)
    return body[:2] + struct.pack("!H", ~(words + (words >> 16)) & 0xFFFF) + body[4:]
