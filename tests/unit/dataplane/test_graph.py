"""A flow graph as a value: its order, what it refuses, and the difference of two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.engine.graph import NO_NODE, Graph, Node, arrays_of, difference

DIAMOND = Graph(
    nodes=(
        Node(name="end", kind=9),
        Node(name="left", kind=2, to=("end",)),
        Node(name="start", kind=1, parameter=7, to=("left", "right")),
        Node(name="right", kind=3, to=("end", "end")),
    ),
    entries=("start", "right"),
)


def test_nodes_come_before_those_they_lead_to():
    arrays = arrays_of(DIAMOND)
    for row, following in enumerate(arrays.next.tolist()):
        assert all(target > row for target in following if target != NO_NODE)


def test_a_node_keeps_its_kind_parameter_and_outcomes():
    arrays = arrays_of(DIAMOND)
    start = int(arrays.entry[0])
    assert (arrays.kind[start], arrays.parameter[start]) == (1, 7)
    assert [int(arrays.kind[target]) for target in arrays.next[start, :2]] == [2, 3]


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (Graph(nodes=(Node(name="a", kind=0, to=("b",)),), entries=()), "no node"),
        (Graph(nodes=(Node(name="a", kind=0), Node(name="a", kind=1)), entries=()), "same name"),
        (Graph(nodes=(Node(name="a", kind=0, to=("b",)), Node(name="b", kind=0, to=("a",))), entries=()), "circle"),
        (Graph(nodes=(Node(name="a", kind=0, to=("a",)),), entries=()), "circle"),
        (Graph(nodes=(), entries=("a",)), "no node"),
        (Graph(nodes=(Node(name="a", kind=0), Node(name="b", kind=0, to=("a",) * 9)), entries=()), "outcomes"),
    ],
)
def test_what_is_no_graph_is_refused(graph, words):
    with pytest.raises(ValueError, match=words):
        arrays_of(graph)


def test_the_difference_names_what_came_went_changed_and_enters_elsewhere():
    nodes = {node.name: node for node in DIAMOND.nodes}
    other = Graph(
        nodes=(nodes["end"], nodes["right"], Node(name="start", kind=1, to=("right", "new")), Node(name="new", kind=4)),
        entries=("start",),
    )
    change = difference(DIAMOND, other)
    assert (change.added, change.removed, change.changed, change.entries) == (("new",), ("left",), ("start",), (1,))


@given(st.permutations(DIAMOND.nodes))
def test_the_order_in_which_nodes_are_given_is_no_difference(nodes):
    assert not difference(DIAMOND, Graph(nodes=tuple(nodes), entries=DIAMOND.entries))
