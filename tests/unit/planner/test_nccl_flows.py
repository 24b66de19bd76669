"""What `algorithm: NCCL` makes of collectives: hand examples, hosts of 8 GPUs and 8 rails, and what is refused."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from heddle.controller.config.load import parse_fabric
from heddle.controller.model.admission import flow_plans, problems
from heddle.controller.model.job import Algorithm, CollectiveKind
from heddle.controller.model.nccl import WITH_PXN, double_tree
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.expand import expand
from heddle.v1 import heddle_pb2 as pb
from tests.oracles import nccl_flows
from tests.support.fabrics.planner_cases import fabric_of, job_of, plan_of

MB = 1_000_000
KINDS = [kind.name for kind in CollectiveKind if kind.pattern in WITH_PXN]
RAILS = range(8)


def hosts_of_eight(hosts: int, **generate):
    shape = {"kind": "rail_optimised", "leaves": 8, "hosts_per_leaf": hosts, "nics_per_host": 8}
    return fabric_of(**shape, hosts_per_nvlink_domain=1, **generate)


def connections(fabric, kind, size_bytes, algorithm="NCCL", **fields):
    """Return [(source NIC, destination NIC, bytes)] of one collective, an entry for each queue pair."""
    job = job_of(fabric, {"kind": kind, "bytes": size_bytes, "algorithm": algorithm}, **fields)
    flows, topology = expand(topology_of(fabric), [job]), topology_of(fabric)
    assert len(flows) == flow_plans(job, fabric)
    names = (map(topology.nic_ids.__getitem__, column.tolist()) for column in (flows.src_nic, flows.dst_nic))
    return list(zip(*names, flows.size_bytes.tolist(), strict=True))


def by_host_and_rail(found):
    """Return {(host, rail, host, rail): how many}."""
    return Counter((*end(a), *end(b)) for a, b, _ in found)


def end(nic: str) -> tuple[int, int]:
    host, rail = nic[1:].split("-n")
    return int(host) - 1, int(rail)


def test_a_ring_of_four_hosts_has_two_connections_on_each_rail_to_the_next_host():
    found = connections(hosts_of_eight(4), "RING_ALL_REDUCE", 1600 * MB)
    assert by_host_and_rail(found) == {(h, r, (h + 1) % 4, r): 2 for h in range(4) for r in RAILS}
    assert {size for *_, size in found} == {193.75 * MB}
    for kind in ("ALL_GATHER", "REDUCE_SCATTER"):
        assert {size for *_, size in connections(hosts_of_eight(4), kind, 1600 * MB)} == {96.875 * MB}


TREES = {
    2: ("1>0", "0>1"),
    3: ("1>2 2>0", "0>1 2>0"),
    4: ("1>2 2>0 3>2", "0>1 1>3 2>1"),
    5: ("1>2 2>4 3>2 4>0", "0>1 2>3 3>0 4>3"),
    6: ("1>2 2>4 3>2 4>0 5>4", "0>1 1>5 2>3 3>1 4>3"),
    8: ("1>2 2>4 3>2 4>0 5>6 6>4 7>6", "0>1 1>3 2>1 3>7 4>5 5>3 6>5"),
}
"""By number of hosts the edges child>parent of both trees, computed by hand from NCCL's rule."""


@pytest.mark.parametrize("hosts", TREES)
def test_both_trees_over_hosts_are_those_of_the_hand_examples(hosts: int):
    assert tuple(" ".join(f"{a}>{b}" for a, b in sorted(tree)) for tree in double_tree(hosts)) == TREES[hosts]


def test_a_tree_of_four_hosts_has_96_connections_of_a_channel_each():
    found = connections(hosts_of_eight(4), "TREE_ALL_REDUCE", 1600 * MB)
    edges = [(1, 2), (2, 0), (3, 2), (0, 1), (1, 3), (2, 1)]
    both = edges + [(b, a) for a, b in edges]
    assert by_host_and_rail(found) == Counter((a, r, b, r) for a, b in both for r in RAILS)
    assert len(found) == 96
    assert {size for *_, size in found} == {100 * MB}


def test_the_trees_of_two_hosts_are_those_of_a_public_log_of_nccl():
    """16 channels, each from NIC c mod 8 to the same NIC of the other host, in both directions."""
    found = connections(hosts_of_eight(2), "TREE_ALL_REDUCE", 1600 * MB)
    assert by_host_and_rail(found) == {(a, r, 1 - a, r): 2 for a in (0, 1) for r in RAILS}


def test_an_all_to_all_crosses_no_rail_with_pxn_and_sums_eight_sources():
    found = connections(hosts_of_eight(4), "ALL_TO_ALL", 32 * MB)
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    assert by_host_and_rail(found) == {(a, r, b, r): 1 for a, b in pairs for r in RAILS}
    assert {size for *_, size in found} == {8 * MB}


def test_an_all_to_all_without_pxn_joins_each_gpu_with_each_of_another_host():
    found = connections(hosts_of_eight(4), "ALL_TO_ALL", 32 * MB, "NCCL_NO_PXN")
    pairs = [(a, b) for a in range(4) for b in range(4) if a != b]
    assert by_host_and_rail(found) == {(a, i, b, j): 1 for a, b in pairs for i in RAILS for j in RAILS}
    assert {size for *_, size in found} == {MB}


@pytest.mark.parametrize("hosts", [2, 4, 16])
@pytest.mark.parametrize("algorithm", ["NCCL", "NCCL_NO_PXN"])
@pytest.mark.parametrize("kind", KINDS)
def test_hosts_of_eight_gpus_and_eight_rails_send_what_the_oracle_says(kind: str, algorithm: str, hosts: int):
    found = connections(hosts_of_eight(hosts), kind, 1600 * MB, algorithm)
    nics = [(host, rail) for host in range(hosts) for rail in RAILS]
    wanted = nccl_flows.flows_of(kind, algorithm, nics, 1600 * MB)
    assert Counter((end(a), end(b), round(size)) for a, b, size in found) == Counter(
        (a, b, round(size)) for (a, b), size in wanted
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_domain_of_72_gpus_costs_the_fabric_nothing_inside(kind: str):
    fabric = fabric_of(
        kind="rail_optimised", leaves=4, hosts_per_leaf=36, nics_per_host=4, spines=1, hosts_per_nvlink_domain=18
    )
    inside = [nic.id for nic in fabric.nics if nic.nvlink_domain == "nvl1"]
    assert len(inside) == 72
    assert connections(fabric, kind, MB, ranks=inside) == []
    both = connections(fabric, kind, MB)
    domain = {nic.id: nic.nvlink_domain for nic in fabric.nics}
    assert both
    assert all(domain[a] != domain[b] for a, b, _ in both)
    assert {nic for a, b, _ in both for nic in (a, b)} == set(domain)


def test_a_ring_out_of_every_rail_takes_the_time_of_one_eighth():
    """Of 3.2 GB each rail carries 2 x 31/32 x 400 MB, at 100 Gbit/s; the ring of the contract all by one NIC."""
    fabric = hosts_of_eight(4, spines=8)
    plans = [
        plan_of(fabric, job_of(fabric, {"kind": "RING_ALL_REDUCE", "bytes": 3200 * MB, **named}))
        for named in ({"algorithm": "NCCL"}, {})
    ]
    times_ns = [plan.jobs[0].predicted_completion_ns for plan in plans]
    assert times_ns == [62_000_000, 496_000_000]


def test_the_contract_has_the_same_algorithms():
    assert dict(pb.Collective.Algorithm.items()) == {each.name: each.value for each in Algorithm}


def listed(*hosts: tuple[str, str, list[int]]):
    """Return a fabric whose hosts are (id, domain, rails of their NICs), each NIC on a leaf port of its own."""
    lines, number = ["version: 1", "generate: {kind: spine_leaf, spines: 1, leaves: 1, hosts_per_leaf: 0}", "hosts:"], 0
    for name, domain, rails in hosts:
        lines += [f"  - id: {name}", *([f"    nvlink_domain: {domain}"] if domain else []), "    nics:"]
        for place, rail in enumerate(rails):
            number += 1
            nic = f"id: {name}-n{place}, ip: 10.0.0.{number}, port: 'leaf1:{number + 1}', gbps: 100, rail: {rail}"
            lines.append(f"      - {{{nic}}}")
    return parse_fabric("\n".join(lines), "fabric.yaml")


REFUSED = {
    "a host without a domain": (
        [("a", "d1", [0, 1]), ("b", "", [0, 1])], {},
        "host b has no nvlink_domain in the fabric file: NCCL uses every rail where NVLink joins the GPUs; name its "
        "domain, or leave algorithm out",
    ),
    "hosts with other numbers of NICs": (
        [("a", "d1", [0, 1]), ("b", "d2", [0])], {},
        "the hosts of the job are unequal: nvlink_domain d1 has 2 ranks on rails 0 1 and d2 has 1 ranks on rails 0; "
        "NCCL's rails meet where all domains have the same NICs and ranks",
    ),
    "hosts on other rails": (
        [("a", "d1", [0, 1]), ("b", "d2", [2, 3])], {},
        "the hosts of the job are unequal: nvlink_domain d1 has 2 ranks on rails 0 1 and d2 has 2 ranks on rails 2 3; "
        "NCCL's rails meet where all domains have the same NICs and ranks",
    ),
    "NICs without a rail": (
        [("a", "d1", [0, 0]), ("b", "d2", [0, 0])], {},
        "NICs a-n0 and a-n1 of host a are both on rail 0 (0 where the fabric file names none): give each NIC of a host "
        "its rail",
    ),
    "more ranks on one NIC": (
        [("a", "d1", [0, 1]), ("b", "d2", [0, 1])], {"ranks": ["a-n0", "a-n1", "a-n1", "b-n0", "b-n1", "b-n1"]},
        "nvlink_domain d1 has more ranks on one NIC than on another: give each as many",
    ),
    "domains of one and of two hosts": (
        [("a", "d1", [0]), ("b", "d1", [0]), ("c", "d2", [0])], {},
        "the hosts of the job are unequal: nvlink_domain d1 has 2 ranks on rails 0 0 and d2 has 1 ranks on rails 0; "
        "NCCL's rails meet where all domains have the same NICs and ranks",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_nccls_rails_do_not_fit_is_one_line(what: str):
    hosts, fields, text = REFUSED[what]
    fabric = listed(*hosts)
    job = job_of(fabric, {"kind": "ALL_TO_ALL", "bytes": 8})
    (collective,) = job.collectives
    changed: Any = {"collectives": (replace(collective, algorithm=Algorithm.NCCL),), **fields}
    wanted = replace(job, **changed)
    assert problems(wanted, fabric) == (("collectives[0].algorithm", text),)


def test_a_kind_without_rules_of_nccl_is_refused_by_its_name():
    fabric = listed(("a", "d1", [0]), ("b", "d2", [0]))
    job = job_of(fabric, {"kind": "GATHER", "bytes": 8})
    wanted = replace(job, collectives=(replace(job.collectives[0], algorithm=Algorithm.NCCL),))
    kinds = "RING_ALL_REDUCE, TREE_ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL"
    assert problems(wanted, fabric) == (
        ("collectives[0].algorithm", f"NCCL is for {kinds}, not for GATHER: leave it out"),
    )
