"""Find the NICs that failures, or missing cables, cut off from the rest of their network.

Sets of leaves are integers used as bit sets, so that the work grows with the number of cables, not of NIC pairs. Two
leaves reach each other where some switch is above both over live cables: up, then down. The relation is symmetric but
not transitive; the result is the leaves to exclude so that all others reach each other.
"""

from collections.abc import Iterable
from typing import NamedTuple

from heddle.controller.model.fabric import Cable, Fabric, Nic, Role
from heddle.controller.model.health import Health


class CutOff(NamedTuple):
    """A NIC that does not reach all others of its network, and the reason."""

    nic: str
    host: str
    why: str
    other_plane: bool = False
    """Whether no cable joins it with the rest, where its host has another NIC: a fabric of several planes."""


def cut_off(fabric: Fabric, health: Health) -> tuple[CutOff, ...]:
    """Return the NICs cut off from the rest of their network (compute, storage ...), in the fabric's order.

    In a partitioned fabric the partition with the most leaves is the rest; of equal ones that with more NICs, then that
    of the first leaf.
    """
    reach = live_reach(fabric, health)
    why_of = {nic.id: why for nic in fabric.nics if (why := _plain_reason(nic, health))}
    planes: set[str] = set()
    alive: dict[tuple[str, int], list[Nic]] = {}
    for nic in fabric.nics:
        if nic.id not in why_of:
            alive.setdefault((nic.network, nic.plane), []).append(nic)
    for (network, _), nics in alive.items():
        lost = _lost_leaves(fabric, reach, nics)
        apart = _other_planes(fabric, nics, lost)
        reasons = {leaf: _reason(fabric, health, leaf, network, leaf in apart) for leaf in lost}
        why_of.update({nic.id: reasons[nic.port.switch] for nic in nics if nic.port.switch in lost})
        planes |= {nic.id for nic in nics if nic.port.switch in apart}
    return tuple(CutOff(nic.id, nic.host, why_of[nic.id], nic.id in planes) for nic in fabric.nics if nic.id in why_of)


def leaves_are_joined(fabric: Fabric) -> bool:
    """Return whether any two leaves are connected as built; True where no network has NICs on two leaves of a plane.

    A fabric without a spine is rejected as a whole, rather than reported as partitioned.
    """
    leaf_of: dict[tuple[str, int], str] = {}
    if all(leaf_of.setdefault((nic.network, nic.plane), nic.port.switch) == nic.port.switch for nic in fabric.nics):
        return True
    tier_of = {switch.id: switch.role.tier for switch in fabric.switches}
    one_below = {switch.id: switch.id for switch in fabric.switches if switch.role is Role.LEAF}
    for tier in (0, 1):
        for cable in fabric.cables:
            leaf = one_below.get(cable.lower.switch) if tier_of[cable.lower.switch] == tier else None
            if leaf is not None and one_below.setdefault(cable.upper.switch, leaf) != leaf:
                return True
    return False


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
    """Return the leaves to exclude so that all others with NICs of this network reach each other.

    Leaves with equal reach form a class that stays or goes together. Classes are tried by falling reach; a class stays
    if it reaches all that stay already, so no excluded class could be added.
    """
    position = {leaf: i for i, leaf in enumerate(fabric.leaves)}
    nics_on: dict[str, int] = {}
    for nic in nics:
        nics_on[nic.port.switch] = nics_on.get(nic.port.switch, 0) + 1
    wanted = sum(1 << position[leaf] for leaf in nics_on)
    classes: dict[int, list[str]] = {}
    for leaf in fabric.leaves:
        if leaf in nics_on:
            classes.setdefault(reach[leaf] & wanted, []).append(leaf)
    size = {seen: sum(nics_on[leaf] for leaf in leaves) for seen, leaves in classes.items()}
    kept, lost = 0, set()
    for seen in sorted(classes, key=lambda seen: (-seen.bit_count(), -size[seen])):
        if kept & ~seen:
            lost.update(classes[seen])
        else:
            kept |= sum(1 << position[leaf] for leaf in classes[seen])
    return lost


def _plain_reason(nic: Nic, health: Health) -> str:
    """Return why a NIC is cut off at its own leaf, empty where it is not."""
    if nic.id in health.down_nics:
        return f"its link {nic.up_link} is out of use"
    if nic.port.switch in health.down_switches:
        return f"its leaf {nic.port.switch} is out of use"
    return ""


def _other_planes(fabric: Fabric, nics: list[Nic], lost: set[str]) -> set[str]:
    """Return the lost leaves that no cable joins with the rest, where their hosts have NICs too."""
    if not lost:
        return set()
    reach = live_reach(fabric, Health())
    position = {leaf: i for i, leaf in enumerate(fabric.leaves)}
    rest = sum(1 << position[leaf] for leaf in {nic.port.switch for nic in nics} - lost)
    hosts = {nic.host for nic in nics if nic.port.switch not in lost}
    return {
        nic.port.switch
        for nic in nics
        if nic.port.switch in lost and nic.host in hosts and not reach[nic.port.switch] & rest
    }


def _reason(fabric: Fabric, health: Health, leaf: str, network: str, in_other_plane: bool) -> str:
    cables = fabric.up_choices[leaf]
    if cables and in_other_plane:
        return f"no cable joins its leaf {leaf} with the plane of other NICs of its host; a job must keep to one plane"
    if not cables:
        return f"its leaf {leaf} has no link upwards; draw one"
    live = [cable for cable in _live(cables, health) if cable.upper.switch not in health.down_switches]
    if not live:
        named = ", ".join(cable.id for cable in cables[:3]) + (" ..." if len(cables) > 3 else "")
        return f"every link upwards of its leaf {leaf} is out of use: {named}"
    return f"no path up and down over live links joins its leaf {leaf} with the rest of the {network} network"
