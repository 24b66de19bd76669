"""The draft that a reader of a foreign format fills: switches, NICs and links by their names in the source.

A draft only records and counts. Tiers, ids, ports and addresses follow later, in the same way for
every format (`tiers`, `build`). Limits are counted while a draft grows, so that no source can grow it past them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from heddle.controller.config.fabric_file import GenerateShape
from heddle.controller.config.foreign.hints import Hint
from heddle.controller.config.text.complaint import one_line, shown
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric
from heddle.controller.model.limit import MAX_CABLE_BPS, MAX_CABLES, MAX_NIC_BPS, MAX_NICS, MAX_SWITCHES


class Options(NamedTuple):
    """Values that the caller supplies for what a source does not specify; rates in bit/s."""

    nic_bps: int = 100 * 10**9
    uplink_bps: int | None = None
    aggs_per_pod: int = 1
    cores: int | None = None
    roles: Mapping[str, Hint] = MappingProxyType({})
    """By name in the source, what the caller says that a node is."""

    @property
    def cable_bps(self) -> int:
        """Return the rate of a link between switches."""
        return self.nic_bps if self.uplink_bps is None else self.uplink_bps


class Imported(NamedTuple):
    """An imported fabric, a line for each assumption and omission, and its `generate` if it is regular."""

    format: str
    fabric: Fabric
    assumed: tuple[str, ...]
    left_out: tuple[str, ...]
    generate: GenerateShape | None = None


class Node(NamedTuple):
    """A node of the source: `forwards` if it is of a switch's kind, False if of a host's, None if of neither."""

    place: str
    forwards: bool | None
    hint: Hint | None = None
    bridge: bool = False


class Wire(NamedTuple):
    """A link between two nodes, with the interface at each end."""

    a: str
    b: str
    a_interface: str
    b_interface: str
    place: str

    @property
    def ends(self) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return both ends, each a node and an interface."""
        return (self.a, self.a_interface), (self.b, self.b_interface)


class DraftSwitch(NamedTuple):
    """A switch; `tier` is None if the structure determines it.

    `hint` counts where the structure leaves a choice. A `bridge` (or firewall) that hosts do not need is left out.
    """

    place: str
    tier: int | None = None
    hint: Hint | None = None
    bridge: bool = False


class DraftPlug(NamedTuple):
    """A NIC of a host in a switch, with the GPUs that it serves."""

    host: str
    switch: str
    rate_bps: int
    place: str
    rail: int
    gpus: tuple[int, ...] = ()
    interface: str = ""
    """The switch's interface, empty if the source names none."""


class DraftLink(NamedTuple):
    """A cable between two switches, with their interfaces if the source names them."""

    a: str
    b: str
    rate_bps: int
    place: str
    a_interface: str = ""
    b_interface: str = ""


@dataclass(slots=True, kw_only=True)
class Draft:
    """A fabric in the names of its source. `source` is the file's name, a `place` a line or key path in it."""

    source: str
    fabric_name: str = ""
    switches: dict[str, DraftSwitch] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    plugs: list[DraftPlug] = field(default_factory=list)
    links: list[DraftLink] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    pinned: dict[str, Hint] = field(default_factory=dict)
    """Roles of switches that the caller has given; they count before the structure."""
    _left_out: dict[str, tuple[int, str]] = field(default_factory=dict)

    def refuse(self, place: str, text: str) -> NoReturn:
        """Raise InputError for a place of the source."""
        refuse(self.source, place, text)

    def add_switch(
        self, name: str, place: str, tier: int | None = None, hint: Hint | None = None, bridge: bool = False
    ) -> None:
        """Record a switch."""
        self.switches[name] = DraftSwitch(place, tier, hint, bridge)
        if len(self.switches) > MAX_SWITCHES:
            self.refuse(place, f"more than {MAX_SWITCHES:,} switches, the most a fabric may have")

    def add_plug(self, plug: DraftPlug) -> None:
        """Record a NIC."""
        check_rate(self.source, plug.place, plug.rate_bps, MAX_NIC_BPS)
        self.plugs.append(plug)
        if len(self.plugs) > MAX_NICS:
            self.refuse(plug.place, f"more than {MAX_NICS:,} NICs, the most a fabric may have")

    def add_link(self, link: DraftLink) -> None:
        """Record a cable between switches."""
        check_rate(self.source, link.place, link.rate_bps, MAX_CABLE_BPS)
        self.links.append(link)
        if len(self.links) > MAX_CABLES:
            self.refuse(link.place, f"more than {MAX_CABLES:,} links between switches, the most a fabric may have")

    def leave_out(self, what: str, place: str, count: int = 1) -> None:
        """Count a part of the source that the fabric file will not have."""
        before, first = self._left_out.get(what, (0, place))
        self._left_out[what] = (before + count, first)

    def left_out(self) -> tuple[str, ...]:
        """Return a line for each kind of part that was left out."""
        return tuple(
            one_line(f"left out {count:,} x {what}; the first at {located(self.source, place)}")
            for what, (count, place) in self._left_out.items()
        )


def located(source: str, place: str) -> str:
    """Return a place as text: `FILE:LINE` for a line, `FILE: key.path` for a key."""
    return f"{source}:{place}" if place.isdecimal() else f"{source}: {place}" if place else source


def refuse(source: str, place: str, text: str) -> NoReturn:
    """Raise InputError with one line that names the place."""
    raise InputError(one_line(f"{located(source, place)}: {text}"))


def check_rate(source: str, place: str, rate_bps: int, max_bps: int) -> None:
    """Raise InputError for a rate that a fabric file cannot hold."""
    if rate_bps < 1:
        refuse(source, place, "a link's rate must be at least 1 bit/s")
    if rate_bps > max_bps:
        refuse(source, place, f"a rate of {shown(rate_bps // 10**9)} Gbit/s; at most {max_bps // 10**9:,} are allowed")
