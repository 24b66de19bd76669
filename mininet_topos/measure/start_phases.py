"""When queue pairs begin: spread over the time between two frames, so that no queue stands where none has to.

Frames that all leave at one instant stand in line together; 31 of them at one receiver are more than a switch takes
before it pauses. NICs that pace do not begin so: each is somewhere in its interval. Here that place follows from the
order of the queue pairs alone. No clock, no socket.
"""

from collections.abc import Sequence

GOLDEN_RATIO = 0.618034
"""Multiples of it, modulo 1, stay apart from each other however many there are."""


def start_phases(pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Return for queue pairs, as (sending NIC, receiving NIC), the share of its interval after which each begins.

    Those of one NIC, at the sending or the receiving end, whichever has more of them, are spread evenly: the first of n
    at the beginning, the next after 1/n. The NICs are set apart from each other.
    """
    sent, received = _by_nic([src for src, _ in pairs]), _by_nic([dst for _, dst in pairs])
    phases = []
    for index, (src, dst) in enumerate(pairs):
        ends, nic = (received, dst) if len(received[dst]) > len(sent[src]) else (sent, src)
        place, number = ends[nic].index(index), list(ends).index(nic)
        phases.append((place / len(ends[nic]) + number * GOLDEN_RATIO) % 1)
    return phases


def start_offset_ns(phase: float, frame_bits: int, rate_bps: int) -> int:
    """Return when a queue pair begins that sends frames of so many bits at `rate_bps`."""
    return int(phase * frame_bits * 1e9 / rate_bps)


def _by_nic(nics: Sequence[str]) -> dict[str, list[int]]:
    """Return the queue pairs of each NIC by number, NICs in the order they first appear."""
    found: dict[str, list[int]] = {}
    for index, nic in enumerate(nics):
        found.setdefault(nic, []).append(index)
    return found
