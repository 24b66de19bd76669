"""Count the fates of frames, in the same way for every kind of port."""

from heddle.dataplane.engine.burst import DROPPED, PUNTED
from heddle.dataplane.engine.counters import Counters
from heddle.dataplane.engine.reasons import DROPS, PUNTS, Drop
from heddle.dataplane.jit import Row, inline

BAD_STATE, TRANSMIT_FAILED = int(Drop.BAD_STATE), int(Drop.TRANSMIT_FAILED)


@inline
def count_end(packet: Row, counters: Counters) -> None:
    """Count a frame that is not sent: punted, or dropped for its reason."""
    counted = counters.ports[packet.in_port]
    if packet.node == PUNTED and 0 <= packet.reason < PUNTS:
        counters.punts[packet.reason] += 1
        counted.punted += 1
        return
    known = packet.node == DROPPED and 0 <= packet.reason < DROPS
    counters.drops[packet.reason if known else BAD_STATE] += 1
    counted.dropped += 1


@inline
def count_lost(counters: Counters, port: int, count: int) -> None:
    """Count frames as dropped that a port has counted as sent."""
    counted = counters.ports[port]
    counted.tx_packets -= count
    counted.tx_failed += count
    counted.dropped += count
    counters.drops[TRANSMIT_FAILED] += count
