"""Fields of a frame are read and written like by `int.from_bytes`, at any byte."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.dataplane.jit import kernel
from heddle.dataplane.packet import memory as fields
from tests.support.examples import examples


@kernel
def _swap_through(memory, at, bits):
    """Read a field, clear it, and write it back."""
    if bits == 8:
        value = fields.load8(memory, at)
        fields.store8(memory, at, 0)
        fields.store8(memory, at, value)
    elif bits == 16:
        value = fields.load16(memory, at)
        fields.store16(memory, at, 0)
        fields.store16(memory, at, value)
    elif bits == 32:
        value = fields.load32(memory, at)
        fields.store32(memory, at, 0)
        fields.store32(memory, at, value)
    else:
        value = fields.load64(memory, at)
        fields.store64(memory, at, 0)
        fields.store64(memory, at, value)
    return value


@kernel
def _copied(memory, to, source, at, count):
    fields.copy(memory, to, source, at, count)


@settings(max_examples=examples(200), deadline=None)
@given(st.binary(min_size=16, max_size=16), st.integers(0, 8), st.sampled_from([8, 16, 32, 64]))
def test_a_field_is_read_in_network_order_at_any_byte_and_written_back_the_same(content, at, bits):
    memory = np.frombuffer(content, np.uint8).copy()
    expected = int.from_bytes(content[at : at + bits // 8], "big", signed=bits == 64)
    assert _swap_through(memory, np.int64(at), np.int64(bits)) == expected
    assert memory.tobytes() == content


@settings(max_examples=examples(100), deadline=None)
@given(st.binary(min_size=40, max_size=40), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_overlapping_ranges_are_copied(content, to, at, count):
    memory = np.frombuffer(content, np.uint8).copy()
    _copied(memory, np.int64(to), memory, np.int64(at), np.int64(count))
    expected = bytearray(content)
    expected[to : to + count] = content[at : at + count]
    assert memory.tobytes() == bytes(expected)
