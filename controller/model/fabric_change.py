"""Compare two fabrics by the ids of their parts: what differs, what of it harms running flows, what looks renamed.

Ports are compared by the layout of the first fabric, which is that of jobs that run. Nothing is known of jobs here: a
change is harmful if some flow could notice it.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from heddle.controller.model.address import ipv6_text
from heddle.controller.model.fabric import Cable, Fabric, Nic, PortRef, SteeredBy, Switch
from heddle.controller.model.health import Health
from heddle.controller.model.port_layout import Reserve
from heddle.controller.model.port_meaning import too_many
from heddle.controller.model.srv6 import Sids
from heddle.controller.model.srv6_settings import Style
from heddle.controller.model.steering import choices_in, layout_of

Part = TypeVar("Part", Switch, Cable, Nic)


class Changed(NamedTuple):
    """A part that both fabrics have, with a value that differs: bit/s, datapath id, role, port, or cable id."""

    id: str
    was: Any
    now: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Ids of parts that one of the fabrics has alone."""

    switches: tuple[str, ...] = ()
    cables: tuple[str, ...] = ()
    nics: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricChange:
    """What differs between two fabrics; everything is empty where nothing does.

    `recabled` are cables of which one plug is elsewhere now: they are neither added nor removed. `displaced` and
    `beyond` are texts: cables that ports of running flows would select no more, and those beyond the ports' room.
    `others` are settings by which no flow moves, under their names in the fabric file.
    """

    added: Parts
    removed: Parts
    recabled: tuple[Changed, ...] = ()
    rates: tuple[Changed, ...] = ()
    datapath_ids: tuple[Changed, ...] = ()
    roles: tuple[Changed, ...] = ()
    moved_nics: tuple[Changed, ...] = ()
    addresses: tuple[Changed, ...] = ()
    whole: tuple[Changed, ...] = ()
    others: tuple[Changed, ...] = ()
    displaced: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()
    renamed: tuple[str, ...] = ()

    @property
    def is_none(self) -> bool:
        """Return whether nothing differs."""
        return self == FabricChange(added=Parts(), removed=Parts())

    @property
    def slower(self) -> tuple[Changed, ...]:
        """Return cables and NICs with a lower rate than before."""
        return tuple(each for each in self.rates if each.now < each.was)

    @property
    def harms(self) -> tuple[str, ...]:
        """Return a text for each kind of change that running flows could notice; empty where they cannot."""
        counts = (
            (len(self.removed.switches), "switch", "es", "gone"),
            (len(self.removed.cables), "cable", "s", "gone"),
            (len(self.removed.nics), "NIC", "s", "gone"),
            (len(self.recabled), "cable", "s", "plugged in elsewhere"),
            (len(self.slower), "cable or NIC", "s", "slower"),
            (len(self.roles), "switch", "es", "of another role"),
            (len(self.moved_nics), "NIC", "s", "at another port"),
            (len(self.addresses), "NIC", "s", "of another address"),
        )
        found = [f"{count} {name}{end if count > 1 else ''} {what}" for count, name, end, what in counts if count]
        found += [f"{each.id} is {each.now}, was {each.was}" for each in self.whole]
        return (*found, *self.displaced[:1], *self.beyond[:1], *self.renamed)


def changes_between(before: Fabric, after: Fabric) -> FabricChange:
    """Return what differs between two fabrics."""
    switches, cables, nics = (
        _Sides({part.id: part for part in then}, {part.id: part for part in now})
        for then, now in ((before.switches, after.switches), (before.cables, after.cables), (before.nics, after.nics))
    )
    recabled = _recabled(cables)
    hosts, hosts_now = (dict.fromkeys(nic.host for nic in each.nics) for each in (before, after))
    was, now = {each.was for each in recabled}, {each.now for each in recabled}
    whole = (
        Changed("the fabric's name", before.name, after.name),
        Changed("steering", before.steered_by.value, after.steered_by.value),
        Changed("srv6", _srv6(before), _srv6(after)),
        *(
            each._replace(id=f"the datapath id of {each.id}")  # the uSID of the switch
            for each in (
                switches.differing("datapath_id") if before.steered_by is after.steered_by is SteeredBy.SRV6 else ()
            )
        ),
    )
    return FabricChange(
        added=Parts(
            switches=switches.added,
            cables=_without(cables.added, now),
            nics=nics.added,
            hosts=_without(hosts_now, hosts),
        ),
        removed=Parts(
            switches=switches.removed,
            cables=_without(cables.removed, was),
            nics=nics.removed,
            hosts=_without(hosts, hosts_now),
        ),
        recabled=recabled,
        rates=(*cables.differing("capacity_bps"), *nics.differing("capacity_bps")),
        datapath_ids=switches.differing("datapath_id"),
        roles=switches.differing("role"),
        moved_nics=nics.differing("port"),
        addresses=(*nics.differing("ip"), *nics.differing("mac")),
        whole=tuple(each for each in whole if each.was != each.now),
        others=tuple(_others(before, after, switches, nics)),
        displaced=tuple(_displaced(before, after)) if _reads_ports(before, after) else (),
        beyond=too_many(after, layout_of(before)) if _reads_ports(before, after) else (),
        renamed=tuple(_renamed(switches, nics)),
    )


class _Sides:
    """The parts of one kind of both fabrics, by id."""

    def __init__(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        self.before, self.after = before, after
        self.added = tuple(name for name in after if name not in before)
        self.removed = tuple(name for name in before if name not in after)

    def differing(self, field: str) -> tuple[Changed, ...]:
        """Return the parts of both of which a field differs."""
        pairs = ((name, getattr(part, field), self.after.get(name)) for name, part in self.before.items())
        found = ((name, was, getattr(part, field)) for name, was, part in pairs if part is not None)
        return tuple(Changed(name, was, now) for name, was, now in found if was != now)


_OF_NICS = ("host", "rail", "network", "gpus", "nvlink_domain", "paths_per_flow")


def _others(before: Fabric, after: Fabric, switches: "_Sides", nics: "_Sides") -> Iterator[Changed]:
    """Yield other settings of a part, or of the whole, that differ."""
    for sides, fields in ((switches, ("rule_budget",)), (nics, _OF_NICS)):
        for field in fields:
            yield from (each._replace(id=f"{field} of {each.id}") for each in sides.differing(field))
    for name in ("failed", "reserve", "port_addresses"):
        was, now = getattr(before, name), getattr(after, name)
        if was != now:
            yield Changed(name, _brief(was), _brief(now))


def _brief(value: object) -> str:
    """Return a setting of the whole fabric in a few words."""
    if isinstance(value, Health):
        parts = (*sorted(value.down_switches), *sorted(value.down_cables), *sorted(value.down_nics))
        return f"{parts[0]} and {len(parts) - 1} more" if len(parts) > 1 else "".join(parts) or "none"
    if isinstance(value, Reserve):
        return " ".join(f"{name}={number}" for name, number in value._asdict().items() if number) or "none"
    assert isinstance(value, tuple)
    return f"{len(value)} listed"


def _srv6(fabric: Fabric) -> str:
    """Return the addressing of paths in a few words, with all that every address follows from."""
    block, style, last_hop = fabric.srv6
    room = f", {Sids(fabric).ports_per_switch} uSIDs a switch" if style is Style.CABLE else ""
    return f"block {ipv6_text(block << 96)}/32, style {style}, last hop {last_hop}{room}"


def _without(names: Iterable[str], others: Container[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in others)


def _reads_ports(before: Fabric, after: Fabric) -> bool:
    return before.steered_by is after.steered_by is SteeredBy.OPENFLOW


def _recabled(cables: _Sides) -> tuple[Changed, ...]:
    """Return cables that are gone, each with a new one at one of its ports, under the port that both have."""
    new: dict[PortRef, str] = {}
    for name in cables.added:
        new |= {cables.after[name].lower: name, cables.after[name].upper: name}
    taken: set[str] = set()
    found = []
    for name in cables.removed:
        for port in (cables.before[name].lower, cables.before[name].upper):
            other = new.get(port)
            if other is not None and other not in taken:
                taken.add(other)
                found.append(Changed(str(port), name, other))
                break
    return tuple(found)


def _displaced(before: Fabric, after: Fabric) -> Iterator[str]:
    """Yield a text for each switch of which a cable has another place among its choices than before."""
    places = _places(before)
    named: set[str] = set()
    for (switch, towards), cables in _places(after).items():
        was = places.get((switch, towards), {})
        moved = next((name for name, place in cables.items() if was.get(name, place) != place), None)
        if moved is not None and switch not in named:
            named.add(switch)
            yield f"{moved} has place {cables[moved] + 1} among the cables of {switch}, was {was[moved] + 1}"


def _places(fabric: Fabric) -> dict[tuple[str, str], dict[str, int]]:
    """Return the places of cables by switch, and by leaf downwards ("" upwards)."""
    found = {(place, ""): cables for place, _, cables in choices_in(fabric) if " " not in place}
    for switch, groups in fabric.down_groups.items():
        found |= {(switch, leaf): group.cables for group in groups if len(group.cables) > 1 for leaf in group.leaves}
    return {key: {cable.id: place for place, cable in enumerate(cables)} for key, cables in found.items()}


def _renamed(switches: _Sides, nics: _Sides) -> Iterator[str]:
    """Yield what looks as if parts had got other names, a text for each kind."""
    had = {switch.datapath_id: name for name, switch in switches.before.items()}
    taken = [each for each in switches.differing("datapath_id") if had.get(each.now, each.id) != each.id]
    if taken:
        first = taken[0]
        yield (
            f"{len(taken)} of {len(switches.before)} switches have the datapath id of another one "
            f"({first.id} has {first.now:#x}, which was {had[first.now]}'s): list switches with their datapath ids"
        )
    new = {switches.after[name].datapath_id: name for name in switches.added}
    for name in switches.removed:
        if (other := new.get(switches.before[name].datapath_id)) is not None:
            yield f"switch {other} has the datapath id of {name}, which is gone: it looks renamed"
    at = {nics.after[name].ip: name for name in nics.added}
    pairs = [(name, at[nics.before[name].ip]) for name in nics.removed if nics.before[name].ip in at]
    if pairs:
        yield f"{len(pairs)} NICs look renamed: {pairs[0][1]} has the address of {pairs[0][0]}, which is gone"
    moved = nics.differing("port")
    shifts = {each.now.number - each.was.number for each in moved if each.now.switch == each.was.switch}
    if len(moved) > 1 and len(shifts) == 1 and len(moved) == sum(each.now.switch == each.was.switch for each in moved):
        yield (
            f"{len(moved)} of {len(nics.before)} NICs are {abs(next(iter(shifts)))} ports further on their leaves: "
            "`generate` numbers ports anew; list the parts (`heddle fabric show --expand`)"
        )
