"""Rounds over a table, a few rows with each call.

A round takes ROUND_NS, however often the data process calls: each call checks as many rows as the elapsed time allows,
MAX_PER_CALL at most. What is to end after a timeout thus lives for one round longer at most.
"""

from heddle.dataplane.jit import Ints, inline

SECOND_NS = 1_000_000_000
ROUND_NS = 4 * SECOND_NS
MAX_PER_CALL = 256


@inline
def rows_due(counts: Ints, word: int, rows: int, now_ns: int) -> int:
    """Return how many of `rows` rows to check now; `counts[word]` is when the last ones were."""
    elapsed_ns = min(now_ns - counts[word], ROUND_NS)
    if rows == 0 or elapsed_ns < 0:
        counts[word] = now_ns
        return 0
    due = elapsed_ns * rows // ROUND_NS
    if due != 0:
        counts[word] = now_ns
    return min(due, MAX_PER_CALL)
