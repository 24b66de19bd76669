"""The streamed text equals that of protobuf's own JSON mapping."""

import json
from dataclasses import replace

from google.protobuf.json_format import MessageToDict
from hypothesis import example, given
from hypothesis import strategies as st

from heddle.controller.api.plan_json import _quoted, job_pieces
from heddle.controller.api.translate import plan_to
from heddle.controller.brain.begin import begin
from heddle.controller.model.fabric import SteeredBy
from heddle.controller.model.plan import JobPlan
from heddle.controller.model.srv6 import sids_of
from heddle.controller.views.offline import Offline, offline
from heddle.foundation.network import Network
from heddle.foundation.traffic_class import CLASS_OF_NETWORK, CNP
from tests.support.fabrics.planner_cases import custom, fabric_of, job_of, plan_of

FABRIC = fabric_of(spines=2, leaves=3, hosts_per_leaf=2)


def planned(*collectives: dict, fabric=FABRIC, **fields) -> JobPlan:
    job = job_of(fabric, *collectives, **fields)
    found = offline(begin(fabric), (job,), plan_of(fabric, job), 7)
    assert isinstance(found, Offline)
    return found.jobs[0]


def mapped(plan: JobPlan) -> dict:
    return MessageToDict(
        plan_to(plan, room=None), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


def streamed(plan: JobPlan) -> dict:
    return json.loads("".join(job_pieces(plan)))


def test_a_streamed_plan_is_what_protobuf_would_write():
    plan = planned({"kind": "ALL_TO_ALL", "bytes": 1000, "qps_per_flow": 3}, {"kind": "GATHER", "bytes": 9, "phase": 2})
    assert len(plan.flows.flows) > 90
    assert streamed(plan) == mapped(plan)


def test_a_plan_without_flows_is_streamed_too():
    plan = planned({"kind": "RING_ALL_REDUCE", "bytes": 1000, "members": [0]})
    assert streamed(plan) == mapped(plan)
    assert streamed(plan)["flows"] == []


def test_pinned_flows_and_flows_on_one_leaf_are_streamed_as_such():
    plan = planned(custom((0, 3, 5000, 50000), (0, 1)))
    assert [flow["pinned"] for flow in streamed(plan)["flows"]] == [True, False]
    assert streamed(plan) == mapped(plan)


def test_a_flow_has_the_class_of_its_nic_s_network(monkeypatch):
    monkeypatch.setitem(CLASS_OF_NETWORK, Network.STORAGE, CNP)
    storage = tuple(replace(nic, network=Network.STORAGE) if nic.host == "h1" else nic for nic in FABRIC.nics)
    plan = planned({"kind": "RING_ALL_REDUCE", "bytes": 1000}, fabric=replace(FABRIC, nics=storage))
    assert streamed(plan) == mapped(plan)
    found = [(flow["src_nic"] == "h1-n0", flow["dscp"], flow["priority_group"]) for flow in streamed(plan)["flows"]]
    assert sorted(set(found)) == [(False, 26, 3), (True, 48, 6)]


def test_flows_that_are_no_table_are_streamed_alike():
    plan = planned({"kind": "RING_ALL_REDUCE", "bytes": 1000})
    listed = replace(plan, flows=replace(plan.flows, flows=tuple(plan.flows.flows)))
    assert streamed(listed) == mapped(plan)


@given(ids=st.lists(st.text(st.sampled_from('a", \\é')) | st.text(), max_size=4))
@example(ids=['", ', ""])
def test_ids_are_quoted_one_by_one_whatever_they_contain(ids):
    assert _quoted(ids) == [json.dumps(each) for each in ids]


def test_a_plan_whose_packets_name_their_paths_has_their_addresses():
    fabric = replace(FABRIC, steered_by=SteeredBy.SRV6)
    plan, sids = planned({"kind": "RING_ALL_REDUCE", "bytes": 1000}, fabric=fabric), sids_of(fabric)
    written = MessageToDict(
        plan_to(plan, room=None, sids=sids), preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    found = json.loads("".join(job_pieces(plan, sids)))
    assert found == written
    assert found["certificate"]["by_construction"]
    assert all(flow["sid"].startswith("fcbb:0:e") for flow in found["flows"])
