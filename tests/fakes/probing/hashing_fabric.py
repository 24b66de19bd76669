"""A leaf-spine or three-tier fabric of hashing routers, one function per tier, that replies to probes.

The hashes are those that were measured or are documented for switches: CRC-16 cut by modulo or scaled, an XOR of the
header's words, and a hash that mixes all bits (SHA-256 here, SipHash in Linux), each with a seed per router or one for
all.
"""

import binascii
import hashlib
import struct
from collections.abc import Callable
from typing import NamedTuple

from heddle.probing.probe import ROCE_PORT, Question

Hash = Callable[[bytes, int, int], int]
"""Which of n next hops a header's bytes lead to, under a router's seed."""


def crc_modulo(header: bytes, seed: int, n: int) -> int:
    return binascii.crc_hqx(header, seed & 0xFFFF) % n


def crc_scaled(header: bytes, seed: int, n: int) -> int:
    return binascii.crc_hqx(header, seed & 0xFFFF) * n >> 16


def xor(header: bytes, seed: int, n: int) -> int:
    folded = seed & 0xFFFF
    for (word,) in struct.iter_unpack("!H", header):
        folded ^= word
    return (folded ^ folded >> 8) % n


def mixing(header: bytes, seed: int, n: int) -> int:
    return int.from_bytes(hashlib.sha256(seed.to_bytes(8, "big") + header).digest()[:4]) % n


class Router(NamedTuple):
    """The tier (1 leaf, 2 spine or agg, 3 core) and the way that led to it."""

    hop: int
    way: tuple[int, ...]


class HashingFabric:
    """Every NIC is below a leaf of its own; tier t has `widths[t]` next hops upwards."""

    def __init__(self, widths: tuple[int, ...], hashes: Hash, equal_seeds: bool = False) -> None:
        self._widths, self._hash, self._equal = widths, hashes, equal_seeds
        self.probes = 0

    def way(self, src_ip: int, dst_ip: int, port: int) -> tuple[int, ...]:
        """Return the choices on the way up."""
        header = struct.pack("!IIBHHx", src_ip, dst_ip, 17, port, ROCE_PORT)
        chosen: tuple[int, ...] = ()
        for tier, width in enumerate(self._widths):
            seed = 1 if self._equal else hash((tier, src_ip if tier == 0 else 0, *chosen)) & 0xFFFF_FFFF
            chosen += (self._hash(header, seed, width),)
        return chosen

    def links(self, src_ip: int, dst_ip: int, way: tuple[int, ...]) -> tuple[str, ...]:
        """Return the links of a path: NIC, up, down, NIC."""
        up = [f"{src_ip}:up:{way[: tier + 1]}" for tier in range(len(way))]
        down = [f"{dst_ip}:down:{way[: tier + 1]}" for tier in reversed(range(len(way)))]
        return (f"{src_ip}:nic", *up, *down, f"{dst_ip}:nic")

    def ask(self, src_ip: int, question: Question) -> str | None:
        """Return the link by which a probe reached the router where it expired."""
        self.probes += 1
        links = self.links(src_ip, question.dst_ip, self.way(src_ip, question.dst_ip, question.port))
        return links[question.ttl - 1] if question.ttl < len(links) else None
