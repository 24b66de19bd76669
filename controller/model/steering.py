"""Derive from a fabric which bits of a RoCEv2 UDP source port select which cable at which kind of switch.

This module and `model.port_layout` are all that planner and rules share: the planner encodes a path in a port number,
and the rules decode the path from it. `layout_of` is the one place that says what the ports of a fabric mean.
"""

from collections.abc import Iterator, Sequence

from heddle.controller.model.fabric import Cable, Fabric, Role, SteeredBy
from heddle.controller.model.port_layout import NO_RESERVE, PORT_BITS, PortField, Reserve, Stage, SteeringLayout

BUCKETS_PER_CHOICE = 8
"""Minimum number of blocks per choice to approximate an even share, where the port has enough bits."""
MIN_SPARE_BITS = 2
"""Even shares leave so many bits unread: by these the ports of flows on one path differ."""
NO_LEAF = "-"
"""The leaf that names a group of cables which lead to none."""


def stage_up(role: Role) -> Stage:
    """Return the stage at which a switch of this role selects a cable upwards."""
    return Stage.LEAF_UP if role is Role.LEAF else Stage.AGG_UP


def stage_down(role: Role) -> Stage:
    """Return the stage at which a switch of this role selects a cable down to one leaf."""
    return Stage.AGG_DOWN if role is Role.AGG else Stage.TOP_DOWN


def layout_of(fabric: Fabric) -> SteeringLayout:
    """Return what the bits of a port mean: as decided before (`Fabric.port_layout`), else with a reserve.

    Switches that hash read no bits; a journal describes them as it did before there was a reserve. Raises ValueError
    where the home bits of all stages exceed 14 (more than 2^14 paths).
    """
    if fabric.port_layout is None and fabric.steered_by is SteeredBy.HASH:
        return former_layout(fabric)
    return fabric.port_layout or reserved_layout(fabric)


def reserved_layout(fabric: Fabric) -> SteeringLayout:
    """Divide the port's 14 bits by numbers of choices alone: room for twice as many, and for the fabric's reserve.

    Raises ValueError where the choices that exist and the reserve exceed 14 bits.
    """
    return layout_for(_most_choices(fabric), fabric.reserve)


def layout_for(most: Sequence[int], wanted: Reserve = NO_RESERVE) -> SteeringLayout:
    """Return the layout for the largest number of choices of each stage, 0 where no switch is of the stage.

    Rates do not count, and leaves, hosts and pods are no choices. Bits go to the choices that exist, to the reserve of
    the file, to room for twice as many, and last to even shares of unplanned traffic. Raises ValueError where the first
    two exceed 14.
    """
    first = [_bits(count) for count in most]
    reserve = [_bits(max(count, wanted.of(s))) if count else 0 for s, count in zip(Stage, most, strict=True)]
    if sum(reserve) > PORT_BITS:
        text = "" if sum(first) > PORT_BITS else " with its reserve"
        raise ValueError(
            f"a path of this fabric takes {sum(reserve)} bits to name{text}, a UDP source port has {PORT_BITS}"
        )
    # Stages that have a choice now get theirs before those that might get one.
    for stage in sorted(Stage, key=lambda stage: most[stage] < 2):
        if most[stage] and reserve[stage] <= first[stage] and sum(reserve) < PORT_BITS:
            reserve[stage] += 1
    even = [max(have, _even_bits(count)) if count > 1 else have for have, count in zip(reserve, most, strict=True)]
    widths = _widened(reserve, even, PORT_BITS - MIN_SPARE_BITS)
    return _layout([PortField(shift=0, width=widths[s], reserve_bits=reserve[s], first_bits=first[s]) for s in Stage])


def former_layout(fabric: Fabric) -> SteeringLayout:
    """Return the layout of before there was a reserve, which follows from the choices and their rates.

    Raises ValueError where it exceeds 14 bits.
    """
    weights: dict[Stage, set[tuple[int, ...]]] = {stage: set() for stage in Stage}
    for _, stage, cables in choices_in(fabric):
        if len(cables) > 1:
            weights[stage].add(tuple(cable.capacity_bps for cable in cables))
    least = [max((_least_width(w) for w in weights[stage]), default=0) for stage in Stage]
    if sum(least) > PORT_BITS:
        raise ValueError(f"a path of this fabric takes {sum(least)} bits to name, a UDP source port has {PORT_BITS}")
    wanted = [least[stage] + _wanted_extra(weights[stage]) for stage in Stage]
    return _layout([PortField(shift=0, width=width) for width in _widened(least, wanted, PORT_BITS)])


def choices_in(fabric: Fabric) -> Iterator[tuple[str, Stage, tuple[Cable, ...]]]:
    """Yield every place at which a path has one cable or several: its name, its stage and the cables in order.

    A place is a switch for its cables upwards, and `SWITCH LEAF` for its cables down to that leaf and those with it.
    """
    for switch in fabric.switches:
        if up := fabric.up_choices[switch.id]:
            yield switch.id, stage_up(switch.role), up
        for group in fabric.down_groups.get(switch.id, ()):
            yield f"{switch.id} {next(iter(group.leaves), NO_LEAF)}", stage_down(switch.role), group.cables


def _most_choices(fabric: Fabric) -> list[int]:
    """Return the largest number of choices of each stage, 0 where no switch is of the stage."""
    found = [0] * len(Stage)
    for switch in fabric.switches:  # as `choices_in`, which also names each of 16,384 places
        up, down = stage_up(switch.role), stage_down(switch.role)
        found[up] = max(found[up], len(fabric.up_choices[switch.id]))
        counts = [len(group.cables) for group in fabric.down_groups.get(switch.id, ())]
        found[down] = max(found[down], *counts) if counts else found[down]
    return found


def _bits(choices: int) -> int:
    return max(0, choices - 1).bit_length()


def _even_bits(choices: int) -> int:
    """Return the bits for even shares, also with one choice more."""
    return _bits(choices + 1) + _bits(BUCKETS_PER_CHOICE)


def _widened(widths: Sequence[int], wanted: Sequence[int], most: int) -> list[int]:
    """Widen fields in turn, a bit each, towards what is wanted while all together have at most so many bits."""
    found = list(widths)
    while True:
        before = sum(found)
        for stage in Stage:
            if found[stage] < wanted[stage] and sum(found) < most:
                found[stage] += 1
        if sum(found) == before:
            return found


def _layout(fields: Sequence[PortField]) -> SteeringLayout:
    """Return the layout of fields from the top bit on."""
    found, top = [], PORT_BITS
    for field in fields:
        top -= field.width
        found.append(
            PortField(shift=top, width=field.width, reserve_bits=field.reserve_bits, first_bits=field.first_bits)
        )
    return SteeringLayout(fields=(found[0], found[1], found[2], found[3]))


def _wanted_extra(weight_sets: set[tuple[int, ...]]) -> int:
    """Return the bits beyond the home bits that an even (or weighted) split needs."""
    exact = all(len(set(w)) <= 1 and len(w) & (len(w) - 1) == 0 for w in weight_sets)
    return 0 if exact else _bits(BUCKETS_PER_CHOICE)


def _least_width(weights: tuple[int, ...]) -> int:
    """Return the bits that a field needs so that the lightest choice has one value."""
    heavy = -(-sum(weights) // min(weights))
    return max(_bits(len(weights)), min(_bits(heavy), _bits(len(weights)) + 3))
