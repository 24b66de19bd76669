"""Checksum kernels against sums in plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.dataplane.jit import kernel
from heddle.dataplane.packet import checksum

words = st.integers(0, 0xFFFF)


@kernel
def sum_of(memory, at, count):
    return checksum.folded(checksum.sum_of(memory, at, count))


@kernel
def folded(total):
    return checksum.folded(total)


@kernel
def header_is_sound(memory, at, count):
    return checksum.header_is_sound(memory, at, count)


@kernel
def changed(old, before, after):
    return checksum.changed(old, before, after)


@kernel
def grown(old, more):
    return checksum.grown(old, more)


def plain_sum(data: bytes) -> int:
    """RFC 1071, 4.1, with Python integers."""
    padded = data + b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(padded[at : at + 2], "big") for at in range(0, len(padded), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def bytes_at(data: bytes, offset: int) -> np.ndarray:
    return np.frombuffer(b"\xa5" * offset + data + b"\xa5" * 9, dtype=np.uint8).copy()


@given(data=st.binary(max_size=300), offset=st.integers(0, 7))
def test_a_sum_does_not_depend_on_alignment(data: bytes, offset: int) -> None:
    assert sum_of(bytes_at(data, offset), offset, len(data)) == plain_sum(data)


@given(st.integers(0, (1 << 62) - 1))
def test_folding_keeps_the_sum_modulo_65535(total: int) -> None:
    assert folded(total) == plain_sum(total.to_bytes(8, "big"))


@given(header=st.lists(words, min_size=10, max_size=30).filter(lambda h: len(h) % 2 == 0), offset=st.integers(0, 7))
def test_a_header_is_valid_if_it_sums_to_all_ones(header: list[int], offset: int) -> None:
    data = bytearray(b"".join(word.to_bytes(2, "big") for word in header))
    memory = bytes_at(bytes(data), offset)
    assert header_is_sound(memory, offset, len(data)) == (plain_sum(bytes(data)) == 0xFFFF)
    data[10:12] = bytes(2)
    data[10:12] = (0xFFFF ^ plain_sum(bytes(data))).to_bytes(2, "big")
    assert header_is_sound(bytes_at(bytes(data), offset), offset, len(data))


@given(header=st.lists(words, min_size=9, max_size=9).filter(any), place=st.integers(0, 8), new=words)
def test_an_incremental_update_equals_a_full_sum(header: list[int], place: int, new: int) -> None:
    after = [*header[:place], new, *header[place + 1 :]]
    if not any(after):
        return  # a header of zeros has two checksums (RFC 1624, 3); IPv4's begins with a 4
    old, expected = (0xFFFF ^ plain_sum(b"".join(w.to_bytes(2, "big") for w in each)) for each in (header, after))
    assert changed(old, header[place], new) == expected


@given(header=st.lists(words, min_size=8, max_size=8).filter(any), more=st.integers(0, 2 * 65535))
def test_words_that_were_zero_are_added_to_a_checksum(header: list[int], more: int) -> None:
    old = 0xFFFF ^ plain_sum(b"".join(word.to_bytes(2, "big") for word in header))
    filled = [*header, more >> 1, more - (more >> 1)]
    assert grown(old, more) == 0xFFFF ^ plain_sum(b"".join(word.to_bytes(2, "big") for word in filled))
