"""Name the cables that are not there, once every plug that is elsewhere was put back."""

from collections import Counter
from collections.abc import Iterator

from heddle.controller.cabling.cause import Cause, CauseKind
from heddle.controller.cabling.ends import NONE
from heddle.controller.cabling.observed import DARK, Observed
from heddle.controller.cabling.undoing import cables_of, ports_of

MIN_CABLES = 2
"""A switch or host with one cable is not named in its stead."""


def missing_cables(observed: Observed) -> Iterator[Cause]:
    """Yield each cable without carrier of which nothing is heard; one cause for a node that has no other."""
    ends = observed.ends
    missing = [end for end in range(ends.built) if end < ends.expected[end] and _is_missing(observed, end)]
    count = Counter(ends.node[side] for end in missing for side in (end, ends.expected[end]))
    cables = Counter(node for end, node in enumerate(ends.node[: ends.built]) if ends.expected[end] != NONE)
    silent = {node for node, missed in count.items() if missed == cables[node] >= MIN_CABLES}
    of_node: dict[int, list[int]] = {}
    for end in missing:
        sides = [ends.node[side] for side in (end, ends.expected[end]) if ends.node[side] in silent]
        if sides:
            of_node.setdefault(max(sides, key=lambda node: (count[node], -node)), []).append(end)
        else:
            pair = sorted((end, ends.expected[end]), key=ends.is_nic)
            text = f"{ends.name(pair[0])} and {ends.name(pair[1])}: no cable seen"
            yield Cause(kind=CauseKind.MISSING, text=text, cables=cables_of(ends, pair), ports=ports_of(ends, pair))
    for node, these in of_node.items():
        name = ends.node_names[node]
        both = [side for end in these for side in (end, ends.expected[end])]
        yield Cause(
            kind=CauseKind.SILENT, text=f"{name}: no carrier on any of its {cables[node]} cables",
            cables=cables_of(ends, both), ports=ports_of(ends, both), nodes=(name,),
        )  # fmt: skip


def extra_cables(observed: Observed) -> Iterator[Cause]:
    """Yield cables between two ports that the fabric leaves free."""
    ends = observed.ends
    for end in range(ends.built, len(ends.node)):
        far = observed.met[end]
        if far > end and not ends.is_stranger(end) and not ends.is_stranger(far):
            text = f"{ends.name(end)} and {ends.name(far)} are joined by a cable that the fabric lacks"
            yield Cause(kind=CauseKind.EXTRA, text=text, cables=(), ports=ports_of(ends, (end, far)))


def _is_missing(observed: Observed, end: int) -> bool:
    far = observed.ends.expected[end]
    if observed.met[end] != NONE or observed.met[far] != NONE or not observed.explained.isdisjoint((end, far)):
        return False
    return DARK in (observed.carrier[end], observed.carrier[far])
