"""Move the data of collectives between n members as NCCL's calls define them, and count what each sends to which.

Independent of the product: elements are values that travel, and the result of each call is checked. `count` is the
argument of NCCL's call, in elements of `size` bytes.
"""

from collections import Counter


def sent_bytes(call, n, count, size, *, tree=()):
    """Return the bytes that members send to others in one call, by pair; pairs that send nothing are absent."""
    moved = CALLS[call](n, count, tree)
    return {pair: elements * size for pair, elements in moved.items() if elements}


def all_gather(n, count, _):
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


def reduce_scatter(n, count, _):
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


def ring_all_reduce(n, count, _):
    """A reduce-scatter of parts of count / n elements, then an all-gather of the sums."""
    assert count % n == 0
    return reduce_scatter(n, count // n, ()) + all_gather(n, count // n, ())


def tree_all_reduce(n, count, _):
    """Sums go up the binary tree to member 0 and the result down again, all elements over each edge."""
    moved = Counter()
    sums = [{member} for member in range(n)]
    for child in reversed(range(1, n)):
        sums[(child - 1) // 2] |= sums[child]
        moved[child, (child - 1) // 2] += count
        moved[(child - 1) // 2, child] += count
    assert sums[0] == set(range(n))
    return moved


def all_to_all(n, count, _):
    """Each member has `count` elements for each, itself included."""
    return Counter({(a, b): count for a in range(n) for b in range(n) if a != b})


def gather(n, count, tree):
    """Each member sends its `count` elements to the root, the last member here."""
    return Counter({(a, n - 1): count for a in range(n - 1)})


def over(n, count, tree):
    """All `count` elements go over each given pair; those of a tree reach every member."""
    return Counter(dict.fromkeys(tree, count))


CALLS = {
    "RING_ALL_REDUCE": ring_all_reduce,
    "TREE_ALL_REDUCE": tree_all_reduce,
    "ALL_GATHER": all_gather,
    "REDUCE_SCATTER": reduce_scatter,
    "ALL_TO_ALL": all_to_all,
    "BROADCAST": over,
    "GATHER": gather,
    "SEND_RECV": over,
    "CUSTOM": over,
}
