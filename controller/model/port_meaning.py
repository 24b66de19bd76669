"""Describe what source ports mean in a fabric, small enough to be kept with the state and plain enough to compare.

A planned port selects cables by the layout of its bits and by the home blocks of each switch's choices
(`model.steering`). The description says for which fabric the ports of running jobs were chosen; `differences` says in
words what another file would change, `too_many` which cables are beyond the room of a layout.
"""

from dataclasses import dataclass
from itertools import groupby

from heddle.controller.model.fabric import Fabric, SteeredBy
from heddle.controller.model.port_layout import PortField, Stage, SteeringLayout, blocks, home_size
from heddle.controller.model.steering import choices_in, layout_for, layout_of

VERSION = 1
GBPS = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldBits:
    """The bits of one stage's field."""

    shift: int
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Places whose cables are alike: their rates as runs (cables, bit/s) in order, and the values of a home block.

    A place is a switch for its cables upwards, and `SWITCH LEAF` for its cables down to that leaf and those with it.
    """

    stage: Stage
    rates: tuple[tuple[int, int], ...]
    home: int
    places: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PortMeaning:
    """What ports mean: the field of each stage, and every place where a port may have a choice.

    With equal descriptions every port leads where it did. `fabric` is the fabric's digest.
    """

    version: int = VERSION
    steering: SteeredBy
    fields: tuple[FieldBits, ...]
    switches: tuple[str, ...]
    choices: tuple[Choices, ...]
    fabric: str


def meaning_of(fabric: Fabric) -> PortMeaning:
    """Describe what ports mean in a fabric."""
    layout = layout_of(fabric)
    found: dict[tuple[Stage, tuple[int, ...]], list[str]] = {}
    for place, stage, cables in choices_in(fabric):
        if len(cables) > 1 or stage in (Stage.LEAF_UP, Stage.AGG_UP):
            found.setdefault((stage, tuple(cable.capacity_bps for cable in cables)), []).append(place)
    choices = (
        Choices(stage=stage, rates=_runs(rates), home=home_size(rates, layout.fields[stage]), places=tuple(places))
        for (stage, rates), places in sorted(found.items())
    )
    return PortMeaning(
        steering=fabric.steered_by,
        fields=tuple(FieldBits(shift=field.shift, width=field.width) for field in layout.fields),
        switches=tuple(switch.id for switch in fabric.switches),
        choices=tuple(choices),
        fabric=fabric.digest,
    )


def layout_before(meaning: PortMeaning) -> SteeringLayout:
    """Return a layout by which ports have this meaning, where layouts were not kept yet: with room where there is one.

    In two tiers with equal uplinks, room changes no block. Whether a fabric that grows then takes a flow off its path,
    as its port has bits in the room, is checked as always.
    """
    leaf_up, agg_up, top_down, agg_down = (PortField(shift=bits.shift, width=bits.width) for bits in meaning.fields)
    former = SteeringLayout(fields=(leaf_up, agg_up, top_down, agg_down))
    counts = dict.fromkeys(Stage, 0)
    for choices in meaning.choices:
        counts[choices.stage] = max(counts[choices.stage], len(_weights(choices)))
    for up, down in ((Stage.LEAF_UP, Stage.TOP_DOWN), (Stage.AGG_UP, Stage.AGG_DOWN)):
        counts[down] = max(counts[down], min(counts[up], 1))
    with_room = layout_for([counts[stage] for stage in Stage])
    several = [choices for choices in meaning.choices if len(_weights(choices)) > 1]
    is_same = all(_masks(choices, former) == _masks(choices, with_room) for choices in several)
    return with_room if is_same else former


def _weights(choices: Choices) -> tuple[int, ...]:
    return tuple(bps for count, bps in choices.rates for _ in range(count))


def _masks(choices: Choices, layout: SteeringLayout) -> set[tuple[int, int, int]]:
    """Return the blocks of places as value and mask of the port's bits, and choice."""
    field = layout.fields[choices.stage]
    found = set()
    for block in blocks(_weights(choices), field):
        low = field.shift + field.width - block.length
        found.add((block.value << low, ((1 << block.length) - 1) << low, block.choice))
    return found


def too_many(fabric: Fabric, layout: SteeringLayout) -> tuple[str, ...]:
    """Return a text for every place with more cables than a layout has room for."""
    found = []
    for place, stage, cables in choices_in(fabric):
        room = layout.fields[stage].room
        if len(cables) > room:
            switch, _, leaf = place.partition(" ")
            text = f"{switch} has {_named(len(cables), leaf)}"
            found.append(f"{text}, and the ports of running jobs have room for {room}")
    return tuple(found)


def differences(then: PortMeaning, now: PortMeaning) -> tuple[str, ...]:
    """Return what differs for ports, a text for each place, other numbers of cables first; empty where nothing does.

    New switches, and those that are gone, change nothing by themselves.
    """
    before, after = _by_place(then), _by_place(now)
    both = set(then.switches) & set(now.switches)
    numbers, rates = [], []
    for place in dict.fromkeys((*after, *before)):
        switch, _, leaf = place.partition(" ")
        was, is_now = before.get(place), after.get(place)
        if switch not in both or (was and (was.stage, was.rates)) == (is_now and (is_now.stage, is_now.rates)):
            continue
        if _count(was, leaf) != _count(is_now, leaf) or was is None or is_now is None:
            text = f"{switch} has {_named(_count(is_now, leaf), leaf)}, ports were chosen for {_count(was, leaf)}"
            numbers.append(text)
        elif was.home == is_now.home:
            continue
        elif _listed(was) == _listed(is_now):
            rates.append(f"{switch} has its {_named(_count(is_now, leaf), leaf)} with their rates in another order")
        else:
            text = f"{switch} has {_named(_count(is_now, leaf), leaf)} of {_listed(is_now)}"
            rates.append(f"{text}, ports were chosen for {_listed(was)}")
    if not numbers and not rates and then.fields != now.fields:
        return ("the bits of a port are divided otherwise",)
    return (*numbers, *rates)


def _by_place(meaning: PortMeaning) -> dict[str, Choices]:
    return {place: choices for choices in meaning.choices for place in choices.places}


def _count(choices: Choices | None, leaf: str) -> int:
    """Return the number of cables at a place; a single cable down is no choice, and not listed."""
    if choices is None:
        return 1 if leaf else 0
    return sum(count for count, _ in choices.rates)


def _named(count: int, leaf: str) -> str:
    plural = "s" * (count != 1)
    return f"{count} cable{plural} down to {leaf}" if leaf else f"{count} uplink{plural}"


def _listed(choices: Choices) -> str:
    """Return the rates, the highest first: `3 x 100 and 1 x 50 Gbit/s`."""
    cables: dict[int, int] = {}
    for count, bps in choices.rates:
        cables[bps] = cables.get(bps, 0) + count
    return " and ".join(f"{cables[bps]} x {bps / GBPS:g}" for bps in sorted(cables, reverse=True)) + " Gbit/s"


def _runs(rates: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    return tuple((len(list(run)), bps) for bps, run in groupby(rates))
