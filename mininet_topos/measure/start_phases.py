"""Start times of queue pairs: spread over one packet interval, so that simultaneous first frames build no queue.

Frames that all leave at the same instant queue up at their receiver's port; 31 of them exceed a switch's XOFF
threshold. Real pacing NICs are at random phases of their intervals. Here the phase follows from the order of the queue
pairs alone. Pure functions.
"""

from collections.abc import Sequence

GOLDEN_RATIO = 0.618034
"""Multiples of the golden ratio, modulo 1, are spread evenly for any number of them."""


def start_phases(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return the start phase in [0, 1) of each queue pair, given as (sending NIC, receiving NIC).

    The phase is the fraction of its packet interval after which a queue pair starts. The n queue pairs of one NIC, at
    the end that has more of them, start 1/n apart. Different NICs are offset from each other.
    """
    sent, received = _by_nic([src for src, _ in pairs]), _by_nic([dst for _, dst in pairs])
    phases = []
    for index, (src, dst) in enumerate(pairs):
        ends, nic = (received, dst) if len(received[dst]) > len(sent[src]) else (sent, src)
        place, number = ends[nic].index(index), list(ends).index(nic)
        phases.append((place / len(ends[nic]) + number * GOLDEN_RATIO) % 1)
    return phases


def start_offset_ns(phase: float, frame_bits: int, rate_bps: int) -> int:
    """Return the start time of a queue pair that sends frames of `frame_bits` at `rate_bps`."""
    return int(phase * frame_bits * 1e9 / rate_bps)


def _by_nic(nics: Sequence[str]) -> dict[str, list[int]]:
    """Return the indices of each NIC's queue pairs, NICs in order of first appearance."""
    found: dict[str, list[int]] = {}
    for index, nic in enumerate(nics):
        found.setdefault(nic, []).append(index)
    return found
