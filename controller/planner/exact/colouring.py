"""Edge colouring of bipartite multigraphs by Kempe chains: no two edges at a vertex share a colour.

König (1916): a bipartite multigraph of degree k has a proper colouring with k colours. Where the vertices are
leaves and the colours are uplinks, that is a plan in which no two equal flows share a link. A vertex of higher
degree is split into vertices of degree k, so a link carries at most ceil(degree / k) flows: the pigeonhole bound.

The tables `left[u, c]` and `right[v, c]` hold the vertex at the other end of the edge of colour c, or -1; bit c of
`free_left` and `free_right` is set where that is -1. Edges between the same two vertices are interchangeable, so
colours are assigned to edges only at the end. A chain then costs one dependent load per edge.

Where links are missing, uneven or loaded, a vertex has a number of slots of each colour: its part j has the colours
with more than j slots, the others are -2. A chain may then be blocked, and another pair of colours is tried.
"""

import numpy as np
from numpy.typing import NDArray

from heddle.controller.planner.ground.bits import lowest_bit
from heddle.controller.planner.ground.jit import Flags, Ints, Words, bare_kernel, kernel

Mates = NDArray[np.int32]
MAX_STEPS_PER_EDGE = 40
"""The average number of chain steps per edge after which no further chains are tried."""


@bare_kernel
def _common_free(mask_u: Words, mask_v: Words, start: int) -> int:
    """Return the first colour from `start` on, cyclically, that is free at both vertices, or -1."""
    words, first = mask_u.shape[0], start >> 6
    both = mask_u[first] & mask_v[first] & (~np.uint64(0) << np.uint64(start & 63))
    if both != np.uint64(0):
        return first * 64 + lowest_bit(both)
    for step in range(1, words + 1):
        w = (first + step) % words
        both = mask_u[w] & mask_v[w]
        if both != np.uint64(0):
            return w * 64 + lowest_bit(both)
    return -1


@bare_kernel
def _first_free(mask: Words) -> int:
    """Return the lowest free colour of a vertex, or -1."""
    for w in range(mask.shape[0]):
        if mask[w] != np.uint64(0):
            return w * 64 + lowest_bit(mask[w])
    return -1


@bare_kernel
def _exchange(mask: Words, freed: int, used: int) -> None:
    """Mark one colour of a vertex as free and another as used."""
    mask[freed >> 6] |= np.uint64(1) << np.uint64(freed & 63)
    mask[used >> 6] &= ~(np.uint64(1) << np.uint64(used & 63))


@bare_kernel
def _flip_chain(v: int, a: int, b: int, left: Mates, right: Mates, free_left: Words, free_right: Words) -> None:
    """Swap colours a and b along the chain that leaves right vertex v by colour a; b is free at v.

    Free colours change only at the two ends of a chain.
    """
    u, end = right[v, a], np.int32(v)
    right[v, b], right[v, a] = u, -1
    _exchange(free_right[v], a, b)
    while True:
        # At u the edge from `end` changes from a to b; the edge that has b there changes to a.
        following = left[u, b]
        left[u, b], left[u, a] = end, following
        if following < 0:
            _exchange(free_left[u], a, b)
            return
        end = following
        following = right[end, a]
        right[end, a], right[end, b] = u, following
        if following < 0:
            _exchange(free_right[end], b, a)
            return
        u = following


@kernel
def _split(vertex: Ints, vertices: int, k: int) -> tuple[Ints, int]:
    """Split every vertex into parts of degree k, in order of the edges; return each edge's part and their number."""
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
def _all_free(vertices: int, k: int) -> Words:
    """Return masks with all k colours free."""
    free = np.zeros((vertices, (k + 63) // 64), np.uint64)
    for c in range(k):
        for x in range(vertices):
            free[x, c >> 6] |= np.uint64(1) << np.uint64(c & 63)
    return free


@kernel
def _colours_from(parts_u: Ints, parts_v: Ints, left: Mates, count_v: int) -> Ints:
    """Assign the colours of the table to the edges; an edge of part -1 has colour -1."""
    count_u, k = left.shape
    begin = np.zeros(count_u + 1, np.int64)
    for e in range(parts_u.shape[0]):
        if parts_u[e] >= 0:
            begin[parts_u[e] + 1] += 1
    for u in range(count_u):
        begin[u + 1] += begin[u]
    edges, place = np.empty(parts_u.shape[0], np.int64), begin[:-1].copy()
    for e in range(parts_u.shape[0]):
        if parts_u[e] >= 0:
            edges[place[parts_u[e]]] = e
            place[parts_u[e]] += 1
    first, after = np.full(count_v, -1, np.int64), np.full(k, -1, np.int64)
    colour = np.full(parts_u.shape[0], -1, np.int64)
    for u in range(count_u):
        for c in range(k - 1, -1, -1):
            v = left[u, c]
            if v >= 0:
                after[c], first[v] = first[v], c
        for i in range(begin[u], begin[u + 1]):
            v = parts_v[edges[i]]
            colour[edges[i]] = first[v]
            first[v] = after[first[v]]
    return colour


@kernel
def colour_edges(source: Ints, target: Ints, vertices: int, k: int) -> Ints:
    """Colour edges between sources and targets; each colour occurs at most ceil(degree / k) times at a vertex.

    The time is linear in practice: a few edges are recoloured per edge.
    """
    parts_u, count_u = _split(source, vertices, k)
    parts_v, count_v = _split(target, vertices, k)
    left, right = np.full((count_u, k), -1, np.int32), np.full((count_v, k), -1, np.int32)
    free_left, free_right = _all_free(count_u, k), _all_free(count_v, k)
    for e in range(source.shape[0]):
        u, v = parts_u[e], parts_v[e]
        # Each edge starts at another colour, so that all uplinks carry equal loads where there is room.
        colour = _common_free(free_left[u], free_right[v], e % k)
        if colour < 0:
            # Free at u and taken at v, and the reverse: the chain from v cannot end in u (parity).
            colour = _first_free(free_left[u])
            _flip_chain(v, colour, _first_free(free_right[v]), left, right, free_left, free_right)
        left[u, colour], right[v, colour] = v, u
        used = ~(np.uint64(1) << np.uint64(colour & 63))
        free_left[u, colour >> 6] &= used
        free_right[v, colour >> 6] &= used
    return _colours_from(parts_u, parts_v, left, count_v)


@kernel
def colour_nested(
    source: Ints, target: Ints, source_pod: Ints, target_pod: Ints,
    leaves: int, pods: int, planes: int, plane_of: Ints, plane_count: int, cores: int,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Colour edges between leaves with uplinks, then, plane by plane, edges between pods with cores.

    `plane_of` is the plane of each of the `planes` uplink colours. Returns uplink and core of each edge; the core is -1
    inside a pod.
    """
    uplink = colour_edges(source, target, leaves, planes)
    core = colour_cores(plane_of[uplink], source_pod, target_pod, pods, plane_count, cores)
    return uplink, core


@kernel
def colour_cores(plane: Ints, source_pod: Ints, target_pod: Ints, pods: int, planes: int, cores: int) -> Ints:
    """Colour edges between pods with cores, plane by plane; return the core of each edge, -1 inside a pod."""
    begin = np.zeros(planes + 1, np.int64)
    for e in range(plane.shape[0]):
        if source_pod[e] != target_pod[e]:
            begin[plane[e] + 1] += 1
    for p in range(planes):
        begin[p + 1] += begin[p]
    edges, place = np.empty(begin[planes], np.int64), begin[:-1].copy()
    for e in range(plane.shape[0]):
        if source_pod[e] != target_pod[e]:
            edges[place[plane[e]]] = e
            place[plane[e]] += 1
    core = np.full(plane.shape[0], -1, np.int64)
    for p in range(planes):
        some = edges[begin[p] : begin[p + 1]]
        core[some] = colour_edges(source_pod[some], target_pod[some], pods, cores)
    return core


@kernel
def _slot_parts(vertex: Ints, slots: Ints, full: Flags) -> tuple[Ints, Ints, Ints]:
    """Split every vertex into parts of at most one slot per colour, and distribute its edges evenly over them.

    A vertex marked `full` fills its parts in order instead: its last slots, which overload links, stay free.
    Returns the part of each edge (-1 past the last slot), the first part of each vertex, and the vertex of each part.
    """
    vertices, k = slots.shape
    degree = np.zeros(vertices, np.int64)
    for e in range(vertex.shape[0]):
        degree[vertex[e]] += 1
    begin, total = np.zeros(vertices + 1, np.int64), np.zeros(vertices, np.int64)
    room = np.zeros(vertex.shape[0] + 2 * vertices + 1, np.int64)
    for x in range(vertices):
        begin[x + 1], last = begin[x], False
        while degree[x] > 0 and not last:
            last = total[x] >= degree[x]
            level, wide = begin[x + 1] - begin[x], 0
            for c in range(k):
                wide += slots[x, c] > level
            if wide == 0:
                break
            total[x] += wide
            room[begin[x + 1]] = total[x]
            begin[x + 1] += 1
    part, cursor, seen = np.full(vertex.shape[0], -1, np.int64), begin[:-1].copy(), np.zeros(vertices, np.int64)
    for e in range(vertex.shape[0]):
        x = vertex[e]
        if seen[x] < total[x]:
            used = total[x] if full[x] else min(degree[x], total[x])
            while seen[x] >= used * room[cursor[x]] // total[x]:
                cursor[x] += 1
            part[e] = cursor[x]
        seen[x] += 1
    owner = np.empty(begin[vertices], np.int64)
    for x in range(vertices):
        owner[begin[x] : begin[x + 1]] = x
    return part, begin, owner


@kernel
def _slot_tables(slots: Ints, begin: Ints, owner: Ints) -> tuple[Mates, Words]:
    """Return the empty table of mates of all parts, and their free colours."""
    k = slots.shape[1]
    table = np.full((owner.shape[0], k), -2, np.int32)
    free = np.zeros((owner.shape[0], (k + 63) // 64), np.uint64)
    for x in range(owner.shape[0]):
        for c in range(k):
            if slots[owner[x], c] > x - begin[owner[x]]:
                table[x, c] = -1
                free[x, c >> 6] |= np.uint64(1) << np.uint64(c & 63)
    return table, free


@kernel
def _open_chain(v: int, a: int, b: int, left: Mates, right: Mates, steps: Ints) -> bool:
    """Return whether the chain from right vertex v by colour a can be flipped: no vertex lacks the other colour."""
    u = right[v, a]
    while True:
        steps[0] -= 1
        end = left[u, b]
        if end < 0:
            return bool(end == -1)
        following = right[end, a]
        if following < 0:
            return bool(following == -1)
        u = following


@kernel
def _slot_for(
    u: int, v: int, start: int, left: Mates, right: Mates, free_left: Words, free_right: Words, steps: Ints
) -> int:
    """Return a colour that is free at both parts, after a chain if need be; -1 where every chain is blocked.

    Once `steps` are used up, no chain is tried.
    """
    colour = _common_free(free_left[u], free_right[v], start)
    if colour >= 0:
        return colour
    k = left.shape[1]
    steps[0] -= 1
    for a in range(k):
        if left[u, a] != -1 or right[v, a] == -2:
            continue
        for b in range(k):
            if steps[0] > 0 and right[v, b] == -1 and _open_chain(v, a, b, left, right, steps):
                _flip_chain(v, a, b, left, right, free_left, free_right)
                return a
    return -1


@kernel
def colour_slots(
    source: Ints, target: Ints, slots_left: Ints, slots_right: Ints, full_left: Flags, full_right: Flags
) -> Ints:
    """Colour edges; colour c occurs at source u at most slots_left[u, c] times, likewise at targets. -1: no colour.

    Vertices marked full use their slots in order: the second slot of a colour only after the first ones of all.
    """
    parts_u, begin_u, owner_u = _slot_parts(source, slots_left, full_left)
    parts_v, begin_v, owner_v = _slot_parts(target, slots_right, full_right)
    left, free_left = _slot_tables(slots_left, begin_u, owner_u)
    right, free_right = _slot_tables(slots_right, begin_v, owner_v)
    k, steps = slots_left.shape[1], np.full(1, MAX_STEPS_PER_EDGE * (source.shape[0] + MAX_STEPS_PER_EDGE), np.int64)
    for e in range(source.shape[0]):
        u, v, colour = parts_u[e], parts_v[e], -1
        if u >= 0 and v >= 0:
            colour = _slot_for(u, v, e % k, left, right, free_left, free_right, steps)
        if colour < 0:
            # Any other pair of parts of the two vertices serves as well.
            for x in range(begin_u[source[e]], begin_u[source[e] + 1]):
                for y in range(begin_v[target[e]], begin_v[target[e] + 1]):
                    if colour < 0 and steps[0] > 0:
                        u, v = x, y
                        colour = _slot_for(u, v, e % k, left, right, free_left, free_right, steps)
        if colour < 0:
            parts_u[e] = -1
            continue
        parts_u[e], parts_v[e] = u, v
        left[u, colour], right[v, colour] = v, u
        used = ~(np.uint64(1) << np.uint64(colour & 63))
        free_left[u, colour >> 6] &= used
        free_right[v, colour >> 6] &= used
    return _colours_from(parts_u, parts_v, left, owner_v.shape[0])


@kernel
def repetition(source: Ints, target: Ints) -> int:
    """Return the largest number that divides the length of every run of edges between the same two vertices."""
    common, length = 0, 0
    for e in range(source.shape[0]):
        length += 1
        if e + 1 < source.shape[0] and source[e + 1] == source[e] and target[e + 1] == target[e]:
            continue
        while length > 0:
            common, length = length, common % length
        if common == 1:
            return 1
    return common


@kernel
def shifted(colour: Ints, copies: int, colours: int, step: int) -> Ints:
    """Return the colours of `copies` of every edge; copy i is shifted by `step` * i, so the colouring stays proper."""
    found = np.empty(colour.shape[0] * copies, np.int64)
    for e in range(colour.shape[0]):
        for copy in range(copies):
            found[e * copies + copy] = (colour[e] + copy * step) % colours if colour[e] >= 0 else -1
    return found


@kernel
def largest_degree(source: Ints, target: Ints, vertices: int) -> int:
    """Return the largest degree of a source or target."""
    out, into, largest = np.zeros(vertices, np.int64), np.zeros(vertices, np.int64), 0
    for e in range(source.shape[0]):
        out[source[e]] += 1
        into[target[e]] += 1
    for x in range(vertices):
        largest = max(largest, out[x], into[x])
    return largest
