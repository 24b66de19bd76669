"""Choose the pairs of NICs between which a check probes, and list the links that lead from one to the other. Pure."""

from collections.abc import Collection, Sequence

from heddle.controller.model.fabric import Fabric, Nic
from heddle.controller.model.next_hops import next_hops
from heddle.probing.check.questions import Pair, Step

MAX_SOURCES, MAX_DESTINATIONS = 4, 8
"""Per leaf: NICs that probe, and leaves that they probe towards."""


def pairs_of(fabric: Fabric, sources: Sequence[Nic], destinations: int = MAX_DESTINATIONS) -> list[Pair]:
    """Return the pairs for the leaves of some NICs: towards leaves spread over the fabric, from its NICs in turn."""
    failed = _failed(fabric)
    found = []
    for leaf in dict.fromkeys(nic.port.switch for nic in sources):
        own = [nic for nic in sources if nic.port.switch == leaf][:MAX_SOURCES]
        for number, destination in enumerate(_spread(fabric, leaf, destinations)):
            steps = steps_between(fabric, leaf, destination.port.switch, failed)
            if steps:
                found.append(Pair(own[number % len(own)].ip, destination.ip, leaf, steps))
    return found


def steps_between(
    fabric: Fabric, leaf: str, destination: str, failed: Collection[str] = ()
) -> tuple[tuple[Step, ...], ...]:  # fmt: skip
    """Return by hop, from the second on, the links that lead from a leaf to another; `failed` are ids of cables."""
    found, at = [], [leaf]
    while at:
        hops = [hop for switch in at for hop in next_hops(fabric, switch, destination, failed)]
        if hops:
            found.append(tuple(Step(hop.link, hop.own.switch, hop.far.switch) for hop in hops))
        at = [switch for switch in dict.fromkeys(hop.far.switch for hop in hops) if switch != destination]
    return tuple(found)


def _spread(fabric: Fabric, leaf: str, destinations: int) -> list[Nic]:
    """Return a NIC of each of some other leaves, evenly spaced in the fabric's order, from the next one on.

    So each leaf is the destination of equally many, when all are checked.
    """
    own = fabric.leaves.index(leaf)
    others = [other for other in (*fabric.leaves[own + 1 :], *fabric.leaves[:own]) if other in fabric.nics_of_leaf]
    count = min(destinations, len(others))
    return [fabric.nics_of_leaf[others[number * len(others) // count]][0] for number in range(count)]


def _failed(fabric: Fabric) -> frozenset[str]:
    down = fabric.failed
    return frozenset(
        cable.id
        for cable in fabric.cables
        if cable.id in down.down_cables or down.down_switches & {cable.lower.switch, cable.upper.switch}
    )
