"""Process a burst between memory ports through all of a gateway's elements, like the run loop does."""

import hashlib
from pathlib import Path

import numba

from heddle import dataplane
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import BURST
from heddle.dataplane.gateway.elements.fragment import fragment
from heddle.dataplane.gateway.memory.ageing import age
from heddle.dataplane.gateway.memory.connections import free_ended_pairs
from heddle.dataplane.gateway.run import walk
from heddle.dataplane.io.ports import receive, settle
from heddle.dataplane.jit import CHECKED
from heddle.kernels.cache import digest, keep_on_disk


@numba.njit(nogil=True, _nrt=False, error_model="numpy", boundscheck=CHECKED)
def through(ports, port, packets, graph, tables, state, counters, now_ns):
    """Process one burst of a port until every packet has a fate; return how many packets."""
    age(tables, state, now_ns)
    count = receive(ports, port, packets, BURST, counters)
    walk(Work(packets, count, ports.memory, graph, tables, state, now_ns))
    made = fragment(ports, packets, count, tables, counters)
    settle(ports, ports.spare if made else packets, max(count, made), counters)
    free_ended_pairs(state)
    return count


STAMP = digest(Path(dataplane.__file__).parent) + hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
keep_on_disk(through, stamp=STAMP, variant="-checked" if CHECKED else "")
