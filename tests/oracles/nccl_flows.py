"""What NCCL sends between NVLink domains, implemented independently: rank by rank, with its GPUs, channels and steps.

`nics` has the NIC of each rank; a NIC is (domain, place): place is its rail, and where a domain has several hosts the
NICs of one rail count on, host by host. Results count bytes of each connection by (sending NIC, receiving NIC).
"""

from collections import defaultdict


def hosts_of(nics):
    """Return [domain, …] by first rank, and {domain: [place, …]} in order."""
    order = list(dict.fromkeys(domain for domain, _ in nics))
    return order, {each: sorted({place for domain, place in nics if domain == each}) for each in order}


def ring(nics, size_bytes, steps_of_ranks):
    """Send round a ring of all GPUs, one ring a channel; the last GPU of a domain hands over to the one at the NIC.

    A connection carries steps_of_ranks(R) times the part of one rank and channel, for R ranks.
    """
    order, places = hosts_of(nics)
    channels = [place for _ in range(2) for place in places[order[0]]]
    flows = []
    for place in channels:
        gpus = [rank for domain in order for rank, nic in enumerate(nics) if nic[0] == domain]
        for gpu, following in zip(gpus, [*gpus[1:], gpus[0]], strict=True):
            if nics[gpu][0] != nics[following][0]:
                edge = ((nics[gpu][0], place), (nics[following][0], place))
                sent = steps_of_ranks(len(nics)) * size_bytes / len(nics) / len(channels)
                flows.append((edge, sent))
    return flows


def parents(count):
    """Return {child: parent} of the binary search tree of 0 … 2^k - 1 whose missing numbers are left out; 0 on top."""
    found = {}

    def hang(low, high, above):
        if low >= high:
            return
        middle = (low + high) // 2
        if middle < count:
            found[middle] = above
        hang(low, middle, middle if middle < count else above)
        hang(middle + 1, high, middle if middle < count else above)

    size = 1
    while size < count:
        size *= 2
    hang(1, size, 0)
    return found


def tree(nics, size_bytes):
    """Reduce to the root and broadcast back; half of the channels by one tree, half by the other."""
    order, places = hosts_of(nics)
    count, rails = len(order), places[order[0]]
    first = parents(count)
    if count % 2 == 0:
        second = {order[::-1][child]: order[::-1][parent] for child, parent in first.items()}
    else:
        moved = order[1:] + order[:1]
        second = {moved[child]: moved[parent] for child, parent in first.items()}
    first = {order[child]: order[parent] for child, parent in first.items()}
    flows = []
    for edges in (first, second):
        for rail in rails:
            for child, parent in edges.items():
                for a, b in ((child, parent), (parent, child)):
                    flows.append((((a, rail), (b, rail)), size_bytes / (2 * len(rails))))
    return flows


def all_to_all(nics, size_bytes, *, pxn):
    """Send size / R from each rank to each; with PXN by the NIC of the receiver's rail, one connection a pair."""
    found, pairs = defaultdict(float), []
    for a in nics:
        for b in nics:
            if a[0] != b[0]:
                edge = ((a[0], b[1]) if pxn else a, b)
                found[edge] += size_bytes / len(nics)
                pairs.append((edge, size_bytes / len(nics)))
    return list(found.items()) if pxn else pairs


def flows_of(kind, algorithm, nics, size_bytes):
    """Return [((sending NIC, receiving NIC), bytes), …], an entry for each connection."""
    if kind == "ALL_TO_ALL":
        return all_to_all(nics, size_bytes, pxn=algorithm == "NCCL")
    if len({domain for domain, _ in nics}) < 2:
        return []
    if kind == "TREE_ALL_REDUCE":
        return tree(nics, size_bytes)
    twice = 2 if kind == "RING_ALL_REDUCE" else 1
    return ring(nics, size_bytes, lambda ranks: twice * (ranks - 1))
