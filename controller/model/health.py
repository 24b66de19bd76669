"""What of a fabric is out of use right now; the fabric itself never changes."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Cables and switches that must carry nothing new.

    `down_cables` holds `Cable.id`s and `down_nics` NIC ids whose own cable is out of use;
    a switch in `down_switches` takes all of its cables with it.
    """

    down_cables: frozenset[str] = field(default_factory=frozenset)
    down_switches: frozenset[str] = field(default_factory=frozenset)
    down_nics: frozenset[str] = field(default_factory=frozenset)

    @property
    def whole(self) -> bool:
        """Say whether nothing is out of use."""
        return not (self.down_cables or self.down_switches or self.down_nics)

    def union(self, other: "Health") -> "Health":
        """Join two views: what either holds to be down is down."""
        return Health(
            down_cables=self.down_cables | other.down_cables,
            down_switches=self.down_switches | other.down_switches,
            down_nics=self.down_nics | other.down_nics,
        )
