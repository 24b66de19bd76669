"""The reader of a ring, in compiled code."""

from heddle.dataplane.engine.rings import Ring, consume, front
from heddle.dataplane.jit import kernel


@kernel
def oldest(ring: Ring, taken: bool) -> int:
    """Return the offset of the oldest record, -1 for none; release its space if `take` is set."""
    at = front(ring)
    if taken and at >= 0:
        consume(ring, at)
    return at
