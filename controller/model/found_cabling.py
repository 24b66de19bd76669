"""Describe cables as they were found, and the fabric that has them so; its file stays what it is.

A fabric in force with such cables also has those of its file, `Fabric.described`, so that it can return to them.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from heddle.controller.model.fabric import Cable, Fabric


class Rejoined(NamedTuple):
    """Cables with plugs in each other's ports or a spare one: the ids of those that are gone, and what is there now."""

    gone: tuple[str, ...]
    cables: tuple[Cable, ...]


def with_found(fabric: Fabric, found: Iterable[Rejoined]) -> Fabric:
    """Return the fabric with cables as they were found; that of its file where these are as it describes them."""
    instead = {gone: cable for each in found for gone, cable in zip(each.gone, each.cables, strict=True)}
    cables = tuple(instead.get(cable.id, cable) for cable in fabric.cables)
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

    It must not use a spare port that has a plug. Rates are those that the file has for the lower ports.
    """
    differing = _differing(in_force)
    own = {cable.lower: cable for cable in file.cables} if differing else {}
    spare = {port for _, cable in differing for port in (cable.lower, cable.upper)}
    spare -= {port for described, _ in differing for port in (described.lower, described.upper)}
    if not spare.isdisjoint(file.cable_by_port.keys() | file.nic_by_port.keys()):
        return file
    found = []
    for described, cable in differing:
        new = own.get(described.lower)
        if new is None or new.upper != described.upper:
            return file
        found.append((new.id, replace(cable, capacity_bps=new.capacity_bps)))
    return with_found(file, [Rejoined(*map(tuple, zip(*found, strict=True)))]) if found else file


def _differing(fabric: Fabric) -> list[tuple[Cable, Cable]]:
    """Return the cables of the file that were found otherwise, each with the one in its place."""
    pairs = zip(fabric.described, fabric.cables, strict=True) if fabric.described else ()
    return [(described, cable) for described, cable in pairs if described.id != cable.id]
