"""Decide which of the members that reply have this fabric's journal: pure.

A controller that remembers a journal uses that one alone, or one that was adopted from it. One that remembers none uses
the journal that it finds. Where there is none, it begins one, with the members that most of the endpoints are of: two
controllers with the same endpoints then begin the same.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from heddle.controller.store.etcd.identity.record import Known, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a member replied: its cluster, how far its history is, and what it has of the fabric."""

    endpoint: str
    cluster: int
    revision: int
    record: Record | None
    has_keys: bool
    """Whether a controller has written there; one of an earlier version left no record."""
    epoch: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """The cluster that has the journal; `record` None: it has none yet. `others` are lines about foreign members."""

    cluster: int
    revision: int
    record: Record | None
    epoch: int = 1
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    """None of the members may be used, and why."""

    why: str


def judged(seen: Sequence[Seen], known: Known | None, fabric: str, endpoints: Sequence[str]) -> Ours | Foreign:
    """Return which cluster to use; `seen` are those of `endpoints` that replied, one at least."""
    if known is not None:
        mine = [each for each in seen if not _why_not(each, known, fabric)]
        newer = [each for each in mine if each.record is not None and each.record.journal != known.journal]
        return _of_one(newer or mine, seen, fabric) or Foreign(why=_why_not(seen[0], known, fabric))
    sound = [each for each in seen if each.record is not None and each.record.cluster == each.cluster]
    earlier = [each for each in seen if each.record is None and each.has_keys]
    if (found := _of_one(sound or earlier, seen, fabric)) is not None:
        return found
    copies = [each for each in seen if each.record is not None]
    if copies:
        return Foreign(why=_copy(copies[0], fabric))
    return _first(seen, endpoints)


def _of_one(mine: Sequence[Seen], seen: Sequence[Seen], fabric: str) -> Ours | Foreign | None:
    """Return the cluster of these members, None for no member."""
    if not mine:
        return None
    clusters = {each.cluster: each for each in mine}
    if len(clusters) > 1:
        both = " and ".join(f"{each.endpoint} (etcd cluster {each.cluster:x})" for each in clusters.values())
        return Foreign(why=f"{both} each have a journal of fabric {fabric}: name the members of one of them")
    own = max(mine, key=lambda each: each.revision)
    return Ours(
        cluster=own.cluster, revision=own.revision, record=own.record, epoch=own.epoch, others=others(seen, own.cluster)
    )  # fmt: skip


def others(seen: Sequence[Seen], cluster: int) -> tuple[str, ...]:
    """Return a line for each member that is of another cluster."""
    return tuple(
        f"{each.endpoint} is not used: it is of etcd cluster {each.cluster:x}, the journal is in {cluster:x}"
        for each in seen
        if each.cluster != cluster
    )


def _first(seen: Sequence[Seen], endpoints: Sequence[str]) -> Ours | Foreign:
    """Choose where a fabric's first journal begins."""
    counts = Counter(each.cluster for each in seen)
    cluster, most = min(counts.items(), key=lambda each: (-each[1], each[0]))
    if 2 * most <= len(endpoints) and len(seen) < len(endpoints):
        silent = sorted(set(endpoints) - {each.endpoint for each in seen})
        return Foreign(why=f"no journal was begun yet, and {', '.join(silent)} does not reply: it is waited for")
    revision = max(each.revision for each in seen if each.cluster == cluster)
    return Ours(cluster=cluster, revision=revision, record=None, others=others(seen, cluster))


def _why_not(each: Seen, known: Known, fabric: str) -> str:
    """Return why a member does not have the journal that is remembered; empty where it has."""
    record, command = each.record, f"--etcd {each.endpoint} --fabric {fabric}"
    new = f"{command} --from {known.journal} --above {known.highest}"
    used = f"this controller has used journal {known.journal} in etcd cluster {known.cluster:x}"
    if record is None and not each.has_keys:
        return (
            f"{each.endpoint} has no journal of fabric {fabric}, and {used}: name its members; or restore a snapshot "
            f"of etcd and `heddle state adopt {command}`; or `heddle state restore FILE {new}`; or begin with nothing, "
            f"`heddle state init {new}`"
        )
    if record is None or not record.follows(known.journal):
        there = f"journal {record.journal}" if record is not None else "a journal without an id"
        return (
            f"{each.endpoint} has {there} of fabric {fabric}, and {used}: name its members; or follow the one there, "
            f"`heddle state adopt {new}`"
        )
    if record.cluster != each.cluster:
        return _copy(each, fabric)
    if record.journal == known.journal and each.revision < known.revision:
        return (
            f"{each.endpoint} has an older copy of the journal: its history ends at revision {each.revision}, "
            f"{known.revision} was seen; once no other is in use, "
            f"`heddle state adopt {command} --above {known.highest}`"
        )
    return ""


def _copy(each: Seen, fabric: str) -> str:
    assert each.record is not None
    return (
        f"{each.endpoint} has a copy of the journal of fabric {fabric}: it is of etcd cluster {each.cluster:x}, its "
        f"keys of {each.record.cluster:x}; once that one is no longer in use, "
        f"`heddle state adopt --etcd {each.endpoint} --fabric {fabric}`"
    )
