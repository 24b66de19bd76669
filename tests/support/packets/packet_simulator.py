"""Read the files of runs of the HPCC packet-level simulator (ns-3), and recompute the paths of its ECMP hash.

Its switches hash addresses and ports by MurmurHash3 (Appleby, 2011, x86, 32 bits) with their node number as the seed.
The remainder by the number of next hops selects one, in the order of the topology file.
"""

from itertools import pairwise
from pathlib import Path

REFERENCE = Path(__file__).parents[2] / "data" / "packet_reference"
"""The files of one topology and six runs; its README says how they were made."""
MASK = 0xFFFFFFFF
PAYLOAD_BYTES, HEADER_BYTES = 1000, 48
"""A packet's payload, and what Ethernet, IP, UDP and the simulator's own headers add to it on the wire."""


def _rotated(word, bits):
    return (word << bits | word >> (32 - bits)) & MASK


def murmur3(words, seed):
    """Return the 32-bit hash of whole little-endian words."""
    value = seed
    for word in words:
        value ^= _rotated(word * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK
        value = (_rotated(value, 13) * 5 + 0xE6546B64) & MASK
    value ^= 4 * len(words)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        value = (value ^ value >> shift) * factor & MASK
    return value ^ value >> 16


def address(node):
    """Return a host's IPv4 address: 11.0.0.1 plus its number, in its second and third bytes."""
    return 0x0B000001 + (node // 256 << 16) + (node % 256 << 8)


def node_at(ip):
    """Return the number of the host that has an address."""
    return (ip - 0x0B000001 >> 16 << 8) + (ip >> 8 & 0xFF)


class Run:
    """A topology of hosts and two tiers of switches as its file has it: directed links and their rates."""

    def __init__(self, topology: Path):
        """Read `nodes switches links`, the switches' numbers and a line per cable."""
        header, switches, *cables = topology.read_text().split("\n")
        self.switches = {int(node) for node in switches.split()}
        self.neighbours, self.link, self.rate_bps = {}, {}, []
        for line in cables[: int(header.split()[2])]:
            a, b, rate, *_ = line.split()
            for end, other in ((int(a), int(b)), (int(b), int(a))):
                self.neighbours.setdefault(end, []).append(other)
                self.link[end, other] = len(self.rate_bps)
                self.rate_bps.append(int(rate.removesuffix("Gbps")) * 10**9)

    def path(self, source, target, source_port, target_port):
        """Return the directed links from one host to another for packets with these ports."""
        key = (address(source), address(target), source_port | target_port << 16)
        here, end = self.neighbours[source][0], self.neighbours[target][0]
        nodes = [source, here]
        if here != end:
            hops = [node for node in self.neighbours[here] if node in self.switches]
            nodes += [hops[murmur3(key, here) % len(hops)], end]
        nodes.append(target)
        return [self.link[pair] for pair in pairwise(nodes)]

    def flows(self, completions: Path):
        """Return (path, bytes on the wire, start in ns, completion in ns) of a run's flows, by its result file."""
        found = []
        for line in completions.read_text().splitlines():
            source, target, source_port, target_port, size, start, completion, _ = line.split()
            start_node, end_node = node_at(int(source, 16)), node_at(int(target, 16))
            packets = -(-int(size) // PAYLOAD_BYTES)
            path = self.path(start_node, end_node, int(source_port), int(target_port))
            found.append((path, int(size) + HEADER_BYTES * packets, int(start), int(completion)))
        return found
