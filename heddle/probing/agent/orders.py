"""Check a controller's orders: an agent sends from its own addresses only, and at its own rate at most."""

from collections.abc import Container, Mapping
from ipaddress import IPv4Address
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
    src_ip = _address("src_ip", message.src_ip)
    if src_ip not in own:
        raise OrderError(f"src_ip: {IPv4Address(src_ip)} is no address of this agent")
    if not 0 < len(message.questions) <= MAX_QUESTIONS:
        raise OrderError(f"questions: must be 1 to {MAX_QUESTIONS:,}")
    if not isfinite(message.rate_pps) or message.rate_pps < MIN_RATE_PPS:
        raise OrderError(f"rate_pps: must be at least {MIN_RATE_PPS}")
    if not 0 < message.timeout_ms <= MAX_TIMEOUT_MS:
        raise OrderError(f"timeout_ms: must be 1 to {MAX_TIMEOUT_MS:,}")
    for name, value, most in (("qpn", message.qpn, MAX_QPN), ("dscp", message.dscp, MAX_DSCP)):
        if value > most:
            raise OrderError(f"{name}: must be 0 to {most:,}")
    questions = tuple(_question(f"questions[{number}]", each) for number, each in enumerate(message.questions))
    pace = Pace(min(message.rate_pps, max_rate_pps), message.timeout_ms / 1000)
    return Order(message.order_id, src_ip, questions, pace, message.qpn, message.dscp)


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
    if not FIRST_PORT <= message.port < FIRST_PORT + PORTS:
        raise OrderError(f"{place}.port: must be {FIRST_PORT} to {FIRST_PORT + PORTS - 1}")
    if not 0 < message.ttl <= MAX_TTL:
        raise OrderError(f"{place}.ttl: must be 1 to {MAX_TTL}")
    address = _address(f"{place}.dst_ip", message.dst_ip)
    if IPv4Address(address).is_multicast or address in (0, 0xFFFFFFFF):
        raise OrderError(f"{place}.dst_ip: {IPv4Address(address)} is no address of a NIC")
    return Question(address, message.port, message.ttl)


def _address(place: str, text: str) -> int:
    try:
        return int(IPv4Address(text))
    except ValueError:
        raise OrderError(f"{place}: no IPv4 address") from None
