"""Arrays aligned to cache lines."""

import numpy as np
import pytest

from heddle.dataplane.cache_lines import CACHE_LINE, at_a_line, zeros_at_a_line
from heddle.dataplane.engine.burst import BURST, PACKET, new_rows
from heddle.dataplane.gateway.memory.state import CONNECTION
from heddle.dataplane.tables.schema import NEXT_HOP


@pytest.mark.parametrize("shape", [(1,), (7, 3), (1000,)])
def test_zeros_begin_at_a_line(shape):
    for dtype in (np.int64, np.uint8, CONNECTION):
        found = zeros_at_a_line(shape, dtype)
        assert found.shape == shape
        assert found.dtype == dtype
        assert found.ctypes.data % CACHE_LINE == 0
        assert not found.view(np.uint8).any()


def test_a_copy_at_a_line_is_equal_and_independent():
    rows = np.arange(12, dtype=np.int64).reshape(4, 3)
    found = at_a_line(rows)
    rows[0, 0] = 99
    assert found.ctypes.data % CACHE_LINE == 0
    assert found.tolist() == np.arange(12).reshape(4, 3).tolist()


def test_rows_that_every_packet_reads_occupy_whole_lines():
    assert [kind.itemsize % CACHE_LINE for kind in (PACKET, CONNECTION, NEXT_HOP)] == [0, 0, 0]
    assert new_rows().shape == (BURST,)
    assert new_rows().ctypes.data % CACHE_LINE == 0
