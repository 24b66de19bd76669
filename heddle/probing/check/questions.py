"""The probes of a fabric check: many ports between NICs of different leaves, then a sample with one thing changed.

Each port is probed at each hop beyond the first, so that each switch's choice is seen: a probe that expires at hop k
came in by the link that the switch at hop k - 1 chose.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from math import ceil, log
from typing import NamedTuple

from heddle.probing.probe import FIRST_PORT, PORTS, Question

FIRST_HOP = 2
"""The first hop that a switch chooses: hop 1 is the leaf itself."""
SAMPLE = 16
"""Ports per pair that are probed again; two equal next hops agree by chance on all of them in 1 of 65,536 pairs."""
CERTAINTY = 10.0
"""Of n equal next hops, n (ln n + 10) ports leave one unseen in 1 of 20,000 checks (the coupon collector's problem)."""
MAX_PORTS = 2_048
"""Ports per leaf at most; a wider fabric is sampled, and fewer links are said to be never used."""
CHANGED_QPN = 0x5A5A5A


class Step(NamedTuple):
    """A link that a probe may take, the switch that chooses it, and the switch at its end."""

    link: str
    by: str
    to: str


class Pair(NamedTuple):
    """Two NICs of different leaves; `steps[i]` are the links by which a probe may come in that expires at hop i + 2."""

    src_ip: int
    dst_ip: int
    leaf: str
    steps: tuple[tuple[Step, ...], ...]


class Variation(StrEnum):
    """What a round changes against the first."""

    FIRST = "first"
    AGAIN = "again"
    QPN = "queue pair number"
    DSCP = "DSCP"


class Round(NamedTuple):
    """Probes by source address, all sent with one queue pair number and DSCP."""

    variation: Variation
    qpn: int
    dscp: int
    questions: Mapping[int, tuple[Question, ...]]


def rounds(pairs: Sequence[Pair], data_dscp: int, seed: int = 0, max_ports: int = MAX_PORTS) -> tuple[Round, ...]:
    """Return the rounds of probes, each sent after the replies to the last.

    `data_dscp` is that of RoCEv2 data; `max_ports` bounds the ports of a leaf in the first round.
    """
    ports = _ports(pairs, seed, max_ports)
    sample = {pair: of[:SAMPLE] for pair, of in ports.items()}
    return (
        Round(Variation.FIRST, 0, 0, _questions(ports)),
        Round(Variation.AGAIN, 0, 0, _questions(sample)),
        Round(Variation.QPN, CHANGED_QPN, 0, _questions(sample)),
        Round(Variation.DSCP, 0, data_dscp, _questions(sample)),
    )


def _ports(pairs: Sequence[Pair], seed: int, max_ports: int) -> dict[Pair, list[int]]:
    """Return distinct ports for every pair; the pairs of a leaf share the number that shows all links."""
    of_leaf: dict[str, list[Pair]] = {}
    for pair in pairs:
        of_leaf.setdefault(pair.leaf, []).append(pair)
    found = {}
    for mates in of_leaf.values():
        widest = max(len(steps) for pair in mates for steps in pair.steps)
        wanted = min(max_ports, ceil(widest * (log(widest) + CERTAINTY)))
        for pair in mates:
            drawn = random.Random(f"{seed}/{pair.src_ip}/{pair.dst_ip}")
            found[pair] = drawn.sample(range(FIRST_PORT, FIRST_PORT + PORTS), max(SAMPLE, ceil(wanted / len(mates))))
    return found


def _questions(ports: Mapping[Pair, Iterable[int]]) -> dict[int, tuple[Question, ...]]:
    found: dict[int, list[Question]] = {}
    for pair, of in ports.items():
        hops = range(FIRST_HOP, FIRST_HOP + len(pair.steps))
        found.setdefault(pair.src_ip, []).extend(Question(pair.dst_ip, port, hop) for port in of for hop in hops)
    return {src_ip: tuple(probes) for src_ip, probes in found.items()}
