"""What each connection belongs to (`config.incarnations`): a VPC, peering, direct connect or floating IP on each side.

Keys of connections contain VNIs and public addresses, which may have another owner later. A connection is admitted
again by each generation of tables before it forwards a packet (`elements.admit`), and ends there if it belongs to
something else by then; `sweep` ends those that never have another packet.

The partner may know of networks that are not here yet: what a later generation than that of the tables decided may
belong to what is unknown.
"""

from heddle.dataplane.gateway.memory.state import (
    COLUMNS,
    CREATED_NS,
    DECIDED_AT,
    SOURCE,
    STARTED_AT,
    TARGET,
    State,
)
from heddle.dataplane.jit import Row, element, inline
from heddle.dataplane.tables.lookup import row1
from heddle.dataplane.tables.schema import EMPTY, OUTSIDE, OWN_NETWORK_GENERATION, Tables


@inline
def draft_of(state: State) -> int:
    """Return the row of the draft in `incarnations`."""
    return state.incarnations.shape[0] - 1


@inline
def write_draft(state: State, source: int, target: int, decided_at: int) -> None:
    """Write what the draft belongs to."""
    draft = draft_of(state)
    state.incarnations[draft, SOURCE] = source
    state.incarnations[draft, TARGET] = target
    state.incarnations[draft, DECIDED_AT] = decided_at


@inline
def copy_draft(state: State, pair: int, now_ns: int) -> None:
    """Let a connection created now belong to what its draft does."""
    draft = draft_of(state)
    for column in (SOURCE, TARGET, DECIDED_AT):
        state.incarnations[pair, column] = state.incarnations[draft, column]
    state.incarnations[pair, CREATED_NS] = now_ns


@inline
def clear(state: State, pair: int) -> None:
    """Let a pair that ends belong to nothing."""
    for column in range(COLUMNS):
        state.incarnations[pair, column] = 0


@inline
def is_there(tables: Tables, incarnation: int) -> bool:
    """Whether something is in the tables; what is outside always is."""
    return incarnation == OUTSIDE or row1(tables.incarnations, incarnation) != EMPTY


@inline
def is_gone(tables: Tables, source: int, target: int, decided_at: int) -> bool:
    """Whether what a connection belongs to is not in tables that know of it."""
    if decided_at > tables.own[OWN_NETWORK_GENERATION]:
        return False
    return not (is_there(tables, source) and is_there(tables, target))


@inline
def belongs_alike(state: State, pair: int, source: int, target: int) -> bool:
    """Whether a connection belongs to these incarnations."""
    return state.incarnations[pair, SOURCE] == source and state.incarnations[pair, TARGET] == target


@inline
def is_record_of(state: State, pair: int, record: Row) -> bool:
    """Whether the partner's record and a connection with its key belong to the same."""
    return belongs_alike(state, pair, record.source_incarnation, record.target_incarnation)


@element
def is_as_old_as_start(tables: Tables, state: State) -> bool:
    """Whether what the draft belongs to may have had connections before this process started."""
    draft = draft_of(state)
    source, target = state.incarnations[draft, SOURCE], state.incarnations[draft, TARGET]
    newest = max(row1(tables.incarnations, source), row1(tables.incarnations, target))
    return newest <= state.counts[STARTED_AT]
