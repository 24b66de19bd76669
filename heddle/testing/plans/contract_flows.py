"""The kinds of collective, implemented independently from the contract: their flows, and the data that these carry.

A kind is a row of `ROWS`. Beside this file one test names every kind: `tests/unit/planner/test_collectives.py`.
The functions `move_…` move the data of collectives between n members as NCCL's calls define them, and count what each
sends to which: elements are values that travel, and the result of each call is checked. `count` is the argument of
NCCL's call, in elements of `size` bytes.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple


def ring(n, _):
    return [(i, (i + 1) % n) for i in range(n) if n > 1]


def all_to_all(n, _):
    return [(i, j) for i in range(n) for j in range(n) if i != j]


def gather(n, root):
    return [(i, root) for i in range(n) if i != root]


def broadcast(n, root):
    steps = [2**k for k in range(n)]
    return [((i + root) % n, (i + step + root) % n) for i in range(n) for step in steps if step > i and i + step < n]


def tree(n, _):
    return [pair for i in range(1, n) for pair in ((i, (i - 1) // 2), ((i - 1) // 2, i))]


def move_all_gather(n, count, _):
    """Each member has `count` elements of its own; in n-1 steps each passes on to the next what came last."""
    buffers = [{member: [member] * count} for member in range(n)]
    moved = Counter()
    for step in range(n - 1):
        for member in range(n):
            part = (member - step) % n
            buffers[(member + 1) % n][part] = buffers[member][part]
            moved[member, (member + 1) % n] += count
    whole = [element for member in range(n) for element in [member] * count]
    assert all([element for part in range(n) for element in buffer[part]] == whole for buffer in buffers)
    return moved


def move_reduce_scatter(n, count, _):
    """Each member has n parts of `count` elements; sums go round, and member i ends with the sum of part i."""
    sums = [{part: {member} for part in range(n)} for member in range(n)]
    moved = Counter()
    for step in range(n - 1):
        for member in range(n):
            part = (member - step - 1) % n
            sums[(member + 1) % n][part] = sums[(member + 1) % n][part] | sums[member][part]
            moved[member, (member + 1) % n] += count
    assert all(sums[member][member] == set(range(n)) for member in range(n))
    return moved


def move_ring_all_reduce(n, count, _):
    """A reduce-scatter of parts of count / n elements, then an all-gather of the sums."""
    assert count % n == 0
    return move_reduce_scatter(n, count // n, ()) + move_all_gather(n, count // n, ())


def move_tree_all_reduce(n, count, _):
    """Sums go up the binary tree to member 0 and the result down again, all elements over each edge."""
    moved = Counter()
    sums = [{member} for member in range(n)]
    for child in reversed(range(1, n)):
        sums[(child - 1) // 2] |= sums[child]
        moved[child, (child - 1) // 2] += count
        moved[(child - 1) // 2, child] += count
    assert sums[0] == set(range(n))
    return moved


def move_all_to_all(n, count, _):
    """Each member has `count` elements for each, itself included."""
    return Counter({(a, b): count for a in range(n) for b in range(n) if a != b})


def move_gather(n, count, tree):
    """Each member sends its `count` elements to the root, the last member here."""
    return Counter({(a, n - 1): count for a in range(n - 1)})


def move_over(n, count, tree):
    """All `count` elements go over each given pair; those of a tree reach every member."""
    return Counter(dict.fromkeys(tree, count))


class Row(NamedTuple):
    """One kind: its flows, what it moves, and what else a request has: a root, or the flows in a key of this name."""

    flows: Callable[[int, Any], list[tuple[int, int]]] | None
    move: Callable[[int, int, Any], Counter]
    rooted: bool = False
    listed: str = ""


ROWS = {
    "RING_ALL_REDUCE": Row(ring, move_ring_all_reduce),
    "TREE_ALL_REDUCE": Row(tree, move_tree_all_reduce),
    "ALL_GATHER": Row(ring, move_all_gather),
    "REDUCE_SCATTER": Row(ring, move_reduce_scatter),
    "ALL_TO_ALL": Row(all_to_all, move_all_to_all),
    "BROADCAST": Row(broadcast, move_over, rooted=True),
    "GATHER": Row(gather, move_gather, rooted=True),
    "SEND_RECV": Row(None, move_over, listed="pairs"),
    "CUSTOM": Row(None, move_over, listed="flows"),
}
KINDS = tuple(ROWS)
LISTED = {kind: row.listed for kind, row in ROWS.items() if row.listed}
"""The key of a collective that lists the flows."""
ROOTED = tuple(kind for kind, row in ROWS.items() if row.rooted)


def sent_bytes(call, n, count, size, *, tree=()):
    """Return the bytes that members send to others in one call, by pair; pairs that send nothing are absent."""
    moved = ROWS[call].move(n, count, tree)
    return {pair: elements * size for pair, elements in moved.items() if elements}


def rank_pairs(kind, members, root):
    """Return [(source rank, destination rank)] of a kind that lists no flows, same-host pairs included."""
    found = ROWS[kind].flows if kind in ROWS else None
    if found is None:
        raise ValueError(f"the contract has no flows for {kind}")
    place = members.index(root) if kind in ROOTED else None
    return [(members[i], members[j]) for i, j in found(len(members), place)]


def flows(collective, rank_count):
    """Return [(source rank, destination rank)] of a collective of the model, same-host pairs included."""
    kind = collective.kind.name
    if kind in LISTED:
        return [(one.src_rank, one.dst_rank) for one in getattr(collective, LISTED[kind])]
    return rank_pairs(kind, list(collective.members) or list(range(rank_count)), collective.root)


def flow_plan_count(request, host_of_rank):
    """Count the queue pairs of all flows between different hosts."""
    return sum(
        one.qps_per_flow * sum(host_of_rank[a] != host_of_rank[b] for a, b in flows(one, len(host_of_rank)))
        for one in request.collectives
    )
