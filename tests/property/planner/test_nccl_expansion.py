"""A collective by NCCL's algorithm has the flows of the oracle on any rails; all other collectives keep theirs."""

import json
from collections import Counter
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heddle.controller.config.load import parse_fabric, parse_jobs
from heddle.controller.model.admission import flow_plans, problems
from heddle.controller.planner.ground.clos import topology_of
from heddle.controller.planner.ground.expand import Flows, expand
from heddle.testing.plans import contract_flows
from tests.oracles import nccl_flows
from tests.support.examples import examples
from tests.support.fabrics import planning

KINDS = ("RING_ALL_REDUCE", "TREE_ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL")


@st.composite
def cases(draw):
    """Return hosts of a domain, ranks on each NIC, and the NICs of all ranks as (domain, host, rail), in any order."""
    domains, hosts, rails, each = (draw(st.integers(1, most)) for most in (6, 2, 4, 2))
    numbers = draw(st.permutations(range(rails)))
    nics = [(d, h, r) for d in range(domains) for h in range(hosts) for r in numbers]
    return draw(st.permutations(nics * each))


def fabric_of(nics):
    hosts: dict = {}
    for number, (domain, host, rail) in enumerate(sorted(set(nics))):
        one = hosts.setdefault((domain, host), {"id": f"d{domain}h{host}", "nvlink_domain": f"d{domain}", "nics": []})
        nic = {"id": f"d{domain}h{host}-{rail}", "ip": f"10.0.0.{number + 1}", "port": f"leaf1:{number + 2}"}
        one["nics"].append({**nic, "gbps": 100, "rail": rail})
    generate = {"kind": "spine_leaf", "spines": 1, "leaves": 1, "hosts_per_leaf": 0}
    return parse_fabric(json.dumps({"version": 1, "generate": generate, "hosts": list(hosts.values())}), "fabric.yaml")


def by_place(nics):
    """Return {NIC: (domain, place)}: by rail, NICs of one rail in the order in which ranks name them."""
    found, places = {}, Counter()
    for domain, host, rail in sorted(dict.fromkeys(nics), key=lambda nic: nic[2]):
        found[f"d{domain}h{host}-{rail}"] = (domain, places[domain])
        places[domain] += 1
    return found


@pytest.mark.parametrize("algorithm", ["NCCL", "NCCL_NO_PXN"])
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(20), deadline=None)
@given(nics=cases(), queue_pairs=st.integers(1, 3))
def test_the_flows_between_domains_are_those_of_the_oracle(kind, algorithm, nics, queue_pairs):
    fabric, place = fabric_of(nics), by_place(nics)
    ranks = [f"d{domain}h{host}-{rail}" for domain, host, rail in nics]
    collective = {"kind": kind, "bytes": 10**9, "algorithm": algorithm, "qps_per_flow": queue_pairs}
    text = json.dumps({"version": 1, "jobs": [{"job_id": "a", "ranks": ranks, "collectives": [collective]}]})
    (job,) = parse_jobs(text, "jobs.yaml", fabric)
    flows = expand(topology_of(fabric), [job])
    wanted = nccl_flows.flows_of(kind, algorithm, [place[rank] for rank in ranks], 10**9)
    found = zip(flows.src_rank.tolist(), flows.dst_rank.tolist(), flows.size_bytes.tolist(), strict=True)
    assert Counter((place[ranks[a]], place[ranks[b]], round(size)) for a, b, size in found) == Counter(
        (*pair, round(size / queue_pairs)) for pair, size in wanted for _ in range(queue_pairs)
    )
    assert flow_plans(job, fabric) == len(flows) == queue_pairs * len(wanted)
    names = zip(flows.src_rank.tolist(), flows.dst_rank.tolist(), flows.queue_pair.tolist(), strict=True)
    assert len(set(names)) == len(flows)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_without_an_algorithm_flows_are_the_same_byte_for_byte_where_hosts_name_domains(data):
    fabric_data = planning.fabric_file(**data.draw(planning.shapes()))
    jobs = data.draw(planning.job_files(fabric_data))
    named = planning.fabric_file(**fabric_data["generate"], hosts_per_nvlink_domain=data.draw(st.integers(1, 3)))
    columns = []
    for each in (fabric_data, named):
        fabric = parse_fabric(json.dumps(each), "fabric.yaml")
        requests = parse_jobs(json.dumps(jobs), "jobs.yaml", fabric)
        assert not any(problems(request, fabric) for request in requests)
        flows = expand(topology_of(fabric), requests)
        columns.append({field.name: getattr(flows, field.name).tobytes() for field in fields(Flows)})
    assert columns[0] == columns[1]
    assert [flow_plans(request, fabric) for request in requests] == [
        contract_flows.flow_plan_count(request, [fabric.nic_by_id[nic].host for nic in request.ranks])
        for request in requests
    ]
