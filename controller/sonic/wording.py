"""Word one difference between a switch's configuration and what a plan assumes, or what SONiC accepts."""

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from heddle.controller.sonic.config_db import ConfigDb, Place
from heddle.foundation.traffic_class import TrafficClass


class Effect(IntEnum):
    """What a difference does to planned flows, the worst first. A note is no difference: it is worth knowing."""

    DROPS = 0
    UNMARKED = 1
    OTHER = 2
    NOTE = 3


class Difference(NamedTuple):
    """A field, what it holds (empty: not set), what the plan assumes, and why it does.

    `refused`: SONiC's YANG models accept only what is wanted; the reason is their file. `ports`: the interfaces that
    it was found at, where the row is not one of a port.
    """

    place: Place
    found: str
    wanted: str
    reason: str
    refused: bool = False
    effect: Effect = Effect.OTHER
    ports: tuple[str, ...] = ()

    @property
    def is_note(self) -> bool:
        """Return whether the plan's assumptions hold all the same."""
        return self.effect is Effect.NOTE and not self.refused

    def __str__(self) -> str:
        return f"{self.place}: {self.text()}"

    def text(self) -> str:
        """Return what was found and what is wanted, without the place."""
        if self.is_note:
            return f"{self.found or 'not set'}: {self.reason}"
        party = "SONiC accepts" if self.refused else "the plan assumes"
        return f"{self.found or 'not set'}, {party} {self.wanted}: {self.reason}"


def through(
    config: ConfigDb, named_by: Place, place: Place, wanted: str, reason: str, effect: Effect = Effect.OTHER
) -> Difference:
    """Return a difference of a row that `named_by` refers to; of `named_by` itself where it leads to no row."""
    if config.has(place.table, place.key):
        return Difference(place, config.value(place), wanted, reason, effect=effect)
    wanted = f"a row of {place.table} with {place.field} {wanted}"
    return Difference(named_by, config.value(named_by), wanted, reason, effect=effect)


def listed(classes: Iterable[TrafficClass]) -> str:
    """Return the names of traffic classes as a list: `data, storage and CNPs`."""
    *before, last = (each.name for each in classes)
    return f"{', '.join(before)} and {last}" if before else last
