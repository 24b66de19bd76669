"""A heap of links by a key each, in two arrays side by side."""

from controller.planner.jit import Floats, Ints, kernel


@kernel
def sink(key: Floats, link: Ints, size: int, place: int) -> None:
    """Restore the heap order below a place."""
    share, moved = key[place], link[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and key[child + 1] < key[child]:
            child += 1
        if key[child] >= share:
            break
        key[place], link[place] = key[child], link[child]
        place = child
    key[place], link[place] = share, moved
