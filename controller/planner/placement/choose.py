"""Generate candidate placements for a job: compact ones first, then wider ones.

Candidates with the fewest blocks and pods come first; of equal ones the tightest fit, so that leaves fill up and empty
ones stay empty. Inside a block, partly used GPUs come first, then whole hosts with all their rails. Ranks are ordered
host by host, by leaf and port, so that neighbours in a ring are close; `rails` orders them anew within their hosts.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from heddle.controller.model.placement import WHOLE_GPU_MILLI
from heddle.controller.planner.placement.blocks import Block, Host, Seat, Zone

Amounts = dict[int, int]
"""The number of ranks for each item of a sequence, by position; items without ranks are left out."""


class Part(NamedTuple):
    """The ranks of a job on one host: `snug` on partly used GPUs, `fresh` on idle ones."""

    host: Host
    snug: int
    fresh: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A NIC (by number) for every rank, and the effect on the remaining room.

    `parts` are its hosts in the order of the ranks. `opened` counts idle GPUs that come into use, `spare` the ranks of
    this shape that still fit into its blocks, and `woken` the blocks that were idle. `turned` is true if the NICs of
    hosts are chosen and ordered for a ring.
    """

    nics: tuple[int, ...]
    parts: tuple[Part, ...]
    blocks: int
    pods: int
    hosts: int
    leaves: int
    opened: int
    spare: int
    woken: int
    spread: bool = False
    turned: bool = False


def compact(zones: Sequence[Zone], ranks: int, share_milli: int) -> Iterator[Candidate]:
    """Yield candidates on the fewest blocks, the tightest first, then others of as many blocks."""
    for zone in zones:
        for blocks in _selections(zone, ranks):
            yield _candidate(blocks, _all_but_one_full(blocks, ranks), share_milli)


def wider(zones: Sequence[Zone], ranks: int, share_milli: int) -> Iterator[Candidate]:
    """Yield candidates that spread the ranks evenly over a growing number of blocks, the least loaded first."""
    for zone in zones:
        least = fewest([block.size for block in zone], ranks)
        if least is None:
            continue
        for count in dict.fromkeys(min(count, len(zone)) for count in (least, least + 1, 2 * least, 4 * least)):
            blocks = _lightest(zone, ranks, count)
            yield replace(_candidate(blocks, _evenly(blocks, ranks), share_milli), spread=True)


def fewest(sizes: Sequence[int], wanted: int) -> int | None:
    """Return the least number of items whose sizes add up to `wanted`; None where all are too few."""
    total = 0
    for count, size in enumerate(sorted(sizes, reverse=True), start=1):
        total += size
        if total >= wanted:
            return count
    return None


def best_fit(sizes: Sequence[int], wanted: int, count: int) -> list[int]:
    """Return the positions of `count` items that hold `wanted` with little excess; earlier items win ties.

    The `count` largest items must hold it. From the largest on (of equal ones the last), each is exchanged for the
    smallest item that suffices.
    """
    order = sorted(range(len(sizes)), key=lambda item: (-sizes[item], item))
    chosen, spare = order[:count], sorted(order[count:], key=lambda item: (sizes[item], item))
    spare_sizes = [sizes[item] for item in spare]
    excess = sum(sizes[item] for item in chosen) - wanted
    for number in sorted(range(len(chosen)), key=lambda number: (-sizes[chosen[number]], -number)):
        item = chosen[number]
        at = bisect_left(spare_sizes, sizes[item] - excess)
        if at < len(spare) and spare_sizes[at] < sizes[item]:
            excess -= sizes[item] - spare_sizes.pop(at)
            chosen[number] = spare.pop(at)
    return sorted(chosen)


def _selections(zone: Zone, ranks: int) -> Iterator[list[Block]]:
    """Yield sets of the fewest blocks: the tightest and the least loaded of each pod, then sets of the other blocks."""
    count = fewest([block.size for block in zone], ranks)
    if count is None:
        return
    places = _pods(zone, ranks, count)
    yield _tightest(places[0], ranks, count)
    yield min((_lightest(place, ranks, count) for place in places), key=lambda blocks: max(b.load for b in blocks))
    while places:
        left = []
        for place in places:
            blocks = _tightest(place, ranks, count)
            yield blocks
            rest = [block for block in place if block not in blocks]
            if (least := fewest([block.size for block in rest], ranks)) is not None and least <= count:
                left.append(rest)
        places = left


def _pods(zone: Zone, ranks: int, count: int) -> list[list[Block]]:
    """Return the blocks of each pod that holds the job in `count` blocks, or of the fewest pods that do so together."""
    pods: dict[int, list[Block]] = {}
    for block in zone:
        pods.setdefault(block.pod, []).append(block)
    holding = [blocks for blocks in pods.values() if _holds(blocks, ranks, count)]
    if holding:
        return sorted(holding, key=lambda blocks: (_excess(blocks, ranks, count), sum(block.size for block in blocks)))
    roomy = sorted(pods.values(), key=lambda blocks: -sum(sorted((b.size for b in blocks), reverse=True)[:count]))
    together: list[Block] = []
    for blocks in roomy:
        together += blocks
        if _holds(together, ranks, count):
            break
    return [sorted(together, key=lambda block: block.leaves)]


def _holds(blocks: Sequence[Block], ranks: int, count: int) -> bool:
    return sum(sorted((block.size for block in blocks), reverse=True)[:count]) >= ranks


def _excess(blocks: Sequence[Block], ranks: int, count: int) -> int:
    return sum(block.size for block in _tightest(blocks, ranks, count)) - ranks


def _tightest(blocks: Sequence[Block], ranks: int, count: int) -> list[Block]:
    """Return the blocks with the least excess; of equal ones those with the most GPUs in use, then the first."""
    preferred = sorted(blocks, key=lambda block: (block.untouched, -block.snug, block.leaves))
    chosen = [preferred[item] for item in best_fit([block.size for block in preferred], ranks, count)]
    return sorted(chosen, key=lambda block: block.leaves)


def _lightest(blocks: Sequence[Block], ranks: int, count: int) -> list[Block]:
    """Return `count` blocks that hold the job, among those with the least loaded uplinks."""
    ordered = sorted(blocks, key=lambda block: (block.load, block.leaves))
    reach = count
    while not _holds(ordered[:reach], ranks, count):
        reach = min(2 * reach, len(ordered))
    few = ordered[:reach]
    return sorted((few[i] for i in best_fit([block.size for block in few], ranks, count)), key=lambda b: b.leaves)


def _all_but_one_full(blocks: Sequence[Block], ranks: int) -> Amounts:
    """Fill every block but one: the last of those with the most room."""
    amounts = {number: block.size for number, block in enumerate(blocks)}
    excess = sum(amounts.values()) - ranks
    slack = max(amounts, key=lambda number: (blocks[number].untouched, amounts[number], number))
    amounts[slack] -= excess
    return amounts


def _evenly(blocks: Sequence[Block], ranks: int) -> Amounts:
    """Distribute the ranks evenly over the blocks, as far as each has room."""
    amounts: Amounts = {}
    left = ranks
    for rest, number in enumerate(sorted(range(len(blocks)), key=lambda number: (blocks[number].size, -number))):
        amounts[number] = min(blocks[number].size, left // (len(blocks) - rest))
        left -= amounts[number]
    return amounts


def _candidate(blocks: Sequence[Block], amounts: Amounts, share_milli: int) -> Candidate:
    parts = []
    for number, block in enumerate(blocks):
        taken = _within(block, amounts.get(number, 0))
        parts += [Part(block.hosts[at], *taken[at]) for at in sorted(taken)]
    found = [on_host(part) for part in parts]
    seats = [seat for mine, _ in found for seat in mine]
    used = [block for number, block in enumerate(blocks) if amounts.get(number, 0)]
    return Candidate(
        nics=tuple(seat.nic for seat in seats),
        parts=tuple(parts),
        blocks=len(used),
        pods=len({block.pod for block in used}),
        hosts=len(parts),
        leaves=len({seat.leaf for seat in seats}),
        opened=sum(opened for _, opened in found) * -(-share_milli // WHOLE_GPU_MILLI),
        spare=sum(block.size for block in used) - len(seats),
        woken=sum(block.untouched for block in used),
    )


def _within(block: Block, ranks: int) -> dict[int, tuple[int, int]]:
    """Return per host of a block, by position, its ranks on partly used GPUs and on idle ones."""
    alike = Counter(host.leaves for host in block.hosts)
    snug = min(ranks, block.snug)
    in_use = _over_hosts(block.hosts, [host.snug for host in block.hosts], alike, snug)
    idle = _over_hosts(block.hosts, [host.size - host.snug for host in block.hosts], alike, ranks - snug)
    return {at: (in_use.get(at, 0), idle.get(at, 0)) for at in in_use.keys() | idle.keys()}


def _over_hosts(hosts: Sequence[Host], sizes: Sequence[int], alike: Counter[tuple[int, ...]], ranks: int) -> Amounts:
    """Return the ranks per host on the fewest hosts, all but one of them full; hosts with common leaves come first."""
    if not ranks:
        return {}
    count = fewest(sizes, ranks)
    if count is None:
        raise ValueError(f"{ranks} ranks do not fit into {sum(sizes)} seats")
    preferred = sorted(range(len(hosts)), key=lambda at: (-alike[hosts[at].leaves], hosts[at].place))
    chosen = [preferred[item] for item in best_fit([sizes[at] for at in preferred], ranks, count)]
    amounts = {at: sizes[at] for at in chosen}
    amounts[max(chosen, key=lambda at: (sizes[at], at))] -= sum(amounts.values()) - ranks
    return amounts


def on_host(part: Part) -> tuple[list[Seat], int]:
    """Return the seat of each rank in the order of the host's NICs, and how many GPUs were idle until then."""
    seats: list[Seat] = []
    snug, fresh, opened = part.snug, part.fresh, 0
    for seat in part.host.seats:
        on_used, on_idle = min(snug, seat.snug), min(fresh, seat.fresh)
        snug, fresh = snug - on_used, fresh - on_idle
        opened += -(-on_idle // seat.each)
        seats += [seat] * (on_used + on_idle)
    return seats, opened
