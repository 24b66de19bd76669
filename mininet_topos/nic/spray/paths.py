"""The paths over which a queue pair sprays: which take data, and when one that has failed is tried again. Pure.

    active  -- 3 losses in a row, an error, or a refused send -----> denied
    active  -- a loss, and a probe that is late -------------------> denied
    denied  -- a probe returns -------------------------------------> probing
    probing -- 3 probes returned in a row --------------------------> active
    probing -- a probe did not return ------------------------------> denied

The last active path is never denied, so a queue pair always has one to send on. A path is in doubt from its first loss,
or from a packet that is late, until a packet of it is acknowledged; it then has one packet in flight at most, while
other paths are in no doubt. A late packet also sends a probe: a loss denies the path if that is late too.

Paths take turns in proportion to their weights, and as evenly as these allow after every packet.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

ACTIVE, DENIED, PROBING = "active", "denied", "probing"
LOSSES_IN_A_ROW = REPLIES_IN_A_ROW = 3
PROBE_PERIOD_NS = 200_000_000
RECORDED_CHANGES = 64
MAX_WATCHED = 8
"""The paths that are left out of a set and still probed."""
FIRST_ROUND_TRIP_NS = 30_000_000
NEVER = float("inf")


class PathChange(NamedTuple):
    """A path that changed its state."""

    at_ns: int
    udp_source_port: int
    state: str
    reason: str


class Path:
    """One path: the UDP source port and SRv6 destination of its packets, its state and its counters."""

    __slots__ = (
        "credit", "in_flight", "is_late", "losses_in_a_row", "lost_packets", "probe", "probe_due_ns", "probed_ns",
        "replies", "round_trip_ns", "sid", "state", "tx_packets", "udp_source_port", "weight",
    )  # fmt: skip

    def __init__(self, udp_source_port: int, sid: str = "", weight: int = 1) -> None:
        """Create an active path."""
        self.udp_source_port, self.sid, self.weight = udp_source_port, sid, weight
        self.state, self.is_late = ACTIVE, False
        self.credit = self.in_flight = self.losses_in_a_row = self.replies = self.lost_packets = self.tx_packets = 0
        self.round_trip_ns: float = FIRST_ROUND_TRIP_NS
        self.probe: int | None = None
        self.probe_due_ns: float = NEVER
        self.probed_ns = 0

    @property
    def has_room(self) -> bool:
        """Return whether a packet may be sent on it: always, but if it is in doubt, one at a time."""
        return self.in_flight == 0 or not (self.is_late or self.losses_in_a_row)

    def sent(self) -> None:
        """Record a packet sent on it."""
        self.tx_packets += 1
        self.in_flight += 1

    def acknowledged(self, round_trip_ns: int | None) -> None:
        """Record a packet that has arrived; None: its round trip is not known (sent twice, or its ACK waited)."""
        self.in_flight -= 1
        self.losses_in_a_row = 0
        if self.state == ACTIVE:
            self.trust()
        if round_trip_ns is not None:
            self.round_trip_ns += (round_trip_ns - self.round_trip_ns) / 8

    def trust(self) -> None:
        """End a doubt."""
        self.is_late, self.probe, self.probe_due_ns = False, None, NEVER

    def report(self) -> dict[str, Any]:
        """Return its state and counters."""
        names = ("udp_source_port", "sid", "weight", "state", "tx_packets", "lost_packets")
        return {name: getattr(self, name) for name in names}


class PathSet:
    """The paths of one queue pair, in the order of their first turns."""

    __slots__ = ("_probe", "change_count", "changes", "paths")

    def __init__(self, descriptions: Iterable[Mapping[str, Any]]) -> None:
        """Create active paths from {"udp_source_port", "sid", "weight"}; raises ValueError if no weight is positive."""
        self.paths: tuple[Path, ...] = ()
        self.changes: deque[PathChange] = deque(maxlen=RECORDED_CHANGES)
        self._probe = self.change_count = 0
        self.replace(descriptions)

    def replace(self, descriptions: Iterable[Mapping[str, Any]]) -> None:
        """Use other paths or weights; one with port and SID as before keeps its state. Raises ValueError as above.

        Denied paths that are left out are still probed, with weight 0, so that reports say when they work again.
        One that gets a weight again is active.
        """
        known = {(path.udp_source_port, path.sid): path for path in self.paths}
        found = []
        for entry in descriptions:
            key = entry["udp_source_port"], entry.get("sid", "")
            path = known.pop(key, None) or Path(*key)
            found.append((path, path.weight == 0, entry.get("weight", 1)))
        if not any(weight > 0 for _, _, weight in found):
            raise ValueError("the weights of all paths are 0")
        for path, was_idle, weight in found:
            path.weight, path.credit = weight, 0
            if was_idle and weight:
                self._activate(path)
        watched = [path for path in known.values() if path.state != ACTIVE][:MAX_WATCHED]
        for path in watched:
            path.weight = 0
        self.paths = (*(path for path, _, _ in found), *watched)
        if not self._active:
            self._activate(max(self.paths, key=_weight))

    @property
    def _active(self) -> list[Path]:
        return [path for path in self.paths if path.state == ACTIVE and path.weight > 0]

    @property
    def round_trip_ns(self) -> float:
        """Return the longest smoothed round trip of the active paths."""
        return max(path.round_trip_ns for path in self._active)

    def next(self) -> Path:
        """Return the path of the next packet, whose turn it is."""
        active = self._active
        usable = [path for path in active if path.has_room] or active
        total = 0
        for path in usable:
            path.credit += path.weight
            total += path.weight
        chosen = max(usable, key=_credit)
        chosen.credit -= total
        return chosen

    def lost(self, path: Path, now_ns: int) -> bool:
        """Record a packet lost on a path; return whether it is denied now, as it is with the third in a row."""
        path.in_flight -= 1
        path.lost_packets += 1
        path.losses_in_a_row += 1
        if path.losses_in_a_row < LOSSES_IN_A_ROW:
            return False
        return self.deny(path, now_ns, f"{LOSSES_IN_A_ROW} losses in a row")

    def late(self, path: Path, now_ns: int) -> None:
        """Doubt a path of which a packet is late, and send a probe at once."""
        if path.state == ACTIVE and not path.is_late:
            path.is_late, path.probe, path.probe_due_ns = True, None, now_ns

    def deny_silent(self, late_ns: float, now_ns: int) -> list[Path]:
        """Deny the paths with a loss whose probe left before `late_ns` and has not returned; return them."""
        silent = [path for path in self.paths if path.losses_in_a_row and path.probe and path.probed_ns < late_ns]
        return [path for path in silent if self.deny(path, now_ns, "a loss, and no reply to a probe")]

    def deny(self, path: Path, now_ns: int, reason: str) -> bool:
        """Use a path no more until its probes return; return False if it is not active, or the last that is."""
        if path.state != ACTIVE or path not in self.paths or len(self._active) == 1:
            return False
        path.state, path.replies, path.probe, path.probe_due_ns = DENIED, 0, None, now_ns + PROBE_PERIOD_NS
        self._record(PathChange(now_ns, path.udp_source_port, DENIED, reason))
        return True

    @property
    def probe_due_ns(self) -> float:
        """Return when the next probe is due."""
        return min(path.probe_due_ns for path in self.paths)

    def next_probe(self, now_ns: int) -> tuple[Path, int] | None:
        """Return the path that is due for a probe and the probe's number, None if none is; see `probed`."""
        due = [path for path in self.paths if path.probe_due_ns <= now_ns]
        return (min(due, key=_probe_due), self._probe + 1) if due else None

    def probed(self, path: Path, now_ns: int) -> None:
        """Record that the probe of `next_probe` was sent; one before that has not returned counts as lost."""
        if path.probe is not None and path.state == PROBING:
            path.state, path.replies = DENIED, 0
        self._probe += 1
        path.probe, path.probed_ns, path.probe_due_ns = self._probe, now_ns, now_ns + PROBE_PERIOD_NS

    def probe_returned(self, number: int, now_ns: int) -> None:
        """Process the reply to a probe; only the newest of a path counts."""
        for path in self.paths:
            if path.probe == number and path.state == ACTIVE:
                path.trust()
            elif path.probe == number:
                path.probe, path.state = None, PROBING
                path.replies += 1
                if path.replies >= REPLIES_IN_A_ROW:
                    self._activate(path)
                    self._record(PathChange(now_ns, path.udp_source_port, ACTIVE, "probes return"))

    def _record(self, change: PathChange) -> None:
        self.changes.append(change)
        self.change_count += 1

    def _activate(self, path: Path) -> None:
        path.trust()
        path.state, path.losses_in_a_row, path.credit = ACTIVE, 0, 0


def _weight(path: Path) -> int:
    return path.weight


def _credit(path: Path) -> int:
    return path.credit


def _probe_due(path: Path) -> float:
    return path.probe_due_ns
