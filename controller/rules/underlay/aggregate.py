"""Aggregate addresses into the fewest prefixes for longest-prefix matching.

Optimal route table construction (Draves, King, Venkatachary, Zill: "Constructing optimal IP routing tables",
INFOCOM 1999), with one addition: addresses without an owner may match anything, so a subtree without an owned
address takes the label that suits its surroundings.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from heddle.controller.model.rule import Masked
from heddle.foundation.bits import lowest_bit

ADDRESS_BITS = 32


class Run(NamedTuple):
    """Consecutive addresses of one owner."""

    first: int
    last: int
    owner: int


class Labelled(NamedTuple):
    """A prefix (`value` with `length` significant leading bits) and the label of its addresses."""

    value: int
    length: int
    label: int

    @property
    def masked(self) -> Masked | None:
        """Return the match on an address field, None where the prefix holds every address."""
        return Masked(self.value, mask_of(self.length)) if self.length else None


class _Node(NamedTuple):
    """A subtree; `labels` is the bit set of labels that its root may have at no extra cost."""

    value: int
    length: int
    labels: int
    low: "_Node | None" = None
    high: "_Node | None" = None


def mask_of(length: int) -> int:
    """Return the netmask of a prefix length."""
    return (1 << ADDRESS_BITS) - (1 << ADDRESS_BITS - length)


def runs_of(owned: Iterable[tuple[int, int]]) -> tuple[Run, ...]:
    """Join (address, owner) pairs into runs, ordered by address."""
    return _joined(Run(address, address, owner) for address, owner in sorted(owned))


def relabelled(runs: Iterable[Run], label_of_owner: Sequence[int | None]) -> tuple[Run, ...]:
    """Replace the owner of each run by its label; runs of owners without a label are dropped."""
    labelled = ((run, label_of_owner[run.owner]) for run in runs)
    return _joined(Run(run.first, run.last, label) for run, label in labelled if label is not None)


def _joined(runs: Iterable[Run]) -> tuple[Run, ...]:
    joined: list[Run] = []
    for run in runs:
        if joined and joined[-1].owner == run.owner and joined[-1].last + 1 == run.first:
            joined[-1] = Run(joined[-1].first, run.last, run.owner)
        else:
            joined.append(run)
    return tuple(joined)


@lru_cache(maxsize=256)
def aggregate(runs: tuple[Run, ...], background: int | None = None) -> tuple[Labelled, ...]:
    """Return the fewest prefixes whose longest match on every owned address has the owner of its run.

    Addresses outside all prefixes have the `background` label (None: they match nothing, and no owner may
    rely on it). Shorter prefixes come first.
    """
    if not runs:
        return ()
    found: list[Labelled] = []
    _choose(_node(runs, *_common_prefix(runs[0].first, runs[-1].last)), background, found)
    return tuple(sorted(found, key=lambda prefix: (prefix.length, prefix.value)))


def _common_prefix(first: int, last: int) -> tuple[int, int]:
    length = ADDRESS_BITS - (first ^ last).bit_length()
    return first & mask_of(length), length


def _node(runs: tuple[Run, ...], value: int, length: int) -> _Node:
    """Build the subtree of a prefix from the runs with an address in it (at least one), labels from the bottom up."""
    if all(run.owner == runs[0].owner for run in runs):
        return _Node(value, length, 1 << runs[0].owner)
    middle = value | 1 << ADDRESS_BITS - length - 1
    lows = tuple(run for run in runs if run.first < middle)
    highs = tuple(run for run in runs if run.last >= middle)
    low = _node(lows, value, length + 1) if lows else None
    high = _node(highs, middle, length + 1) if highs else None
    if low is None or high is None:
        only = low or high
        assert only is not None
        return only
    common = low.labels & high.labels
    return _Node(value, length, common or low.labels | high.labels, low, high)


def _choose(node: _Node, inherited: int | None, found: list[Labelled]) -> None:
    """Assign labels from the root: keep the inherited label where it is optimal, else set the lowest optimal one."""
    label = inherited
    if label is None or not node.labels >> label & 1:
        label = lowest_bit(node.labels)
        found.append(Labelled(node.value, node.length, label))
    for child in (node.low, node.high):
        if child is not None:
            _choose(child, label, found)
