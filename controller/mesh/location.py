"""Find the directed links that lose probes: those without which the losses cannot be explained.

A probe is lost at one of the parts that it crossed, each of which loses its own share of packets. With lost probes i
and parts l that s_l probes crossed, the logarithm of the likelihood of shares p_l is, for small shares,

    sum over i of log(sum of p_l over the parts of i) - sum over l of s_l p_l

Parts get a share one at a time, the one first that raises this most, for few faults are likelier than many. After each
the shares are fitted together by expectation and maximisation (Shepp and Vardi, "Maximum likelihood reconstruction for
emission tomography", 1982, who solve the same sum). A link is accused where leaving it out costs much, and putting any
other part in its place does too. Only links between switches are accused: what a NIC, a
host or a whole switch explains accuses no cable.
"""

from collections import Counter
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from heddle.controller.mesh.evidence import Account, Crossed
from heddle.controller.planner.ground.jit import Flags, Floats, Ints

USUAL_LOSS = 1e-5
"""Every probe is lost at this share at least without a fault: a host drops what it has no memory for."""
LIKELY = 6.0
"""A part that raises the likelihood by so much is fitted, for what it explains accuses no other."""
CERTAIN = 25.0
"""A sound link seems to be needed by so much once in about e^25 turns, 7 x 10^10."""
MARGIN = 7.0
"""A link is accused where it is a thousand times as likely as any other part in its place (e^7)."""
MIN_TURNS = 2
"""One burst, as a link comes up, accuses no link."""
MIN_SOURCES = 2
"""What a single agent reports accuses no link."""
MAX_FITTED = 1_024
"""Of more lost probes every second, third … is looked at, as of all probes."""
MAX_FAULTS = 32
"""So many parts are fitted together; more would rather be a fault of what is measured."""
STEPS = 60
SHARES = np.geomspace(1e-4, 1.0, 13)


class Explained(StrEnum):
    """What became of losses that accuse no link."""

    HOST = "host"
    """A NIC, its cable or its host."""
    SWITCH = "switch"
    """A whole switch, or all hosts of a leaf at once."""
    COMMON = "common"
    """What all probes have in common."""
    UNSURE = "unsure"
    """Several parts explain them about as well, or they came all at once, or from one agent."""


class Located(NamedTuple):
    """The links that lose probes, with the share that each loses, and how many losses were explained otherwise."""

    links: dict[int, float]
    others: Counter[Explained]


def located(crossed: Crossed, account: Account) -> Located:
    """Return the links that lose probes by the evidence of some turns."""
    losses = _Losses(crossed.parts, account)
    links, others = dict[int, float](), Counter[Explained]()
    faults = losses.faults()
    for part in faults:
        mine = losses.blamed_on(part, faults)
        if part > crossed.parts:
            others[Explained.COMMON] += int(mine.sum())
        elif part >= crossed.first_switch:
            others[Explained.SWITCH] += int(mine.sum())
        elif part >= crossed.links:
            others[Explained.HOST] += int(mine.sum())
        elif losses.accuses(part, faults, mine):
            links[part] = float(losses.fitted(faults)[part])
        else:
            others[Explained.UNSURE] += int(mine.sum())
    return Located(links, others)


class _Losses:
    """Lost probes as rows of parts; part number `parts` is none, the one after it what all probes have in common."""

    def __init__(self, parts: int, account: Account) -> None:
        every = max(1, -(-len(account.lost) // MAX_FITTED))
        rows = account.lost[::every]
        self._parts, self._every = parts, every
        self._fits: dict[frozenset[int], Floats] = {}
        self.rows: Ints = np.column_stack((rows, np.full(len(rows), parts + 1, dtype=np.int64)))
        self._turn, self._source = account.turn[::every], account.source[::every]
        self._sent: Floats = np.append(account.sent, (1, account.probes)) / every

    def faults(self) -> list[int]:
        """Return the parts that lose probes, by what is likeliest; each is needed beside the others."""
        found: list[int] = []
        while len(found) < MAX_FAULTS and len(self.rows):
            gains = self._gains(self.fitted(found))
            gains[found] = 0.0
            best = int(gains.argmax())
            if gains[best] < LIKELY:
                break
            found.append(best)
        for part in list(found):
            if self.cost(part, found) < LIKELY:
                found.remove(part)
        return found

    def fitted(self, faults: list[int]) -> Floats:
        """Return the likeliest share of each part, if these are the ones that lose probes."""
        key = frozenset(faults)
        if key not in self._fits:
            active = np.zeros(self._parts + 2, dtype=np.bool_)
            active[faults] = True
            self._fits[key] = self._fit(active)
        return self._fits[key]

    def blamed_on(self, part: int, faults: list[int]) -> Flags:
        """Return which lost probes were rather lost at a part than at any other."""
        shares = self.fitted(faults)[self.rows]
        return np.asarray((self.rows == part).any(axis=1) & (2 * np.where(self.rows == part, shares, 0).sum(axis=1)
                                                             >= shares.sum(axis=1)), dtype=np.bool_)  # fmt: skip

    def accuses(self, part: int, faults: list[int], mine: Flags) -> bool:
        """Return whether a part is needed to explain the losses, and no other does in its place."""
        if len(np.unique(self._turn[mine])) < MIN_TURNS or len(np.unique(self._source[mine])) < MIN_SOURCES:
            return False
        if self.cost(part, faults) < CERTAIN:
            return False
        others = [each for each in faults if each != part]
        least = self._likelihood(self.fitted(faults)) - MARGIN
        shared = np.bincount(self.rows[(self.rows == part).any(axis=1)].ravel(), minlength=self._parts + 2)
        shared[[*faults, self._parts]] = 0
        rivals = np.flatnonzero(2 * shared >= max(1, shared.max())).tolist()
        return all(self._likelihood(self.fitted([*others, rival])) <= least for rival in rivals)

    def cost(self, part: int, faults: list[int]) -> float:
        """Return by how much the likelihood falls without one of the parts."""
        others = [each for each in faults if each != part]
        return self._likelihood(self.fitted(faults)) - self._likelihood(self.fitted(others))

    def _likelihood(self, shares: Floats) -> float:
        return float(np.log(shares[self.rows].sum(axis=1)).sum() - (self._sent * shares).sum())

    def _gains(self, shares: Floats) -> Floats:
        """Return by how much each part would raise the likelihood beside the present shares, at its best share."""
        now, found = shares[self.rows].sum(axis=1), np.zeros(self._parts + 2)
        flat = self.rows.ravel()
        for share in SHARES:
            rise = np.repeat(np.log1p(share / now), self.rows.shape[1])
            found = np.maximum(found, np.bincount(flat, weights=rise, minlength=len(found)) - self._sent * share)
        found[self._parts] = 0.0
        return found

    def _fit(self, active: Flags) -> Floats:
        flat, sent = self.rows.ravel(), np.maximum(self._sent, 1.0 / self._every)
        shares = np.where(active, np.bincount(flat, minlength=len(active)) / sent, 0.0)
        shares[-1] = max(shares[-1], USUAL_LOSS)
        for _ in range(STEPS):
            each = shares[self.rows]
            each /= each.sum(axis=1, keepdims=True)
            blamed = np.bincount(flat, weights=each.ravel(), minlength=len(active))
            shares = np.where(active, blamed / sent, 0.0)
            shares[-1] = max(shares[-1], USUAL_LOSS)
        return shares
