"""A real switch that freezes becomes suspect, then down, and reconnects with its rules."""

import pytest

from heddle.controller.model.rule import Change, ChangeOp, FlowRule, Match, Output, Step

pytestmark = pytest.mark.e2e
RULE = FlowRule(table=0, priority=5, match=Match(in_port=1), actions=(Output(2),), cookie=6)


async def test_a_frozen_switch_is_suspect_then_down_and_comes_back_with_its_rules(ovs_lab):
    await ovs_lab.server.install([Step({"leaf1": (Change(ChangeOp.RULE_ADD, RULE),)})])
    ovs_lab.ovs.freeze()
    try:
        await ovs_lab.events.wait_for("switch_suspect", "leaf1")
        _, _, reason = await ovs_lab.events.wait_for("switch_down", "leaf1")
    finally:
        ovs_lab.ovs.thaw()
    _, _, _, installed = await ovs_lab.events.wait_for("switch_up", "leaf1", timeout_s=30)
    assert "echo" in reason
    assert installed.rules == (RULE,)
