"""List what differs between two fabrics, and which copies of the fabric file are to follow; pure."""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from heddle.controller.model.fabric_change import FabricChange

ADDED = ("added_switches", "added_hosts", "added_cables", "added_nics")
REMOVED = ("removed_switches", "removed_hosts", "removed_cables", "removed_nics")
CHANGED = ("recabled", "rates", "datapath_ids", "roles", "moved_nics", "addresses", "whole", "others")
TEXTS = ("displaced", "beyond", "renamed")


class Difference(NamedTuple):
    """One difference: its kind, the id of the part (or a text that says all), and what it was and is.

    Kinds are those above, in their order. Rates are bit/s; of a recabled cable the id is the port that both have.
    """

    kind: str
    id: str
    was: str = ""
    now: str = ""


class Setup(NamedTuple):
    """What a controller's configuration says of others that read the fabric file."""

    has_tls: bool = False
    has_broker: bool = False
    is_one_of_several: bool = False


class Copy(NamedTuple):
    """Something that was made of the fabric file: which parts of the change concern it, and what is to be done.

    `todo` is "" where it follows by itself.
    """

    what: str
    parts: tuple[str, ...]
    todo: str


def differences(change: FabricChange) -> tuple[Difference, ...]:
    """Return every difference, by kind."""
    return tuple(_differences(change))


def summary(change: FabricChange) -> str:
    """Return how many differences of each kind there are, in one line."""
    counts = Counter(one.kind.replace("_", " ") for one in _differences(change))
    return ", ".join(f"{kind} {count}" for kind, count in counts.items()) or "nothing"


def _differences(change: FabricChange) -> Iterator[Difference]:
    for kinds, parts in ((ADDED, change.added), (REMOVED, change.removed)):
        for kind in kinds:
            yield from (Difference(kind, each) for each in getattr(parts, kind.split("_")[1]))
    for kind in CHANGED:
        yield from (Difference(kind, each.id, _text(each.was), _text(each.now)) for each in getattr(change, kind))
    for kind in TEXTS:
        yield from (Difference(kind, text) for text in getattr(change, kind))


def _text(value: Any) -> str:
    return str(getattr(value, "value", value))


def copies(change: FabricChange, setup: Setup, static_sids: tuple[str, ...] | None = None) -> tuple[Copy, ...]:
    """Return the copies of the fabric file that a change concerns.

    `static_sids` are the switches that are to hold other static SIDs, () for all (`model.srv6.with_other_sids`).
    """
    if change.is_none:
        return ()
    new = (*change.added.switches, *change.added.hosts)
    gone = (*change.removed.switches, *change.removed.hosts)
    nics = (*change.added.nics, *change.removed.nics) if not (change.added.hosts or change.removed.hosts) else ()
    of_ports = (*new, *gone, *nics, *dict.fromkeys(each.id for each in (*change.moved_nics, *change.addresses)))
    found = [Copy("the file that this controller starts with", (), "replace it: while jobs run the former is refused")]
    if setup.is_one_of_several:
        found = [Copy("the files of the other controllers", (), "replace them; they follow etcd, whatever they hold")]
    if setup.has_broker:
        found.append(Copy("the ports that the collector of this controller knows", of_ports, ""))
    if of_ports:
        found.append(Copy("agents with `--fabric FILE`", of_ports, "give them the new file and start them again"))
    if setup.has_broker and (new or gone):
        text = "write it anew by `heddle mqtt config`, and send the broker SIGHUP"
        found.append(Copy("the access list of the broker", (*new, *gone), text))
    if setup.has_tls and new:
        found.append(Copy("certificates", new, "`heddle pki issue DIR switch NAME` and `… agent NAME` for each"))
    if setup.has_tls and gone:
        found.append(Copy("certificates of what is gone", gone, "`heddle pki deny`"))
    if static_sids is not None:
        text = "write them anew by `heddle export sonic`, `nvue` or `sids`"
        found.append(Copy("static SIDs", static_sids, text))
    return tuple(found)
