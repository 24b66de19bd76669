"""Edge colouring of bipartite multigraphs by Kempe chains: no two edges at a vertex share a colour.

König (1916): a bipartite multigraph of degree k has a proper colouring with k colours. Where the vertices are
leaves and the colours are uplinks, that is a plan in which no two equal flows share a link. A vertex of higher
degree is split into vertices of degree k, so a link carries at most ceil(degree / k) flows: the pigeonhole bound.

The slot tables `left[u, c]` and `right[v, c]` hold the edge that has colour c at a vertex, or -1; `free_left` and
`free_right` are the same as bit masks. All state is in these arrays, so that edges can be added later.
"""

import numpy as np

from controller.planner.jit import Ints, Words, kernel


@kernel
def _lowest_bit(word: np.uint64) -> int:
    n = 0
    while word & np.uint64(0xFF) == np.uint64(0):
        n += 8
        word >>= np.uint64(8)
    while word & np.uint64(1) == np.uint64(0):
        n += 1
        word >>= np.uint64(1)
    return n


@kernel
def _common_free(mask_u: Words, mask_v: Words, start: int) -> int:
    """Return the first colour from `start` on, in a circle, that is free at both vertices, or -1."""
    words, first = mask_u.shape[0], start >> 6
    both = mask_u[first] & mask_v[first] & (~np.uint64(0) << np.uint64(start & 63))
    if both != np.uint64(0):
        return first * 64 + _lowest_bit(both)
    for step in range(1, words + 1):
        w = (first + step) % words
        both = mask_u[w] & mask_v[w]
        if both != np.uint64(0):
            return w * 64 + _lowest_bit(both)
    return -1


@kernel
def _first_free(mask: Words) -> int:
    for w in range(mask.shape[0]):
        if mask[w] != np.uint64(0):
            return w * 64 + _lowest_bit(mask[w])
    return -1


@kernel
def _set_free(mask: Words, colour: int) -> None:
    mask[colour >> 6] |= np.uint64(1) << np.uint64(colour & 63)


@kernel
def _set_used(mask: Words, colour: int) -> None:
    mask[colour >> 6] &= ~(np.uint64(1) << np.uint64(colour & 63))


@kernel
def _flip_chain(
    v: int, a: int, b: int, source: Ints, target: Ints, colour: Ints,
    left: Ints, right: Ints, free_left: Words, free_right: Words,
) -> int:  # fmt: skip
    """Swap colours a and b along the chain that leaves right vertex v by colour a; return its length."""
    edge, old, new, at_right = right[v, a], a, b, True
    right[v, a] = -1
    _set_free(free_right[v], a)
    length = 0
    while edge >= 0:
        u, w = source[edge], target[edge]
        # The edge gives `old` to `new`; whoever holds `new` at its far end is next, and passes on `old`.
        follower = left[u, new] if at_right else right[w, new]
        colour[edge] = new
        left[u, new] = edge
        right[w, new] = edge
        if at_right:
            _set_used(free_right[w], new)
            if follower < 0:
                left[u, old] = -1
                _set_free(free_left[u], old)
                _set_used(free_left[u], new)
        else:
            _set_used(free_left[u], new)
            if follower < 0:
                right[w, old] = -1
                _set_free(free_right[w], old)
                _set_used(free_right[w], new)
        edge = follower
        old, new = new, old
        at_right = not at_right
        length += 1
    return length


@kernel
def insert_edge(
    edge: int, source: Ints, target: Ints, colour: Ints,
    left: Ints, right: Ints, free_left: Words, free_right: Words,
) -> int:  # fmt: skip
    """Colour one more edge; return how many others changed colour, -1 where one of its vertices is full."""
    u, v = source[edge], target[edge]
    # Another colour is tried first for every edge: where there is room, all uplinks carry alike.
    chosen, moves = _common_free(free_left[u], free_right[v], edge % left.shape[1]), 0
    if chosen < 0:
        chosen, other = _first_free(free_left[u]), _first_free(free_right[v])
        if chosen < 0 or other < 0:
            return -1
        # `chosen` is free at u and taken at v, `other` the reverse: the chain from v cannot end in u (parity).
        moves = _flip_chain(v, chosen, other, source, target, colour, left, right, free_left, free_right)
    colour[edge] = chosen
    left[u, chosen] = edge
    right[v, chosen] = edge
    _set_used(free_left[u], chosen)
    _set_used(free_right[v], chosen)
    return moves


@kernel
def _split(vertex: Ints, vertices: int, k: int) -> tuple[Ints, int]:
    """Cut every vertex into parts of degree k, filled in order of the edges; return the parts and their number."""
    seen = np.zeros(vertices, np.int64)
    for e in range(vertex.shape[0]):
        seen[vertex[e]] += 1
    first = np.zeros(vertices + 1, np.int64)
    for x in range(vertices):
        first[x + 1] = first[x] + (seen[x] + k - 1) // k
        seen[x] = 0
    part = np.empty(vertex.shape[0], np.int64)
    for e in range(vertex.shape[0]):
        x = vertex[e]
        part[e] = first[x] + seen[x] // k
        seen[x] += 1
    return part, first[vertices]


@kernel
def colour_edges(source: Ints, target: Ints, vertices: int, k: int) -> Ints:
    """Colour edges between `vertices` sources and as many targets so that a colour meets a vertex ceil(degree/k) times.

    Linear in practice: a few recoloured edges for each edge.
    """
    parts_u, count_u = _split(source, vertices, k)
    parts_v, count_v = _split(target, vertices, k)
    words = (k + 63) // 64
    left, right = np.full((count_u, k), -1, np.int64), np.full((count_v, k), -1, np.int64)
    free_left, free_right = np.zeros((count_u, words), np.uint64), np.zeros((count_v, words), np.uint64)
    for c in range(k):
        bit = np.uint64(1) << np.uint64(c & 63)
        for u in range(count_u):
            free_left[u, c >> 6] |= bit
        for v in range(count_v):
            free_right[v, c >> 6] |= bit
    colour = np.full(source.shape[0], -1, np.int64)
    for e in range(source.shape[0]):
        insert_edge(e, parts_u, parts_v, colour, left, right, free_left, free_right)
    return colour


@kernel
def colour_nested(
    source: Ints, target: Ints, source_pod: Ints, target_pod: Ints,
    leaves: int, pods: int, planes: int, plane_of: Ints, plane_count: int, cores: int,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Colour leaves into uplinks, then, plane by plane, pods into cores.

    `plane_of` names the plane of each of the `planes` uplink colours. Returns uplink and core of each edge; core -1
    inside a pod.
    """
    uplink = colour_edges(source, target, leaves, planes)
    core = np.full(source.shape[0], -1, np.int64)
    for plane in range(plane_count):
        count = 0
        for e in range(source.shape[0]):
            count += plane_of[uplink[e]] == plane and source_pod[e] != target_pod[e]
        edges = np.empty(count, np.int64)
        start, end = np.empty(count, np.int64), np.empty(count, np.int64)
        count = 0
        for e in range(source.shape[0]):
            if plane_of[uplink[e]] == plane and source_pod[e] != target_pod[e]:
                edges[count], start[count], end[count] = e, source_pod[e], target_pod[e]
                count += 1
        within = colour_edges(start, end, pods, cores)
        for i in range(count):
            core[edges[i]] = within[i]
    return uplink, core
