"""The Internet checksum: ones' complement sums (RFC 1071) and incremental updates (RFC 1624, equation 3).

Sums are kept in int64 and folded at the end. Ones' complement addition does not depend on the byte order (RFC 1071, 2
B), so headers that are only verified are summed in the machine's order.
"""

from struct import unpack

from heddle.dataplane.jit import Bytes, inline
from heddle.dataplane.packet.memory import WORD, load8, load16, load32, native32, store16, store32


def checksum(data: bytes) -> int:
    """Return the Internet checksum of bytes, for Python; data of odd length is padded with a zero byte."""
    if len(data) & 1:
        data += b"\0"
    total = sum(unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


@inline
def folded(total: int) -> int:
    """Return a sum of at most 63 bits, never negative, folded to 16 bits."""
    total = (total & WORD) + (total >> 32)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return (total & 0xFFFF) + (total >> 16)


@inline
def sum_of(memory: Bytes, at: int, count: int) -> int:
    """Return the sum of `count` bytes, at most 2^31; an odd last byte is the high byte of a word."""
    total = 0
    whole = count & ~3
    for offset in range(0, whole, 4):
        total += load32(memory, at + offset)
    if count & 2:
        total += load16(memory, at + whole)
    if count & 1:
        total += load8(memory, at + count - 1) << 8
    return total


@inline
def is_all_ones(total: int) -> bool:
    """Whether a sum of at most 16 words of 32 bits folds to 0xFFFF, as a header with a correct checksum does."""
    total = (total & WORD) + (total >> 32)
    total = (total & 0xFFFF) + (total >> 16)
    return total == 0xFFFF or total == 0x1_FFFE  # it is less than 2^17, where these two do


@inline
def header_is_sound(memory: Bytes, at: int, count: int) -> bool:
    """Whether a header of `count` bytes, a multiple of 4 and at least 20, has a correct checksum."""
    total = native32(memory, at) + native32(memory, at + 4) + native32(memory, at + 8)
    total += native32(memory, at + 12) + native32(memory, at + 16)
    for offset in range(20, count, 4):
        total += native32(memory, at + offset)
    return is_all_ones(total)


@inline
def changed(checksum: int, old: int, new: int) -> int:
    """Return a header's checksum after a 16-bit word changed from `old` to `new`."""
    total = (~checksum & 0xFFFF) + (~old & 0xFFFF) + new
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@inline
def grown(checksum: int, more: int) -> int:
    """Return a header's checksum after words that were 0 have received values with the sum `more`, less than 2^31."""
    total = (~checksum & 0xFFFF) + more
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF


@inline
def replace16(memory: Bytes, at: int, value: int) -> int:
    """Write 16 bits; return the change of a checksum over them: ~old + new."""
    change = (~load16(memory, at) & 0xFFFF) + value
    store16(memory, at, value)
    return change


@inline
def replace32(memory: Bytes, at: int, value: int) -> int:
    """Write 32 bits; return the change of a checksum over them."""
    change = (~load32(memory, at) & WORD) + value
    store32(memory, at, value)
    return change


@inline
def update_checksum(memory: Bytes, at: int, change: int) -> int:
    """Update a checksum by a change of what it covers; return the change of a checksum that covers it."""
    return replace16(memory, at, ~folded((~load16(memory, at) & 0xFFFF) + change) & 0xFFFF)
