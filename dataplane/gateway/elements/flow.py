"""The parts of header parsing that IPv4 and IPv6 share: the end of the packet, fragments, ports and the flow hash."""

from typing import Any

from dataplane.engine.burst import FIRST_FRAGMENT, LATER_FRAGMENT, NOT_A_FRAGMENT
from dataplane.engine.hashing import mixed5
from dataplane.gateway.elements.arrival import fail
from dataplane.gateway.memory.connections import key_of
from dataplane.jit import Bytes, Row, inline
from dataplane.packet.transport import ports_of


@inline
def ends_at(packet: Row, end: int) -> bool:
    """End the frame where its IP packet ends; return False if it lies in several buffers and continues beyond that."""
    if packet.first_length == packet.length:
        packet.first_length = end - packet.at
        packet.length = end - packet.at
        return True
    return packet.length == end - packet.at


@inline
def fragment_kind(offset: int, has_more: int) -> int:
    """Return NOT_A_FRAGMENT, FIRST_FRAGMENT or LATER_FRAGMENT."""
    if offset != 0:
        return LATER_FRAGMENT
    return FIRST_FRAGMENT if has_more != 0 else NOT_A_FRAGMENT


@inline
def finish(memory: Bytes, packet: Row, l4: int, l4_bytes: int, protocol: int, fragment: int, seed: int) -> None:
    """Fill in the ports and the hash of a packet, or drop it for a faulty transport header.

    A later fragment has no ports; they are filled in when its first fragment is found. `l4` to `fragment` are the
    fields of the row; `seed` is the seed of the hash.
    """
    if fragment != LATER_FRAGMENT:
        end = packet.at + packet.first_length
        ports = ports_of(memory, l4, l4_bytes, end, protocol, fragment == NOT_A_FRAGMENT)
        if ports < 0:
            fail(packet, ports)
            return
        packet.ports = ports
    packet.hash = hash_of(packet, seed)


@inline
def hash_of(packet: Row, seed: int) -> Any:
    """Return the flow hash of a packet, which selects the bucket of its connection."""
    key = key_of(packet.ports, packet.protocol, packet.vni)
    return mixed5(packet.source_hi, packet.source_lo, packet.target_hi, packet.target_lo, key, seed)
