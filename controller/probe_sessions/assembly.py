"""Check an agent's report against its order: keep replies to its probes, count the rest. Agents may be hostile."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from heddle.probing.probe import Question

Reply = tuple[Question, int] | None
"""A probe and the address of the router that replied; None where the report has no such thing there."""


class Lie(StrEnum):
    """A kind of report that cannot be true."""

    UNASKED_ORDER = "unasked_order"
    UNASKED_QUESTION = "unasked_question"
    SURPLUS = "surplus"
    """More replies than probes, or not one round trip for each mesh probe: none of them is read."""
    CONTRADICTION = "contradiction"
    """Two routers for one probe: neither is believed."""
    MALFORMED = "malformed"
    WRONG_HOP = "wrong_hop"
    """A router that no path between these NICs has at this hop."""


class Heard(NamedTuple):
    """The replies of a report to probes of its order, by probe, and how many lies of each kind it has."""

    replies: dict[Question, int]
    lies: Counter[Lie]


def heard(ordered: frozenset[Question], replies: Iterable[Reply]) -> Heard:
    """Return what a report says about the probes of its order."""
    found: dict[Question, int] = {}
    lies: Counter[Lie] = Counter()
    doubtful: set[Question] = set()
    for reply in replies:
        if reply is None:
            lies[Lie.MALFORMED] += 1
            continue
        question, router = reply
        if question not in ordered:
            lies[Lie.UNASKED_QUESTION] += 1
        elif found.setdefault(question, router) != router:
            lies[Lie.CONTRADICTION] += 1
            doubtful.add(question)
    return Heard({question: router for question, router in found.items() if question not in doubtful}, lies)
