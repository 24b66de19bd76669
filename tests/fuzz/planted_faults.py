"""Out-of-bounds accesses, planted in kernels and in the tables of a whole gateway: each must be detected."""

import numpy as np

from heddle.dataplane.gateway.memory.state import empty_state
from heddle.dataplane.jit import kernel
from heddle.dataplane.packet.memory import copy, load8, load32, store16
from heddle.dataplane.tables.lookup import row1
from tests.fuzz.mutated_gateway import LIMITS


@kernel
def plant(kind, memory, state, tables, none):
    """Do one invalid access; `none` is -1, as for a missing row."""
    if kind == 0:
        return load32(memory, memory.size - 3)
    if kind == 1:
        return load8(memory, none)
    if kind == 2:
        store16(memory, memory.size - 1, 7)
    elif kind == 3:
        copy(memory, memory.size - 8, memory, 0, 9)
    elif kind == 4:
        return np.int64(memory[memory.size])
    elif kind == 5:
        return state.slots[state.slots.shape[0]]
    elif kind == 6:
        return state.connections[none].key
    elif kind == 7:
        state.connections[state.connections.shape[0]].key = 1
    elif kind == 8:
        return state.port_bits[0, state.port_bits.shape[1]]
    elif kind == 9:
        return state.port_bits[none, 0]
    elif kind == 10:
        return tables.next_hops[tables.next_hops.shape[0]].kind
    else:
        return row1(tables.vnis[:, :1], 5)
    return 0


KINDS = 12


def found_faults(tables):
    """Return the kinds that raised IndexError."""
    memory, state, found = np.zeros(64, np.uint8), empty_state(LIMITS), []
    for kind in range(KINDS):
        try:
            plant(np.int64(kind), memory, state, tables, np.int64(-1))
        except IndexError:
            found.append(kind)
    return found


def broken(tables, name):
    """Return tables with one index that points beyond the table behind it."""
    grid = getattr(tables, name).copy()
    grid[grid[:, -1] >= 0, -1] += 1 << 20
    return tables._replace(**{name: grid})


BREAKABLE = ("vnis", "endpoints", "routes", "floating_in", "floating_out", "vlans")
