"""The identity of a fabric's journal in etcd: what its keys say of it, and what a controller remembers.

An etcd's own cluster id is not enough: members that start with an empty data directory and the same options have the
same one, and so has a snapshot that is restored with them. So a journal also has an id of its own, drawn once.
"""

import json
from dataclasses import dataclass, replace

from heddle.controller.runtime.ports import EPOCH_SHIFT

MAX_BEFORE = 16
"""The journals that one follows; older ones are forgotten."""
JOURNAL_BYTES = 8
TAG_BITS = 16
"""The lowest bits of a generation are of the journal's id: terms of two etcds with one revision differ by them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What the key `cluster` holds: the etcd that the keys were written in, the journal's id, those that it follows."""

    cluster: int
    journal: str
    before: tuple[str, ...] = ()

    def follows(self, journal: str) -> bool:
        """Return whether a controller of a journal may use this one: it is the same, or was adopted from it."""
        return journal == self.journal or journal in self.before


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a controller remembers of the etcd that it has used, and the addresses that it used then."""

    cluster: int
    journal: str
    revision: int
    endpoints: tuple[str, ...]
    epoch: int = 1

    @property
    def highest(self) -> int:
        """Return a number that no generation of the journal has passed, as far as is known here."""
        return (epoch_reached(self.epoch, self.revision) + 1 << EPOCH_SHIFT) - 1


def encoded(record: Record) -> bytes:
    """Return the value of the key."""
    fields = {"cluster": f"{record.cluster:x}", "journal": record.journal, "before": list(record.before)}
    return json.dumps(fields).encode()


def decoded(value: bytes) -> Record:
    """Return the record in the value of the key; raises ValueError."""
    try:
        found = json.loads(value)
        cluster, journal, before = int(found["cluster"], 16), str(found["journal"]), tuple(map(str, found["before"]))
        int(journal, 16)
    except (KeyError, TypeError, ValueError):
        raise ValueError("it is no identity of a journal") from None
    return Record(cluster=cluster, journal=journal, before=before)


def adopted(record: Record | None, cluster: int, journal: str, replaced: tuple[str, ...] = ()) -> Record:
    """Return the record of a journal that goes on in another etcd, under another id."""
    own = Record(cluster=cluster, journal=journal, before=replaced)
    if record is None:
        return own
    before = dict.fromkeys((*record.before, record.journal, *replaced))
    return replace(own, before=tuple(before)[-MAX_BEFORE:])


def generation(epoch: int, revision: int, record: Record | None) -> int:
    """Return the generation of a term: above all of a lower epoch, or of the same epoch and journal before it.

    2^28 revisions fill an epoch; those that follow go on in the next.
    """
    if record is None:
        return epoch << EPOCH_SHIFT | revision
    tag = int(record.journal, 16) & ((1 << TAG_BITS) - 1)
    return (epoch << EPOCH_SHIFT) + (revision << TAG_BITS) + tag


def epoch_reached(epoch: int, revision: int) -> int:
    """Return the epoch that generations have reached at a revision."""
    return ((epoch << EPOCH_SHIFT) + (revision << TAG_BITS)) >> EPOCH_SHIFT
