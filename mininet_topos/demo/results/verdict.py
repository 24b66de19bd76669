"""Check the packet counts of a queue pair on the links of its paths, and shorten lists of problems."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from heddle.mininet_topos.measure.flow_run import FlowResult
from heddle.mininet_topos.nic.path_move import FAILURE

MAX_FAULTS = 4


class Leg(NamedTuple):
    """The part of a queue pair's packets that left from one port: the path of that port, and where they were captured.

    `packets_on` are the packets per link, of all links of the fabric. After a failure a path is left `broken`: switches
    have sent packets around it, or dropped them.
    """

    links: Sequence[str]
    packets_on: Mapping[str, int]
    broken: bool = False


def legs_of(
    flow: FlowResult, path_of_port: Mapping[int, Sequence[str]], packets_on: Callable[[int], Mapping[str, int]]
) -> list[Leg]:
    """Return a leg for each port that a queue pair has had, in the order of its moves.

    `packets_on` returns the captured packets of a port per link; a port without a path in `path_of_port` has no links.
    """
    ports = dict.fromkeys((flow.request.udp_source_port, *(move.new_udp_source_port for move in flow.moves)))
    broken = {move.old_udp_source_port for move in flow.moves if move.kind == FAILURE}
    return [Leg(path_of_port.get(port, ()), packets_on(port), port in broken) for port in ports]


def check_legs(legs: Sequence[Leg], tx_packets: int, rx_packets: int) -> tuple[str, ...]:
    """Return a line for each wrong packet count of one queue pair; empty if it was captured on exactly its links.

    The first links together must have the number that the NIC sent, the last links the number that the other NIC
    received, no link of a leg more than the one before it, and no other link any. Of a broken leg only the ends count.
    """
    faults = [f"{seen} packets on {link}, off its path" for leg in legs for link, seen in _strays(leg)]
    sent, received = (sum(leg.packets_on.get(leg.links[end], 0) for leg in legs if leg.links) for end in (0, -1))
    first, last = (next((leg.links[end] for leg in legs if leg.links), "no link") for end in (0, -1))
    if sent != tx_packets:
        faults.append(f"{tx_packets} packets sent, {sent} on {first}")
    for leg in legs:
        counts = [leg.packets_on.get(link, 0) for link in leg.links]
        for link, before, here in zip(leg.links[1:], counts, counts[1:], strict=False):
            if not leg.broken and (here > before or (here < before and tx_packets == rx_packets)):
                faults.append(f"{before} packets before {link}, {here} on it")
    if received != rx_packets:
        faults.append(f"{received} packets on {last}, {rx_packets} received")
    return tuple(faults)


def _strays(leg: Leg) -> list[tuple[str, int]]:
    return [(link, seen) for link, seen in leg.packets_on.items() if seen and link not in leg.links and not leg.broken]


def shortened(problems: Sequence[str]) -> tuple[str, ...]:
    """Return the first `MAX_FAULTS` problems and the number of the others: a stalled machine causes hundreds."""
    if len(problems) <= MAX_FAULTS:
        return tuple(problems)
    return (*problems[:MAX_FAULTS], f"and {len(problems) - MAX_FAULTS} more")
