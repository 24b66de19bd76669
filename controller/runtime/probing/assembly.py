"""Check an agent's report against its order: keep what was asked, name what was not. An agent may be old or hostile."""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from probing.probe import Question

Reply = tuple[Question, int] | None
"""A question and the address of the router that replied; None where the report has no such thing there."""


class Lie(StrEnum):
    """What a report says that cannot be so."""

    UNASKED_ORDER = "unasked_order"
    UNASKED_QUESTION = "unasked_question"
    SURPLUS = "surplus"
    """More replies than questions: none of them is read."""
    CONTRADICTION = "contradiction"
    """Two routers for one question: neither is believed."""
    MALFORMED = "malformed"
    WRONG_HOP = "wrong_hop"
    """A router that no path between these NICs has at this hop."""


class Heard(NamedTuple):
    """The replies of a report that were asked for, by question, and how many of each lie it has."""

    replies: dict[Question, int]
    lies: Counter[Lie]


def heard(asked: frozenset[Question], replies: Iterable[Reply]) -> Heard:
    """Return what a report says about the questions of its order."""
    found: dict[Question, int] = {}
    lies: Counter[Lie] = Counter()
    doubtful: set[Question] = set()
    for reply in replies:
        if reply is None:
            lies[Lie.MALFORMED] += 1
            continue
        question, router = reply
        if question not in asked:
            lies[Lie.UNASKED_QUESTION] += 1
        elif found.setdefault(question, router) != router:
            lies[Lie.CONTRADICTION] += 1
            doubtful.add(question)
    return Heard({question: router for question, router in found.items() if question not in doubtful}, lies)
