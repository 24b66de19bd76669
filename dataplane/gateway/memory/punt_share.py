"""Everybody's share of the way to the slow path: a flood of packets for it takes it from nobody else.

Each VPC, and each port for what comes from no VPC, has two accounts: one for ARP and neighbour discovery, one for all
the rest, so that a flood of pings does not keep the gateway from hearing of its neighbours. An account gets a packet
each PACKET_NS in the long run, and MAX_BURST of them at once (the algorithm of ITU-T I.371, A.1, in nanoseconds). What is
more is dropped and counted. The slow path has finer limits of its own, for what it sends.
"""

from dataplane.engine.reasons import Punt
from dataplane.jit import Ints, Row, inline

PACKET_NS = 250_000
MAX_BURST = 1024
PORTS = 64
"""Accounts of ports; those of VPCs, by row of the tables, come behind them, and go round where there are too many."""
ARP, NEIGHBOUR = int(Punt.ARP), int(Punt.NEIGHBOUR)


@inline
def may_punt(dues: Ints, packet: Row, now_ns: int) -> bool:
    """Whether the slow path may have a packet, which counts then."""
    account = packet.in_port if packet.vpc < 0 else PORTS + packet.vpc
    is_neighbours = packet.reason == ARP or packet.reason == NEIGHBOUR
    at = (2 * account + (1 if is_neighbours else 0)) & (dues.shape[0] - 1)
    due = max(dues[at], now_ns)
    if due - now_ns >= MAX_BURST * PACKET_NS:
        return False
    dues[at] = due + PACKET_NS
    return True
