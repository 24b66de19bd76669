"""Check the packet counts of a queue pair on the links of its path, and shorten lists of problems."""

from collections.abc import Mapping, Sequence

MAX_FAULTS = 4


def check_links(
    links: Sequence[str], packets_on: Mapping[str, int], tx_packets: int, rx_packets: int
) -> tuple[str, ...]:
    """Return a line for each wrong packet count of one queue pair; empty if it was captured on exactly its links.

    `packets_on` are its captured packets per link, of all links of the fabric. The first link must have the number that
    the NIC sent, the last the number that the other NIC received, and no link more than the one before it.
    """
    faults = [
        f"{seen} packets on {link}, off its path" for link, seen in packets_on.items() if seen and link not in links
    ]
    expected = [tx_packets, *(packets_on.get(link, 0) for link in links), rx_packets]
    if expected[1] != tx_packets:
        faults.append(f"{tx_packets} packets sent, {expected[1]} on {links[0]}")
    for link, before, here in zip(links[1:], expected[1:], expected[2:], strict=False):
        if here > before or (here < before and tx_packets == rx_packets):
            faults.append(f"{before} packets before {link}, {here} on it")
    if expected[-2] != rx_packets:
        faults.append(f"{expected[-2]} packets on {links[-1]}, {rx_packets} received")
    return tuple(faults)


def shortened(problems: Sequence[str]) -> tuple[str, ...]:
    """Return the first `MAX_FAULTS` problems and the number of the others: a stalled machine causes hundreds."""
    if len(problems) <= MAX_FAULTS:
        return tuple(problems)
    return (*problems[:MAX_FAULTS], f"and {len(problems) - MAX_FAULTS} more")
