"""The settings of a fabric whose packets name their paths by SRv6 uSIDs: the key `srv6` of the fabric file."""

from enum import StrEnum
from typing import NamedTuple


class Style(StrEnum):
    """What the uSIDs of a path name."""

    UA = "ua"
    """The port by which each switch sends: uA, `End.X` with the NEXT-C-SID flavour (RFC 9800)."""
    UN = "un"
    """Each switch after the first: uN, `End` with that flavour. Parallel cables cannot be distinguished."""
    CABLE = "cable"
    """The end of each cable, by uN alone: for Linux before 6.6, which has no `End.X` of that flavour."""


class LastHop(StrEnum):
    """What a leaf does with the uSID of a NIC's port."""

    ROUTE = "route"
    """A plain route: the NIC receives packets with the uSID of its port in front."""
    UA = "ua"
    """A uA, which shifts it away: a constant uSID of hosts follows it, one uSID more."""


class Srv6(NamedTuple):
    """The addressing of a fabric: `block` is the first 32 bits of every address."""

    block: int = 0xFCBB_0000
    style: Style = Style.UA
    last_hop: LastHop = LastHop.ROUTE


DEFAULT_SRV6 = Srv6()
