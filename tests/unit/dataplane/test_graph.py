"""The packet-processing graph: topological order, arrays, refused graphs."""

import pytest

from heddle.dataplane.engine.graph import NO_NODE, Graph, Node, arrays_of

DIAMOND = Graph(
    nodes=(
        Node(name="end", kind=9),
        Node(name="left", kind=2, to=("end",)),
        Node(name="start", kind=1, to=("left", "right")),
        Node(name="right", kind=3, to=("end", "end")),
    ),
    entries=("start", "right"),
)


def test_a_node_precedes_its_next_nodes():
    arrays = arrays_of(DIAMOND)
    for row, following in enumerate(arrays.next.tolist()):
        assert all(target > row for target in following if target != NO_NODE)


def test_a_node_keeps_its_kind_and_outcomes():
    arrays = arrays_of(DIAMOND)
    start = int(arrays.entry[0])
    assert arrays.kind[start] == 1
    assert [int(arrays.kind[target]) for target in arrays.next[start, :2]] == [2, 3]


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (Graph(nodes=(Node(name="a", kind=0, to=("b",)),), entries=()), "no node"),
        (Graph(nodes=(Node(name="a", kind=0), Node(name="a", kind=1)), entries=()), "same name"),
        (Graph(nodes=(Node(name="a", kind=0, to=("b",)), Node(name="b", kind=0, to=("a",))), entries=()), "cycle"),
        (Graph(nodes=(Node(name="a", kind=0, to=("a",)),), entries=()), "cycle"),
        (Graph(nodes=(), entries=("a",)), "no node"),
        (Graph(nodes=(Node(name="a", kind=0), Node(name="b", kind=0, to=("a",) * 9)), entries=()), "outcomes"),
    ],
)
def test_a_malformed_graph_is_refused(graph, words):
    with pytest.raises(ValueError, match=words):
        arrays_of(graph)


@pytest.mark.parametrize("nodes", [DIAMOND.nodes[::-1], DIAMOND.nodes[2:] + DIAMOND.nodes[:2]])
def test_the_given_order_of_nodes_does_not_change_the_links(nodes):
    arrays = arrays_of(Graph(nodes=nodes, entries=DIAMOND.entries))
    start = int(arrays.entry[0])
    assert [int(arrays.kind[target]) for target in arrays.next[start, :2]] == [2, 3]
