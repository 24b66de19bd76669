"""Rate limits on the path to the slow path, so that one tenant's flood does not block the others.

Each VPC has two accounts, and so has each port for packets without a VPC: one for ARP and neighbour discovery, one for
all other packets, so that a flood of pings does not keep the gateway from learning its neighbours. An account allows
one packet per PACKET_NS, with bursts of MAX_BURST (the virtual scheduling algorithm of ITU-T I.371, A.1, in
nanoseconds). Packets beyond are dropped and counted. The slow path has finer limits of its own for what it sends.
"""

from heddle.dataplane.engine.reasons import Punt
from heddle.dataplane.jit import Ints, Row, inline

PACKET_NS = 250_000
MAX_BURST = 1024
PORTS = 64
"""Number of ports' accounts. The VPCs' accounts follow, by table row, and wrap round if there are too many VPCs."""
ARP, NEIGHBOUR = int(Punt.ARP), int(Punt.NEIGHBOUR)


@inline
def may_punt(dues: Ints, packet: Row, now_ns: int) -> bool:
    """Return whether a packet may go to the slow path, and count it if so."""
    account = packet.in_port if packet.vpc < 0 else PORTS + packet.vpc
    is_neighbours = packet.reason == ARP or packet.reason == NEIGHBOUR
    at = (2 * account + (1 if is_neighbours else 0)) & (dues.shape[0] - 1)
    due = max(dues[at], now_ns)
    if due - now_ns >= MAX_BURST * PACKET_NS:
        return False
    dues[at] = due + PACKET_NS
    return True
