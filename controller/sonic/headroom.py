"""Compute the PFC headroom of a lossless priority group: the bytes that still arrive after XOFF was sent."""

METRES_PER_S = 198_000_000
"""The speed of light in fibre, as SONiC's own headroom calculation has it."""
QUANTUM_BYTES = 64
_PAUSE_QUANTA = {
    1_000: 2,
    10_000: 67,
    25_000: 80,
    40_000: 118,
    50_000: 147,
    100_000: 394,
    200_000: 453,
    400_000: 905,
    800_000: 905,
}
"""The most pause quanta (512 bit times) until a station has stopped, by speed in Mbit/s (IEEE 802.3, 31B.3.7)."""


def pause_quanta(speed_mbps: int) -> int:
    """Return the pause quanta of a speed; of an unlisted one, those of the next faster speed."""
    return next((quanta for speed, quanta in _PAUSE_QUANTA.items() if speed >= speed_mbps), max(_PAUSE_QUANTA.values()))


def headroom_bytes(speed_mbps: int, cable_metres: int, mtu_bytes: int) -> int:
    """Return the bytes that arrive after XOFF: cable there and back, the sender's reaction, a frame at each end.

    It is the worst case: a sender that uses all the time that IEEE 802.3 allows, frames of the MTU.
    """
    return _cable_bytes(speed_mbps, cable_metres) + pause_quanta(speed_mbps) * QUANTUM_BYTES + 2 * mtu_bytes


def least_headroom_bytes(speed_mbps: int, cable_metres: int, mtu_bytes: int, lossless_bytes: int) -> int:
    """Return the bytes that arrive after XOFF even where the sender stops at once.

    Cable there and back, a frame of the MTU that the pause waits for, and a lossless frame that has begun: SONiC's own
    calculation (sonic-swss, cfgmgr/buffer_headroom_mellanox.lua) with no delay in the peer, the MAC and the PHY.
    """
    return _cable_bytes(speed_mbps, cable_metres) + mtu_bytes + lossless_bytes


def _cable_bytes(speed_mbps: int, cable_metres: int) -> int:
    return 2 * cable_metres * speed_mbps * 1_000_000 // METRES_PER_S // 8
