"""The fewest leaves that hold a job, by exhaustive search, for hosts with all NICs on one leaf."""

from itertools import combinations


def free_shares(nics, down, holders, share):
    """Return how many ranks of a share (in thousandths) each leaf still takes; every NIC is one GPU of its own.

    `nics` are (NIC, leaf), `down` the NICs and leaves out of use, `holders` (NIC, share) of every rank that runs.
    """
    left = {name: 1000 for name, _ in nics}
    for name, taken in holders:
        left[name] -= taken
    leaves = dict.fromkeys((leaf for _, leaf in nics if leaf not in down), 0)
    for name, leaf in nics:
        if name not in down and leaf not in down:
            while left[name] >= share:
                left[name] -= share
                leaves[leaf] += 1
    return leaves


def fewest_leaves(free, ranks):
    """Return the size of the smallest set of leaves with room for `ranks`; None where all together are too few."""
    for count in range(1, len(free) + 1):
        if any(sum(free[leaf] for leaf in some) >= ranks for some in combinations(free, count)):
            return count
    return None
