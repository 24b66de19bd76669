"""Edge colouring with a limited number of slots per vertex and colour."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.planner.exact.colouring import colour_slots, repetition


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
    none = np.zeros(len(left), dtype=np.bool_)
    colour = colour_slots(source, target, left, right, none, none)
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
    none = np.zeros(len(slots), dtype=np.bool_)
    assert (colour_slots(source, target, slots, slots, none, none) >= 0).all()


@given(edges=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=8), times=st.integers(1, 5))
def test_repetition_finds_edges_in_groups(edges, times):
    ends = np.repeat(np.array(edges, dtype=np.int64).reshape(-1, 2), times, axis=0)
    assert repetition(ends[:, 0].copy(), ends[:, 1].copy()) % times == 0


@given(colours=st.integers(2, 6), more=st.integers(0, 6))
def test_a_vertex_marked_full_takes_a_second_slot_only_after_the_first_of_every_colour(colours, more):
    edges = colours + min(more, colours)
    source, target = np.zeros(edges, dtype=np.int64), np.arange(edges, dtype=np.int64)
    left, right = np.full((1, colours), 2, dtype=np.int64), np.ones((edges, colours), dtype=np.int64)
    colour = colour_slots(source, target, left, right, np.ones(1, dtype=np.bool_), np.zeros(edges, dtype=np.bool_))
    assert (np.bincount(colour, minlength=colours) >= 1).all()
    assert (np.bincount(colour, minlength=colours) == 2).sum() == edges - colours
