"""The last element: each packet leaves by its next hop."""

from heddle.dataplane.elements.leave import leave
from heddle.dataplane.elements.work import Work
from heddle.dataplane.engine.burst import drop
from heddle.dataplane.engine.reasons import Drop
from heddle.dataplane.jit import element
from heddle.dataplane.tables.lookup import place


@element
def output(node: int, work: Work) -> None:
    """Give every packet its fate."""
    packets, memory, tables = work.packets, work.memory, work.tables
    for i in range(work.size):
        packet = packets[i]
        if packet.node == node:
            if packet.next_hop < 0:
                drop(packet, Drop.BAD_STATE)
            else:
                leave(memory, packet, tables.next_hops[place(packet.next_hop)], tables)
