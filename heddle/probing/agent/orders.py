"""Check a controller's orders: an agent sends from its own addresses only, and at its own rate at most."""

from collections.abc import Container, Mapping
from ipaddress import IPv4Address, IPv6Address
from math import isfinite
from typing import NamedTuple

from heddle.probing.probe import FIRST_PORT, MAX_DSCP, MAX_QPN, PORTS, Question
from heddle.probing.prober import Pace
from heddle.v1 import heddle_pb2 as pb

MAX_QUESTIONS = 4_096
MAX_TTL = 16
"""More hops than any fabric has: probes expire before they leave it."""
MAX_TIMEOUT_MS = 10_000
MIN_RATE_PPS = 0.01


class OrderError(ValueError):
    """An order that this agent does not carry out; the text says why."""


class MeshProbe(NamedTuple):
    """A request to another agent: the UDP source ports by which it and its reply take their paths."""

    dst_ip: int
    port: int
    reply_port: int


class MeshOrder(NamedTuple):
    """The requests to send from one address, and how long to wait for the last reply."""

    number: int
    src_ip: int
    probes: tuple[MeshProbe, ...]
    rate_pps: float
    timeout_s: float
    dscp: int


class SidOrder(NamedTuple):
    """The addresses by which packets return to their sender, the sender's, and how long to wait for the last one."""

    number: int
    src_ip: int
    source: int
    probes: tuple[int, ...]
    rate_pps: float
    timeout_s: float
    dscp: int


class Order(NamedTuple):
    """The probes to send from one address, how fast, and the queue pair number and DSCP of the probes."""

    number: int
    src_ip: int
    questions: tuple[Question, ...]
    pace: Pace
    qpn: int = 0
    dscp: int = 0


def order_in(message: pb.ProbeOrder, own: Container[int], max_rate_pps: float) -> Order:
    """Return a checked order; raises OrderError."""
    src_ip = _checked(message, own)
    if not 0 < len(message.questions) <= MAX_QUESTIONS:
        raise OrderError(f"questions: must be 1 to {MAX_QUESTIONS:,}")
    questions = tuple(_question(f"questions[{number}]", each) for number, each in enumerate(message.questions))
    pace = Pace(min(message.rate_pps, max_rate_pps), message.timeout_ms / 1000)
    return Order(message.order_id, src_ip, questions, pace, message.qpn, message.dscp)


def mesh_order_in(message: pb.ProbeOrder, own: Container[int], max_rate_pps: float) -> MeshOrder:
    """Return a checked order of mesh probes; raises OrderError."""
    src_ip = _checked(message, own)
    if len(message.mesh) > MAX_QUESTIONS:
        raise OrderError(f"mesh: must be {MAX_QUESTIONS:,} at most")
    probes = []
    for number, each in enumerate(message.mesh):
        place = f"mesh[{number}]"
        for name, port in (("port", each.port), ("reply_port", each.reply_port)):
            _check_port(f"{place}.{name}", port)
        probes.append(MeshProbe(_nic_address(f"{place}.dst_ip", each.dst_ip), each.port, each.reply_port))
    rate_pps, timeout_s = min(message.rate_pps, max_rate_pps), message.timeout_ms / 1000
    return MeshOrder(message.order_id, src_ip, tuple(probes), rate_pps, timeout_s, message.dscp)


def sid_order_in(message: pb.ProbeOrder, own: Container[int], max_rate_pps: float) -> SidOrder:
    """Return a checked order of probes that return by themselves; raises OrderError."""
    src_ip = _checked(message, own)
    if len(message.sids) > MAX_QUESTIONS:
        raise OrderError(f"sids: must be {MAX_QUESTIONS:,} at most")
    source = _ipv6("srv6_source", message.srv6_source)
    probes = tuple(_ipv6(f"sids[{number}]", each) for number, each in enumerate(message.sids))
    rate_pps, timeout_s = min(message.rate_pps, max_rate_pps), message.timeout_ms / 1000
    return SidOrder(message.order_id, src_ip, source, probes, rate_pps, timeout_s, message.dscp)


def _checked(message: pb.ProbeOrder, own: Container[int]) -> int:
    """Check what all orders have; return the address from which to send. Raises OrderError."""
    src_ip = _address("src_ip", message.src_ip)
    if src_ip not in own:
        raise OrderError(f"src_ip: {IPv4Address(src_ip)} is no address of this agent")
    if not isfinite(message.rate_pps) or message.rate_pps < MIN_RATE_PPS:
        raise OrderError(f"rate_pps: must be at least {MIN_RATE_PPS}")
    if not 0 < message.timeout_ms <= MAX_TIMEOUT_MS:
        raise OrderError(f"timeout_ms: must be 1 to {MAX_TIMEOUT_MS:,}")
    for name, value, most in (("qpn", message.qpn, MAX_QPN), ("dscp", message.dscp, MAX_DSCP)):
        if value > most:
            raise OrderError(f"{name}: must be 0 to {most:,}")
    return src_ip


def replies_to(order: Order, found: Mapping[Question, int], sent: int) -> pb.ProbeReplies:
    """Return the report of an order."""
    replies = [
        pb.ProbeReply(
            question=pb.ProbeQuestion(dst_ip=str(IPv4Address(probe.dst_ip)), port=probe.port, ttl=probe.ttl),
            router_ip=str(IPv4Address(router_ip)),
        )
        for probe, router_ip in found.items()
    ]
    return pb.ProbeReplies(order_id=order.number, sent=sent, replies=replies)


def _question(place: str, message: pb.ProbeQuestion) -> Question:
    _check_port(f"{place}.port", message.port)
    if not 0 < message.ttl <= MAX_TTL:
        raise OrderError(f"{place}.ttl: must be 1 to {MAX_TTL}")
    return Question(_nic_address(f"{place}.dst_ip", message.dst_ip), message.port, message.ttl)


def _check_port(place: str, port: int) -> None:
    if not FIRST_PORT <= port < FIRST_PORT + PORTS:
        raise OrderError(f"{place}: must be {FIRST_PORT} to {FIRST_PORT + PORTS - 1}")


def _nic_address(place: str, text: str) -> int:
    address = _address(place, text)
    if IPv4Address(address).is_multicast or address in (0, 0xFFFFFFFF):
        raise OrderError(f"{place}: {IPv4Address(address)} is no address of a NIC")
    return address


def _ipv6(place: str, text: str) -> int:
    try:
        address = IPv6Address(text)
    except ValueError:
        raise OrderError(f"{place}: no IPv6 address") from None
    if address.is_multicast or address.is_unspecified or address.is_loopback or address.is_link_local:
        raise OrderError(f"{place}: {address} holds no SIDs")
    return int(address)


def _address(place: str, text: str) -> int:
    try:
        return int(IPv4Address(text))
    except ValueError:
        raise OrderError(f"{place}: no IPv4 address") from None
