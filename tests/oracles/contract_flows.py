"""The flows of a collective, implemented independently from the contract."""


def flows(collective, rank_count):
    """Return [(src rank, dst rank)] before ranks on one host are left out."""
    kind = collective.kind.name
    if kind == "SEND_RECV":
        return [(pair.src_rank, pair.dst_rank) for pair in collective.pairs]
    if kind == "CUSTOM":
        return [(flow.src_rank, flow.dst_rank) for flow in collective.flows]
    members = list(collective.members) or list(range(rank_count))
    n = len(members)
    if kind in ("RING_ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER"):
        return [(members[i], members[(i + 1) % n]) for i in range(n) if n > 1]
    if kind == "ALL_TO_ALL":
        return [(a, b) for a in members for b in members if a != b]
    if kind == "GATHER":
        return [(a, collective.root) for a in members if a != collective.root]
    if kind == "TREE_ALL_REDUCE":
        edges = [(members[i], members[(i - 1) // 2]) for i in range(1, n)]
        return edges + [(b, a) for a, b in edges]
    if kind != "BROADCAST":
        raise ValueError(f"the contract has no flows for {kind}")
    turn = members.index(collective.root)
    turned = members[turn:] + members[:turn]
    return [(turned[i], turned[i + 2**k]) for i in range(n) for k in range(32) if 2**k > i and i + 2**k < n]


def flow_plan_count(request, host_of_rank):
    """Count the queue pairs of all flows between different hosts."""
    return sum(
        one.qps_per_flow * sum(host_of_rank[a] != host_of_rank[b] for a, b in flows(one, len(host_of_rank)))
        for one in request.collectives
    )
