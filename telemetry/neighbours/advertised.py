"""What a daemon stores of one LLDP frame (IEEE 802.1AB): who heard it, and how its sender names itself."""

from dataclasses import dataclass, field

MAX_NAME_LENGTH = 255
"""An id of LLDP has at most 255 octets (IEEE 802.1AB 8.5.2.3, 8.5.3.3). A longer one names nothing."""
MAX_NEIGHBOURS = 200_000
"""Frames that are read: more than twice as many as the ports of the largest fabric of a test."""


class NeighboursError(ValueError):
    """A document is not what a daemon prints of its neighbours; the text is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advertised:
    """A frame that `node` heard at `interface`; `ports` are the ids and descriptions of the port that sent it.

    `age_s` is the time since the daemon first had it so; None where that is not known.
    """

    node: str
    interface: str
    system: str = ""
    chassis: str = ""
    ports: tuple[str, ...] = ()
    age_s: int | None = None

    @property
    def has_names(self) -> bool:
        """Return whether the sender names itself, by names of a sensible length."""
        names = (self.system, self.chassis, *self.ports)
        return any(names) and all(len(name) <= MAX_NAME_LENGTH for name in names)


@dataclass(slots=True, kw_only=True)
class Collected:
    """All that sources have: frames, and by node and interface whether a port has carrier, where that is known."""

    advertised: list[Advertised] = field(default_factory=list)
    carrier: dict[tuple[str, str], bool] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)
    """Nodes that did not reply, each with the reason."""

    def add(self, other: "Collected") -> None:
        """Take over what another source has."""
        self.advertised += other.advertised
        self.carrier |= other.carrier
        self.unread += other.unread
