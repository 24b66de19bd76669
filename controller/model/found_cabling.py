"""Describe cables as they were found, and the fabric that has them so; its file stays what it is.

A fabric in force with such cables also has those of its file, `Fabric.described`, so that it can return to them.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from heddle.controller.model.fabric import Cable, Fabric


class Rejoined(NamedTuple):
    """Cables whose plugs are in each other's ports: the ids of those that are gone, and what joins these ports now."""

    gone: tuple[str, ...]
    cables: tuple[Cable, ...]


def with_found(fabric: Fabric, found: Iterable[Rejoined]) -> Fabric:
    """Return the fabric with cables as they were found; that of its file where these are as it describes them."""
    at = {cable.lower: cable for each in found for cable in each.cables}
    cables = tuple(at.get(cable.lower, cable) for cable in fabric.cables)
    described = fabric.described or fabric.cables
    return replace(fabric, cables=cables, described=() if cables == described else described, port_layout=None)


def as_described(fabric: Fabric) -> Fabric:
    """Return the fabric with the cables of its file."""
    return replace(fabric, cables=fabric.described, described=()) if fabric.described else fabric


def as_found(fabric: Fabric) -> frozenset[str]:
    """Return the ids of the cables that the file does not have: those that were found."""
    return frozenset(cable.id for _, cable in _differing(fabric))


def with_cables_found(file: Fabric, in_force: Fabric) -> Fabric:
    """Return the fabric of another file with what was found in the one in force, where the file joins the same ports.

    Rates are those that the file has for the lower ports.
    """
    differing = _differing(in_force)
    own = {cable.lower: cable for cable in file.cables} if differing else {}
    found = []
    for described, cable in differing:
        new = own.get(described.lower)
        if new is None or new.upper != described.upper:
            return file
        found.append((new.id, replace(cable, capacity_bps=new.capacity_bps)))
    return with_found(file, [Rejoined(*map(tuple, zip(*found, strict=True)))]) if found else file


def _differing(fabric: Fabric) -> list[tuple[Cable, Cable]]:
    """Return the cables of the file that were found otherwise, each with the one at its lower port."""
    pairs = zip(fabric.described, fabric.cables, strict=True) if fabric.described else ()
    return [(described, cable) for described, cable in pairs if described.upper != cable.upper]
