"""Which NICs a fabric's failures (or its drawing) cut off from the rest of their network.

Judged leaf by leaf on sets of leaves as integers, so that the work grows with cables and not with pairs of NICs.
Two leaves reach each other where some switch is above both over live cables: up, then down. That is symmetric
but not transitive, so the question is which leaves to leave out until all others reach each other.
"""

from collections.abc import Iterable
from typing import NamedTuple

from controller.model.fabric import Cable, Fabric, Nic, Role
from controller.model.health import Health


class CutOff(NamedTuple):
    """A NIC that does not reach all the others of its network, and what cuts it off."""

    nic: str
    host: str
    why: str


def cut_off(fabric: Fabric, health: Health) -> tuple[CutOff, ...]:
    """Return the NICs cut off from the rest of their network (compute, storage ...), in the fabric's order.

    Where a fabric falls apart, the part with the most NICs is the rest; of equal parts that of the first leaf.
    """
    reach = live_reach(fabric, health)
    why_of = {nic.id: why for nic in fabric.nics if (why := _plain_reason(nic, health))}
    alive: dict[str, list[Nic]] = {}
    for nic in fabric.nics:
        if nic.id not in why_of:
            alive.setdefault(nic.network, []).append(nic)
    for network, nics in alive.items():
        lost = _lost_leaves(fabric, reach, nics)
        reasons = {leaf: _reason(fabric, health, leaf, network) for leaf in lost}
        why_of.update({nic.id: reasons[nic.port.switch] for nic in nics if nic.port.switch in lost})
    return tuple(CutOff(nic.id, nic.host, why_of[nic.id]) for nic in fabric.nics if nic.id in why_of)


def live_reach(fabric: Fabric, health: Health) -> dict[str, int]:
    """Return the leaves that each leaf reaches over live cables, itself included: bit i is `fabric.leaves[i]`."""
    position = {leaf: i for i, leaf in enumerate(fabric.leaves)}
    by_tier = sorted(
        (switch for switch in fabric.switches if switch.id not in health.down_switches),
        key=lambda switch: switch.role.tier,
    )
    below: dict[str, int] = {}
    for switch in by_tier:
        own = 1 << position[switch.id] if switch.role is Role.LEAF else 0
        below[switch.id] = _union(
            own, below, (cable.lower.switch for cable in _live(fabric.down_cables[switch.id], health))
        )
    reach: dict[str, int] = {}
    for switch in reversed(by_tier):
        uppers = (cable.upper.switch for cable in _live(fabric.up_choices[switch.id], health))
        reach[switch.id] = _union(below[switch.id], reach, uppers)
    return {leaf: reach.get(leaf, 0) for leaf in fabric.leaves}


def _live(cables: Iterable[Cable], health: Health) -> Iterable[Cable]:
    if not health.down_cables:
        return cables
    return (cable for cable in cables if cable.id not in health.down_cables)


def _union(start: int, sets: dict[str, int], names: Iterable[str]) -> int:
    for name in dict.fromkeys(names):
        start |= sets.get(name, 0)
    return start


def _lost_leaves(fabric: Fabric, reach: dict[str, int], nics: Iterable[Nic]) -> set[str]:
    """Return the leaves to leave out so that all others with NICs of this network reach each other.

    Leaves that reach the same leaves stay or go together; the class out of reach of the most NICs goes first.
    """
    position = {leaf: i for i, leaf in enumerate(fabric.leaves)}
    weight: dict[str, int] = {}
    for nic in nics:
        weight[nic.port.switch] = weight.get(nic.port.switch, 0) + 1
    asked = sum(1 << position[leaf] for leaf in weight)
    classes: dict[int, list[str]] = {}
    for leaf in fabric.leaves:
        if leaf in weight:
            classes.setdefault(reach[leaf] & asked, []).append(leaf)
    size = {seen: sum(weight[leaf] for leaf in leaves) for seen, leaves in classes.items()}
    apart = {
        seen: [other for other, leaves in classes.items() if not seen >> position[leaves[0]] & 1] for seen in classes
    }
    missing = {seen: sum(size[other] for other in others) for seen, others in apart.items()}
    order = {seen: i for i, seen in enumerate(classes)}
    lost: set[str] = set()
    while missing:
        worst = max(missing, key=lambda seen: (missing[seen], -size[seen], order[seen]))
        if not missing.pop(worst):
            break
        lost.update(classes[worst])
        for other in apart[worst]:
            if other in missing:
                missing[other] -= size[worst]
    return lost


def _plain_reason(nic: Nic, health: Health) -> str:
    """Return why a NIC is cut off at its own leaf, or nothing where it is not."""
    if nic.id in health.down_nics:
        return f"its link {nic.up_link} is out of use"
    if nic.port.switch in health.down_switches:
        return f"its leaf {nic.port.switch} is out of use"
    return ""


def _reason(fabric: Fabric, health: Health, leaf: str, network: str) -> str:
    cables = fabric.up_choices[leaf]
    if not cables:
        return f"its leaf {leaf} has no link upwards; draw one"
    live = [cable for cable in _live(cables, health) if cable.upper.switch not in health.down_switches]
    if not live:
        named = ", ".join(cable.id for cable in cables[:3]) + (" ..." if len(cables) > 3 else "")
        return f"every link upwards of its leaf {leaf} is out of use: {named}"
    return f"no path up and down over live links joins its leaf {leaf} with the rest of the {network} network"
