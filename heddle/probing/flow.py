"""Input and result of a port search: planned flows, and the source ports that lead over their paths."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Wanted(NamedTuple):
    """A flow and its planned path: directed links from the source NIC to the destination NIC; addresses as integers.

    A `port` that the flow has already is confirmed, and no other is sought.
    """

    flow_id: str
    src_ip: int
    dst_ip: int
    path: tuple[str, ...]
    port: int = 0

    @property
    def top(self) -> int:
        """Return the hop at which a probe expires at the top of the path; 1 where both NICs are on one leaf."""
        return len(self.path) // 2


class Found(NamedTuple):
    """The result of a search: every flow has a port, or a reason why it has none."""

    ports: Mapping[str, int]
    """UDP source ports by flow id; every hop of each was seen on the flow's path, other than within one leaf."""
    missing: Mapping[str, str]
    """By flow id: why no port was found. Nothing is known about the path of such a flow."""
    probes: int
    """The probes that were sent, those without a reply included."""
    reached: Mapping[str, frozenset[str]] = MappingProxyType({})
    """By the id of a missing flow: the links at the top of the fabric on which probes between its NICs were seen."""
    elsewhere: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """By the id of a missing flow whose own port leads over another path: that path; empty if a hop was silent."""
