"""End the connections whose VPC, peering, direct connect or floating IP is gone (`incarnations`).

They would hold rows and public ports, and count against the VPC that has the VNI by now. Each generation of tables
checks all pairs once, between two bursts and MAX_PER_SWEEP a call, so that a table of a million takes about a hundred
milliseconds, and one of some thousands is done before the first packet of the generation.
"""

from heddle.dataplane.gateway.memory.connections import end_connection
from heddle.dataplane.gateway.memory.incarnations import is_gone
from heddle.dataplane.gateway.memory.state import (
    DECIDED_AT,
    PAIRS_USED,
    SOURCE,
    STARTED_AT,
    SWEEP_LEFT,
    SWEEP_NEXT,
    SWEPT_BY,
    TARGET,
    State,
)
from heddle.dataplane.jit import element
from heddle.dataplane.tables.schema import OWN_NETWORK_GENERATION, Tables

MAX_PER_SWEEP = 1 << 13


@element
def sweep(tables: Tables, state: State) -> None:
    """Check the pairs that this generation of tables has yet to check, MAX_PER_SWEEP at most."""
    counts = state.counts
    if counts[STARTED_AT] == 0:
        counts[STARTED_AT] = tables.own[OWN_NETWORK_GENERATION]
    if counts[SWEPT_BY] != tables.generation[0]:
        counts[SWEPT_BY] = tables.generation[0]
        counts[SWEEP_LEFT] = counts[PAIRS_USED]
    for _ in range(min(counts[SWEEP_LEFT], MAX_PER_SWEEP)):
        counts[SWEEP_LEFT] -= 1
        pair = counts[SWEEP_NEXT] if counts[SWEEP_NEXT] < counts[PAIRS_USED] else 0
        counts[SWEEP_NEXT] = pair + 1
        found = state.incarnations[pair]
        if is_gone(tables, found[SOURCE], found[TARGET], found[DECIDED_AT]):
            end_connection(state, 2 * pair)
