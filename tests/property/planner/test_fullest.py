"""The figures of some paths beside a load equal those of all links."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.planner.search.fullest import fullest_beside, slowed_beside

LINKS = 12


@st.composite
def paths_beside_a_load(draw):
    flows = draw(st.integers(0, 20))
    hops = draw(st.lists(st.lists(st.integers(-1, LINKS - 1), min_size=4, max_size=4), min_size=flows, max_size=flows))
    demand = draw(st.lists(st.integers(0, 2**40), min_size=flows, max_size=flows))
    base = draw(st.lists(st.integers(0, 2**40), min_size=LINKS, max_size=LINKS))
    capacity = draw(st.lists(st.sampled_from((0, 3, 10**9, 4 * 10**11)), min_size=LINKS, max_size=LINKS))
    whole = np.array(hops, dtype=np.int64).reshape(flows, 4), np.array(demand, dtype=np.int64)
    return *whole, np.array(base, dtype=np.float64), np.array(capacity, dtype=np.int64)


def utilisations(hops, demand, base, capacity):
    load = base.copy()
    for row, bps in zip(hops.tolist(), demand.tolist(), strict=True):
        for link in row:
            load[link] += bps if link >= 0 else 0
    return load / np.maximum(capacity, 1)


@given(paths_beside_a_load(), st.floats(0, 2))
def test_the_fullest_link_of_paths_is_that_of_all_links_that_they_use(case, least):
    hops, demand, base, capacity = case[0], case[1], case[2].copy(), case[3]
    use = utilisations(*case)
    assert fullest_beside(hops, demand, case[2], capacity, least) == max(
        [least, *(use[link] for link in hops[hops >= 0].tolist())]
    )
    assert (case[2] == base).all()


@given(paths_beside_a_load())
def test_flows_count_as_slowed_where_a_link_of_theirs_is_above_the_limit(case):
    use = utilisations(*case)
    wanted = sum(any(link >= 0 and use[link] > 1 for link in row) for row in case[0].tolist())
    hops, demand, base, capacity = case
    assert slowed_beside(hops, demand, base, capacity, 1.0) == wanted
