"""The kinds of collective and their flows, implemented independently from the contract.

Beside this file one test names every kind: `tests/unit/planner/test_collectives.py`.
"""

LISTED = {"SEND_RECV": "pairs", "CUSTOM": "flows"}
"""The key of a collective that lists the flows."""
ROOTED = ("GATHER", "BROADCAST")


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


FLOWS = {
    "RING_ALL_REDUCE": ring,
    "TREE_ALL_REDUCE": tree,
    "ALL_GATHER": ring,
    "REDUCE_SCATTER": ring,
    "ALL_TO_ALL": all_to_all,
    "BROADCAST": broadcast,
    "GATHER": gather,
}
KINDS = (*FLOWS, *LISTED)


def rank_pairs(kind, members, root):
    """Return [(source rank, destination rank)] of a kind that lists no flows, same-host pairs included."""
    if kind not in FLOWS:
        raise ValueError(f"the contract has no flows for {kind}")
    place = members.index(root) if kind in ROOTED else None
    return [(members[i], members[j]) for i, j in FLOWS[kind](len(members), place)]


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
