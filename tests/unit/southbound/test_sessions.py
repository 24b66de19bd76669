"""Sessions of switches: handshake, installation, liveness, end."""

import asyncio
import dataclasses
from collections import Counter

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
    SwitchRules,
    ToGroup,
)
from heddle.controller.southbound.codec import readback
from heddle.controller.southbound.session import ENTRIES_PER_TURN
from heddle.testing.switches.openflow_switch import (
    BARRIER_REQUEST,
    ECHO_REQUEST,
    EVERYTHING,
    FLOW_MOD,
    MULTIPART_REQUEST,
    FakeSwitch,
    message,
)
from tests.unit.southbound.conftest import QUICK

GROUP = GroupRule(group_id=5, ports=(1, 2))
ROUTE = FlowRule(
    table=1,
    priority=10,
    match=Match(eth_type=0x0800, ipv4_dst=Masked(0x0A000000, 0xFFFFFF00)),
    actions=(ToGroup(5),),
    cookie=0x4821 << 48,
)
CLASSIFY = FlowRule(table=0, priority=1, match=Match(in_port=3), actions=(Output(2), GotoTable(1)), cookie=9)


ROLE_REQUEST, OFPP_LOCAL = 24, 0xFFFF_FFFE
REMOVED = message(11, bytes(40) + b"\0\1\0\4" + bytes(4))
PACKET_IN = message(10, bytes(4) + b"\0\x08" + bytes(10) + b"\0\1\0\4" + bytes(6) + bytes(8))


def adds(*items):
    ops = {GroupRule: ChangeOp.GROUP_ADD, FlowRule: ChangeOp.RULE_ADD}
    return tuple(Change(ops[type(item)], item) for item in items)


def as_sets(rules):
    return set(rules.rules), set(rules.groups)


async def test_a_new_switch_is_up_with_its_ports_and_nothing_installed(southbound):
    await southbound.connected(FakeSwitch(1, ports=3))
    assert await southbound.events.wait_for("switch_up") == (
        "switch_up", "leaf1", {1: True, 2: True, 3: True}, SwitchRules(),
    )  # fmt: skip


async def test_a_port_that_is_down_is_reported_so_from_the_start(southbound):
    switch = FakeSwitch(1, ports=2)
    switch.ports[2] = False
    await southbound.connected(switch)
    _, _, ports, _ = await southbound.events.wait_for("switch_up")
    assert ports == {1: True, 2: False}


async def test_a_port_change_is_reported(southbound):
    switch = await southbound.up(1)
    switch.set_port(2, up=False)
    assert await southbound.events.wait_for("port_status") == ("port_status", "leaf1", 2, False)


async def test_the_port_of_a_switch_to_itself_is_none_of_the_fabric(southbound):
    switch = await southbound.up(1)
    switch.set_port(OFPP_LOCAL, up=False)
    switch.set_port(2, up=False)
    assert await southbound.events.wait_for("port_status") == ("port_status", "leaf1", 2, False)
    assert southbound.server.sessions()["leaf1"].ports.keys() == {1, 2, 3, 4}


async def test_what_a_switch_sends_during_its_handshake_counts_and_is_not_reported(southbound):
    switch = FakeSwitch(1)
    switch.withheld.add(ROLE_REQUEST)
    await southbound.connected(switch)
    while not switch.received[ROLE_REQUEST]:
        await asyncio.sleep(0.01)
    switch.set_port(2, up=False)
    switch.send(REMOVED + PACKET_IN)
    await switch.release()
    _, _, ports, _ = await southbound.events.wait_for("switch_up")
    assert ports == {1: True, 2: False, 3: True, 4: True}
    assert southbound.server.sessions()["leaf1"].counters.packet_ins == 1
    assert southbound.events.all == []


async def test_a_switch_that_refuses_the_hello_has_its_error_in_the_log(southbound):
    switch = FakeSwitch(1)
    switch.hello = message(1, b"\0\0\0\0")
    await southbound.connected(switch)
    await switch.closed()
    assert "the switch refused our Hello: HELLO_FAILED/INCOMPATIBLE" in southbound.server.refusals[-1]


async def test_installed_rules_are_held_by_the_switch_and_read_back(southbound):
    switch = await southbound.up(1)
    await southbound.server.install([Step({"leaf1": adds(GROUP, ROUTE, CLASSIFY)})])
    expected = {ROUTE, CLASSIFY}, {GROUP}
    assert as_sets(switch.tables.rules()) == expected
    assert as_sets(await southbound.server.read_rules("leaf1")) == expected


async def test_a_rule_that_is_deleted_is_gone_and_the_others_stay(southbound):
    switch = await southbound.up(1)
    await southbound.server.install([Step({"leaf1": adds(GROUP, ROUTE, CLASSIFY)})])
    await southbound.server.install([Step({"leaf1": (Change(ChangeOp.RULE_DELETE, ROUTE),)})])
    assert as_sets(switch.tables.rules()) == ({CLASSIFY}, {GROUP})


async def test_counters_come_with_their_rules(southbound):
    switch = await southbound.up(1)
    await southbound.server.install([Step({"leaf1": adds(CLASSIFY)})])
    next(iter(switch.tables.entries.values())).packets = 77
    assert await southbound.server.sessions()["leaf1"].read_flows() == [(CLASSIFY, 77, 0)]


async def test_a_switch_that_reconnects_reports_the_rules_it_still_holds(southbound):
    switch = await southbound.up(1)
    await southbound.server.install([Step({"leaf1": adds(GROUP, ROUTE)})])
    await switch.disconnect()
    await southbound.events.wait_for("switch_down", "leaf1")
    await southbound.connected(switch)
    *_, installed = await southbound.events.wait_for("switch_up")
    assert as_sets(installed) == ({ROUTE}, {GROUP})


async def test_the_next_step_waits_for_the_barriers_of_all_switches_of_the_last(southbound):
    slow, fast = await southbound.up(1), await southbound.up(2)
    slow.withheld.add(BARRIER_REQUEST)
    before = slow.received[BARRIER_REQUEST]
    steps = [Step({"leaf1": adds(CLASSIFY), "leaf2": adds(CLASSIFY)}), Step({"leaf2": adds(GROUP)})]
    installing = asyncio.create_task(southbound.server.install(steps))
    async with asyncio.timeout(30):
        while slow.received[BARRIER_REQUEST] == before:
            await asyncio.sleep(0.01)
    await southbound.server.install([Step({"leaf2": ()})])
    assert not fast.tables.groups
    xid = next(iter(southbound.server.sessions()["leaf1"]._pending._requests))
    slow.send(message(21, xid=xid))
    await installing
    assert fast.tables.groups


async def test_a_step_of_many_rules_reaches_the_switch_whole_and_in_order(southbound):
    switch = await southbound.up(1)
    rules = [
        dataclasses.replace(CLASSIFY, priority=1 + i % 5000, match=Match(in_port=1 + i // 5000)) for i in range(6000)
    ]
    await southbound.server.install([Step({"leaf1": adds(*rules)})])
    assert list(switch.tables.rules().rules) == rules


async def test_an_error_fails_the_installation_and_names_switch_and_rule(southbound):
    await southbound.up(1)
    await southbound.server.install([Step({"leaf1": adds(GROUP)})])
    with pytest.raises(Exception, match="leaf1: GROUP_MOD_FAILED/GROUP_EXISTS for GROUP_ADD group 5"):
        await southbound.server.install([Step({"leaf1": adds(CLASSIFY, GROUP)})])


async def test_after_a_failed_step_no_later_step_is_sent(southbound):
    switch = await southbound.up(1)
    with pytest.raises(Exception, match="BAD_OUT_GROUP"):
        await southbound.server.install([Step({"leaf1": adds(ROUTE)}), Step({"leaf1": adds(CLASSIFY)})])
    assert switch.received[FLOW_MOD] == 1


async def test_a_step_for_an_absent_switch_is_refused_before_anything_is_sent(southbound):
    switch = await southbound.up(1)
    with pytest.raises(Exception, match="leaf3: the switch is not connected"):
        await southbound.server.install([Step({"leaf1": adds(CLASSIFY), "leaf3": adds(CLASSIFY)})])
    assert not switch.received[FLOW_MOD]


async def test_a_switch_that_leaves_in_the_middle_fails_the_installation(southbound):
    switch = await southbound.up(1)
    switch.withheld.add(BARRIER_REQUEST)
    installing = asyncio.create_task(southbound.server.install([Step({"leaf1": adds(CLASSIFY)})]))
    await asyncio.sleep(0.05)
    await switch.disconnect()
    with pytest.raises(Exception, match=r"leaf1: the (switch closed the connection|connection broke)"):
        await installing


async def test_two_installations_at_once_keep_their_errors_apart(southbound):
    await southbound.up(1)
    good = southbound.server.install([Step({"leaf1": adds(CLASSIFY)})])
    bad = southbound.server.install([Step({"leaf1": adds(ROUTE)})])
    outcomes = await asyncio.gather(good, bad, return_exceptions=True)
    assert outcomes[0] is None
    assert "BAD_OUT_GROUP" in str(outcomes[1])


async def test_an_error_that_belongs_to_no_request_is_reported_as_such(southbound):
    switch = await southbound.up(1)
    switch.send(message(1, b"\0\5\0\1" + bytes(8), xid=0x7777))
    assert await southbound.events.wait_for("rule_error") == (
        "rule_error", "leaf1", "FLOW_MOD_FAILED/TABLE_FULL for message 0x7777",
    )  # fmt: skip


async def test_of_a_flood_of_errors_a_few_are_reported_and_all_are_counted(southbound):
    switch = await southbound.up(1)
    switch.send(message(1, b"\0\5\0\1", xid=0x7777) * 3000)
    await southbound.server.install([Step({"leaf1": ()})])
    assert southbound.server.sessions()["leaf1"].counters.errors == 3000
    assert len(southbound.events.of("rule_error")) < 3000


async def test_a_removed_flow_is_reported(southbound):
    switch = await southbound.up(1)
    switch.send(REMOVED)
    assert await southbound.events.wait_for("flow_removed") == ("flow_removed", "leaf1")


async def test_packet_ins_are_counted(southbound):
    switch = await southbound.up(1)
    switch.send(PACKET_IN)
    await southbound.server.install([Step({"leaf1": ()})])
    assert southbound.server.sessions()["leaf1"].counters.packet_ins == 1


async def test_a_silent_switch_is_suspect_and_recovers_when_it_replies(southbound):
    switch = await southbound.up(1)
    switch.withheld.add(ECHO_REQUEST)
    await southbound.events.wait_for("switch_suspect", "leaf1")
    switch.withheld.clear()
    await southbound.events.wait_for("switch_recovered", "leaf1")
    assert southbound.events.of("switch_down") == []


async def test_a_frozen_switch_is_down_after_four_missed_echoes(southbound):
    switch = await southbound.up(1)
    switch.withheld = set(EVERYTHING)
    await southbound.events.wait_for("switch_suspect", "leaf1")
    assert await southbound.events.wait_for("switch_down", "leaf1") == (
        "switch_down", "leaf1", "4 echo requests got no reply",
    )  # fmt: skip


async def test_a_switch_that_disconnects_is_down(southbound):
    switch = await southbound.up(1)
    await switch.disconnect()
    _, switch_id, reason = await southbound.events.wait_for("switch_down")
    assert switch_id == "leaf1"
    assert reason.startswith(
        ("the switch closed the connection", "the connection broke")
    )  # FIN or, with data unread, RST


async def test_a_datapath_id_that_the_fabric_does_not_have_is_refused_by_name(southbound):
    unknown = await southbound.connected(FakeSwitch(0xBEEF))
    await unknown.closed()
    assert "datapath id 0xbeef is none of this fabric's switches" in southbound.server.refusals[-1]


async def test_a_second_session_is_refused_where_the_first_replies(southbound):
    await southbound.up(1)
    double = await southbound.connected(FakeSwitch(1))
    await double.closed()
    await southbound.server.install([Step({"leaf1": ()})])
    assert "in use" in southbound.server.refusals[-1]
    assert southbound.events.of("switch_down") == []


@pytest.mark.parametrize("settings", [dataclasses.replace(QUICK, echo_period_s=30, probe_timeout_s=0.3)])
async def test_a_second_session_takes_over_where_the_first_does_not_reply(southbound):
    first = await southbound.up(1)
    first.withheld = set(EVERYTHING)
    second = await southbound.connected(FakeSwitch(1, ports=2))
    _, _, reason = await southbound.events.wait_for("switch_down", "leaf1")
    assert "same datapath id" in reason
    _, _, ports, _ = await southbound.events.wait_for("switch_up", "leaf1")
    assert set(ports) == {1, 2}
    await southbound.server.install([Step({"leaf1": adds(CLASSIFY)})])
    assert second.tables.rules().rules == (CLASSIFY,)


@pytest.mark.parametrize("settings", [dataclasses.replace(QUICK, echo_period_s=30, probe_timeout_s=0.3)])
async def test_of_many_concurrent_sessions_with_one_datapath_id_one_is_up_in_the_end(southbound):
    first = await southbound.up(1)
    first.withheld = set(EVERYTHING)
    for _ in range(5):
        await southbound.connected(FakeSwitch(1))
    await southbound.events.wait_for("switch_up", "leaf1")
    async with asyncio.timeout(30):
        while len(southbound.server.refusals) < 4:
            await asyncio.sleep(0.01)
    await southbound.server.install([Step({"leaf1": ()})])


async def test_a_switch_that_obeys_a_newer_controller_is_released(southbound):
    switch = FakeSwitch(1)
    switch.generation = 12
    await southbound.connected(switch)
    await switch.closed()
    assert "the switch has obeyed generation 12 and ours is 7" in southbound.server.refusals[-1]


async def test_the_generation_is_sent_to_the_switch(southbound):
    switch = await southbound.up(1)
    assert switch.generation == 7


@pytest.mark.parametrize("settings", [dataclasses.replace(QUICK, handshake_timeout_s=0.4, request_timeout_s=0.4)])
@pytest.mark.parametrize("withheld", [5, 24, MULTIPART_REQUEST])
async def test_a_handshake_that_stands_still_is_ended(southbound, withheld):
    switch = FakeSwitch(1)
    switch.withheld.add(withheld)
    await southbound.connected(switch)
    await switch.closed()
    assert "still waiting for its" in southbound.server.refusals[-1]


@pytest.mark.parametrize("settings", [dataclasses.replace(QUICK, max_connections=2)])
async def test_connections_past_the_limit_are_closed_and_places_become_free_again(southbound):
    await southbound.up(1)
    second = await southbound.up(2)
    third = await southbound.connected(FakeSwitch(3))
    await third.closed()
    assert "no more are taken" in southbound.server.refusals[-1]
    await second.disconnect()
    await southbound.events.wait_for("switch_down", "leaf2")
    await southbound.up(3)


@pytest.mark.parametrize("settings", [dataclasses.replace(QUICK, messages_per_period=100)])
async def test_a_flood_is_held_back_until_the_next_period_and_then_read(southbound):
    switch = await southbound.up(1)
    switch.send(message(21, xid=0x7777) * 450)
    session = southbound.server.sessions()["leaf1"]
    async with asyncio.timeout(30):
        while session.counters.strays < 450:
            await asyncio.sleep(0.01)
    assert session.transport.traffic.times_held >= 4


async def test_a_fault_in_one_event_closes_that_session_only(southbound):
    broken, _ = await southbound.up(1), await southbound.up(2)

    def fail(*_):
        raise RuntimeError("a fault")

    southbound.events.port_status = fail
    broken.set_port(1, up=False)
    _, switch, reason = await southbound.events.wait_for("switch_down")
    assert switch == "leaf1"
    assert "a fault of the controller" in reason
    await southbound.server.install([Step({"leaf2": ()})])


async def test_closing_the_server_ends_every_session_and_switches_keep_their_rules(southbound):
    switch = await southbound.up(1)
    await southbound.server.install([Step({"leaf1": adds(CLASSIFY)})])
    await southbound.server.close()
    await switch.closed()
    assert switch.tables.rules().rules == (CLASSIFY,)


async def test_however_many_switches_connect_a_turn_of_the_loop_decodes_the_entries_of_one(southbound, monkeypatch):
    rules = [dataclasses.replace(CLASSIFY, priority=number) for number in range(1, 201)]
    names = {1: "leaf1", 2: "leaf2", 3: "leaf3"}
    before = [await southbound.up(number) for number in names]
    await southbound.server.install([Step(dict.fromkeys(names.values(), adds(*rules)))])
    for switch in before:
        await switch.disconnect()
    running, decode = asyncio.get_running_loop(), readback.each_flow_entry
    turns, decoded = [0], Counter()

    def next_turn():
        turns[0] += 1
        running.call_soon(next_turn)

    def counted(part):
        for entry in decode(part):
            decoded[turns[0]] += 1
            yield entry

    monkeypatch.setattr(readback, "each_flow_entry", counted)
    switches = [FakeSwitch(switch.datapath_id, tables=switch.tables) for switch in before]
    for switch in switches:
        switch.withheld = {MULTIPART_REQUEST}
        await southbound.connected(switch)
    while not all(switch.received[MULTIPART_REQUEST] for switch in switches):
        await asyncio.sleep(0.01)
    running.call_soon(next_turn)
    await asyncio.gather(*(switch.release() for switch in switches))
    while decoded.total() < 600:
        await asyncio.sleep(0.01)
    assert max(decoded.values()) <= ENTRIES_PER_TURN + 1
