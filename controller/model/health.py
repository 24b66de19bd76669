"""Describe the failed parts of a fabric; the fabric itself never changes."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Cables, switches and NICs that are out of use.

    `down_cables` holds `Cable.id`s and `down_nics` NIC ids whose own cable is out of use;
    a switch in `down_switches` takes all of its cables with it. Nothing is forwarded to `quarantined_nics`.
    """

    down_cables: frozenset[str] = field(default_factory=frozenset)
    down_switches: frozenset[str] = field(default_factory=frozenset)
    down_nics: frozenset[str] = field(default_factory=frozenset)
    quarantined_nics: frozenset[str] = field(default_factory=frozenset)

    @property
    def whole(self) -> bool:
        """Return whether nothing is out of use."""
        return not (self.down_cables or self.down_switches or self.down_nics or self.quarantined_nics)

    def union(self, other: "Health") -> "Health":
        """Return the union of two states: down in either is down."""
        return Health(
            down_cables=self.down_cables | other.down_cables,
            down_switches=self.down_switches | other.down_switches,
            down_nics=self.down_nics | other.down_nics,
            quarantined_nics=self.quarantined_nics | other.quarantined_nics,
        )
