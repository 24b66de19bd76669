"""Whether a run may be believed: the books of its packets, and the links they were counted on.

A run on an overloaded machine loses packets that no queue of the fabric dropped. Such a run says nothing about
paths, so it is called invalid and compared with nothing.
"""

from collections.abc import Mapping, Sequence

MAX_FAULTS = 4


def check_links(
    links: Sequence[str], packets_on: Mapping[str, int], tx_packets: int, rx_packets: int
) -> tuple[str, ...]:
    """Return what is wrong with one queue pair's counts, nothing where it was seen on exactly its links.

    `packets_on` is what was captured of it on any link of the fabric. The first link must show what the NIC sent,
    the last what the other NIC received, and none in between more than the one before.
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
    """Keep the first problems: a machine that stalls has hundreds, and they say the same."""
    if len(problems) <= MAX_FAULTS:
        return tuple(problems)
    return (*problems[:MAX_FAULTS], f"and {len(problems) - MAX_FAULTS} more")
