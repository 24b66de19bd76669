import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.planner.ground.ordered import first_from


@given(values=st.lists(st.integers(-5, 5), max_size=12), value=st.integers(-6, 6), data=st.data())
def test_the_first_index_is_that_of_numpys_search(values, value, data):
    column = np.array(sorted(values), dtype=np.int64)
    low = data.draw(st.integers(0, len(values)))
    high = data.draw(st.integers(low, len(values)))
    assert first_from(column, low, high, value) == low + np.searchsorted(column[low:high], value)
