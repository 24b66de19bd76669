"""Who reaches whom, asked by real packets: one process with sockets in every node of the lab.

A socket stays in the network namespace that it was made in, so one thread asks and answers for all nodes at once. A
question carries a number; every node notes which it has seen, and an answer names who gave it. With equal addresses in
several VPCs this tells *which* of their machines was reached, and finds what arrives without being answered.
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

from dataplane.config.network import Address
from mininet_topos.queues.attach import network_namespace

PING, TCP, UDP = 1, 6, 17
SEND_AT_S = (0.0, 0.4, 1.0, 1.8)
"""First packets may be lost while neighbours are looked for; a lost SYN is the kernel's to send again, after 1 s."""
PATIENCE_S = 3.0
GATEWAY = "gateway"
"""Gives the answers that no node has seen the question of."""
FIRST_IDENTIFIER = 0x4800
_MARK = b"heddle lab"
_ECHO = {4: (8, 0), 6: (128, 129)}
_SILENT = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EACCES, errno.EADDRNOTAVAIL, errno.ECONNREFUSED}


class Service(NamedTuple):
    """What is asked for: `protocol` is PING, TCP or UDP."""

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


class Question(NamedTuple):
    """From a node to an address."""

    source: str
    target: Address
    service: Service


@dataclass(slots=True)
class Answer:
    """`by` is who answered, "" for nobody; `seen` are the nodes where the question arrived."""

    by: str = ""
    seen: set[str] = field(default_factory=set)
    came: bool = False
    """An answer came; who gave it is known once all has been read."""


class Node(NamedTuple):
    """A node: the process that holds its namespace, and its address of each family."""

    pid: int
    addresses: Mapping[int, Address]


class Prober:
    """Listens in every node while the context lasts; `ask` asks."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._stack = ExitStack()
        self._events = selectors.DefaultSelector()
        self._echo: dict[tuple[str, int], socket.socket] = {}
        self._ask: dict[tuple[str, int], socket.socket] = {}
        self._asked: list[Question] = []
        self._answers: dict[Question, Answer] = {}
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

    def ask(self, questions: Iterable[Question]) -> dict[Question, Answer]:
        """Ask everything at once and return what came of it within PATIENCE_S; ends sooner when all is answered."""
        self._first += len(self._asked)  # what is still under way belongs to nobody any more
        self._asked = list(questions)
        self._answers = {question: Answer() for question in self._asked}
        begun, sent = time.monotonic(), 0
        with ExitStack() as connections:
            self._connect_all(connections)
            while (passed := time.monotonic() - begun) < PATIENCE_S:
                if sent < len(SEND_AT_S) and passed >= SEND_AT_S[sent]:
                    self._send_all()
                    sent += 1
                self._hear(0.05)
                if all(answer.came for answer in self._answers.values()):
                    break
            self._hear(0.0)
        for answer in self._answers.values():
            if answer.came and not answer.by:
                answer.by = min(answer.seen, default=GATEWAY)
        return self._answers

    def _hear(self, seconds: float) -> None:
        for key, _ in self._events.select(seconds):
            key.data(key.fileobj)

    def _listen(self, name: str, family: int, address: str) -> None:
        """Open a node's sockets, in its namespace."""
        kind = socket.AF_INET if family == 4 else socket.AF_INET6
        echo = self._open(kind, socket.SOCK_RAW, socket.IPPROTO_ICMP if family == 4 else socket.IPPROTO_ICMPV6)
        echo.bind((address, 0))
        self._echo[name, family] = echo
        self._on(echo, lambda end: self._heard_echo(name, family, end))
        asking = self._open(kind, socket.SOCK_DGRAM)
        asking.bind((address, 0))
        self._ask[name, family] = asking
        self._on(asking, self._heard_answer)
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
                self._on(end, lambda end: self._heard_question(name, end))

    def _open(self, kind: int, sort: int, protocol: int = 0) -> socket.socket:
        end = self._stack.enter_context(socket.socket(kind, sort, protocol))
        end.setblocking(False)
        return end

    def _on(self, end: socket.socket, heard: Callable[[socket.socket], None]) -> None:
        self._events.register(end, selectors.EVENT_READ, heard)

    def _send_all(self) -> None:
        for number, question in enumerate(self._asked, self._first):
            if self._answers[question].came or question.service.protocol == TCP:
                continue
            family, target = question.target.version, str(question.target)
            text = _MARK + struct.pack("!Q", number)
            with suppress(OSError):  # no route, or its queue is full: that is an answer as well
                if question.service.protocol == UDP:
                    self._ask[question.source, family].sendto(text, (target, question.service.port))
                else:
                    self._echo[question.source, family].sendto(self._request(question, number, text), (target, 0))

    def _request(self, question: Question, number: int, text: bytes) -> bytes:
        """Return an echo request; each node has an identifier of its own, as every `ping` has."""
        identifier = FIRST_IDENTIFIER + list(self._nodes).index(question.source)
        return echo_request(question.target.version, identifier, number & 0xFFFF, text)

    def _connect_all(self, connections: ExitStack) -> None:
        for source in self._nodes:
            wanted = [q for q in self._asked if q.source == source and q.service.protocol == TCP]
            with network_namespace(self._nodes[source].pid):
                for question in wanted:
                    self._connect(question, connections)

    def _connect(self, question: Question, connections: ExitStack) -> None:
        family = question.target.version
        end = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_STREAM)
        connections.callback(self._forget, end)
        end.setblocking(False)
        end.bind((str(self._nodes[question.source].addresses[family]), 0))
        failed = end.connect_ex((str(question.target), question.service.port))
        if failed in (0, errno.EINPROGRESS):
            self._on(end, lambda end: self._heard_greeting(question, end))
        elif failed not in _SILENT:
            raise OSError(failed, f"{question.source} to {question.target}")

    def _forget(self, end: socket.socket) -> None:
        with suppress(KeyError, ValueError):
            self._events.unregister(end)
        end.close()

    def _heard_greeting(self, question: Question, end: socket.socket) -> None:
        """A connection's other end said its name; or the connection was refused."""
        try:
            name = end.recv(64).decode()
        except OSError:
            name = ""
        self._events.unregister(end)
        if name:
            self._answers[question] = Answer(by=name, seen={name}, came=True)

    def _heard_echo(self, name: str, family: int, end: socket.socket) -> None:
        while (packet := _received(end)) is not None:
            body = packet[(packet[0] & 15) * 4 :] if family == 4 else packet
            question = self._question(body[8:])
            if question is None or question.service.protocol != PING:
                continue
            if body[0] == _ECHO[family][0]:
                self._answers[question].seen.add(name)
            elif body[0] == _ECHO[family][1] and name == question.source:
                self._answers[question].came = True

    def _heard_question(self, name: str, end: socket.socket) -> None:
        with suppress(OSError):
            while True:
                text, sender = end.recvfrom(256)
                if (question := self._question(text)) is not None:
                    self._answers[question].seen.add(name)
                with suppress(OSError):
                    end.sendto(text + name.encode(), sender)

    def _heard_answer(self, end: socket.socket) -> None:
        while (text := _received(end)) is not None:
            if (question := self._question(text)) is not None:
                self._answers[question].came = True
                self._answers[question].by = text[len(_MARK) + 8 :].decode()

    def _question(self, text: bytes) -> Question | None:
        """Return the question that a packet carries; None for a stranger's or one that was asked before."""
        if not text.startswith(_MARK) or len(text) < len(_MARK) + 8:
            return None
        number = int(struct.unpack_from("!Q", text, len(_MARK))[0]) - self._first
        return self._asked[number] if 0 <= number < len(self._asked) else None


def _received(end: socket.socket) -> bytes | None:
    """Return what has come; None for nothing, or for the news that something did not get through."""
    try:
        return end.recv(2048)
    except OSError:
        return None


def _accept(name: str, end: socket.socket) -> None:
    """Tell everybody who connects who this is."""
    with suppress(OSError):
        while True:
            connection, _ = end.accept()
            with connection:
                connection.send(name.encode())


def echo_request(family: int, identifier: int, sequence: int, text: bytes) -> bytes:
    """Return an echo request (RFC 792, RFC 4443); the checksum of ICMPv6 is the kernel's to write."""
    body = struct.pack("!BBHHH", _ECHO[family][0], 0, 0, identifier, sequence) + text
    if family == 6:
        return body
    padded = body + b"\0" * (len(body) % 2)
    words = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    words = (words >> 16) + (words & 0xFFFF)
    return body[:2] + struct.pack("!H", ~(words + (words >> 16)) & 0xFFFF) + body[4:]
