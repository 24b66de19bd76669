"""Word one difference between a switch's configuration and what a plan assumes, or what SONiC accepts."""

from collections.abc import Iterable
from typing import NamedTuple

from heddle.controller.sonic.config_db import Place
from heddle.foundation.traffic_class import TrafficClass


class Difference(NamedTuple):
    """A field, what it holds (empty: not set), what the plan assumes, and why it does.

    `refused`: SONiC's YANG models accept only what is wanted; the reason is their file.
    """

    place: Place
    found: str
    wanted: str
    reason: str
    refused: bool = False

    def __str__(self) -> str:
        party = "SONiC accepts" if self.refused else "the plan assumes"
        return f"{self.place}: {self.found or 'not set'}, {party} {self.wanted}: {self.reason}"


def listed(classes: Iterable[TrafficClass]) -> str:
    """Return the names of traffic classes as a list: `data, storage and CNPs`."""
    *before, last = (each.name for each in classes)
    return f"{', '.join(before)} and {last}" if before else last
