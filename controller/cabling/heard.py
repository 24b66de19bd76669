"""What a switch port hears of the device at the other end of its cable (LLDP, IEEE 802.1AB)."""

from collections.abc import Mapping
from dataclasses import dataclass

from heddle.controller.model.fabric import PortRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbour:
    """The far end: a port of a switch, or a NIC by its id. Names that the fabric lacks are kept: a stranger.

    `port` is None where the number is not known. A host of which the NIC is not known is a `nic` of the host's id.
    """

    switch: str
    port: int | None
    nic: str = ""


Hearings = Mapping[PortRef, Neighbour]
"""What is heard at each switch port. A port that hears nothing is not in it, which says nothing about its cable."""
