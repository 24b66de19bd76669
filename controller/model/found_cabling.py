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
    found = tuple(found)
    gone = {name for each in found for name in each.gone}
    at = {cable.lower: cable for each in found for cable in each.cables}
    cables = tuple(at[cable.lower] if cable.id in gone else cable for cable in fabric.cables)
    described = fabric.described or fabric.cables
    return replace(fabric, cables=cables, described=() if cables == described else described, port_layout=None)


def as_described(fabric: Fabric) -> Fabric:
    """Return the fabric with the cables of its file."""
    return replace(fabric, cables=fabric.described, described=()) if fabric.described else fabric


def as_found(fabric: Fabric) -> frozenset[str]:
    """Return the ids of the cables that the file does not have: those that were found."""
    pairs = zip(fabric.cables, fabric.described, strict=True) if fabric.described else ()
    return frozenset(cable.id for cable, described in pairs if cable.upper != described.upper)


def with_cables_found(file: Fabric, in_force: Fabric) -> Fabric:
    """Return the fabric of another file with what was found in the one in force, as far as the file has its cables."""
    then = set(in_force.described)
    new, now = {cable.lower: cable for cable in file.cables}, {cable.lower: cable for cable in in_force.cables}
    gone = then - {*in_force.cables}
    if not gone or any(new.get(cable.lower) != cable for cable in gone):
        return file
    return with_found(file, [Rejoined(tuple(cable.id for cable in gone), tuple(now[cable.lower] for cable in gone))])
