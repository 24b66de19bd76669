"""Edge colouring with a limited number of slots per vertex and colour."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from controller.planner.exact.colouring import colour_slots, repetition


@st.composite
def slot_problems(draw):
    """Edges between up to four vertices on each side, and the slots of up to five colours at each vertex."""
    vertices, colours = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    one = st.lists(st.integers(0, 3), min_size=colours, max_size=colours)
    table = st.lists(one, min_size=vertices, max_size=vertices)
    ends = st.tuples(st.integers(0, vertices - 1), st.integers(0, vertices - 1))
    edges = draw(st.lists(ends, min_size=1, max_size=24))
    arrays = [np.array(draw(table), dtype=np.int64) for _ in range(2)]
    return np.array(edges, dtype=np.int64), arrays[0], arrays[1]


@given(problem=slot_problems())
def test_no_colour_takes_more_slots_than_a_vertex_has(problem):
    edges, left, right = problem
    source, target = edges[:, 0].copy(), edges[:, 1].copy()
    colour = colour_slots(source, target, left, right)
    for side, slots in ((source, left), (target, right)):
        used = np.zeros_like(slots)
        np.add.at(used, (side[colour >= 0], colour[colour >= 0]), 1)
        assert (used <= slots).all()


@given(edges=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=24), k=st.integers(1, 5))
def test_with_slots_for_all_and_every_colour_open_every_edge_gets_one(edges, k):
    ends = np.array(edges, dtype=np.int64)
    source, target = ends[:, 0].copy(), ends[:, 1].copy()
    degree = max(np.bincount(source).max(), np.bincount(target).max())
    slots = np.full((4, k), -(-degree // k), dtype=np.int64)
    assert (colour_slots(source, target, slots, slots) >= 0).all()


@given(edges=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8), times=st.integers(1, 5))
def test_repetition_finds_edges_in_groups(edges, times):
    ends = np.repeat(np.array(edges, dtype=np.int64).reshape(-1, 2), times, axis=0)
    assert repetition(ends[:, 0].copy(), ends[:, 1].copy()) % times == 0
