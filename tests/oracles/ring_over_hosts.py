"""The fewest changes of leaf in a ring over hosts, by trying every choice of NICs. Shares no code with the planner."""

from itertools import permutations, product


def changes_of(leaves):
    """Return how often a ring changes its leaf between hosts; `leaves` has (host, leaf) of each rank, in order."""
    ring = list(zip(leaves, [*leaves[1:], leaves[0]], strict=True))
    return sum(one[0] != other[0] and one[1] != other[1] for one, other in ring)


def fewest_changes(free, counts):
    """Return the fewest changes where host i has `counts[i]` ranks, each on a NIC of its own.

    `free[i]` are the leaves of its NICs. Each host is tried with every first and last NIC.
    """
    ends = [
        [(leaf, leaf) for leaf in leaves] if count == 1 else list(permutations(leaves, 2))
        for leaves, count in zip(free, counts, strict=True)
    ]
    return min(
        sum(chosen[at][1] != chosen[(at + 1) % len(chosen)][0] for at in range(len(chosen)))
        for chosen in product(*ends)
    )


def splits(ranks, sizes):
    """Yield every way to give each host at least one rank and at most its size."""
    if not sizes:
        if ranks == 0:
            yield ()
        return
    for first in range(1, min(ranks, sizes[0]) + 1):
        for rest in splits(ranks - first, sizes[1:]):
            yield first, *rest
