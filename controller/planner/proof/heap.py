"""Kernels of a binary min-heap of links, as an array of keys and an array of links."""

from heddle.controller.planner.ground.jit import Floats, Ints, kernel


@kernel
def sink(key: Floats, link: Ints, size: int, place: int) -> None:
    """Restore the heap order below an index (sift down)."""
    moved_key, moved = key[place], link[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and key[child + 1] < key[child]:
            child += 1
        if key[child] >= moved_key:
            break
        key[place], link[place] = key[child], link[child]
        place = child
    key[place], link[place] = moved_key, moved
