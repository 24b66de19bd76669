"""The fake switch behaves as Open vSwitch does: the same dumps, errors and state after a reconnection."""

import asyncio
import dataclasses

import pytest

from heddle.controller.model.rule import (
    Change,
    ChangeOp,
    FlowRule,
    GotoTable,
    GroupRule,
    Masked,
    Match,
    Output,
    Step,
    ToGroup,
)
from heddle.controller.runtime.ports import InstallError
from tests.contract.openflow_labs import SETTINGS

FULL = 0xFFFFFFFF
UDP = Match(eth_type=0x0800, ip_proto=17)
RULES = (
    FlowRule(table=0, priority=100, match=Match(eth_type=0x8808), cookie=0x4810 << 48),
    FlowRule(table=0, priority=50, match=Match(in_port=1), actions=(GotoTable(1),), cookie=2),
    FlowRule(table=0, priority=0, match=Match(), actions=(GotoTable(3),), cookie=3),
    FlowRule(
        table=1,
        priority=7,
        match=Match(eth_type=0x0806, arp_tpa=Masked(0x0A000100, 0xFFFFFF00)),
        actions=(Output(2), Output(3)),
    ),
    FlowRule(
        table=2,
        priority=9,
        match=dataclasses.replace(UDP, udp_src=Masked(0xC400, 0xFC00), udp_dst=4791, ipv4_dst=Masked(0x0A000001, FULL)),
        actions=(ToGroup(5),),
        cookie=2**64 - 1,
    ),
    FlowRule(
        table=2,
        priority=9,
        match=dataclasses.replace(UDP, udp_src=Masked(0xC001, 0xFFFF), ipv4_src=Masked(0x0A000000, 0xFFFFFFF0)),
        actions=(Output(4), ToGroup(6), GotoTable(9)),
    ),
)
GROUPS = (GroupRule(group_id=5, ports=(1, 2, 3)), GroupRule(group_id=6, ports=(4,)))


def change(op, *items):
    return [Step({"leaf1": tuple(Change(op, item) for item in items)})]


async def install_everything(lab):
    await lab.server.install(change(ChangeOp.GROUP_ADD, *GROUPS) + change(ChangeOp.RULE_ADD, *RULES))


async def held(lab):
    found = await lab.server.read_rules("leaf1")
    return set(found.rules), set(found.groups)


async def test_everything_installed_is_in_the_dump_as_it_was_sent(lab):
    await install_everything(lab)
    assert await held(lab) == (set(RULES), set(GROUPS))


async def test_a_rule_with_the_same_key_replaces_the_old_one(lab):
    await install_everything(lab)
    newer = dataclasses.replace(RULES[1], actions=(Output(2),), cookie=77)
    await lab.server.install(change(ChangeOp.RULE_ADD, newer))
    assert await held(lab) == (set(RULES) - {RULES[1]} | {newer}, set(GROUPS))


async def test_a_delete_takes_exactly_its_rule(lab):
    await install_everything(lab)
    await lab.server.install(change(ChangeOp.RULE_DELETE, RULES[4], RULES[0]))
    assert await held(lab) == (set(RULES) - {RULES[4], RULES[0]}, set(GROUPS))


async def test_deleting_a_missing_rule_does_nothing(lab):
    await install_everything(lab)
    absent = dataclasses.replace(RULES[0], priority=101)
    await lab.server.install(change(ChangeOp.RULE_DELETE, absent))
    assert await held(lab) == (set(RULES), set(GROUPS))


async def test_a_group_can_be_changed_under_its_rules(lab):
    await install_everything(lab)
    newer = GroupRule(group_id=5, ports=(3, 1))
    await lab.server.install(change(ChangeOp.GROUP_MODIFY, newer))
    assert await held(lab) == (set(RULES), {newer, GROUPS[1]})


async def test_a_deleted_group_takes_its_rules_with_it(lab):
    await install_everything(lab)
    await lab.server.install(change(ChangeOp.GROUP_DELETE, GROUPS[0]))
    assert await held(lab) == (set(RULES) - {RULES[4]}, {GROUPS[1]})


@pytest.mark.parametrize(
    ("op", "item", "error"),
    [
        (ChangeOp.GROUP_ADD, GROUPS[0], "GROUP_MOD_FAILED/GROUP_EXISTS"),
        (ChangeOp.GROUP_MODIFY, GroupRule(group_id=99, ports=(1,)), "GROUP_MOD_FAILED/UNKNOWN_GROUP"),
        (
            ChangeOp.RULE_ADD,
            FlowRule(table=0, priority=1, match=Match(), actions=(ToGroup(99),)),
            "BAD_ACTION/BAD_OUT_GROUP",
        ),
        (
            ChangeOp.RULE_ADD,
            FlowRule(table=3, priority=1, match=Match(), actions=(GotoTable(3),)),
            "BAD_INSTRUCTION/BAD_TABLE_ID",
        ),
        (
            ChangeOp.RULE_ADD,
            FlowRule(table=0, priority=1, match=Match(udp_src=Masked(1, 0xFFFF))),
            "BAD_MATCH/BAD_PREREQ",
        ),
        (
            ChangeOp.RULE_ADD,
            FlowRule(table=0, priority=1, match=Match(eth_type=0x0806, ipv4_src=Masked(1, FULL))),
            "BAD_MATCH/BAD_PREREQ",
        ),
        (
            ChangeOp.RULE_ADD,
            FlowRule(table=0, priority=1, match=Match(), actions=(Output(0xFFFFFF05),)),
            "BAD_ACTION/BAD_OUT_PORT",
        ),
        (ChangeOp.RULE_ADD, FlowRule(table=254, priority=1, match=Match()), "BAD_REQUEST/EPERM"),
        (ChangeOp.RULE_ADD, FlowRule(table=255, priority=1, match=Match()), "FLOW_MOD_FAILED/BAD_TABLE_ID"),
    ],
    ids=[
        "group exists",
        "group unknown",
        "to no group",
        "goto itself",
        "no udp",
        "arp as ip",
        "no such port",
        "internal table",
        "no table",
    ],
)
async def test_an_impossible_change_is_refused_with_the_same_error_and_changes_nothing(lab, op, item, error):
    await install_everything(lab)
    with pytest.raises(InstallError, match=error):
        await lab.server.install(change(op, item))
    assert await held(lab) == (set(RULES), set(GROUPS))


async def test_of_a_step_with_one_bad_rule_the_others_are_applied(lab):
    bad = FlowRule(table=0, priority=1, match=Match(), actions=(ToGroup(99),))
    with pytest.raises(InstallError, match="BAD_OUT_GROUP for RULE_ADD table 0 priority 1"):
        await lab.server.install(change(ChangeOp.RULE_ADD, RULES[0], bad, RULES[1]))
    assert await held(lab) == ({RULES[0], RULES[1]}, set())


async def test_a_switch_keeps_its_rules_while_the_controller_is_away(lab):
    await install_everything(lab)
    await lab.restart_controller()
    _, _, ports, installed = await lab.events.wait_for("switch_up", "leaf1")
    assert (set(installed.rules), set(installed.groups)) == (set(RULES), set(GROUPS))
    assert ports == dict.fromkeys((1, 2, 3, 4), True)


async def test_a_controller_of_an_older_generation_learns_the_newer(lab):
    await lab.restart_controller(dataclasses.replace(SETTINGS, generation_id=6))
    async with asyncio.timeout(30):
        while not lab.server.refusals:
            await asyncio.sleep(0.01)
    assert "the switch has obeyed generation 7 and ours is 6" in lab.server.refusals[0]


async def test_a_pulled_cable_is_reported_and_so_is_its_return(lab):
    await lab.set_port(2, up=False)
    await lab.events.wait_for("port_status", "leaf1", 2, False)
    await lab.set_port(2, up=True)
    await lab.events.wait_for("port_status", "leaf1", 2, True)
