"""Write path sets as explicit path numbers for htsim, with the connection matrix that they belong to.

Path files have a line for each flow: source, destination, the number of entries, then the path of each entry. Hosts are
numbered in the order of the fabric file, as htsim's fat trees number theirs. A path is the index of the upper switch
within its pod, or of the spine, + 64 * the index of the core among those of that switch; a path inside a leaf is 0.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from heddle.controller.model.error import InputError
from heddle.controller.model.fabric import Fabric, Role

CORE_STEP = 64


class SprayedFlow(NamedTuple):
    """A flow, its bytes, and by entry of its list the links of the path."""

    src_nic: str
    dst_nic: str
    size_bytes: int
    entries: Sequence[tuple[str, ...]]


class PathNumbers:
    """The numbers of the paths of a fabric; raises InputError for a fabric that has none."""

    def __init__(self, fabric: Fabric) -> None:
        """Number the upper switches of each leaf, and the cores of each upper switch, in the order of the fabric."""
        order = {switch.id: number for number, switch in enumerate(fabric.switches)}
        self._fabric, self._index = fabric, dict[tuple[str, str], int]()
        for switch in fabric.switches:
            above = sorted((cable.upper.switch for cable in fabric.up_choices[switch.id]), key=order.__getitem__)
            if len(set(above)) < len(above):
                raise InputError(f"{switch.id} has parallel cables to one switch: htsim has no number for each")
            if switch.role is Role.LEAF and len(above) > CORE_STEP:
                raise InputError(f"{switch.id} has {len(above)} uplinks; path numbers hold {CORE_STEP}")
            self._index |= {(switch.id, upper): index for index, upper in enumerate(above)}

    def of(self, links: Sequence[str]) -> int:
        """Return the number of a path."""
        cables = [self._fabric.cable_by_link[link] for link in links[1:-1]]
        found = 0
        for place, cable in enumerate(cables[: len(cables) // 2]):
            found += self._index[cable.lower.switch, cable.upper.switch] * (CORE_STEP if place else 1)
        return found


def path_lines(fabric: Fabric, flows: Sequence[SprayedFlow]) -> Iterator[str]:
    """Yield a line for each flow with the numbers of its paths; raises InputError for two flows of one pair."""
    numbers, host = PathNumbers(fabric), _hosts(fabric)
    seen: set[tuple[str, str]] = set()
    for flow in flows:
        if (flow.src_nic, flow.dst_nic) in seen:
            raise InputError(f"two flows from {flow.src_nic} to {flow.dst_nic}: htsim has one list for each pair")
        seen.add((flow.src_nic, flow.dst_nic))
        paths = " ".join(str(numbers.of(links)) for links in flow.entries)
        yield f"{host[flow.src_nic]} {host[flow.dst_nic]} {len(flow.entries)} {paths}"


def matrix_lines(fabric: Fabric, flows: Sequence[SprayedFlow]) -> Iterator[str]:
    """Yield the connection matrix: a line for each flow, all of which start at 0; raises InputError without bytes."""
    host = _hosts(fabric)
    yield f"Nodes {len(fabric.nics)}"
    yield f"Connections {len(flows)}"
    for number, flow in enumerate(flows, 1):
        if not flow.size_bytes:
            raise InputError(f"the flow from {flow.src_nic} to {flow.dst_nic} has no bytes; a simulator needs them")
        yield f"{host[flow.src_nic]}->{host[flow.dst_nic]} id {number} start 0 size {flow.size_bytes}"


def _hosts(fabric: Fabric) -> dict[str, int]:
    return {nic.id: number for number, nic in enumerate(fabric.nics)}
