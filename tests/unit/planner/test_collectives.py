"""The kinds of collective: each one's flows in an example, and that every place which knows kinds knows the same."""

from math import prod
from typing import Any

import pytest

from heddle.controller.model.admission import flow_plans
from heddle.controller.model.collectives import Pattern
from heddle.controller.model.job import CollectiveKind
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.expand import ARRAYS, expand
from heddle.testing.plans import contract_flows
from heddle.v1 import heddle_pb2 as pb
from tests.support.fabrics.planner_cases import fabric_of, job_of
from tests.support.kinds_of_collective import PAGE, with_kinds

RING = [(0, 1), (1, 2), (2, 3), (3, 0)]
EACH_TO_EACH = [(a, b) for a in range(4) for b in range(4) if a != b]
ONE = [{"src_rank": 2, "dst_rank": 0}]
EXAMPLES: dict[str, tuple[dict[str, Any], list[tuple[int, int]], float]] = {
    "RING_ALL_REDUCE": ({}, RING, 12),
    "TREE_ALL_REDUCE": ({}, [(0, 1), (0, 2), (1, 0), (1, 3), (2, 0), (3, 1)], 8),
    "ALL_GATHER": ({}, RING, 6),
    "REDUCE_SCATTER": ({}, RING, 6),
    "ALL_TO_ALL": ({}, EACH_TO_EACH, 2),
    "BROADCAST": ({"root": 3}, [(0, 2), (3, 0), (3, 1)], 8),
    "GATHER": ({"root": 3}, [(0, 3), (1, 3), (2, 3)], 8),
    "SEND_RECV": ({"pairs": ONE}, [(2, 0)], 8),
    "CUSTOM": ({"flows": ONE}, [(2, 0)], 8),
}
"""Of each kind with 8 bytes among four ranks: what else a request has, the pairs that communicate, bytes of a flow."""


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_collective_of_four_ranks_has_the_flows_of_its_kind(kind: str) -> None:
    request, pairs, size_bytes = EXAMPLES[kind]
    fabric = fabric_of()
    job = job_of(fabric, {"kind": kind, "bytes": 8, **request})
    flows = expand(topology_of(fabric), [job])
    assert sorted(zip(flows.src_rank.tolist(), flows.dst_rank.tolist(), strict=True)) == pairs
    assert flows.size_bytes.tolist() == [size_bytes] * len(pairs)
    assert flow_plans(job, fabric) == len(pairs)
    assert sorted(contract_flows.flows(job.collectives[0], 4)) == pairs


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_bytes_of_a_kind_are_what_its_formula_gives_for_nccls_call(kind: str) -> None:
    request, pairs, _ = EXAMPLES[kind]
    n, count, size = 4, 12, 2
    size_bytes = bytes_of(CollectiveKind[kind].buffer.formula, n, count, size)
    fabric = fabric_of()
    flows = expand(topology_of(fabric), [job_of(fabric, {"kind": kind, "bytes": size_bytes, **request})])
    found = dict(
        zip(zip(flows.src_rank.tolist(), flows.dst_rank.tolist(), strict=True), flows.size_bytes.tolist(), strict=True)
    )
    assert found == contract_flows.sent_bytes(kind, n, count, size, tree=pairs)


def bytes_of(formula: str, n: int, count: int, size: int) -> int:
    """Return a product such as "n × sendcount × size"."""
    values = {"n": n, "count": count, "sendcount": count, "recvcount": count, "size": size}
    return prod(values[factor] for factor in formula.split(" × "))


def test_the_contract_says_of_every_kind_what_its_bytes_are() -> None:
    proto = (PAGE.parents[1] / "heddle" / "v1" / "heddle.proto").read_text()
    for kind in CollectiveKind:
        (line,) = (line for line in proto.splitlines() if f" {kind.name} = " in line)
        assert f"bytes = {kind.buffer.formula}" in line


def test_the_contract_the_oracle_and_the_examples_have_the_same_kinds() -> None:
    kinds = {kind.name: kind.value for kind in CollectiveKind}
    assert dict(pb.Collective.Kind.items()) == {"KIND_UNSPECIFIED": 0, **kinds}
    assert set(contract_flows.KINDS) == set(EXAMPLES) == set(kinds)


def test_the_contract_has_the_words_of_every_kind() -> None:
    contract = " ".join((PAGE.parent / "contract.md").read_text().split())
    assert [kind.name for kind in CollectiveKind if kind.name not in contract] == []
    assert [kind.name for kind in CollectiveKind if kind.pattern.words not in contract] == []


@pytest.mark.parametrize("pattern", dict.fromkeys(kind.pattern for kind in CollectiveKind), ids=lambda one: one.words)
def test_all_forms_of_a_pattern_are_the_same_pairs(pattern: Pattern) -> None:
    for members in range(1, 20):
        for root in range(members if pattern.is_rooted else 1):
            pairs = list(pattern.pairs(members, root))
            assert len(pairs) <= pattern.visits(members) >= members
            hosts = [f"h{i // 2}" for i in range(members)]
            assert pattern.flows(hosts, root) == sum(hosts[a] != hosts[b] for a, b in pairs)
            if pattern in ARRAYS:
                source, target = ARRAYS[pattern](members, root)
                assert list(zip(source.tolist(), target.tolist(), strict=True)) == pairs


def test_the_page_of_documentation_is_current() -> None:
    page = PAGE.read_text()
    assert page == with_kinds(page), "run: python -m tests.support.kinds_of_collective"
