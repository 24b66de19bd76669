"""Read cabling listed by the fabric's own names: `heard: {leaf1:1: spine1:1, leaf1:65: h1-n0}`, `down: [leaf1:2]`."""

from collections.abc import Mapping
from typing import NamedTuple

from heddle.controller.cabling.heard import Neighbour
from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric, PortRef

KEYS = {"heard", "down"}
MAX_PROBLEMS = 20


class Listed(NamedTuple):
    """What ports hear, and which have no carrier; None where no list says so."""

    heard: dict[PortRef, Neighbour]
    down: frozenset[PortRef] | None


def listed(document: Mapping[str, object], fabric: Fabric) -> Listed:
    """Return what a document lists; raises InputError with all problems: unknown keys, switches, what is no port."""
    problems = [f"{key}: unknown key; must be heard or down" for key in document if key not in KEYS]
    heard: dict[PortRef, Neighbour] = {}
    down: set[PortRef] = set()
    entries, without = document.get("heard", {}), document.get("down", [])
    if not isinstance(entries, Mapping):
        raise InputError("heard: must be a mapping of ports to what they hear, such as leaf1:1: spine1:1")
    if not isinstance(without, list):
        raise InputError("down: must be a list of ports such as leaf1:1")
    for text, far in entries.items():
        try:
            port = _port(text, fabric)
            if port in heard:
                raise InputError("this port is listed twice")
            heard[port] = _neighbour(far, fabric)
        except InputError as error:
            problems.append(f"heard.{str(text)[:80]}: {error}")
    for text in without:
        try:
            down.add(_port(text, fabric))
        except InputError as error:
            problems.append(f"down: {str(text)[:80]}: {error}")
    if problems:
        more = [f"(+{len(problems) - MAX_PROBLEMS} more)"] if len(problems) > MAX_PROBLEMS else []
        raise InputError(*problems[:MAX_PROBLEMS], *more)
    return Listed(heard, frozenset(down) if "down" in document else None)


def _port(text: object, fabric: Fabric) -> PortRef:
    switch, _, digits = text.rpartition(":") if isinstance(text, str) else ("", "", "")
    if not digits.isascii() or not digits.isdigit() or not 0 < len(digits) < 10:
        raise InputError("must be a port such as leaf1:1")
    if switch not in fabric.switch_by_id:
        raise InputError("the fabric has no such switch")
    return PortRef(switch, int(digits))


def _neighbour(far: object, fabric: Fabric) -> Neighbour:
    if not isinstance(far, str) or not far:
        raise InputError("must be a port such as spine1:1, or a NIC")
    if far in fabric.nic_by_id:
        return Neighbour(switch="", port=None, nic=far)
    switch, _, digits = far.rpartition(":")
    if switch and digits.isascii() and digits.isdigit() and len(digits) < 10:
        return Neighbour(switch=switch, port=int(digits))
    return Neighbour(switch=far, port=None)
