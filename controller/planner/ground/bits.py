"""Find set bits of a 64-bit word in constant time."""

import numpy as np

from heddle.controller.planner.ground.jit import Ints, bare_kernel

DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
_BIT_OF_PRODUCT: Ints = np.zeros(64, dtype=np.int64)
for _bit in range(64):
    _BIT_OF_PRODUCT[(0x03F79D71B4CB0A89 << _bit & 0xFFFFFFFFFFFFFFFF) >> 58] = _bit


@bare_kernel
def lowest_bit(word: np.uint64) -> int:
    """Return the position of the lowest set bit of a word that is not 0 (Leiserson, Prokop, Randall 1998).

    The top six bits of the product of a power of two and a de Bruijn number are different for each power.
    """
    lowest = word & (~word + np.uint64(1))
    return int(_BIT_OF_PRODUCT[np.int64((lowest * DE_BRUIJN) >> np.uint64(58))])
