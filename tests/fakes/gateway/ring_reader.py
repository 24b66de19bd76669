"""What a process at the other end of a ring does: it takes the oldest entry."""

from dataplane.engine.rings import Ring, consume, front
from dataplane.jit import kernel


@kernel
def oldest(ring: Ring, taken: bool) -> int:
    """Return where the oldest entry begins, -1 where there is none; let its place be used again where it is taken."""
    at = front(ring)
    if taken and at >= 0:
        consume(ring, at)
    return at
