"""Longest-prefix match: one exact search for each prefix length that the VPC has routes of."""

from heddle.dataplane.jit import Grid, element, inline
from heddle.dataplane.tables.lookup import row3
from heddle.dataplane.tables.schema import EMPTY, Tables

HOST_BITS = 128
V4_BITS = 96
"""An IPv4 prefix of length n is stored as one of length 96 + n (RFC 4291, 2.5.5.2)."""


@inline
def _first_bits(word: int, bits: int) -> int:
    """Return the first `bits` of a word, the others 0."""
    if bits <= 0:
        return 0
    if bits >= 64:
        return word
    return word & (-1 << (64 - bits))


@element
def _longest_of(routes: Grid, lengths: int, shortest: int, vni: int, hi: int, lo: int) -> int:
    """Return the next hop of the longest matching route, or EMPTY.

    The prefix lengths to search are `shortest` + the number of each set bit of `lengths`.
    """
    for bit in range(63, -1, -1):
        if lengths >> bit & 1:
            bits = shortest + bit
            hop = row3(routes, vni << 8 | bits, _first_bits(hi, bits), _first_bits(lo, bits - 64))
            if hop != EMPTY:
                return hop
    return EMPTY


@inline
def longest(tables: Tables, vpc: int, hi: int, lo: int, family: int) -> int:
    """Return the next hop of the longest prefix of a VPC, given by its row, that contains an address; or EMPTY."""
    row = tables.vpcs[vpc]
    if family == 4:
        return _longest_of(tables.routes, row.lengths_v4, V4_BITS, row.vni, hi, lo)
    hop = row3(tables.routes, row.vni << 8 | HOST_BITS, hi, lo)
    if hop == EMPTY:
        hop = _longest_of(tables.routes, row.lengths_v6_high, 64, row.vni, hi, lo)
    if hop == EMPTY:
        hop = _longest_of(tables.routes, row.lengths_v6_low, 0, row.vni, hi, lo)
    return hop
