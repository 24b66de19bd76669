"""Rules that another program installed on a real switch are read, identified exactly, and can be deleted."""

import asyncio

import pytest

from heddle.controller.model.rule import Change, ChangeOp, FlowRule, GroupRule, OpaqueAction, OpaqueMatch, Output, Step
from heddle.controller.southbound.codec import readback, wire
from tests.oracles import os_ken_codec

pytestmark = pytest.mark.e2e

FOREIGN_MATCHES = (
    "priority=7,tcp,tcp_flags=+syn-ack,actions=output:1",
    "priority=7,reg3=5,actions=output:1",
    "priority=7,vlan_tci=0x1123,actions=output:1",
    "priority=7,ipv6,ipv6_src=fe80::/64,actions=output:1",
    "priority=7,udp,tp_dst=0x1000/0xf000,actions=output:1",
    "priority=7,metadata=0x1/0xff,actions=output:1",
    "priority=7,ct_state=+trk,ip,actions=output:1",
)
FOREIGN_ACTIONS = (
    "priority=9,in_port=1,actions=set_queue:3,output:1",
    "priority=9,in_port=2,actions=resubmit(,4)",
    "priority=9,in_port=3,actions=mod_dl_dst:02:00:00:00:00:01,output:2",
    "priority=9,in_port=4,actions=controller:128",
    "priority=9,idle_timeout=3000,in_port=5,actions=output:2",
    "priority=9,in_port=6,actions=load:0x1->NXM_NX_REG0[],goto_table:5",
    "priority=9,in_port=7,actions=write_actions(output:1)",
)


async def ofctl(lab, command, text):
    await asyncio.to_thread(lab.ovs.ofctl, command, lab.bridge, text)


@pytest.mark.parametrize("flow", FOREIGN_MATCHES)
async def test_a_foreign_match_is_kept_as_bytes_and_deleted_by_them(ovs_lab, flow):
    await ofctl(ovs_lab, "add-flow", flow)
    (rule,) = (await ovs_lab.server.read_rules("leaf1")).rules
    assert isinstance(rule.match, OpaqueMatch)
    assert rule.actions == (Output(1),)
    await ovs_lab.server.install([Step({"leaf1": (Change(ChangeOp.RULE_DELETE, rule),)})])
    assert (await ovs_lab.server.read_rules("leaf1")).rules == ()


@pytest.mark.parametrize("flow", FOREIGN_ACTIONS)
async def test_a_foreign_action_is_kept_as_bytes_and_replaced_by_ours(ovs_lab, flow):
    await ofctl(ovs_lab, "add-flow", flow)
    (rule,) = (await ovs_lab.server.read_rules("leaf1")).rules
    assert isinstance(rule.actions[0], OpaqueAction)
    ours = FlowRule(table=rule.table, priority=rule.priority, match=rule.match, actions=(Output(2),), cookie=1)
    await ovs_lab.server.install([Step({"leaf1": (Change(ChangeOp.RULE_ADD, ours),)})])
    assert (await ovs_lab.server.read_rules("leaf1")).rules == (ours,)


async def test_a_foreign_group_has_no_ports_and_can_be_deleted(ovs_lab):
    await ofctl(ovs_lab, "add-group", "group_id=9,type=select,bucket=output:1,bucket=output:2")
    (group,) = (await ovs_lab.server.read_rules("leaf1")).groups
    assert group == GroupRule(group_id=9, ports=())
    await ovs_lab.server.install([Step({"leaf1": (Change(ChangeOp.GROUP_DELETE, group),)})])
    assert (await ovs_lab.server.read_rules("leaf1")).groups == ()


async def test_messages_of_a_real_switch_are_decoded_as_os_ken_decodes_them(ovs_lab):
    for i in range(40):
        await ofctl(
            ovs_lab,
            "add-flow",
            f"table={i % 4},priority={i},cookie={i},udp,udp_src={i}/0xff,actions=output:{i % 4 + 1}",
        )
    session = ovs_lab.server.sessions()["leaf1"]
    parts = await session._request(wire.FLOW_REQUEST, wire.MessageType.MULTIPART_REPLY, wire.MultipartType.FLOW)
    ours = [entry.rule for part in parts for entry in readback.each_flow_entry(part)]
    assert ours == [os_ken_codec.rule_of(entry) for part in parts for entry in os_ken_codec.parsed(part).body]
    assert len(ours) == 40
