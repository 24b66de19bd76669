"""Collect what probes say about the parts of a fabric: which were crossed, and on which probes were lost.

A part is what a probe can be lost at: a directed link between switches, a NIC with its cable, a host, a switch. Not
every probe without a reply is evidence:

    no report, or a host that was late itself       nothing is known about its probes
    a host that in a slot answered none, and        it stood still; its probes of that slot, and those to it, say
    got no answer                                   nothing about the fabric
    a link whose queue is full                      what was lost over it is congestion, if the probes that got
                                                    through were slow, or telemetry says so
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from heddle.controller.mesh.cover import Probes
from heddle.controller.planner.ground.clos import Topology
from heddle.controller.planner.ground.jit import Flags, Ints

UNKNOWN_US, LOST_US = -1, 0
"""Round trips of probes about which nothing is known, and of those without a reply."""
SLOW_FACTOR = 4.0
SLOW_US = 2_000
"""A round trip is slow that takes so many times as long as usual, and so much longer."""
USUAL_QUANTILE = 0.2
"""In a small fabric most probes may cross one full queue."""
MIN_ANSWERS, SLOW_SHARE = 3, 0.5
"""A link counts as slow by such a share of so many probes, twice the share of those that do not cross it."""
MAX_LOST = 8_192
"""Lost probes of a turn; of more, those that came last say nothing new."""
MAX_TURNS = 512


class Crossed(NamedTuple):
    """The parts of a fabric by number: links between switches, then NICs, hosts and switches; `parts` is none.

    Where probes cross every cable `both_ways`, its link upwards stands for both directions.
    """

    topology: Topology
    both_ways: bool = False

    @property
    def links(self) -> int:
        """Return the number of links between switches, which have the lowest numbers."""
        return 2 * self.topology.cables

    @property
    def hosts(self) -> int:
        """Return the number of hosts."""
        return int(self.topology.nic_host.max(initial=-1)) + 1

    @property
    def parts(self) -> int:
        """Return the number of parts; this number itself stands for no part."""
        return self.first_switch + len(self.topology.switch_ids)

    @property
    def first_switch(self) -> int:
        """Return the number of the first switch."""
        return self.links + self.topology.nics + self.hosts

    def of_link(self, link: int) -> int:
        """Return the part that a directed link is, or is counted as."""
        return link % self.topology.cables if self.both_ways else link

    def of(self, probes: Probes) -> Ints:
        """Return the parts that each probe crosses, each once, in rows padded with `parts`."""
        topology, none = self.topology, self.parts
        first_host = self.links + topology.nics
        ends = np.column_stack((probes.src_nic, probes.dst_nic))
        hops = np.column_stack((probes.hops, probes.reply_hops))
        cable = np.where(hops >= topology.cables, hops - topology.cables, hops)
        below, above = (
            np.where(hops >= 0, self.first_switch + end[cable], none) for end in (topology.lower, topology.upper)
        )
        hosts = first_host + topology.nic_host[ends]
        hops = cable if self.both_ways else hops
        columns = (np.where(hops >= 0, hops, none), self.links + ends, hosts, below, above)
        rows = np.sort(np.concatenate(columns, axis=1), axis=1)
        rows[:, 1:][rows[:, 1:] == rows[:, :-1]] = none
        return np.asarray(rows, dtype=np.int64)


class Turn(NamedTuple):
    """What became of a turn's probes: slot (n,) is when each was to be sent, rtt_us (n,) its round trip.

    `busy` (parts,) are those whose queue is full by telemetry; `seconds` is how long the turn took.
    """

    probes: Probes
    slot: Ints
    rtt_us: Ints
    busy: Flags
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Account:
    """The evidence of some turns: how often each part was crossed, and the parts of every lost probe.

    sent (parts,); lost (m, width) rows of parts; turn (m,) the turn of each, source (m,) the NIC that sent it;
    `probes` is how many are evidence.
    """

    sent: Ints
    lost: Ints
    turn: Ints
    source: Ints
    probes: int
    seconds: float
    queued: int = 0
    """Lost probes that crossed a full queue, where no probe is evidence."""


def account_of(crossed: Crossed, turn: Turn, number: int) -> Account:
    """Return the evidence of a turn."""
    rows, answered = crossed.of(turn.probes), turn.rtt_us > LOST_US
    counts = _is_evidence(crossed, turn, answered)
    full = turn.busy | _slow(rows[counts & answered], turn.rtt_us[counts & answered], crossed.parts)
    # Those that got through are left out as well: otherwise what was lost beside them would seem to be lost elsewhere.
    waited = counts & np.append(full[: crossed.links], False)[np.minimum(rows, crossed.links)].any(axis=1)
    counts &= ~waited
    lost = counts & ~answered
    where = np.flatnonzero(lost)[:MAX_LOST]
    return Account(
        sent=np.bincount(rows[counts].ravel(), minlength=crossed.parts + 1)[: crossed.parts],
        lost=rows[where], turn=np.full(len(where), number, dtype=np.int64), source=turn.probes.src_nic[where],
        probes=int(counts.sum()), seconds=turn.seconds, queued=int((waited & ~answered).sum()),
    )  # fmt: skip


def _is_evidence(crossed: Crossed, turn: Turn, answered: Flags) -> Flags:
    """Return which probes say something: both hosts exchanged some probe within the same slot."""
    hosts, host = crossed.hosts, crossed.topology.nic_host
    at = [turn.slot * hosts + host[nics] for nics in (turn.probes.src_nic, turn.probes.dst_nic)]
    alive = np.zeros(hosts * (int(turn.slot.max(initial=0)) + 1), dtype=np.bool_)
    for ends in at:
        alive[ends[answered]] = True
    return np.asarray((turn.rtt_us != UNKNOWN_US) & alive[at[0]] & alive[at[1]], dtype=np.bool_)


def _slow(rows: Ints, rtt_us: Ints, parts: int) -> Flags:
    """Return the parts that probes cross slowly, in large part, and far more often than other parts."""
    usual = float(np.quantile(rtt_us, USUAL_QUANTILE)) if len(rtt_us) else 0.0
    slow = rtt_us > max(SLOW_FACTOR * usual, usual + SLOW_US)
    answers = np.bincount(rows.ravel(), minlength=parts + 1)[:parts]
    late = np.bincount(rows[slow].ravel(), minlength=parts + 1)[:parts]
    elsewhere = (slow.sum() - late) / np.maximum(len(rows) - answers, 1)
    share = late / np.maximum(answers, 1)
    return np.asarray((answers >= MIN_ANSWERS) & (share >= SLOW_SHARE) & (share >= 2 * elsewhere), dtype=np.bool_)


class Evidence:
    """The accounts of the last turns, up to `keep_s` of them."""

    def __init__(self, keep_s: float) -> None:
        self._keep_s, self._kept_s = keep_s, 0.0
        self._turns: deque[Account] = deque()

    def add(self, account: Account) -> None:
        """Add a turn; those that are too old go."""
        self._turns.append(account)
        self._kept_s += account.seconds
        while len(self._turns) > MAX_TURNS or self._kept_s - self._turns[0].seconds > self._keep_s:
            self._kept_s -= self._turns.popleft().seconds

    def forget(self, parts: frozenset[int]) -> None:
        """Forget the lost probes over some parts: what was known of these is not true any more."""
        for place, each in enumerate(self._turns):
            kept = ~np.isin(each.lost, list(parts)).any(axis=1)
            self._turns[place] = replace(each, lost=each.lost[kept], turn=each.turn[kept], source=each.source[kept])

    def windows(self, lengths_s: Sequence[float]) -> Iterator[Account]:
        """Yield the evidence of the last turns that together took each of these times, or a little longer.

        The times are in rising order; one that has no more turns than the one before is left out.
        """
        taken, so_far_s, before = list[Account](), 0.0, 0
        newest = reversed(self._turns)
        for length_s in lengths_s:
            while so_far_s < length_s and (each := next(newest, None)) is not None:
                taken.append(each)
                so_far_s += each.seconds
            if len(taken) > before:
                before = len(taken)
                yield _together(taken, so_far_s)


def _together(turns: Sequence[Account], seconds: float) -> Account:
    return Account(
        sent=np.sum([each.sent for each in turns], axis=0),
        lost=np.concatenate([each.lost for each in turns]),
        turn=np.concatenate([each.turn for each in turns]),
        source=np.concatenate([each.source for each in turns]),
        probes=sum(each.probes for each in turns),
        seconds=seconds,
    )
