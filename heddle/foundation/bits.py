"""Find bits in Python integers used as sets."""


def lowest_bit(word: int) -> int:
    """Return the index of the lowest set bit; -1 where none is set."""
    return (word & -word).bit_length() - 1
