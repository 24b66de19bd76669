"""Execution traces of Chakra, byte by byte, and what plans read of them."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heddle.controller.model.error import InputError
from heddle.controller.model.job import Collective, CollectiveKind, RankPair
from heddle.controller.simulators.chakra import COLLECTIVE, SEND, Node, read_nodes, written
from heddle.controller.simulators.workload import traces_of, workload_of

METADATA = b"\x07\x0a\x050.0.4"  # field 1, the version


def node(number: int, kind: int = 4, after: tuple[int, ...] = (), **attributes: int | str | bool) -> Node:
    return Node(number, f"node {number}", kind, after, attributes)


def collective(number: int, kind: int, size_bytes: int, group: str = "", after: tuple[int, ...] = ()) -> Node:
    return node(number, COLLECTIVE, after, comm_type=kind, comm_size=size_bytes, pg_name=group)


def test_a_node_is_read_from_the_bytes_of_the_schema() -> None:
    metadata, computing = METADATA, b"\x04\x08\x04\x18\x04"
    attribute = b"\x0a\x09comm_size" + b"\x68\x80\x08"
    all_reduce = (
        b"\x08\x05" + b"\x12\x02ar" + b"\x18\x07" + b"\x2a\x01\x04" + b"\x30\x63"
        + b"\x52\x0d" + b"\x0a\x09comm_type" + b"\x48\x00"
        + b"\x52" + bytes([len(attribute)]) + attribute
    )  # fmt: skip
    found = read_nodes(metadata + computing + bytes([len(all_reduce)]) + all_reduce, "t.0.et")
    assert found == [
        Node(4, "", 4, (), {}),
        Node(5, "ar", 7, (4,), {"comm_type": 0, "comm_size": 1024}),
    ]


@given(
    st.lists(
        st.builds(
            Node,
            st.integers(0, 2**64 - 1),
            st.text(max_size=9),
            st.integers(0, 10),
            st.lists(st.integers(0, 2**64 - 1), max_size=3).map(tuple),
            st.dictionaries(
                st.text(max_size=9), st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=9), st.booleans()),
                max_size=3,
            ),
        ),
        max_size=5,
    )
)  # fmt: skip
def test_what_is_written_is_read_back(nodes: list[Node]) -> None:
    assert read_nodes(written(nodes), "t") == nodes


@given(st.binary(max_size=40))
def test_any_bytes_are_a_trace_or_one_line(data: bytes) -> None:
    said = ""
    try:
        read_nodes(data, "t.0.et")
    except InputError as refused:
        said = str(refused)
    assert not said or said.startswith("t.0.et")
    assert "\n" not in said


def test_collectives_of_a_process_group_are_added_up_and_have_its_ranks() -> None:
    traces = [
        [collective(0, 0, 100), collective(1, 0, 50, after=(0,)), collective(2, 6, 8, "experts")],
        [collective(0, 0, 100), collective(1, 0, 50)],
        [collective(0, 0, 100), collective(1, 0, 50), collective(2, 6, 9, "experts")],
    ]
    assert workload_of(traces, "abc").collectives == (
        Collective(kind=CollectiveKind.RING_ALL_REDUCE, size_bytes=150),
        Collective(kind=CollectiveKind.ALL_TO_ALL, size_bytes=9, members=(0, 2)),
    )


def test_sends_of_equal_size_are_one_collective_and_receives_are_the_senders() -> None:
    traces = [
        [
            node(0, SEND, comm_dst=1, comm_size=70, comm_src=0, comm_tag=0),
            node(1, SEND, comm_dst=2, comm_size=30, comm_src=0, comm_tag=0),
        ],
        [node(0, 6, comm_src=0, comm_size=70), node(1, SEND, comm_dst=2, comm_size=70, comm_src=0, comm_tag=0)],
        [node(0, 6, comm_src=0, comm_size=30)],
    ]
    assert workload_of(traces, "abc").collectives == (
        Collective(kind=CollectiveKind.SEND_RECV, size_bytes=70, pairs=(RankPair(0, 1), RankPair(1, 2))),
        Collective(kind=CollectiveKind.SEND_RECV, size_bytes=30, pairs=(RankPair(0, 2),)),
    )


def test_what_plans_do_not_have_is_counted() -> None:
    found = workload_of([[node(0), node(1, after=(0,)), collective(2, 4, 8), collective(3, 9, 0)]], ["t"])
    assert found.collectives == ()
    assert dict(found.left_out) == {
        "node that communicates nothing": 2,
        "SCATTER, a kind that plans do not have": 1,
    }


@pytest.mark.parametrize(
    ("nodes", "line"),
    [
        ([node(1), node(2, after=(3,)), node(3, after=(2,))], "t: node 2: waits for itself through its dependencies"),
        ([node(1, after=(1,))], "t: node 1: waits for itself"),
        ([node(1, after=(7,))], "t: node 1: depends on node 7, which the trace does not have"),
        ([node(1), node(1, after=(1,))], "t: node 1: a second node has this id"),
        ([node(1, COLLECTIVE, comm_type=0)], "attribute comm_size: must be a number"),
        ([node(1, SEND, comm_dst=9, comm_size=1)], "attribute comm_dst: must be a number from 0 to 0, is 9"),
    ],
)
def test_a_trace_that_cannot_be_is_refused_with_its_node(nodes: list[Node], line: str) -> None:
    with pytest.raises(InputError, match=line.replace("(", r"\(")):
        workload_of([nodes], ["t"])


KINDS = [
    CollectiveKind.RING_ALL_REDUCE, CollectiveKind.ALL_GATHER, CollectiveKind.REDUCE_SCATTER,
    CollectiveKind.ALL_TO_ALL, CollectiveKind.BROADCAST, CollectiveKind.GATHER,
]  # fmt: skip


@given(
    st.lists(
        st.tuples(st.sampled_from(KINDS), st.integers(1, 10**12), st.sets(st.integers(0, 5), min_size=2)),
        max_size=5, unique_by=lambda drawn: drawn[0],
    )
)  # fmt: skip
def test_collectives_survive_the_way_through_traces(drawn: list[tuple[CollectiveKind, int, set[int]]]) -> None:
    collectives = [
        Collective(
            kind=kind,
            size_bytes=size_bytes,
            members=() if len(members) == 6 else tuple(sorted(members)),
            root=min(members) if kind.pattern.is_rooted else 0,
        )
        for kind, size_bytes, members in drawn
    ]
    traces = [read_nodes(written(nodes), "t") for nodes in traces_of(collectives, 6)]
    assert sorted(workload_of(traces, "abcdef").collectives, key=repr) == sorted(collectives, key=repr)


def test_a_node_waits_for_all_phases_before() -> None:
    phases = [Collective(kind=CollectiveKind.ALL_GATHER, size_bytes=1, phase=phase) for phase in (0, 0, 1, 2)]
    [nodes, _] = traces_of(phases, 2)
    assert [each.after for each in nodes] == [(), (), (0, 1), (0, 1, 2)]
    assert all(set(before.after) <= set(each.after) for before, each in pairwise(nodes))
